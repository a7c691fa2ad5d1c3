// start + (0, 1, ..., n - 1) -> Unsqueeze -> Expand to the shape of `new` -> indices        before
// cache, indices, new -> ScatterElements over an axis
// start -> Expand to [batch] -> starts                                                      after
// cache, new, starts -> TensorScatter over the axis
// Condition: the export may use the operator; `cache` and `new` have the same shape except along the axis, which is not
// the batch axis. If `new` has one entry, `start` itself is the index, without a sum. Several entries written to one
// position are not rewritten. Origins: joined; the index nodes stay for their other users.
#include <algorithm>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;

namespace {

using Dims = std::vector<Dim>;

const Dims* dims_of(const Rewriter& r, GraphValueId id) {
  const auto& dims = r.value(id).dims;
  return dims ? &*dims : nullptr;
}

// Returns true for 0, 1, 2, ...
bool counts_up(const Rewriter& r, GraphValueId id) {
  if (const auto numbers = r.integers(id)) {
    for (std::size_t i = 0; i < numbers->size(); ++i) {
      if ((*numbers)[i] != static_cast<std::int64_t>(i)) return false;
    }
    return true;
  }
  const GraphNode* range = r.producer(id, "Range");
  if (range == nullptr) return false;
  const auto is_number = [&](GraphValueId of, double expected) {
    const TensorData* data = r.constant(of);
    return data != nullptr && program::single_number(*data) == expected;
  };
  return is_number(range->inputs[0], 0) && is_number(range->inputs[2], 1);
}

// The first of consecutive positions, and the joined origin of the nodes that the operator replaces.
struct Positions {
  GraphValueId start;  // one number, of rank 0 or 1
  GraphValueId batch;  // the batch size as a vector [1], if the graph computes it
  origin::NodeOrigin origin;
};

bool is_one_number(const Rewriter& r, GraphValueId id) {
  const Dims* dims = dims_of(r, id);
  return dims != nullptr && dims->size() <= 1 && std::ranges::all_of(*dims, is_one);
}

// Returns the first size that an index is expanded to, if the graph computes it as one number.
GraphValueId first_size(const Rewriter& r, const GraphNode& expand) {
  const GraphNode* sizes = r.producer(expand.inputs[1], "Concat");
  if (sizes == nullptr) return graph::no_value;
  return is_one_number(r, sizes->inputs[0]) ? sizes->inputs[0] : graph::no_value;
}

// Finds the vector that an index was broadcast from, if the index varies along one axis only.
std::optional<Positions> broadcast_source(const Rewriter& r, GraphValueId index, std::size_t axis,
                                          origin::NodeOrigin origin) {
  Positions places{index, graph::no_value, std::move(origin)};
  const auto step_over = [&](const GraphNode& node) {
    places.start = node.inputs[0];
    places.origin = joined(node.origin, places.origin);
  };
  const std::size_t axes_from_end =
      dims_of(r, index)->size() - axis;  // axis counted from the last one, as broadcasting aligns them
  if (const GraphNode* expand = r.producer(index, "Expand")) {
    places.batch = first_size(r, *expand);
    step_over(*expand);
  }
  const Dims* dims = dims_of(r, places.start);
  if (dims == nullptr || dims->size() < axes_from_end) return std::nullopt;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    if (i != dims->size() - axes_from_end && !is_one((*dims)[i])) return std::nullopt;
  }
  const GraphNode* maker = r.producer(places.start);
  const bool reshaped = maker != nullptr && is(*maker, "Reshape") && is_one_number(r, maker->inputs[0]);
  if (maker != nullptr && (is(*maker, "Unsqueeze") || reshaped)) step_over(*maker);
  dims = dims_of(r, places.start);
  if (dims == nullptr || dims->size() > 1) return std::nullopt;
  return places;
}

std::optional<Positions> positions_of(const Rewriter& r, GraphValueId index, std::size_t axis,
                                      origin::NodeOrigin origin) {
  const bool single = is_one((*dims_of(r, index))[axis]);
  auto places = broadcast_source(r, index, axis, std::move(origin));
  if (!places) return std::nullopt;
  if (is_one_number(r, places->start)) return single ? places : std::nullopt;
  const GraphNode* sum = r.producer(places->start, "Add");
  if (sum == nullptr) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!is_one_number(r, sum->inputs[side]) || !counts_up(r, sum->inputs[1 - side])) continue;
    places->start = sum->inputs[side];
    places->origin = joined(sum->origin, places->origin);
    return places;
  }
  return std::nullopt;
}

// Returns the start position repeated for each element of the batch.
GraphValueId starts_of_batch(Rewriter& r, const Positions& places, GraphValueId cache) {
  GraphValueId number = places.start, size = places.batch;
  const Dim batch = dims_of(r, cache)->front();
  const auto vector = [&](std::int64_t element) {
    return r.constant(program::integer_vector({element}), places.origin);
  };
  if (dims_of(r, number)->empty()) {
    number = r.insert(make_node("Unsqueeze", {number, vector(0)}, places.origin), DType::int64,
                      Dims{Dim{1, false, none_id}});
  }
  if (is_one(batch)) return number;
  if (batch.is_static()) {
    size = vector(batch.size);
  } else if (size == graph::no_value) {
    GraphNode shape = make_node("Shape", {cache}, places.origin);
    shape.attributes = {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}};
    size = r.insert(std::move(shape), DType::int64, Dims{Dim{1, false, none_id}});
  }
  return r.insert(make_node("Expand", {number, size}, places.origin), DType::int64, Dims{batch});
}

}  // namespace

Outcome tensor_scatter(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& scatter = rewriter.node(index);
  if (!is(scatter, "ScatterElements") || !rewriter.writes("TensorScatter")) return no_match();
  if (scatter.find("reduction") != nullptr) return no_match();
  const GraphValueId cache = scatter.inputs[0], places = scatter.inputs[1], written = scatter.inputs[2];
  const Dims *before = dims_of(rewriter, cache), *more = dims_of(rewriter, written), *at = dims_of(rewriter, places);
  if (before == nullptr || more == nullptr || at == nullptr || before->size() != more->size()) return no_match();
  const auto rank = static_cast<std::int64_t>(before->size());
  std::int64_t axis = scatter.int_attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis == 0 || rewriter.value(places).dtype != DType::int64) return no_match();
  for (std::size_t i = 0; i < before->size(); ++i) {
    const bool all = same_size((*at)[i], (*more)[i]);
    if (!all || (i != static_cast<std::size_t>(axis) && !same_size((*before)[i], (*more)[i]))) {
      return refused("the written tensor does not cover the other axes of the cache");
    }
  }
  const auto found = positions_of(rewriter, places, static_cast<std::size_t>(axis), scatter.origin);
  if (!found) return no_match();
  const GraphValueId result = scatter.outputs[0];
  const GraphValueId start = starts_of_batch(rewriter, *found, cache);
  GraphNode node = make_node("TensorScatter", {cache, written, start}, found->origin);
  node.attributes.push_back({"axis", axis});
  rewriter.replace_with(result, std::move(node));
  return changed();
}

}  // namespace whence::simplify
