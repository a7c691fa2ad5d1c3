// x -> Mul(c) -> Add;  x -> Slice [0, n), Slice [n, 2n) -> Neg -> Concat, swapped -> Mul(s) -> Add     before
// x -> RotaryEmbedding(c [.., n], s [.., n])                                                           after
// and, if the last axis is longer than 2n,
// x -> Slice [0, 2n) -> RotaryEmbedding -> Concat with x -> Slice [2n, ..)                             before
// x -> RotaryEmbedding(rotary_embedding_dim = 2n)                                                      after
// Also applies if each pair of neighbours a, b becomes -b, a: RotaryEmbedding(interleaved = 1).
// Condition: x [batch, heads, length, 2n] has at most 32 bits, c and s do not depend on the head and contain each of n
// numbers twice (repeated_angles.h). Origins: joined; the angles without repetition keep the origins of their nodes.
// Source: Su et al., RoFormer, 2021; the arithmetic is that of apply_rotary_pos_emb() of transformers.
#include <algorithm>
#include <limits>

#include "annotator/simplify/last_axis.h"
#include "annotator/simplify/repeated_angles.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

// ---- pieces of x ----------------------------------------------------------------------------------------------------

// Elements begin, begin + step, ... before `end` of the last axis of `all`.
struct Piece {
  GraphValueId all;
  std::int64_t begin, end, step;
  const GraphNode* node;
};

std::optional<Piece> slice_piece(const Rewriter& r, const GraphNode& slice) {
  if (slice.inputs.size() < 4) return std::nullopt;
  const auto begin = r.integers(slice.inputs[1]), end = r.integers(slice.inputs[2]), axes = r.integers(slice.inputs[3]);
  const auto steps = slice.inputs.size() > 4 ? r.integers(slice.inputs[4]) : std::vector<std::int64_t>{1};
  const bool one_axis = begin && end && axes && steps && axes->size() == 1 && steps->size() == 1 && (*steps)[0] > 0;
  const std::int64_t size = width(r, slice.inputs[0]);
  if (!one_axis || size < 0 || !is_last_axis(r, slice.inputs[0], (*axes)[0])) return std::nullopt;
  const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  return Piece{slice.inputs[0], place((*begin)[0]), place((*end)[0]), (*steps)[0], &slice};
}

std::optional<Piece> split_piece(const Rewriter& r, const GraphNode& split, GraphValueId value) {
  if (!is_last_axis(r, split.inputs[0], split.int_attribute("axis", 0))) return std::nullopt;
  std::int64_t begin = 0;
  for (const GraphValueId output : split.outputs) {
    const std::int64_t size = width(r, output);
    if (size < 0) return std::nullopt;
    if (output == value) return Piece{split.inputs[0], begin, begin + size, 1, &split};
    begin += size;
  }
  return std::nullopt;
}

std::optional<Piece> piece(const Rewriter& r, GraphValueId value) {
  const GraphNode* node = r.producer(value);
  if (node == nullptr) return std::nullopt;
  if (is(*node, "Slice")) return slice_piece(r, *node);
  return is(*node, "Split") ? split_piece(r, *node, value) : std::nullopt;
}

// ---- the rotation ---------------------------------------------------------------------------------------------------

struct Rotation {
  GraphValueId x, cos, sin;
  Repeat repeat;
  origin::NodeOrigin origin;
};

bool joins_two_over_last_axis(const Rewriter& r, const GraphNode& node) {
  return is(node, "Concat") && node.inputs.size() == 2 &&
         is_last_axis(r, node.outputs[0], node.int_attribute("axis", 0));
}

// Matches `negative` and `positive` as the negated second half and the first half of x, or as its negated odd and its
// even elements.
std::optional<Rotation> two_parts(const Rewriter& r, GraphValueId negative, GraphValueId positive, Repeat repeat) {
  const GraphNode* negated = r.producer(negative, "Neg");
  const auto second = negated != nullptr ? piece(r, negated->inputs[0]) : std::nullopt;
  const auto first = second ? piece(r, positive) : std::nullopt;
  if (!first || first->all != second->all || first->step != second->step || first->begin != 0) return std::nullopt;
  const std::int64_t size = width(r, first->all);
  const bool halves = first->step == 1 && first->end == second->begin && second->end == size && size == 2 * first->end;
  const bool pairs =
      first->step == 2 && second->begin == 1 && size % 2 == 0 && second->end == size && first->end >= size - 1;
  if (repeat == Repeat::halves ? !halves : !pairs) return std::nullopt;
  const auto pieces = joined(first->node->origin, second->node->origin);
  return Rotation{first->all, no_value, no_value, repeat, joined(pieces, negated->origin)};
}

