// Parses input specifications part by part, so that an error names the invalid part and shows a correct example.
#include "annotator/app/input_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <string_view>
#include <utility>

#include "annotator/text/words.h"
#include "schema/nearest_names.h"
#include "schema/parse_number.h"

namespace whence::app {
namespace {

[[noreturn]] void fail(const std::string& text, const std::string& why, const std::string& remedy) {
  throw Error(Code::bad_input_spec, "'" + text + "': " + why, remedy, Place{.stage = "command line"});
}

constexpr const char* kInputForm = "write it like 'input_ids=int64[1,16]<30522' or 'x=float32[2,3]>=0<1'";
constexpr const char* kDynamicForm = "write it like 'input_ids:0=batch,1=seq', or '0=2*batch+1', '1=past+seq'";

DType parse_dtype_or_fail(const std::string& text, std::string_view word) {
  if (const auto dtype = parse_dtype(word)) return *dtype;
  std::vector<std::string> known;
  for (int i = static_cast<int>(DType::boolean); i <= static_cast<int>(DType::float8_e5m2fnuz); ++i) {
    known.emplace_back(name_of(static_cast<DType>(i)));
  }
  const auto near = nearest(word, known);
  fail(text, "unknown dtype '" + std::string(word) + "'", near ? "did you mean " + *near + "?" : kInputForm);
}

std::vector<std::int64_t> parse_dims(const std::string& text, std::string_view list) {
  std::vector<std::int64_t> dims;
  for (const std::string& word : text::split(list, ',')) {
    const auto size = parse_number<std::int64_t>(word);
    if (!size || *size < 0) {
      fail(text, "'" + word + "' is not a size", "sizes are whole numbers; --dynamic makes an axis dynamic");
    }
    dims.push_back(*size);
  }
  return dims;
}

// Parses ">=LOW", "<HIGH" or both, after the closing bracket.
void parse_range(const std::string& text, std::string_view rest, InputSpec& spec) {
  if (rest.starts_with(">=")) {
    const std::size_t end = std::min(rest.find('<'), rest.size());
    spec.low = parse_number<double>(rest.substr(2, end - 2));
    if (!spec.low) fail(text, "'" + std::string(rest.substr(0, end)) + "' is not a lower bound", kInputForm);
    rest.remove_prefix(end);
  }
  if (rest.starts_with("<")) {
    spec.high = parse_number<double>(rest.substr(1));
    if (!spec.high) fail(text, "'" + std::string(rest) + "' is not an upper bound", kInputForm);
    rest = {};
  }
  if (!rest.empty()) fail(text, "'" + std::string(rest) + "' is unexpected after the range", kInputForm);
  if (spec.low.value_or(0) >= spec.high.value_or(spec.low.value_or(0) + 1)) {
    fail(text, "the range is empty", "values are drawn from >=LOW up to, not including, <HIGH; LOW is 0 by default");
  }
}

bool identifier(std::string_view text) {
  const auto word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(), word);
}

// Parses "batch", "2*batch", "batch+1", "2*batch-1", the sum "past+seq", or any name in quotes: "'batch size'".
bool parse_size(std::string_view text, DynamicAxis& axis) {
  if (text.size() > 2 && text.front() == '\'' && text.back() == '\'') {
    axis.symbol = std::string(text.substr(1, text.size() - 2));
    return axis.symbol.find('\'') == std::string::npos;
  }
  if (const std::size_t star = text.find('*'); star != std::string_view::npos) {
    const auto times = parse_number<std::int64_t>(text.substr(0, star));
    if (!times || *times < 1) return false;
    axis.times = *times;
    text.remove_prefix(star + 1);
  }
  if (const std::size_t sign = text.find_first_of("+-"); sign != std::string_view::npos) {
    const std::string_view added = text.substr(sign + 1);
    if (axis.times == 1 && text[sign] == '+' && identifier(text.substr(0, sign)) && identifier(added)) {
      axis.symbol = std::string(text);
      axis.parts = {std::string(text.substr(0, sign)), std::string(added)};
      return true;
    }
    const auto plus = parse_number<std::int64_t>(added);
    if (!plus || *plus < 0) return false;
    axis.plus = text[sign] == '-' ? -*plus : *plus;
    text = text.substr(0, sign);
  }
  axis.symbol = std::string(text);
  return identifier(text);
}

}  // namespace

DType parse_default_dtype(const std::string& word) {
  if (word.empty()) return DType::float32;
  const auto dtype = parse_dtype(word);
  const std::array allowed{DType::float16, DType::bfloat16, DType::float32, DType::float64};
  if (dtype && std::ranges::find(allowed, *dtype) != allowed.end()) return *dtype;
  throw Error(Code::usage, "--default-dtype '" + word + "' is not a default dtype of PyTorch",
              "choose float16, bfloat16, float32 or float64", Place{.stage = "command line"});
}

InputSpec parse_input_spec(const std::string& text) {
  const std::string_view view = text;
  const std::size_t open = view.find('['), close = view.find(']'), equals = view.find('=');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    fail(text, "no shape in brackets", kInputForm);
  }
  InputSpec spec;
  std::string_view dtype = view.substr(0, open);
  if (equals < open) {
    spec.name = std::string(view.substr(0, equals));
    if (spec.name.empty()) fail(text, "no name before '='", kInputForm);
    dtype = view.substr(equals + 1, open - equals - 1);
  }
  spec.dtype = parse_dtype_or_fail(text, dtype);
  spec.dims = parse_dims(text, view.substr(open + 1, close - open - 1));
  parse_range(text, view.substr(close + 1), spec);
  return spec;
}

std::vector<DynamicAxis> parse_dynamic(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) fail(text, "no input name before ':'", kDynamicForm);
  std::vector<DynamicAxis> axes;
  if (const std::size_t comma = text.rfind(',', colon); comma != std::string::npos && text.find(':') < comma) {
    axes = parse_dynamic(text.substr(0, comma));
    std::ranges::move(parse_dynamic(text.substr(comma + 1)), std::back_inserter(axes));
    return axes;
  }
  for (const std::string& part : text::split(std::string_view(text).substr(colon + 1), ',')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const auto axis = parse_number<int>(std::string_view(part).substr(0, equals));
    if (!axis) fail(text, "'" + part + "' has no axis number", kDynamicForm);
    // Uses the default name of torch.onnx.export.
    const std::string default_name = text.substr(0, colon) + "_dynamic_axes_" + std::to_string(axes.size() + 1);
    DynamicAxis found{text.substr(0, colon), *axis, default_name, 1, 0, {}};
    if (equals < part.size() && !parse_size(std::string_view(part).substr(equals + 1), found))
      fail(text, "'" + part + "' has no name for the size", kDynamicForm);
    for (const DynamicAxis& other : axes) {
      if (other.axis == *axis) fail(text, "axis " + std::to_string(*axis) + " is named twice", kDynamicForm);
    }
    axes.push_back(std::move(found));
  }
  if (axes.empty()) fail(text, "no axis after ':'", kDynamicForm);
  return axes;
}

}  // namespace whence::app
