// k [b, g, s, e] -> Unsqueeze -> Expand [b, g, n, s, e] -> Reshape [b, g * n, s, e] -> Attention     before; same for v
// k, v -> Attention                                         after: it shares the heads of k and v among those of q
// and
// past, k -> Concat over s -> Attention                     before; same for v
// past, k -> Attention                                      after: the concatenated keys and values are its outputs
// Condition: k and v both have the pattern. The second pattern also needs parts of equal lengths in k and v, no other
// reader of the concatenated tensors than the Attention and graph outputs, and an Attention that is not causal: the
// operator would shift a causal mask by the length of the past, PyTorch does not. Origins: joined.
#include <algorithm>

#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

enum Input : std::size_t { query, key, value, mask, past_key, past_value };

bool has_input(const GraphNode& node, std::size_t input) {
  return node.inputs.size() > input && node.inputs[input] != no_value;
}

// ---- repeated heads -------------------------------------------------------------------------------------------------

struct Repeated {
  GraphValueId of;
  origin::NodeOrigin origin;
};

// Returns true if an Expand to [b, g, n, s, e] keeps the length of `few` [b, g, s, e], even if that size is unknown.
bool keeps_length(const Rewriter& r, const GraphNode& expand, GraphValueId few) {
  constexpr std::size_t length = 3;  // after the axis along which the heads are repeated
  if (same_size((*r.value(few).dims)[2], (*r.value(expand.outputs[0]).dims)[length])) return true;
  const GraphNode* target = r.producer(expand.inputs[1], "Concat");
  std::size_t at = 0;
  for (const GraphValueId part : target == nullptr ? std::vector{expand.inputs[1]} : target->inputs) {
    const auto sizes = r.integers(part);
    const auto count = r.static_dims(part);
    if (!count || count->size() != 1) return false;
    const std::size_t end = at + static_cast<std::size_t>((*count)[0]);
    if (length < end && sizes) return (*sizes)[length - at] == 1;
    if (length < end) {
      const GraphNode* shape = r.producer(part, "Shape");
      return shape != nullptr && shape->inputs[0] == few &&
             shape->int_attribute("start", 0) + static_cast<std::int64_t>(length - at) == 2;
    }
    at = end;
  }
  return false;
}

// Returns the keys or values before their heads are repeated.
std::optional<Repeated> repeated(const Rewriter& r, GraphValueId heads) {
  const GraphNode* reshape = r.producer(heads, "Reshape");
  const GraphNode* expand = reshape != nullptr ? r.producer(reshape->inputs[0], "Expand") : nullptr;
  const GraphNode* unsqueeze = expand != nullptr ? r.producer(expand->inputs[0], "Unsqueeze") : nullptr;
  if (unsqueeze == nullptr || r.integers(unsqueeze->inputs[1]) != std::vector<std::int64_t>{2}) return std::nullopt;
  const auto &few = r.value(unsqueeze->inputs[0]).dims, &wide = r.value(expand->outputs[0]).dims;
  const auto& many = r.value(heads).dims;
  if (!few || !wide || !many || few->size() != 4 || wide->size() != 5 || many->size() != 4) return std::nullopt;
  const Dim &groups = (*few)[1], &times = (*wide)[2];
  if (!groups.is_static() || !times.is_static() || !(*many)[1].is_static()) return std::nullopt;
  const bool repeats = same_size((*wide)[1], groups) && (*many)[1].size == groups.size * times.size;
  const auto same_axis = [&](std::size_t axis) {
    return same_size((*few)[axis], (*many)[axis]) && same_size((*few)[axis], (*wide)[axis == 0 ? 0 : axis + 1]);
  };
  // The length of the result then follows from its other axes.
  if (!repeats || !same_axis(0) || !same_axis(3) || !keeps_length(r, *expand, unsqueeze->inputs[0]))
    return std::nullopt;
  return Repeated{unsqueeze->inputs[0], joined(joined(unsqueeze->origin, expand->origin), reshape->origin)};
}

