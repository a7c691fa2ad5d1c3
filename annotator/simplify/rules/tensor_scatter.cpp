// start + (0, 1, ..., n - 1) -> Unsqueeze -> Expand to the shape of `new`        before
// cache, that, new -> ScatterElements over an axis
// start -> Expand to [batch]                                                     after
// cache, new, that -> TensorScatter over the axis
// Condition: the export writes the operator; the cache and what is written have one shape but for the axis, which is
// not that of the batch. A single place needs no sum where one entry is written; several to one place are left.
// Origins: joined; the places stay for their other users.
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

// True for 0, 1, 2, ...
bool counts_up(const Rewriter& r, GraphValueId id) {
  if (const auto numbers = r.integers(id)) {
    for (std::size_t i = 0; i < numbers->size(); ++i) {
      if ((*numbers)[i] != static_cast<std::int64_t>(i)) return false;
    }
    return true;
  }
  const GraphNode* range = r.producer(id, "Range");
  if (range == nullptr) return false;
  const auto is_number = [&](GraphValueId of, double wanted) {
    const TensorData* data = r.constant(of);
    return data != nullptr && program::single_number(*data) == wanted;
  };
  return is_number(range->inputs[0], 0) && is_number(range->inputs[2], 1);
}

// The beginning of consecutive places, and the origins of the nodes that the operator stands for.
struct Places {
  GraphValueId start;  // one number, of rank 0 or 1
  GraphValueId batch;  // the size of the batch as a vector of one, where the graph has it
  origin::NodeOrigin origin;
};

bool is_one_number(const Rewriter& r, GraphValueId id) {
  const Dims* dims = dims_of(r, id);
  return dims != nullptr && dims->size() <= 1 && std::ranges::all_of(*dims, is_one);
}

// The first of the sizes that an index is expanded to.
GraphValueId first_size(const Rewriter& r, const GraphNode& expand) {
  const GraphNode* sizes = r.producer(expand.inputs[1], "Concat");
  if (sizes == nullptr) return graph::no_value;
  return is_one_number(r, sizes->inputs[0]) ? sizes->inputs[0] : graph::no_value;
}

// The vector behind an index that is alike along all axes but one.
std::optional<Places> vector_behind(const Rewriter& r, GraphValueId index, std::size_t axis,
                                    origin::NodeOrigin origin) {
  Places places{index, graph::no_value, std::move(origin)};
  const auto step_over = [&](const GraphNode& node) {
    places.start = node.inputs[0];
    places.origin = joined(node.origin, places.origin);
  };
  const std::size_t behind = dims_of(r, index)->size() - axis;  // axes counted from the last one, as they broadcast
  if (const GraphNode* expand = r.producer(index, "Expand")) {
    places.batch = first_size(r, *expand);
    step_over(*expand);
  }
  const Dims* dims = dims_of(r, places.start);
  if (dims == nullptr || dims->size() < behind) return std::nullopt;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    if (i != dims->size() - behind && !is_one((*dims)[i])) return std::nullopt;
  }
  const GraphNode* maker = r.producer(places.start);
  const bool reshaped = maker != nullptr && is(*maker, "Reshape") && is_one_number(r, maker->inputs[0]);
  if (maker != nullptr && (is(*maker, "Unsqueeze") || reshaped)) step_over(*maker);
  dims = dims_of(r, places.start);
  if (dims == nullptr || dims->size() > 1) return std::nullopt;
  return places;
}

std::optional<Places> places_of(const Rewriter& r, GraphValueId index, std::size_t axis, origin::NodeOrigin origin) {
  const bool single = is_one((*dims_of(r, index))[axis]);
  auto places = vector_behind(r, index, axis, std::move(origin));
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

// The start once for each element of the batch that `cache` has.
GraphValueId of_batch(Rewriter& r, const Places& places, GraphValueId cache) {
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
  if (!is(scatter, "ScatterElements") || !rewriter.writes("TensorScatter")) return not_mine();
  if (scatter.find("reduction") != nullptr) return not_mine();
  const GraphValueId cache = scatter.inputs[0], places = scatter.inputs[1], written = scatter.inputs[2];
  const Dims *before = dims_of(rewriter, cache), *more = dims_of(rewriter, written), *at = dims_of(rewriter, places);
  if (before == nullptr || more == nullptr || at == nullptr || before->size() != more->size()) return not_mine();
  const auto rank = static_cast<std::int64_t>(before->size());
  std::int64_t axis = scatter.int_attribute("axis", 0);
  if (axis < 0) axis += rank;
  if (axis == 0 || rewriter.value(places).dtype != DType::int64) return not_mine();
  for (std::size_t i = 0; i < before->size(); ++i) {
    const bool all = same_size((*at)[i], (*more)[i]);
    if (!all || (i != static_cast<std::size_t>(axis) && !same_size((*before)[i], (*more)[i]))) {
      return refused("what is written does not fill the cache's other axes");
    }
  }
  const auto found = places_of(rewriter, places, static_cast<std::size_t>(axis), scatter.origin);
  if (!found) return not_mine();
  const GraphValueId result = scatter.outputs[0];
  const GraphValueId start = of_batch(rewriter, *found, cache);
  GraphNode node = make_node("TensorScatter", {cache, written, start}, found->origin);
  node.attributes.push_back({"axis", axis});
  rewriter.put_in_place_of(result, std::move(node));
  return changed();
}

}  // namespace whence::simplify
