// 2, 3 -> Mul                                          before
// 6                                                    after
// Arithmetic, comparison and rearrangement of small integer and bool constants: what is left of shape computations once
// their sizes are known. Condition: every input a constant of at most 1024 elements.
// Origins: the constant has the origin of the node it replaces.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "annotator/graph/tensor_values.h"
#include "annotator/simplify/rule.h"

namespace whence {

namespace {

constexpr std::int64_t most_elements = 1024;

struct Integers {
  DType dtype = DType::int64;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> elements;
};

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

bool foldable(DType dtype) { return dtype == DType::int64 || dtype == DType::int32 || dtype == DType::boolean; }

std::optional<Integers> read(const TensorData* data) {
  if (data == nullptr || !foldable(data->dtype) || data->element_count() > most_elements) return std::nullopt;
  Integers result{data->dtype, data->shape, {}};
  for (std::int64_t i = 0; i < data->element_count(); ++i) result.elements.push_back(integer_at(*data, i));
  return result;
}

TensorData write(const Integers& integers) {
  TensorData data{DType::int64, integers.shape, {}};
  data.bytes = Bytes::copy_of(integers.elements.data(), integers.elements.size() * sizeof(std::int64_t));
  return *cast_tensor(data, integers.dtype);
}

std::optional<std::vector<std::int64_t>> broadcast(const std::vector<std::int64_t>& a,
                                                   const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

// The element of `from` that stands at row-major position `at` of `shape`, to which `from` broadcasts.
std::int64_t element_at(const Integers& from, const std::vector<std::int64_t>& shape, std::int64_t at) {
  std::int64_t offset = 0, stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t coordinate = at % shape[shape.size() - 1 - i];
    at /= shape[shape.size() - 1 - i];
    if (i >= from.shape.size()) continue;
    const std::int64_t size = from.shape[from.shape.size() - 1 - i];
    if (size != 1) offset += coordinate * stride;
    stride *= size;
  }
  return from.elements[offset];
}

using Binary = std::function<std::optional<std::int64_t>(std::int64_t, std::int64_t)>;

const Binary* binary(const std::string& op_type) {
  // Unsigned arithmetic wraps as ONNX Runtime's does; Div truncates, as ONNX defines it for integers.
  using U = std::uint64_t;
  static const std::map<std::string, Binary> operators = {
      {"Add", [](auto a, auto b) { return static_cast<std::int64_t>(static_cast<U>(a) + static_cast<U>(b)); }},
      {"Sub", [](auto a, auto b) { return static_cast<std::int64_t>(static_cast<U>(a) - static_cast<U>(b)); }},
      {"Mul", [](auto a, auto b) { return static_cast<std::int64_t>(static_cast<U>(a) * static_cast<U>(b)); }},
      {"Div",
       [](auto a, auto b) -> std::optional<std::int64_t> {
         if (b == 0 || b == -1)
           return b == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(-static_cast<U>(a)));
         return a / b;
       }},
      {"Min", [](auto a, auto b) { return std::min(a, b); }},
      {"Max", [](auto a, auto b) { return std::max(a, b); }},
      {"Equal", [](auto a, auto b) { return static_cast<std::int64_t>(a == b); }},
      {"Less", [](auto a, auto b) { return static_cast<std::int64_t>(a < b); }},
      {"LessOrEqual", [](auto a, auto b) { return static_cast<std::int64_t>(a <= b); }},
      {"Greater", [](auto a, auto b) { return static_cast<std::int64_t>(a > b); }},
      {"GreaterOrEqual", [](auto a, auto b) { return static_cast<std::int64_t>(a >= b); }},
      {"And", [](auto a, auto b) { return a & b; }},
      {"Or", [](auto a, auto b) { return a | b; }},
  };
  const auto found = operators.find(op_type);
  return found == operators.end() ? nullptr : &found->second;
}

bool yields_bool(const std::string& op_type) {
  return op_type == "Equal" || op_type.starts_with("Less") || op_type.starts_with("Greater");
}

std::optional<Integers> fold_binary(const std::string& op_type, const Integers& a, const Integers& b) {
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape || count_of(*shape) > most_elements) return std::nullopt;
  Integers result{yields_bool(op_type) ? DType::boolean : a.dtype, *shape, {}};
  for (std::int64_t i = 0; i < count_of(*shape); ++i) {
    const auto element = (*binary(op_type))(element_at(a, *shape, i), element_at(b, *shape, i));
    if (!element) return std::nullopt;
    result.elements.push_back(*element);
  }
  return result;
}

