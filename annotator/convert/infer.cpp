// One function per kind of rule. operators/onnx_operators.h lists which operators share a rule; own_rule() has the
// others.
#include "annotator/convert/infer.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "annotator/convert/missing_axis.h"
#include "annotator/operators/onnx_operators.h"
#include "schema/element_count.h"

namespace whence::convert {

using graph::Attribute;
using graph::no_value;

namespace {

using Dims = std::optional<std::vector<Dim>>;

// A node with the types of its inputs.
struct Typing {
  graph::Graph& graph;
  const graph::GraphNode& node;

  bool has(std::size_t i) const { return i < node.inputs.size() && node.inputs[i] != no_value; }
  DType dtype(std::size_t i) const { return has(i) ? graph.values[node.inputs[i]].dtype : DType::undefined; }
  Dims dims(std::size_t i) const { return has(i) ? graph.values[node.inputs[i]].dims : std::nullopt; }
  std::optional<std::vector<std::int64_t>> integers(std::size_t i) const {
    return has(i) ? graph.integers(node.inputs[i]) : std::nullopt;
  }
  // Axes passed as an input, or as an attribute in older opsets.
  std::optional<std::vector<std::int64_t>> axes(std::size_t input) const {
    if (const Attribute* attribute = node.find("axes")) {
      if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute->value)) return *list;
    }
    return integers(input);
  }
  void set(std::size_t output, DType dtype, Dims dims) const {
    if (output >= node.outputs.size() || node.outputs[output] == no_value) return;
    graph::GraphValue& value = graph.values[node.outputs[output]];
    value.dtype = dtype;
    value.dims = std::move(dims);
  }
};

bool same(const Dim& a, const Dim& b) {
  if (a.is_static() || b.is_static()) return a.is_static() && b.is_static() && a.size == b.size;
  return a.symbol != none_id && a.symbol == b.symbol;
}

Dim broadcast(const Dim& a, const Dim& b) {
  if (same(a, b)) return a;
  if (a.is_static()) return a.size == 1 ? b : a;
  if (b.is_static()) return b.size == 1 ? a : b;
  return Dim{};
}

Dims broadcast(const Dims& a, const Dims& b) {
  if (!a || !b) return std::nullopt;
  const auto& longer = a->size() >= b->size() ? *a : *b;
  const auto& shorter = a->size() >= b->size() ? *b : *a;
  std::vector<Dim> result = longer;
  const std::size_t ahead = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) result[ahead + i] = broadcast(longer[ahead + i], shorter[i]);
  return result;
}

std::vector<Dim> static_dims(const std::vector<std::int64_t>& sizes) {
  std::vector<Dim> dims;
  for (const std::int64_t size : sizes) dims.push_back(Dim{size, false, none_id});
  return dims;
}

Dims unknown_of_same_rank(const Dims& dims) {
  if (!dims) return std::nullopt;
  return std::vector<Dim>(dims->size());
}

std::int64_t wrapped(std::int64_t axis, std::size_t rank) {
  return axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
}

// Returns the size of an axis, which may count from the end.
Dim& size_at(std::vector<Dim>& dims, std::int64_t axis) {
  axis = wrapped(axis, dims.size());
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) throw MissingAxis(dims.size());
  return dims[static_cast<std::size_t>(axis)];
}

// ---- rules ------------------------------------------------------------------------------------------------------

void like_first(const Typing& t) { t.set(0, t.dtype(0), t.dims(0)); }
void sequence_of_first(const Typing& t) {
  t.set(0, t.dtype(0), std::nullopt);
  t.graph.values[t.node.outputs[0]].sequence = true;
}
void identity(const Typing& t) {
  like_first(t);
  t.graph.values[t.node.outputs[0]].sequence = t.graph.values[t.node.inputs[0]].sequence;
  t.graph.values[t.node.outputs[0]].optional = t.graph.values[t.node.inputs[0]].optional;
}
void optional(const Typing& t) {
  if (!t.node.inputs.empty()) like_first(t);
  t.graph.values[t.node.outputs[0]].optional = true;
}
void bool_like_first(const Typing& t) { t.set(0, DType::boolean, t.dims(0)); }
void rank_like_first(const Typing& t) { t.set(0, t.dtype(0), unknown_of_same_rank(t.dims(0))); }

