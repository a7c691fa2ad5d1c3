// x -> Mul(c) -> Add;  x -> Slice [0, n), Slice [n, 2n) -> Neg -> Concat, turned -> Mul(s) -> Add      before
// x -> RotaryEmbedding(c [.., n], s [.., n])                                                           after
// and, where the last axis goes on behind the 2n,
// x -> Slice [0, 2n) -> RotaryEmbedding -> Concat with x -> Slice [2n, ..)                             before
// x -> RotaryEmbedding(rotary_embedding_dim = 2n)                                                      after
// Condition: x [batch, heads, length, 2n] of at most 32 bits, c and s do not depend on the head, and each holds the
// same n numbers twice: as Concat(f, f) somewhere above, or as a constant of equal halves. The halves are made of f, by
// the nodes that made c and s of Concat(f, f). Origins: joined; the halves keep those of the nodes that they repeat.
// Source: Su et al., RoFormer, 2021; the arithmetic as apply_rotary_pos_emb() of transformers has it.
#include <algorithm>
#include <cstring>
#include <limits>

#include "annotator/simplify/operands.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

using Dims = std::vector<Dim>;

const Dims* dims_at(const Rewriter& r, GraphValueId value) {
  const auto& dims = r.value(value).dims;
  return dims && !dims->empty() ? &*dims : nullptr;
}

// The size of the last axis; -1 where it is dynamic or not known.
std::int64_t width(const Rewriter& r, GraphValueId value) {
  const Dims* dims = dims_at(r, value);
  return dims != nullptr && dims->back().is_static() ? dims->back().size : -1;
}

bool is_last_axis(const Rewriter& r, GraphValueId of, std::int64_t axis) {
  const Dims* dims = dims_at(r, of);
  return dims != nullptr && (axis == -1 || axis == static_cast<std::int64_t>(dims->size()) - 1);
}

// ---- halves of cosines and sines ------------------------------------------------------------------------------------

bool constant_of_equal_halves(const TensorData& data) {
  if (data.shape.empty() || data.shape.back() % 2 != 0 || data.element_count() == 0) return false;
  const auto bytes = data.bytes.in_memory();
  if (!bytes || size_of(data.dtype) == 0) return false;
  const std::size_t half = static_cast<std::size_t>(data.shape.back() / 2) * size_of(data.dtype);
  for (std::size_t at = 0; at + 2 * half <= bytes->size(); at += 2 * half) {
    if (std::memcmp(bytes->data() + at, bytes->data() + at + half, half) != 0) return false;
  }
  return true;
}

bool joins_a_value_with_itself(const Rewriter& r, const GraphNode& node) {
  return is(node, "Concat") && node.inputs.size() == 2 && node.inputs[0] == node.inputs[1] &&
         is_last_axis(r, node.outputs[0], node.int_attribute("axis", 0));
}

bool leaves_last_axis(const Rewriter& r, const GraphNode& node) {
  if (is(node, "Gather")) return !is_last_axis(r, node.inputs[0], node.int_attribute("axis", 0));
  if (!is(node, "Slice")) return true;
  const auto axes = node.inputs.size() > 3 ? r.integers(node.inputs[3]) : std::nullopt;
  return axes && std::ranges::none_of(*axes, [&](std::int64_t axis) { return is_last_axis(r, node.inputs[0], axis); });
}

// The input whose halves are equal if those of the result are, because the node treats all of the last axis alike.
GraphValueId followed(const Rewriter& r, const GraphNode& node) {
  if (is(node, "Mul") || is(node, "Add")) {
    const auto operands = with_number(r, node);
    return operands ? operands->x : no_value;
  }
  constexpr const char* alike[] = {"Cos", "Sin", "Cast", "Neg", "Identity", "Unsqueeze", "Squeeze", "Slice", "Gather"};
  const bool known = std::ranges::any_of(alike, [&](const char* name) { return is(node, name); });
  if (!known || !leaves_last_axis(r, node)) return no_value;
  return width(r, node.inputs[0]) == width(r, node.outputs[0]) ? node.inputs[0] : no_value;
}