std::optional<Integers> fold_where(const Integers& condition, const Integers& a, const Integers& b) {
  auto shape = broadcast(a.shape, b.shape);
  if (shape) shape = broadcast(*shape, condition.shape);
  if (!shape || count_of(*shape) > most_elements) return std::nullopt;
  Integers result{a.dtype, *shape, {}};
  for (std::int64_t i = 0; i < count_of(*shape); ++i) {
    result.elements.push_back(element_at(condition, *shape, i) != 0 ? element_at(a, *shape, i)
                                                                    : element_at(b, *shape, i));
  }
  return result;
}

std::optional<Integers> fold_concat(const GraphNode& node, const std::vector<Integers>& pieces) {
  const auto rank = static_cast<std::int64_t>(pieces.front().shape.size());
  std::int64_t axis = node.int_attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  Integers result{pieces.front().dtype, pieces.front().shape, {}};
  result.shape[axis] = 0;
  for (const Integers& piece : pieces) result.shape[axis] += piece.shape[axis];
  if (count_of(result.shape) > most_elements) return std::nullopt;
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < axis; ++i) rows *= result.shape[i];
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Integers& piece : pieces) {
      const auto size = static_cast<std::int64_t>(piece.elements.size()) / rows;
      const auto from = piece.elements.begin() + row * size;
      result.elements.insert(result.elements.end(), from, from + size);
    }
  }
  return result;
}

std::optional<Integers> fold_range(const std::vector<Integers>& inputs) {
  const std::int64_t limit = inputs[1].elements.front(), delta = inputs[2].elements.front();
  if (delta == 0) return std::nullopt;
  Integers result{inputs[0].dtype, {}, {}};
  for (std::int64_t at = inputs[0].elements.front(); delta > 0 ? at < limit : at > limit; at += delta) {
    if (static_cast<std::int64_t>(result.elements.size()) == most_elements) return std::nullopt;
    result.elements.push_back(at);
  }
  result.shape = {static_cast<std::int64_t>(result.elements.size())};
  return result;
}

std::optional<Integers> fold_expand(const Integers& from, const Integers& sizes) {
  const auto shape = broadcast(from.shape, sizes.elements);
  if (!shape || count_of(*shape) > most_elements) return std::nullopt;
  Integers result{from.dtype, *shape, {}};
  for (std::int64_t i = 0; i < count_of(*shape); ++i) result.elements.push_back(element_at(from, *shape, i));
  return result;
}

std::optional<Integers> fold_gather(const Integers& from, const Integers& indices) {
  if (from.shape.size() != 1) return std::nullopt;
  Integers result{from.dtype, indices.shape, {}};
  const auto count = static_cast<std::int64_t>(from.elements.size());
  for (std::int64_t at : indices.elements) {
    if (at < 0) at += count;
    if (at < 0 || at >= count) return std::nullopt;
    result.elements.push_back(from.elements[at]);
  }
  return result;
}

std::optional<Integers> fold_gather_elements(const GraphNode& node, const Integers& from, const Integers& indices) {
  const auto rank = static_cast<std::int64_t>(from.shape.size());
  std::int64_t axis = node.int_attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || indices.shape.size() != from.shape.size()) return std::nullopt;
  Integers result{from.dtype, indices.shape, {}};
  for (std::int64_t i = 0; i < count_of(indices.shape); ++i) {
    std::int64_t at = indices.elements[i];
    if (at < 0) at += from.shape[axis];
    if (at < 0 || at >= from.shape[axis]) return std::nullopt;
    std::int64_t rest = i, offset = 0, stride = 1;
    for (std::int64_t dim = rank - 1; dim >= 0; --dim) {
      offset += (dim == axis ? at : rest % indices.shape[dim]) * stride;
      stride *= from.shape[dim];
      rest /= indices.shape[dim];
    }
    result.elements.push_back(from.elements[offset]);
  }
  return result;
}