Dims broadcast_all(const Typing& t, std::size_t first) {
  Dims dims = t.dims(first);
  for (std::size_t i = first + 1; i < t.node.inputs.size(); ++i) dims = broadcast(dims, t.dims(i));
  return dims;
}
void elementwise(const Typing& t) { t.set(0, t.dtype(0), broadcast_all(t, 0)); }
void comparison(const Typing& t) { t.set(0, DType::boolean, broadcast_all(t, 0)); }
void where(const Typing& t) { t.set(0, t.dtype(1), broadcast_all(t, 0)); }

void cast(const Typing& t) { t.set(0, from_onnx(static_cast<int>(t.node.int_attribute("to", 0))), t.dims(0)); }

void transpose(const Typing& t) {
  Dims dims = t.dims(0);
  if (dims) {
    std::vector<Dim> moved(dims->rbegin(), dims->rend());
    if (const Attribute* attribute = t.node.find("perm")) {
      const auto& order = std::get<std::vector<std::int64_t>>(attribute->value);
      for (std::size_t i = 0; i < moved.size() && i < order.size(); ++i) moved[i] = size_at(*dims, order[i]);
    }
    dims = std::move(moved);
  }
  t.set(0, t.dtype(0), std::move(dims));
}

// Returns the shape that an input states: all sizes if it is a constant, only the rank if just its length is known.
Dims shape_from(const Typing& t, std::size_t input) {
  if (const auto sizes = t.integers(input)) return static_dims(*sizes);
  Dims dims;
  constexpr std::int64_t max_axes = 1024;
  const Dims length = t.dims(input);
  if (length && length->size() == 1 && length->front().is_static() && length->front().size <= max_axes) {
    dims.emplace(static_cast<std::size_t>(std::max<std::int64_t>(length->front().size, 0)));
  }
  return dims;
}

void reshape(const Typing& t) {
  const Dims before = t.dims(0);
  Dims dims = shape_from(t, 1);
  if (t.integers(1)) {
    const bool zero_copies = t.node.int_attribute("allowzero", 0) == 0;
    std::int64_t rest = 1;  // elements left for the -1; 0 when unknown
    for (std::size_t i = 0; before && i < before->size(); ++i) {
      const Dim& dim = (*before)[i];
      if (!dim.is_static() || __builtin_mul_overflow(rest, dim.size, &rest)) rest = 0;
    }
    Dim* open = nullptr;
    for (std::size_t i = 0; i < dims->size(); ++i) {
      Dim& dim = (*dims)[i];
      if (dim.size == -1) open = &dim;
      if (dim.size == 0 && zero_copies) dim = before && i < before->size() ? (*before)[i] : Dim{};
      if (&dim != open) rest = dim.is_static() && dim.size > 0 ? rest / dim.size : 0;
    }
    if (open != nullptr && before && rest > 0) open->size = rest;
  }
  t.set(0, t.dtype(0), std::move(dims));
}

void flatten(const Typing& t) { t.set(0, t.dtype(0), std::vector<Dim>(2)); }

void unsqueeze(const Typing& t) {
  Dims dims = t.dims(0);
  auto axes = t.axes(1);
  if (!dims || !axes) return t.set(0, t.dtype(0), std::nullopt);
  const std::size_t rank = dims->size() + axes->size();
  for (std::int64_t& axis : *axes) axis = wrapped(axis, rank);
  std::sort(axes->begin(), axes->end());
  for (const std::int64_t axis : *axes) {
    if (axis < 0 || axis > static_cast<std::int64_t>(dims->size())) return t.set(0, t.dtype(0), std::nullopt);
    dims->insert(dims->begin() + axis, Dim{1, false, none_id});
  }
  t.set(0, t.dtype(0), std::move(dims));
}

void squeeze(const Typing& t) {
  const Dims before = t.dims(0);
  auto axes = t.axes(1);
  if (!before || !axes) return t.set(0, t.dtype(0), std::nullopt);
  for (std::int64_t& axis : *axes) axis = wrapped(axis, before->size());
  std::vector<Dim> kept;
  for (std::size_t i = 0; i < before->size(); ++i) {
    if (std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(i)) == axes->end())
      kept.push_back((*before)[i]);
  }
  t.set(0, t.dtype(0), std::move(kept));
}