// Returns the Unsqueeze that adds the last axis of the value; otherwise nullptr.
const GraphNode* unsqueeze_of_last_axis(const Rewriter& r, GraphValueId value) {
  const GraphNode* node = r.producer(value, "Unsqueeze");
  const auto axes = node != nullptr ? r.integers(node->inputs[1]) : std::nullopt;
  return axes && axes->size() == 1 && is_last_axis(r, value, (*axes)[0]) ? node : nullptr;
}

// Matches [-second half of x, first half of x], or each pair of neighbours a, b replaced with -b, a.
std::optional<Rotation> swapped_parts(const Rewriter& r, GraphValueId value) {
  const GraphNode* last = r.producer(value);
  if (last == nullptr) return std::nullopt;
  if (joins_two_over_last_axis(r, *last)) {
    auto found = two_parts(r, last->inputs[0], last->inputs[1], Repeat::halves);
    if (found) found->origin = joined(found->origin, last->origin);
    return found;
  }
  const GraphNode* concat = is(*last, "Reshape") ? r.producer(last->inputs[0], "Concat") : nullptr;
  if (concat == nullptr || !joins_two_over_last_axis(r, *concat)) return std::nullopt;
  const GraphNode *odd = unsqueeze_of_last_axis(r, concat->inputs[0]),
                  *even = unsqueeze_of_last_axis(r, concat->inputs[1]);
  if (odd == nullptr || even == nullptr) return std::nullopt;
  auto found = two_parts(r, odd->inputs[0], even->inputs[0], Repeat::pairs);
  const auto &before = r.value(found ? found->x : value).dims, &after = r.value(value).dims;
  if (!found || !before || !after || !std::ranges::equal(*before, *after, same_size)) return std::nullopt;
  found->origin =
      joined(joined(joined(found->origin, joined(odd->origin, even->origin)), concat->origin), last->origin);
  return found;
}

std::optional<Rotation> rotation(const Rewriter& r, const GraphNode& sum) {
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* by_sin = r.producer(sum.inputs[side], "Mul");
    const GraphNode* by_cos = r.producer(sum.inputs[1 - side], "Mul");
    if (by_sin == nullptr || by_cos == nullptr) return std::nullopt;
    for (const std::size_t factor : {std::size_t{0}, std::size_t{1}}) {
      auto found = swapped_parts(r, by_sin->inputs[factor]);
      if (!found) continue;
      const auto x = std::ranges::find(by_cos->inputs, found->x);
      if (x == by_cos->inputs.end()) continue;
      found->cos = by_cos->inputs[x == by_cos->inputs.begin() ? 1 : 0];
      found->sin = by_sin->inputs[1 - factor];
      found->origin = joined(joined(joined(found->origin, by_sin->origin), by_cos->origin), sum.origin);
      return found;
    }
  }
  return std::nullopt;
}

// Returns why the operator cannot use the angles for x; empty if it can.
std::string angle_obstacle(const Rewriter& r, GraphValueId angles, GraphValueId x, Repeat repeat) {
  const Dims& own = *dims_at(r, x);
  const Dims* dims = dims_at(r, angles);
  if (dims == nullptr || dims->size() < 2 || dims->size() > 4) return "the angles do not have 2 to 4 axes";
  const std::size_t rank = dims->size();
  if (!same_size(dims->back(), own[3]) || !same_size((*dims)[rank - 2], own[2])) return "the angles do not cover x";
  if (rank >= 3 && !is_one((*dims)[rank - 3])) return "the angles depend on the head";
  if (rank == 4 && !is_one((*dims)[0]) && !same_size((*dims)[0], own[0])) return "the angles have another batch size";
  return repeats(r, angles, repeat) ? "" : "the angles are not known to hold each number twice";
}

std::string rotation_obstacle(const Rewriter& r, const Rotation& found) {
  const Dims* dims = dims_at(r, found.x);
  const DType dtype = r.value(found.x).dtype;
  if (dims == nullptr || dims->size() != 4) return "x is not [batch, heads, length, size]";
  if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::bfloat16)
    return "x does not have 16 or 32 bits";
  for (const GraphValueId angles : {found.cos, found.sin}) {
    if (r.value(angles).dtype != dtype) return "the angles have another dtype";
    if (std::string why = angle_obstacle(r, angles, found.x, found.repeat); !why.empty()) return why;
  }
  return "";
}