std::optional<Integers> fold_slice(const std::vector<Integers>& inputs) {
  const Integers& from = inputs[0];
  if (from.shape.size() != 1 || inputs[1].elements.size() != 1) return std::nullopt;
  const std::int64_t step = inputs.size() > 4 ? inputs[4].elements.front() : 1;
  if (step <= 0) return std::nullopt;
  const auto count = static_cast<std::int64_t>(from.elements.size());
  const auto clamp = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count); };
  Integers result{from.dtype, {0}, {}};
  const std::int64_t end = clamp(inputs[2].elements.front());
  for (std::int64_t at = clamp(inputs[1].elements.front()); at < end; at += step) {
    result.elements.push_back(from.elements[at]);
    ++result.shape[0];
  }
  return result;
}

std::optional<Integers> fold_unary(const GraphNode& node, Integers x) {
  if (node.op_type == "Neg") {
    for (std::int64_t& element : x.elements) element = -element;
  } else if (node.op_type == "Not") {
    for (std::int64_t& element : x.elements) element = element == 0 ? 1 : 0;
  } else if (node.op_type == "ReduceProd" && x.shape.size() == 1) {
    const std::int64_t product = count_of(x.elements);
    x.elements = {product};
    x.shape.assign(node.int_attribute("keepdims", 1) != 0 ? 1 : 0, 1);
  } else if (node.op_type == "Cast") {
    const DType to = from_onnx(static_cast<int>(node.int_attribute("to", 0)));
    if (!foldable(to)) return std::nullopt;
    x.dtype = to;
    if (to == DType::boolean) {
      for (std::int64_t& element : x.elements) element = element != 0 ? 1 : 0;
    }
  } else {
    return std::nullopt;
  }
  return x;
}

std::optional<Integers> fold(const GraphNode& node, const std::vector<Integers>& inputs) {
  if (inputs.size() == 2 && binary(node.op_type) != nullptr) return fold_binary(node.op_type, inputs[0], inputs[1]);
  if (node.op_type == "Where") return fold_where(inputs[0], inputs[1], inputs[2]);
  if (node.op_type == "Concat") return fold_concat(node, inputs);
  if (node.op_type == "Range") return fold_range(inputs);
  if (node.op_type == "Expand") return fold_expand(inputs[0], inputs[1]);
  if (node.op_type == "Gather") return fold_gather(inputs[0], inputs[1]);
  if (node.op_type == "GatherElements") return fold_gather_elements(node, inputs[0], inputs[1]);
  if (node.op_type == "Slice" && inputs.size() >= 3) return fold_slice(inputs);
  const bool takes_axes = node.op_type == "ReduceProd";  // of a vector there is but one
  return inputs.size() == 1 || takes_axes ? fold_unary(node, inputs[0]) : std::nullopt;
}

}  // namespace

Outcome fold_integers(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  if (!node.domain.empty() || node.inputs.empty() || node.outputs.size() != 1) return not_mine();
  std::vector<Integers> inputs;
  for (const GraphValueId input : node.inputs) {
    auto integers = read(rewriter.constant(input));
    if (!integers) return not_mine();
    inputs.push_back(std::move(*integers));
  }
  const auto result = fold(node, inputs);
  if (!result) return not_mine();
  if (rewriter.is_output(node.outputs[0])) return refused("the graph's output needs a node that makes it");
  const GraphValueId output = node.outputs[0];
  rewriter.replace(output, rewriter.constant(write(*result), node.origin));
  return changed();
}

}  // namespace whence