void shape(const Typing& t) {
  const Dims dims = t.dims(0);
  std::vector<Dim> result(1);
  if (dims) {
    const auto rank = static_cast<std::int64_t>(dims->size());
    const std::int64_t start = wrapped(t.node.int_attribute("start", 0), dims->size());
    const std::int64_t end = wrapped(t.node.int_attribute("end", rank), dims->size());
    result[0].size = std::max<std::int64_t>(0, std::min(end, rank) - start);
  }
  t.set(0, DType::int64, std::move(result));
}

void expand(const Typing& t) { t.set(0, t.dtype(0), broadcast(t.dims(0), shape_from(t, 1))); }

void filled(const Typing& t) {
  DType dtype = DType::float32;
  if (const Attribute* value = t.node.find("value")) dtype = std::get<TensorData>(value->value).dtype;
  t.set(0, dtype, shape_from(t, 0));
}

void gather(const Typing& t) {
  Dims dims = t.dims(0);
  const Dims indices = t.dims(1);
  if (!dims || !indices) return t.set(0, t.dtype(0), std::nullopt);
  const Dim& indexed = size_at(*dims, t.node.int_attribute("axis", 0));
  const auto next = dims->erase(dims->begin() + (&indexed - dims->data()));
  dims->insert(next, indices->begin(), indices->end());
  t.set(0, t.dtype(0), std::move(dims));
}

void like_indices(const Typing& t) { t.set(0, t.dtype(0), t.dims(1)); }

void concat(const Typing& t) {
  Dims dims = t.dims(0);
  if (!dims) return t.set(0, t.dtype(0), std::nullopt);
  Dim& joined = size_at(*dims, t.node.int_attribute("axis", 0));
  const auto axis = static_cast<std::size_t>(&joined - dims->data());
  for (std::size_t i = 1; i < t.node.inputs.size(); ++i) {
    const Dims other = t.dims(i);
    const bool known = other && other->size() == dims->size() && joined.is_static() && (*other)[axis].is_static();
    joined = known ? Dim{saturated_sum(joined.size, (*other)[axis].size), false, none_id} : Dim{};
  }
  t.set(0, t.dtype(0), std::move(dims));
}

// Sizes of the changed axes become unknown; without constant axes, all sizes do.
void slice(const Typing& t) {
  Dims dims = t.dims(0);
  const auto axes = t.integers(3);
  if (!dims || !axes) return rank_like_first(t);
  for (const std::int64_t axis : *axes) size_at(*dims, axis) = Dim{};
  t.set(0, t.dtype(0), std::move(dims));
}

void split(const Typing& t) {
  Dims dims = t.dims(0);
  const std::int64_t axis = t.node.int_attribute("axis", 0);
  const auto sizes = t.integers(1);
  for (std::size_t i = 0; i < t.node.outputs.size(); ++i) {
    if (dims) {
      size_at(*dims, axis) = sizes && i < sizes->size() ? Dim{(*sizes)[i], false, none_id} : Dim{};
    }
    t.set(i, t.dtype(0), dims);
  }
}

void reduce_to(const Typing& t, DType dtype, std::optional<std::vector<std::int64_t>> axes) {
  Dims dims = t.dims(0);
  if (!dims) return t.set(0, dtype, std::nullopt);
  const bool keep = t.node.int_attribute("keepdims", 1) != 0;
  const bool all = !axes || axes->empty();
  std::vector<Dim> kept;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const bool reduced = all || std::any_of(axes->begin(), axes->end(), [&](std::int64_t axis) {
                           return wrapped(axis, dims->size()) == static_cast<std::int64_t>(i);
                         });
    if (!reduced) kept.push_back((*dims)[i]);
    if (reduced && keep) kept.push_back(Dim{1, false, none_id});
  }
  t.set(0, dtype, std::move(kept));
}
void reduce(const Typing& t) {
  if (t.has(1) && !t.axes(1)) return t.set(0, t.dtype(0), std::nullopt);  // axes known only at run time
  reduce_to(t, t.dtype(0), t.axes(1));
}
void reduce_to_index(const Typing& t) {
  reduce_to(t, DType::int64, std::vector<std::int64_t>{t.node.int_attribute("axis", 0)});
}