// Returns the batch size as int64 [1], read from a graph input if possible, so that all rotations share it.
GraphValueId batch_of(Rewriter& r, GraphValueId x, const origin::NodeOrigin& origin) {
  const Dim batch = (*dims_at(r, x))[0];
  GraphValueId source = x;
  std::int64_t axis = 0;
  for (const GraphValueId input : r.graph().inputs) {
    const Dims* dims = batch.symbol == none_id ? nullptr : dims_at(r, input);
    const auto at = dims == nullptr
                        ? Dims::const_iterator{}
                        : std::ranges::find_if(*dims, [&](const Dim& dim) { return same_size(dim, batch); });
    if (dims == nullptr || at == dims->end()) continue;
    source = input, axis = at - dims->begin();
    break;
  }
  GraphNode shape = make_node("Shape", {source}, origin);
  shape.attributes = {{"start", axis}, {"end", axis + 1}};
  return r.insert(std::move(shape), DType::int64, Dims{Dim{1, false, none_id}});
}

// Returns the angles without repetition as [batch, length, n].
GraphValueId cache_of(Rewriter& r, GraphValueId angles, const Rotation& of) {
  origin::NodeOrigin origin = of.origin;
  if (origin.ops.size() > 1) origin.kind = origin::OriginKind::shared;
  const GraphValueId x = of.x;
  const DType dtype = r.value(angles).dtype;
  GraphValueId half = without_repeats(r, angles, of.repeat, origin);
  Dims dims = *dims_at(r, half);
  if (dims.size() == 2) {
    dims.insert(dims.begin(), Dim{1, false, none_id});
    half = r.insert(make_node("Unsqueeze", {half, ints(r, {0}, origin)}, origin), dtype, dims);
  } else if (dims.size() == 4) {
    dims.erase(dims.begin() + 1);
    const GraphNode* unsqueeze = r.producer(half, "Unsqueeze");
    const bool undone = unsqueeze != nullptr && r.integers(unsqueeze->inputs[1]) == std::vector<std::int64_t>{1};
    half = undone ? unsqueeze->inputs[0]
                  : r.insert(make_node("Squeeze", {half, ints(r, {1}, origin)}, origin), dtype, dims);
  }
  const Dim batch = (*dims_at(r, x))[0];
  if (!is_one(dims[0]) || is_one(batch)) return half;
  GraphValueId shape = no_value;
  if (batch.is_static()) {
    shape = ints(r, {batch.size, 1, 1}, origin);
  } else {
    const GraphValueId size = batch_of(r, x, origin), ones = ints(r, {1, 1}, origin);
    GraphNode concat = make_node("Concat", {size, ones}, origin);
    concat.attributes = {{"axis", std::int64_t{0}}};
    shape = r.insert(std::move(concat), DType::int64, Dims{Dim{3, false, none_id}});
  }
  dims[0] = batch;
  return r.insert(make_node("Expand", {half, shape}, origin), dtype, dims);
}

Outcome rotate(Rewriter& r, const GraphNode& sum) {
  const auto found = rotation(r, sum);
  if (!found) return no_match();
  if (std::string why = rotation_obstacle(r, *found); !why.empty()) return refused(std::move(why));
  const GraphValueId result = sum.outputs[0];
  const GraphValueId cos = cache_of(r, found->cos, *found);
  const GraphValueId sin = cache_of(r, found->sin, *found);
  GraphNode node = make_node("RotaryEmbedding", {found->x, cos, sin}, found->origin);
  if (found->repeat == Repeat::pairs) node.attributes = {{"interleaved", std::int64_t{1}}};
  r.replace_with(result, std::move(node));
  return changed();
}

Outcome rotate_in_part(Rewriter& r, const GraphNode& concat) {
  if (!joins_two_over_last_axis(r, concat)) return no_match();
  const GraphNode* rotary = r.producer(concat.inputs[0], "RotaryEmbedding");
  if (rotary == nullptr || rotary->find("rotary_embedding_dim") != nullptr || r.use_count(concat.inputs[0]) != 1)
    return no_match();
  const auto front = piece(r, rotary->inputs[0]), tail = piece(r, concat.inputs[1]);
  const bool all = front && tail && front->all == tail->all && front->begin == 0 && front->end == tail->begin &&
                   front->step == 1 && tail->step == 1 && tail->end == width(r, tail->all);
  if (!all) return refused("the concatenated parts are not slices of one tensor");
  const auto pieces = joined(front->node->origin, tail->node->origin);
  GraphNode node = make_node("RotaryEmbedding", {front->all, rotary->inputs[1], rotary->inputs[2]},
                             joined(joined(pieces, rotary->origin), concat.origin));
  node.attributes = rotary->attributes;
  node.attributes.push_back({"rotary_embedding_dim", front->end});
  r.replace_with(concat.outputs[0], std::move(node));
  return changed();
}

}  // namespace

Outcome rotary_embedding(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  if (!rewriter.writes("RotaryEmbedding")) return no_match();
  if (is(node, "Add")) return rotate(rewriter, node);
  return is(node, "Concat") ? rotate_in_part(rewriter, node) : no_match();
}

}  // namespace whence::simplify