bool has_equal_halves(const Rewriter& r, GraphValueId value) {
  constexpr int deepest = 16;
  for (int depth = 0; depth < deepest && width(r, value) >= 2; ++depth) {
    if (const TensorData* data = r.constant(value)) return constant_of_equal_halves(*data);
    const GraphNode* node = r.producer(value);
    if (node == nullptr) return false;
    if (joins_a_value_with_itself(r, *node)) return true;
    if ((value = followed(r, *node)) == no_value) return false;
  }
  return false;
}

GraphValueId ints(Rewriter& r, std::vector<std::int64_t> numbers, const origin::NodeOrigin& origin) {
  return r.constant(program::integer_vector(numbers), origin);
}

// The first half of a value of equal halves; `origin` is for what has to be added.
GraphValueId first_half(Rewriter& r, GraphValueId value, const origin::NodeOrigin& origin) {
  Dims dims = *dims_at(r, value);
  const std::int64_t half = dims.back().size / 2, last = static_cast<std::int64_t>(dims.size()) - 1;
  dims.back() = Dim{half, false, none_id};
  if (r.constant(value) != nullptr) {
    const GraphValueId begin = ints(r, {0}, origin), end = ints(r, {half}, origin), axis = ints(r, {last}, origin);
    return r.insert(make_node("Slice", {value, begin, end, axis}, origin), r.value(value).dtype, std::move(dims));
  }
  GraphNode node = *r.producer(value);
  if (joins_a_value_with_itself(r, node)) return node.inputs[0];
  const GraphValueId from = followed(r, node), half_of_it = first_half(r, from, origin);
  std::ranges::replace(node.inputs, from, half_of_it);
  return r.insert(std::move(node), r.value(value).dtype, std::move(dims));
}

// ---- pieces of x ----------------------------------------------------------------------------------------------------

// Elements [begin, end) of the last axis of `all`.
struct Piece {
  GraphValueId all;
  std::int64_t begin, end;
  const GraphNode* node;
};

std::optional<Piece> slice_piece(const Rewriter& r, const GraphNode& slice) {
  if (slice.inputs.size() < 4) return std::nullopt;
  const auto begin = r.integers(slice.inputs[1]), end = r.integers(slice.inputs[2]), axes = r.integers(slice.inputs[3]);
  const auto steps = slice.inputs.size() > 4 ? r.integers(slice.inputs[4]) : std::vector<std::int64_t>{1};
  const bool one_axis = begin && end && axes && steps && axes->size() == 1 && steps->size() == 1 && (*steps)[0] == 1;
  const std::int64_t size = width(r, slice.inputs[0]);
  if (!one_axis || size < 0 || !is_last_axis(r, slice.inputs[0], (*axes)[0])) return std::nullopt;
  const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  return Piece{slice.inputs[0], place((*begin)[0]), place((*end)[0]), &slice};
}