void matmul(const Typing& t) {
  const Dims a = t.dims(0), b = t.dims(1);
  if (!a || !b || a->size() < 2 || b->size() < 2) return t.set(0, t.dtype(0), std::nullopt);
  Dims dims =
      broadcast(Dims(std::vector<Dim>(a->begin(), a->end() - 2)), Dims(std::vector<Dim>(b->begin(), b->end() - 2)));
  dims->push_back((*a)[a->size() - 2]);
  dims->push_back(b->back());
  t.set(0, t.dtype(0), std::move(dims));
}

void gemm(const Typing& t) {
  const Dims a = t.dims(0), b = t.dims(1);
  if (!a || !b || a->size() != 2 || b->size() != 2) return t.set(0, t.dtype(0), std::nullopt);
  const bool left = t.node.int_attribute("transA", 0) != 0, right = t.node.int_attribute("transB", 0) != 0;
  t.set(0, t.dtype(0), std::vector<Dim>{(*a)[left ? 1 : 0], (*b)[right ? 0 : 1]});
}

void top_k(const Typing& t) {
  Dims dims = t.dims(0);
  if (dims) size_at(*dims, t.node.int_attribute("axis", -1)) = Dim{};
  t.set(0, t.dtype(0), dims);
  t.set(1, DType::int64, dims);
}

void range(const Typing& t) { t.set(0, t.dtype(0), std::vector<Dim>(1)); }
void element_count(const Typing& t) { t.set(0, DType::int64, std::vector<Dim>{}); }

void positions(const Typing& t) {
  std::vector<Dim> dims(2);
  if (const Dims of = t.dims(0)) dims[0].size = static_cast<std::int64_t>(of->size());
  t.set(0, DType::int64, std::move(dims));
}

using Rule = void (*)(const Typing&);

// Returns the rule that several operators share.
Rule shared_rule(operators::ResultType type) {
  switch (type) {
    case operators::ResultType::own_rule:
      return nullptr;
    case operators::ResultType::like_first:
      return like_first;
    case operators::ResultType::bool_like_first:
      return bool_like_first;
    case operators::ResultType::broadcast:
      return elementwise;
    case operators::ResultType::broadcast_bool:
      return comparison;
    case operators::ResultType::rank_like_first:
      return rank_like_first;
    case operators::ResultType::reduced:
      return reduce;
    case operators::ResultType::reduced_index:
      return reduce_to_index;
  }
  return nullptr;
}

Rule own_rule(std::string_view op_type) {
  static const std::unordered_map<std::string_view, Rule> rules{
      {"Cast", cast},
      {"Concat", concat},
      {"ConstantOfShape", filled},
      {"Expand", expand},
      {"Flatten", flatten},
      {"Gather", gather},
      {"GatherElements", like_indices},
      {"Gemm", gemm},
      {"Identity", identity},
      {"MatMul", matmul},
      {"NonZero", positions},
      {"Optional", optional},
      {"Range", range},
      {"Reshape", reshape},
      {"SequenceConstruct", sequence_of_first},
      {"SequenceErase", sequence_of_first},
      {"SequenceInsert", sequence_of_first},
      {"Shape", shape},
      {"Size", element_count},
      {"Slice", slice},
      {"Split", split},
      {"SplitToSequence", sequence_of_first},
      {"Squeeze", squeeze},
      {"TopK", top_k},
      {"Transpose", transpose},
      {"Unsqueeze", unsqueeze},
      {"Where", where},
  };
  const auto rule = rules.find(op_type);
  return rule == rules.end() ? nullptr : rule->second;
}

}  // namespace

void infer_types(graph::Graph& graph, const graph::GraphNode& node) {
  if (!node.domain.empty()) return;
  Rule rule = shared_rule(operators::onnx_operator(node.op_type).result_type);
  if (rule == nullptr) rule = own_rule(node.op_type);
  if (rule != nullptr) rule(Typing{graph, node});
}

}  // namespace whence::convert
