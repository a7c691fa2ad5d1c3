#include "annotator/match/classification.h"

#include <algorithm>

#include "annotator/match/op_class.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::match {

template <Side S>
void Classification<S>::run() {
  mark_tensors();
  for (const Node index : s_.order) {
    if (is_constant(s_.nodes[index])) {
      s_.nodes[index].kind = NodeKind::constant;
      mark_constant_results(s_.nodes[index]);
    } else {
      classify_computing(index);
    }
  }
  store_loose_values();
  index_uses();
}

template <Side S>
void Classification<S>::mark_tensors() {
  loose_ = DisjointSets(s_.values.size());
  s_.makers_.assign(s_.values.size(), {});
  s_.run_time_scale_.assign(s_.values.size(), false);
  s_.per_channel_.assign(s_.values.size(), false);
  for (const Value i : s_.values.keys()) {
    const Tensor tensor = s_.values[i].tensor;
    s_.values[i].constant = tensor.exists();
    s_.per_channel_[i] = tensor.exists() && s_.tensors[tensor].is_vector() && s_.tensors[tensor].elements() > 1;
  }
}

template <Side S>
bool Classification<S>::is_constant(const StructureNode<S>& node) const {
  const bool is_random =
      node.op_type.starts_with("Random") || node.op_type == "Multinomial" || node.op_type == "Bernoulli";
  return !node.holds_bodies && !is_random &&
         std::ranges::all_of(node.inputs, [&](Value input) { return !input.exists() || s_.values[input].constant; });
}

template <Side S>
void Classification<S>::mark_constant_results(const StructureNode<S>& node) {
  const bool scales = std::ranges::any_of(node.inputs, [&](Value input) { return s_.is_run_time_scale(input); });
  for (const Value output : node.outputs) {
    if (!output.exists()) continue;
    s_.values[output].constant = true;
    s_.run_time_scale_[output] = scales;
    s_.per_channel_[output] = s_.per_channel_[output] || (!scales && computes_per_channel(node));
  }
}

template <Side S>
void Classification<S>::classify_computing(Node index) {
  StructureNode<S>& node = s_.nodes[index];
  const bool in_other_layout = rearranges(node);
  node.computes_sizes = computes_sizes(node);
  if (gates_itself(node)) node.op_class = op_class("Gelu");
  const bool is_transparent = in_other_layout || adds_bias(node) || scales_integer_product(node);
  node.kind = is_transparent ? NodeKind::transparent : NodeKind::heavy;
  record_results(index, first_computed_input(node));
}

// `data`: the value that a transparent node rearranges.
template <Side S>
void Classification<S>::record_results(Node index, Value data) {
  const StructureNode<S>& node = s_.nodes[index];
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Value output = node.outputs[i];
    if (!output.exists()) continue;
    if (node.kind == NodeKind::heavy) s_.makers_[find_loose(output)].push_back(index);
    if (node.kind == NodeKind::transparent && i == 0) unite(data, output);
    if (node.op_type == "DynamicQuantizeLinear" && i > 0) {
      s_.run_time_scale_[output] = true;
      s_.values[output].constant = true;
    }
  }
}

template <Side S>
void Classification<S>::store_loose_values() {
  for (const Value i : s_.values.keys()) s_.values[i].loose = find_loose(i);
  loose_ = DisjointSets();
}

template <Side S>
void Classification<S>::index_uses() {
  s_.heavy_uses_.assign(s_.values.size(), {});
  for (const Node index : s_.order) {
    if (s_.nodes[index].kind != NodeKind::heavy) continue;
    const std::vector<Value> data = s_.data_inputs(index);
    for (std::size_t slot = 0; slot < data.size(); ++slot) {
      if (data[slot].exists()) s_.heavy_uses_[data[slot]].push_back({index, static_cast<std::int32_t>(slot)});
    }
  }
}

template <Side S>
ValueIndex<S> Classification<S>::first_computed_input(const StructureNode<S>& node) const {
  const auto found =
      std::ranges::find_if(node.inputs, [&](Value input) { return input.exists() && !s_.values[input].constant; });
  return found == node.inputs.end() ? Value() : *found;
}

// Returns true if the first result has the elements of the first input in another layout or precision.
template <Side S>
bool Classification<S>::rearranges(const StructureNode<S>& node) const {
  return (operators::has(node.op_type, operators::transparent) || slices_all(node)) && !node.inputs.empty() &&
         node.inputs[0].exists() && !s_.values[node.inputs[0]].constant;
}

// Returns true for Slice(data, 0, the largest integer): `x[:]`, which some exporters write out; references write it
// without bounds.
template <Side S>
bool Classification<S>::slices_all(const StructureNode<S>& node) const {
  constexpr double open_end = 2147483647;
  if (node.op_type != "Slice" || node.inputs.empty() || !node.inputs[0].exists()) return false;
  if (node.inputs.size() < 3) return node.attributes == 0;
  const auto is = [&](std::size_t slot, auto test) {
    const Tensor tensor = s_.root_tensor(node.inputs[slot]);
    return tensor.exists() && s_.tensors[tensor].single && test(s_.tensors[tensor].number);
  };
  return is(1, [](double start) { return start == 0; }) && is(2, [](double end) { return end >= open_end; }) &&
         (node.inputs.size() < 5 || !node.inputs[4].exists() || is(4, [](double step) { return step == 1; }));
}