std::optional<Piece> split_piece(const Rewriter& r, const GraphNode& split, GraphValueId value) {
  if (!is_last_axis(r, split.inputs[0], split.int_attribute("axis", 0))) return std::nullopt;
  std::int64_t begin = 0;
  for (const GraphValueId output : split.outputs) {
    const std::int64_t size = width(r, output);
    if (size < 0) return std::nullopt;
    if (output == value) return Piece{split.inputs[0], begin, begin + size, &split};
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
  origin::NodeOrigin origin;
};

// [-second half of x, first half of x], by a Concat.
std::optional<Rotation> turned(const Rewriter& r, GraphValueId value) {
  const GraphNode* concat = r.producer(value, "Concat");
  const bool of_two = concat != nullptr && concat->inputs.size() == 2 &&
                      is_last_axis(r, concat->outputs[0], concat->int_attribute("axis", 0));
  const GraphNode* negative = of_two ? r.producer(concat->inputs[0], "Neg") : nullptr;
  const auto second = negative != nullptr ? piece(r, negative->inputs[0]) : std::nullopt;
  const auto first = second ? piece(r, concat->inputs[1]) : std::nullopt;
  if (!first || first->all != second->all) return std::nullopt;
  const std::int64_t size = width(r, first->all);
  const bool halves = first->begin == 0 && first->end == second->begin && second->end == size && size == 2 * first->end;
  if (!halves) return std::nullopt;
  const auto pieces = joined(first->node->origin, second->node->origin);
  return Rotation{first->all, no_value, no_value, joined(joined(pieces, negative->origin), concat->origin)};
}

std::optional<Rotation> rotation(const Rewriter& r, const GraphNode& sum) {
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    const GraphNode* by_sin = r.producer(sum.inputs[side], "Mul");
    const GraphNode* by_cos = r.producer(sum.inputs[1 - side], "Mul");
    if (by_sin == nullptr || by_cos == nullptr) return std::nullopt;
    for (const std::size_t factor : {std::size_t{0}, std::size_t{1}}) {
      auto found = turned(r, by_sin->inputs[factor]);
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

// Why the angles do not serve x as the operator has them; empty when they do.
std::string obstacle_of(const Rewriter& r, GraphValueId angles, GraphValueId x) {
  const Dims& own = *dims_at(r, x);
  const Dims* dims = dims_at(r, angles);
  if (dims == nullptr || dims->size() < 2 || dims->size() > 4) return "the angles are of another rank";
  const std::size_t rank = dims->size();
  if (!same_size(dims->back(), own[3]) || !same_size((*dims)[rank - 2], own[2])) return "the angles do not cover x";
  if (rank >= 3 && !is_one((*dims)[rank - 3])) return "the angles depend on the head";
  if (rank == 4 && !is_one((*dims)[0]) && !same_size((*dims)[0], own[0])) return "the angles are of another batch";
  return has_equal_halves(r, angles) ? "" : "the halves of the angles are not known to be equal";
}

std::string obstacle_to(const Rewriter& r, const Rotation& found) {
  const Dims* dims = dims_at(r, found.x);
  const DType dtype = r.value(found.x).dtype;
  if (dims == nullptr || dims->size() != 4) return "x is not [batch, heads, length, size]";
  if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::bfloat16)
    return "x is not of 16 or 32 bits";
  for (const GraphValueId angles : {found.cos, found.sin}) {
    if (r.value(angles).dtype != dtype) return "the angles are of another type";
    if (std::string why = obstacle_of(r, angles, found.x); !why.empty()) return why;
  }
  return "";
}

// The size of the batch as int64 [1]: from an input of the graph where one has it, so that all rotations share it.
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

// Half of the angles as [batch, length, n].
GraphValueId cache_of(Rewriter& r, GraphValueId angles, GraphValueId x, origin::NodeOrigin origin) {
  origin.kind = origin::OriginKind::shared;
  const DType dtype = r.value(angles).dtype;
  GraphValueId half = first_half(r, angles, origin);
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
  if (!found) return not_mine();
  if (std::string why = obstacle_to(r, *found); !why.empty()) return refused(std::move(why));
  const GraphValueId result = sum.outputs[0];
  const GraphValueId cos = cache_of(r, found->cos, found->x, found->origin);
  const GraphValueId sin = cache_of(r, found->sin, found->x, found->origin);
  r.put_in_place_of(result, make_node("RotaryEmbedding", {found->x, cos, sin}, found->origin));
  return changed();
}

Outcome rotate_in_part(Rewriter& r, const GraphNode& concat) {
  if (concat.inputs.size() != 2 || !is_last_axis(r, concat.outputs[0], concat.int_attribute("axis", 0)))
    return not_mine();
  const GraphNode* rotary = r.producer(concat.inputs[0], "RotaryEmbedding");
  if (rotary == nullptr || !rotary->attributes.empty() || r.use_count(concat.inputs[0]) != 1) return not_mine();
  const auto front = piece(r, rotary->inputs[0]), rest = piece(r, concat.inputs[1]);
  const bool all = front && rest && front->all == rest->all && front->begin == 0 && front->end == rest->begin &&
                   rest->end == width(r, rest->all);
  if (!all) return refused("what is joined is not one tensor in part rotated");
  const auto pieces = joined(front->node->origin, rest->node->origin);
  GraphNode node = make_node("RotaryEmbedding", {front->all, rotary->inputs[1], rotary->inputs[2]},
                             joined(joined(pieces, rotary->origin), concat.origin));
  node.attributes = {{"rotary_embedding_dim", front->end}};
  r.put_in_place_of(concat.outputs[0], std::move(node));
  return changed();
}

}  // namespace

Outcome rotary_embedding(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  if (!rewriter.writes("RotaryEmbedding")) return not_mine();
  if (is(node, "Add")) return rotate(rewriter, node);
  return is(node, "Concat") ? rotate_in_part(rewriter, node) : not_mine();
}

}  // namespace whence::simplify