Outcome share_heads(Rewriter& r, std::int32_t index) {
  const GraphNode& attention = r.node(index);
  const auto keys = repeated(r, attention.inputs[key]), values = repeated(r, attention.inputs[value]);
  if (!keys || !values) return no_match();
  const auto &few = r.value(keys->of).dims, &also = r.value(values->of).dims;
  if (!same_size((*few)[1], (*also)[1])) return refused("keys and values have different numbers of heads");
  const origin::NodeOrigin origin = joined(joined(keys->origin, values->origin), attention.origin);
  r.set_input(index, key, keys->of);
  r.set_input(index, value, values->of);
  r.set_origin(index, origin);
  return changed();
}

// ---- past keys and values -------------------------------------------------------------------------------------------

// Returns the Concat of two tensors over the third of four axes; otherwise nullptr.
const GraphNode* past_concat(const Rewriter& r, GraphValueId value) {
  const GraphNode* concat = r.producer(value, "Concat");
  if (concat == nullptr || concat->inputs.size() != 2) return nullptr;
  const std::int64_t axis = concat->int_attribute("axis", 0);
  const auto& dims = r.value(value).dims;
  return dims && dims->size() == 4 && (axis == 2 || axis == -2) ? concat : nullptr;
}

// Requires that no other node reads the value: another reader might be an ancestor of the Attention.
bool only_attention_reads(Rewriter& r, GraphValueId value, std::int32_t attention) {
  return r.users(value) == std::vector<std::int32_t>{attention} &&
         std::ranges::count(r.node(attention).inputs, value) == 1;
}

Outcome take_past(Rewriter& r, std::int32_t index) {
  const GraphNode attention = r.node(index);
  const GraphNode *keys = past_concat(r, attention.inputs[key]), *values = past_concat(r, attention.inputs[value]);
  if (keys == nullptr || values == nullptr) return no_match();
  if (attention.int_attribute("is_causal", 0) != 0) return refused("the Attention is causal");
  for (const std::size_t part : {0, 1}) {
    const auto &key_dims = r.value(keys->inputs[part]).dims, &value_dims = r.value(values->inputs[part]).dims;
    if (!key_dims || !value_dims || !same_size((*key_dims)[2], (*value_dims)[2]))
      return refused("keys and values are concatenated from parts of different lengths");
  }
  const GraphValueId all_keys = keys->outputs[0], all_values = values->outputs[0];
  if (!only_attention_reads(r, all_keys, index) || !only_attention_reads(r, all_values, index))
    return refused("other nodes read the concatenated keys or values");
  GraphNode with_past =
      make_node("Attention", attention.inputs, joined(joined(keys->origin, values->origin), attention.origin));
  with_past.inputs.resize(past_value + 1, no_value);
  with_past.inputs[key] = keys->inputs[1], with_past.inputs[past_key] = keys->inputs[0];
  with_past.inputs[value] = values->inputs[1], with_past.inputs[past_value] = values->inputs[0];
  with_past.attributes = attention.attributes;
  const std::vector<GraphValueId> before = {attention.outputs[0], all_keys, all_values};
  for (const GraphValueId each : before) {
    const graph::GraphValue& type = r.value(each);
    with_past.outputs.push_back(r.new_value(type.dtype, type.dims));
  }
  const std::vector<GraphValueId> results = with_past.outputs;
  r.add(std::move(with_past));
  for (std::size_t i = 0; i < before.size(); ++i) r.replace_rewritten(before[i], results[i]);
  return changed();
}

}  // namespace

Outcome attention_inputs(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  const bool may_change = is(node, "Attention") && node.outputs.size() == 1 && !has_input(node, past_key) &&
                          node.inputs.size() <= past_value + 1;
  if (!may_change || !rewriter.writes("Attention")) return no_match();
  Outcome outcome = share_heads(rewriter, index);
  return outcome.kind == Outcome::Kind::no_match ? take_past(rewriter, index) : outcome;
}

}  // namespace whence::simplify