// Returns true for Add(product, vector).
template <Side S>
bool Classification<S>::adds_bias(const StructureNode<S>& node) {
  if (node.op_class != op_class("Add") || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const Value data = node.inputs[side], bias = node.inputs[1 - side];
    if (!data.exists() || !bias.exists() || !s_.values[bias].constant || s_.values[data].constant) continue;
    const Tensor tensor = s_.root_tensor(bias);
    if (!tensor.exists() || !s_.tensors[tensor].is_vector() || s_.tensors[tensor].elements() < 2) continue;
    if (is_product_result(data)) return true;
    // One product for several linear layers, split again before each gets its bias.
    for (const Node maker : s_.makers_[find_loose(data)]) {
      const StructureNode<S>& split = s_.nodes[maker];
      const bool is_split = split.op_type == "Split" && !split.inputs.empty() && split.inputs[0].exists();
      if (is_split && is_product_result(split.inputs[0])) return true;
    }
  }
  return false;
}

template <Side S>
bool Classification<S>::is_product_result(Value value) {
  return std::ranges::any_of(s_.makers_[find_loose(value)],
                             [&](Node maker) { return is_product(s_.nodes[maker].op_class); });
}

// Returns true for Mul(x, Sigmoid(x)), Mul(x, Tanh(Softplus(x))): an activation that other exporters write as one
// operator.
template <Side S>
bool Classification<S>::gates_itself(const StructureNode<S>& node) {
  if (node.op_class != op_class("Mul") || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const Value data = node.inputs[side];
    Value gate = node.inputs[1 - side];
    if (!data.exists() || !gate.exists() || s_.values[data].constant || s_.values[gate].constant) continue;
    for (int steps = 0; steps < 2; ++steps) {
      const auto& makers = s_.makers_[find_loose(gate)];
      const auto maker = std::find_if(makers.begin(), makers.end(), [&](Node each) {
        const auto& inputs = s_.nodes[each].inputs;
        return is_gate(s_.nodes[each].op_class) && !inputs.empty() && inputs[0].exists();
      });
      if (maker == makers.end()) break;
      gate = s_.nodes[*maker].inputs[0];
      if (find_loose(gate) == find_loose(data)) return true;
    }
  }
  return false;
}

// Returns true for Mul(Cast(MatMulInteger(...)), scale found at run time).
template <Side S>
bool Classification<S>::scales_integer_product(const StructureNode<S>& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const Value data = node.inputs[side], scale = node.inputs[1 - side];
    if (!data.exists() || s_.values[data].constant || !s_.is_run_time_scale(scale)) continue;
    if (is_product_result(data)) return true;
  }
  return false;
}

// Returns true for Shape(x), and for nodes that compute only from such results: Gather, Add, Div, Concat, ...
template <Side S>
bool Classification<S>::computes_sizes(const StructureNode<S>& node) const {
  if (node.op_type == "Shape" || node.op_type == "Size") return true;
  if (!operators::has(node.op_type, operators::integer_arithmetic)) return false;
  return std::ranges::all_of(node.inputs, [&](Value input) {
    if (!input.exists() || s_.values[input].constant) return true;
    const auto& makers = s_.values[input].producers;
    return !makers.empty() && std::ranges::all_of(makers, [&](Node maker) { return s_.nodes[maker].computes_sizes; });
  });
}

// Returns true for arithmetic on constants that include a vector and no matrix: batch norms with fixed statistics scale
// and shift by its results.
template <Side S>
bool Classification<S>::computes_per_channel(const StructureNode<S>& node) const {
  if (!may_be_without_effect(node.op_class) && !operators::has(node.op_type, operators::transparent)) return false;
  bool any = false;
  for (const Value input : node.inputs) {
    if (!input.exists()) continue;
    const Tensor tensor = s_.values[input].tensor;
    if (tensor.exists() && !s_.tensors[tensor].is_vector()) return false;
    any = any || s_.per_channel_[input];
    if (operators::has(node.op_type, operators::transparent)) break;  // the other inputs are sizes
  }
  return any;
}

// Marks two values as the same except for their layout. If several forms compute one value by rearranging others, these
// become the same as well.
template <Side S>
void Classification<S>::unite(Value a, Value b) {
  a = find_loose(a);
  b = find_loose(b);
  if (a == b) return;
  loose_.unite(static_cast<std::size_t>(b.number()), static_cast<std::size_t>(a.number()));
  s_.makers_[a].append(s_.makers_[b]);
  s_.makers_[b].clear();
}

template <Side S>
ValueIndex<S> Classification<S>::find_loose(Value value) {
  return Value(loose_.root(static_cast<std::size_t>(value.number())));
}

template class Classification<Side::foreign>;
template class Classification<Side::reference>;

}  // namespace whence::match
