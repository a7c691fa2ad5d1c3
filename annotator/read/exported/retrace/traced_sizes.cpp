// What PyTorch computes of symbolic sizes while it traces: nobody reads it in the end, but it takes names.
// Source: torch/fx/experimental/proxy_tensor.py (__sym_dispatch__) of PyTorch 2.13, and what a trace of it shows.
#include <algorithm>
#include <unordered_set>

#include "annotator/read/exported/retrace/retrace.h"
#include "annotator/read/exported/tensors.h"

namespace whence {
namespace {

std::int64_t number_or_unknown(const Part& size) {
  const auto number = size.maybe("as_int");
  return number ? number->integer() : -1;
}

std::int64_t example_of(const Part& size) {
  const auto expression = size.maybe("as_expr");
  const auto hint = expression ? expression->maybe("hint") : std::nullopt;
  return hint && !hint->is_null() ? hint->at("as_int").integer() : number_or_unknown(size);
}

}  // namespace

bool Retrace::has_symbols(const Part& graph) {
  bool found = false;
  graph.at("tensor_values").entries([&](const std::string&, const Part& tensor) {
    const Part sizes = tensor.at("sizes");
    for (std::size_t i = 0; i < sizes.size() && !found; ++i) found = number_or_unknown(sizes[i]) < 0;
  });
  return found;
}

TensorFacts Retrace::facts(std::string_view value) const {
  TensorFacts facts;
  const auto known = archive_->at("tensor_values").maybe(value);
  if (!known) return facts;
  facts.dtype = exported_dtype(known->at("dtype").integer());
  const Part sizes = known->at("sizes"), strides = known->at("strides");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    facts.sizes.push_back(number_or_unknown(sizes[i]));
    facts.example_sizes.push_back(example_of(sizes[i]));
  }
  for (std::size_t i = 0; i < strides.size(); ++i) facts.example_strides.push_back(example_of(strides[i]));
  return facts;
}

std::string Retrace::size_text(const Part& size) const {
  if (const auto number = size.maybe("as_int")) return std::to_string(number->integer());
  const std::string_view expression = size.at("as_expr").at("expr_str").view();
  const auto known = sizes_.find(expression);
  return known == sizes_.end() ? without_marks(expression) : reference_to(known->second);
}

std::string Retrace::sizes_text(std::string_view value) const {
  const auto known = archive_->at("tensor_values").maybe(value);
  if (!known) return "[]";
  const Part sizes = known->at("sizes");
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ", ") + size_text(sizes[i]);
  return "[" + text + "]";
}

// Sizes of the inputs: PyTorch asks for each once, and at the end once for each symbol, which is what is read.
void Retrace::name_sizes(const Part& inputs) {
  struct Size {
    std::string_view symbol, input;
    std::size_t axis;
  };
  std::vector<Size> symbols;
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto tensor = inputs[i].maybe("as_tensor");
    if (!tensor) continue;
    const std::string_view input = tensor->at("name").view();
    const auto known = archive_->at("tensor_values").maybe(input);
    if (!known) continue;
    const Part sizes = known->at("sizes");
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (number_or_unknown(sizes[axis]) >= 0) continue;
      const std::string_view symbol = sizes[axis].at("as_expr").at("expr_str").view();
      graph_.skip("sym_size_int");
      if (seen.insert(symbol).second) symbols.push_back({symbol, input, axis});
    }
  }
  for (const Size& size : symbols) {
    FxNode node = {"aten.sym_size.int", {reference_to(use(size.input)), std::to_string(size.axis)}, {}};
    sizes_.emplace(size.symbol, asked_.emplace_back(graph_.unnamed(std::move(node))));
  }
}

