#include "annotator/derivation/invert.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "annotator/derivation/element_views.h"
#include "annotator/derivation/evaluate.h"
#include "schema/element_count.h"
#include "whence/diagnostics.h"

namespace whence::derivation {
namespace {

// Expressions are read from statements, which may be of any content.
void require(bool fits) {
  if (fits) return;
  throw Error(Code::corrupt_file, "a derivation does not fit its tensor", "write the statement again",
              {.stage = "derive"});
}

const Expression& only_input(const Expression& expression) {
  require(expression.inputs.size() == 1);
  return expression.inputs[0];
}

std::size_t bytes_of_row(const TensorData& data) {
  require(!data.shape.empty());
  return data.shape[0] == 0 ? 0 : data.bytes.size() / static_cast<std::size_t>(data.shape[0]);
}

// Puts rows back where they were picked from.
TensorData unpicked(const TensorData& data, const PickStep& step, const std::vector<std::int64_t>& dims) {
  const std::size_t row = bytes_of_row(data);
  require(!dims.empty());
  std::string bytes(static_cast<std::size_t>(element_count(dims)) * size_of(data.dtype), '\0');
  const std::string_view from = text_of(data);
  std::int64_t at = 0;
  for (const Run& run : step.runs) {
    require(run.first >= 0 && run.count > 0 && run.step > 0 && run.first < dims[0] &&
            run.count - 1 <= (dims[0] - 1 - run.first) / run.step && run.count <= data.shape[0] - at);
    for (std::int64_t i = 0; i < run.count; ++i, ++at) {
      const auto to = static_cast<std::size_t>(run.first + i * run.step);
      from.copy(bytes.data() + to * row, row, static_cast<std::size_t>(at) * row);
    }
  }
  return {data.dtype, dims, Bytes::owned(std::move(bytes))};
}

TensorData rows(const TensorData& data, std::int64_t first, std::int64_t count) {
  const std::size_t row = bytes_of_row(data);
  require(count >= 0 && count <= data.shape[0] - first);
  const std::string_view part =
      text_of(data).substr(static_cast<std::size_t>(first) * row, static_cast<std::size_t>(count) * row);
  std::vector<std::int64_t> dims = data.shape;
  dims[0] = count;
  return {data.dtype, std::move(dims), Bytes::copy_of(part.data(), part.size())};
}

class Inverter {
 public:
  std::vector<ParameterPiece> run(const Expression& expression, TensorData tensor) {
    invert(expression, std::move(tensor));
    return std::move(pieces_);
  }

 private:
  void invert(const Expression& expression, TensorData tensor) {
    std::visit([&](const auto& step) { undo(step, expression, std::move(tensor)); }, expression.step);
  }

  void undo(const ParameterStep& step, const Expression&, TensorData tensor) {
    require(tensor.shape == step.dims);
    pieces_.push_back({&step, std::move(tensor)});
  }
  void undo(const PickStep& step, const Expression& expression, const TensorData& tensor) {
    const Expression& input = only_input(expression);
    invert(input, unpicked(tensor, step, dims_of(input)));
  }
  void undo(const ConcatenateStep&, const Expression& expression, const TensorData& tensor) {
    std::int64_t first = 0;
    for (const Expression& input : expression.inputs) {
      const std::vector<std::int64_t> dims = dims_of(input);
      require(!dims.empty());
      invert(input, rows(tensor, first, dims[0]));
      first += dims[0];
    }
  }
  void undo(const TransposeStep& step, const Expression& expression, const TensorData& tensor) {
    invert(only_input(expression), transposed(tensor, inverse_of(step)));
  }
  void undo(const ReshapeStep&, const Expression& expression, TensorData tensor) {
    const Expression& input = only_input(expression);
    invert(input, reshaped(std::move(tensor), dims_of(input)));
  }
  void undo(const PadStep&, const Expression& expression, const TensorData& tensor) {
    const Expression& input = only_input(expression);
    const std::vector<std::int64_t> dims = dims_of(input);
    require(dims.size() == tensor.shape.size());
    invert(input, resized(tensor, dims));
  }
  void undo(const CastStep&, const Expression& expression, TensorData tensor) {
    invert(only_input(expression), std::move(tensor));
  }
  void undo(const FoldStep& step, const Expression& expression, TensorData tensor);
  template <class Step>
  void undo(const Step&, const Expression&, const TensorData&) {
    require(false);
  }

  void add_neutral(const Expression& expression, double number) {
    const std::vector<std::int64_t> dims = dims_of(expression);
    const std::vector<float> numbers(static_cast<std::size_t>(element_count(dims)), static_cast<float>(number));
    add_neutral(expression, of_floats(numbers, dims));
  }
  void add_neutral(const Expression& expression, TensorData data) {
    const std::size_t first = pieces_.size();
    invert(expression, std::move(data));
    for (std::size_t i = first; i < pieces_.size(); ++i) pieces_[i].is_neutral = true;
  }

  std::vector<ParameterPiece> pieces_;
};

// A neutral norm has scale 1, mean 0 and a variance that is 1 with epsilon. What was the folded bias becomes the
// product's bias, or the norm's shift, or minus its mean, whichever exists.
void Inverter::undo(const FoldStep& step, const Expression& expression, TensorData tensor) {
  const std::size_t own = !step.is_bias || step.has_bias ? 1 : 0;
  const std::vector<Expression>& inputs = expression.inputs;
  require(inputs.size() == own + (step.is_affine ? 4 : 2) && tensor.dtype == DType::float32);
  const Expression& mean = inputs[inputs.size() - 2];
  const Expression& variance = inputs[inputs.size() - 1];
  if (!step.is_bias) {
    invert(inputs[0], std::move(tensor));
    if (step.is_affine) add_neutral(inputs[own], 1);
    add_neutral(variance, 1 - step.epsilon);
    return;
  }
  if (step.has_bias) {
    invert(inputs[0], std::move(tensor));
    if (step.is_affine) add_neutral(inputs[own + 1], 0);
    add_neutral(mean, 0);
    return;
  }
  if (step.is_affine) {
    add_neutral(inputs[own + 1], std::move(tensor));
    add_neutral(mean, 0);
    return;
  }
  std::vector<float> numbers(floats_of(tensor).begin(), floats_of(tensor).end());
  for (float& number : numbers) number = -number;
  add_neutral(mean, of_floats(numbers, tensor.shape));
}

}  // namespace

bool has_fold(const Expression& expression) {
  return std::holds_alternative<FoldStep>(expression.step) || std::ranges::any_of(expression.inputs, has_fold);
}

std::string obstacle(const Expression& expression) {
  if (std::holds_alternative<ByChannelStep>(expression.step)) return "other parameters were multiplied or added to it";
  const bool is_computed = std::holds_alternative<KeptStep>(expression.step) ||
                           std::holds_alternative<QuantiseStep>(expression.step) ||
                           std::holds_alternative<QuantiseBiasStep>(expression.step);
  if (is_computed) return "it was quantised within other steps";
  for (const Expression& input : expression.inputs) {
    if (std::string reason = obstacle(input); !reason.empty()) return reason;
  }
  return "";
}

bool holds_all(const Expression& expression) {
  return !std::holds_alternative<PickStep>(expression.step) && std::ranges::all_of(expression.inputs, holds_all);
}

std::vector<ParameterPiece> inverted(const Expression& expression, TensorData tensor) {
  return Inverter().run(expression, std::move(tensor));
}

}  // namespace whence::derivation
