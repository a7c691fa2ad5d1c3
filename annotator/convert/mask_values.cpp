// Constants are read row by row. A computed mask is traced back to its constants: -inf can come only from one of them,
// from a graph input, from an operator with a pole, or from the sum of two huge numbers.
#include "annotator/convert/mask_values.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "annotator/program/number_range.h"
#include "annotator/program/tensor_values.h"

namespace whence::convert {

using graph::GraphValueId;
using graph::no_value;

namespace {

// The magnitude above which two finite values may sum to infinity.
double huge(DType dtype) { return program::greatest_finite(dtype) / 2; }

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

bool fills_a_row(const TensorData& mask, double masked) {
  const auto elements = program::Elements::of(mask);
  if (!elements) return true;
  const auto width = static_cast<std::size_t>(mask.shape.empty() ? 1 : mask.shape.back());
  for (std::size_t row = 0; row < elements->size(); row += width) {
    std::size_t column = 0;
    while (column < width && elements->number(row + column) == masked) ++column;
    if (column == width) return true;
  }
  return false;
}

struct Reach {
  bool infinite = false;
  bool huge = false;
};

class MaskTrace {
 public:
  explicit MaskTrace(const graph::Graph& graph) : graph_(graph) {}

  Reach reach(GraphValueId id) {
    const auto [known, first] = seen_.try_emplace(id);
    if (first) {
      const Reach found = follow(id);
      seen_[id] = found;
      return found;
    }
    return known->second;
  }

 private:
  Reach follow(GraphValueId id) {
    const graph::GraphValue& value = graph_.values[id];
    if (value.initializer >= 0) return constant(graph_.initializers[value.initializer]);
    if (value.producer < 0) return {is_floating(value.dtype), is_floating(value.dtype)};
    const graph::GraphNode& node = graph_.nodes[value.producer];
    const std::string_view op = node.op_type;
    if (op == "Log" || op == "Div" || op == "Reciprocal" || op == "Pow" || op == "Exp" || op == "If" || op == "Loop") {
      return {true, true};
    }
    Reach result = attribute(node);
    int huge_operands = 0;
    for (const GraphValueId input : node.inputs) {
      if (input == no_value) continue;
      const Reach from = reach(input);
      result.infinite = result.infinite || from.infinite;
      huge_operands += from.huge ? 1 : 0;
    }
    result.huge = result.huge || huge_operands > 0;
    const bool sums = op == "Add" || op == "Sub" || op == "Mul" || op == "Sum";
    result.infinite = result.infinite || (sums && huge_operands > 1);
    if (op == "Cast" && narrows(node)) result = {result.infinite || result.huge, true};
    return result;
  }

  // An ordinary number of the wider dtype may be the lowest number of the narrower one, or out of its range.
  bool narrows(const graph::GraphNode& cast) const {
    const DType from = graph_.values[cast.inputs[0]].dtype, to = graph_.values[cast.outputs[0]].dtype;
    return is_floating(from) && is_floating(to) && program::greatest_finite(to) < program::greatest_finite(from);
  }

  // Assumes that a model's own weights are ordinary numbers, in any layout.
  static Reach constant(const graph::Initializer& initializer) {
    return initializer.parameter || initializer.rearranged ? Reach{} : numbers(initializer.data);
  }

  // The value of ConstantOfShape is an attribute.
  static Reach attribute(const graph::GraphNode& node) {
    const graph::Attribute* value = node.find("value");
    const auto* data = value ? std::get_if<TensorData>(&value->value) : nullptr;
    return data ? numbers(*data) : Reach{};
  }

  static Reach numbers(const TensorData& data) {
    if (!is_floating(data.dtype)) return {};
    const auto elements = program::Elements::of(data);
    if (!elements) return {true, true};
    Reach result;
    for (std::size_t i = 0; i < elements->size(); ++i) {
      const double number = elements->number(i);
      result.infinite = result.infinite || std::isinf(number);
      result.huge = result.huge || (std::isfinite(number) && std::abs(number) > huge(data.dtype));
    }
    return result;
  }

  const graph::Graph& graph_;
  std::unordered_map<GraphValueId, Reach> seen_;
};

}  // namespace

bool may_mask_whole_row(Ctx& c, Val mask) {
  const bool boolean = c.dtype(mask) == DType::boolean;
  if (const TensorData* data = c.constant(mask)) return fills_a_row(*data, boolean ? 0 : kMinusInfinity);
  return boolean || MaskTrace(c.graph()).reach(mask.id).infinite;
}

bool may_fill_row_with_lowest(Ctx& c, Val mask) {
  const DType dtype = c.dtype(mask);
  if (!is_floating(dtype)) return false;
  if (const TensorData* data = c.constant(mask)) return fills_a_row(*data, -program::greatest_finite(dtype));
  return MaskTrace(c.graph()).reach(mask.id).huge;
}

}  // namespace whence::convert