// Sizes that PyTorch does not take over from an input of the operator, it asks for anew: of a slice's axis, of an
// arange, and those that a shape leaves open.
void Retrace::trace_new_sizes(const FxCall& call) {
  const bool arange = call.op == "aten.arange", slice = call.op == "aten.slice";
  const bool reshape = call.op == "aten.view" || call.op == "aten.reshape";
  if (call.results.empty() || (!arange && !slice && !reshape)) return;
  const TensorFacts result = facts(call.results.front());
  std::int64_t axis = 0;
  if (slice) axis = call.integer("dim") + (call.integer("dim") < 0 ? result.rank() : 0);
  if (reshape) {
    const std::string shape = call.text(call.op == "aten.view" ? "size" : "shape");
    const std::size_t open = shape.find("-1");
    if (open == std::string::npos) return;
    axis = std::count(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(open), ',');
  }
  if (axis < 0 || axis >= result.rank() || result.sizes[static_cast<std::size_t>(axis)] >= 0) return;
  const Part sizes = archive_->at("tensor_values").at(std::string(call.results.front()).c_str()).at("sizes");
  const auto expression = sizes[static_cast<std::size_t>(axis)].at("as_expr").at("expr_str").view();
  if (reshape && sizes_.contains(expression)) return;
  graph_.skip("sym_size_int");
}

// The symbol that a value of the archive is, or what sympy writes of it; empty for tensors.
std::string_view Retrace::expression_of(std::string_view value) const {
  const auto known = archive_->at("sym_int_values").maybe(value);
  const auto expression = known ? known->maybe("as_expr") : std::nullopt;
  return expression ? expression->at("expr_str").view() : std::string_view();
}

// PyTorch computes how large the storage of each result is, (1 + sum of (sizes[i] - 1) * strides[i]) * bytes, and
// traces what it computes of symbolic sizes. Nobody reads that, but it takes names. Multiplications by 1 are not
// traced. Source: c10's computeStorageNbytes; torch/fx/experimental/proxy_tensor.py (__sym_dispatch__).
void Retrace::trace_storage(std::string_view value) {
  const auto known = dynamic_ ? archive_->at("tensor_values").maybe(value) : std::nullopt;
  if (!known) return;
  const Part sizes = known->at("sizes"), strides = known->at("strides");
  if (sizes.size() != strides.size()) return;
  bool symbolic = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = number_or_unknown(sizes[i]), stride = number_or_unknown(strides[i]);
    if (size < 0) {
      graph_.skip("eq");
      graph_.skip("sub");
    }
    const bool by_symbol = size < 0 || stride < 0;
    if (by_symbol && size != 2 && stride != 1) graph_.skip("mul");
    const bool nothing = size == 1 || stride == 0;  // no symbol any more
    symbolic = symbolic || (by_symbol && !nothing);
    if (symbolic) graph_.skip("add");
  }
  if (!symbolic) return;
  graph_.skip("add");  // the offset
  if (size_of(exported_dtype(known->at("dtype").integer())) != 1) graph_.skip("mul");
}

void Retrace::trace_element_count(std::string_view value) {
  if (!dynamic_) return;
  bool symbolic = false;
  std::int64_t count = 1;
  for (const std::int64_t size : facts(value).sizes) {
    if ((symbolic && size != 1) || (size < 0 && count != 1)) graph_.skip("mul");
    symbolic = symbolic || size < 0;
    count = symbolic ? count : count * size;
  }
}

// As is asked of a tensor that is reshaped: how many elements it has, and what each stride would be.
void Retrace::trace_contiguity(std::string_view value) {
  if (!dynamic_) return;
  trace_element_count(value);
  const TensorFacts tensor = facts(value);
  if (std::ranges::count_if(tensor.sizes, [](auto size) { return size < 0; }) == 0) return;
  graph_.skip("eq");
  std::int64_t expected = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    const std::int64_t size = tensor.sizes[i];
    if (size < 0) graph_.skip("eq");
    if ((size < 0 && expected != 1) || (expected < 0 && size != 1)) {
      graph_.skip("mul");
      graph_.skip("mul");
    }
    expected = size < 0 || expected < 0 ? -1 : expected * size;
  }
}

}  // namespace whence
