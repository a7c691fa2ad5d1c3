#include "annotator/match/structure.h"

#include <algorithm>

#include "annotator/match/op_class.h"
#include "annotator/operators/onnx_operators.h"
#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/result.h"

namespace whence::match {

std::int64_t StructureTensor::elements() const { return element_count(dims); }

bool StructureTensor::is_vector() const {
  return std::count_if(dims.begin(), dims.end(), [](std::int64_t size) { return size != 1; }) <= 1;
}

bool StructureTensor::is_uniform() const {
  const DType dtype = from_onnx(data_type);
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(elements(), 1));
  const std::size_t element = dtype == DType::undefined ? bytes.size() / count : size_of(dtype);
  return match::is_uniform(bytes, element);
}

bool is_uniform(std::string_view bytes, std::size_t element) {
  return element > 0 && bytes.size() >= element && bytes.substr(element) == bytes.substr(0, bytes.size() - element);
}

bool is_filled_up(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& to) {
  const auto up_to = [](std::int64_t size, std::int64_t block) { return (size + block - 1) / block * block; };
  return std::ranges::equal(dims, to, [&](std::int64_t size, std::int64_t filled) {
    return filled == size || filled == up_to(size, 8) || filled == up_to(size, 16);
  });
}

template <Side S>
ValueIndex<S> Structure<S>::add_value(std::string_view name) {
  StructureValue<S> value;
  value.name = name;
  return values.add(std::move(value));
}

template <Side S>
NodeIndex<S> Structure<S>::add_node(StructureNode<S> node) {
  const Node index(nodes.size());
  for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (node.inputs[slot].exists()) values[node.inputs[slot]].uses.push_back({index, static_cast<std::int32_t>(slot)});
  }
  for (const Value output : node.outputs) {
    if (output.exists()) values[output].producers.push_back(index);
  }
  node.op_class = op_class(node.op_type);
  node.commutative = is_commutative(node.op_class);
  return nodes.add(std::move(node));
}

template <Side S>
void Structure<S>::finish(const std::string& file) {
  sort(file);
  classify();
}

// Kahn's algorithm. Of values with several producers (references), one producer is enough to make them known, but all
// stand before the consumers, so that the order does not depend on which form of the program came first.
template <Side S>
void Structure<S>::sort(const std::string& file) {
  IndexedVector<Node, std::int32_t> waiting(nodes.size(), 0);
  std::vector<Node> ready;
  for (const Node i : nodes.keys()) {
    for (const Value input : nodes[i].inputs) {
      if (input.exists()) waiting[i] += static_cast<std::int32_t>(values[input].producers.size());
    }
    if (waiting[i] == 0) ready.push_back(i);
  }
  order.clear();
  for (std::size_t next = 0; next < ready.size(); ++next) {
    order.push_back(ready[next]);
    for (const Value output : nodes[ready[next]].outputs) {
      if (!output.exists()) continue;
      for (const auto& use : values[output].uses) {
        if (use.node.exists() && --waiting[use.node] == 0) ready.push_back(use.node);
      }
    }
  }
  if (order.size() == nodes.size()) return;
  const auto stuck = std::ranges::find_if(waiting, [](std::int32_t count) { return count > 0; });
  const auto& node = nodes[Node(stuck - waiting.begin())];
  throw Error(Code::corrupt_file, "the graph has a cycle: a node needs its own result", "export the model again",
              {.file = file, .stage = "match", .node = std::string(node.name)});
}

template <Side S>
TensorIndex<S> Structure<S>::root_tensor(Value value) const {
  for (int steps = 0; value.exists() && steps < 16; ++steps) {
    const auto& entry = values[value];
    if (entry.tensor.exists()) return entry.tensor;
    if (entry.producers.empty()) return {};
    const auto& node = nodes[entry.producers.front()];
    if (!operators::has(node.op_type, operators::transparent) || node.inputs.empty()) return {};
    value = node.inputs.front();
  }
  return {};
}

template <Side S>
bool Structure<S>::reads_weights(Node node) const {
  return std::ranges::any_of(nodes[node].inputs, [&](Value input) {
    if (!input.exists() || !values[input].constant) return false;
    const Tensor tensor = root_tensor(input);
    return tensor.exists() ? tensors[tensor].elements() > 1 : per_channel_[input];
  });
}

template <Side S>
bool Structure<S>::has_no_effect(Node index) const {
  const StructureNode<S>& node = nodes[index];
  const bool scales = node.op_type == "Mul" || node.op_type == "Div";
  const bool shifts = node.op_type == "Add" || node.op_type == "Sub";
  if ((!scales && !shifts) || node.inputs.size() != 2) return false;
  const auto is_neutral = [&](Value input) {
    const Tensor tensor = !input.exists() || !values[input].constant ? Tensor() : root_tensor(input);
    return tensor.exists() && tensors[tensor].single && tensors[tensor].number == (scales ? 1 : 0);
  };
  return is_neutral(node.inputs[1]) || (node.commutative && is_neutral(node.inputs[0]));
}

// Returns true for Add(product, vector).
template <Side S>
bool Structure<S>::adds_bias(const StructureNode<S>& node) {
  if (node.op_type != "Add" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const Value data = node.inputs[side], bias = node.inputs[1 - side];
    if (!data.exists() || !bias.exists() || !values[bias].constant || values[data].constant) continue;
    const Tensor tensor = root_tensor(bias);
    if (!tensor.exists() || !tensors[tensor].is_vector() || tensors[tensor].elements() < 2) continue;
    for (const Node maker : makers_[find_loose(data)]) {
      if (is_product(nodes[maker].op_class)) return true;
      // One product for several linear layers, taken apart again before each gets its bias.
      if (nodes[maker].op_type != "Split" || nodes[maker].inputs.empty() || !nodes[maker].inputs[0].exists()) continue;
      for (const Node behind : makers_[find_loose(nodes[maker].inputs[0])]) {
        if (is_product(nodes[behind].op_class)) return true;
      }
    }
  }
  return false;
}

// Returns true for Slice(data, 0, the largest integer): `x[:]`, which some exporters write out; references write it
// without bounds.
template <Side S>
bool Structure<S>::cuts_nothing(const StructureNode<S>& node) const {
  constexpr double open_end = 2147483647;
  if (node.op_type != "Slice" || node.inputs.empty() || !node.inputs[0].exists()) return false;
  if (node.inputs.size() < 3) return node.attributes == 0;
  const auto is = [&](std::size_t slot, auto test) {
    const Tensor tensor = root_tensor(node.inputs[slot]);
    return tensor.exists() && tensors[tensor].single && test(tensors[tensor].number);
  };
  return is(1, [](double start) { return start == 0; }) && is(2, [](double end) { return end >= open_end; }) &&
         (node.inputs.size() < 5 || !node.inputs[4].exists() || is(4, [](double step) { return step == 1; }));
}

// Returns true for Mul(x, Sigmoid(x)), Mul(x, Tanh(Softplus(x))): an activation that others have an operator for.
template <Side S>
bool Structure<S>::gates_itself(const StructureNode<S>& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const Value data = node.inputs[side];
    Value gate = node.inputs[1 - side];
    if (!data.exists() || !gate.exists() || values[data].constant || values[gate].constant) continue;
    for (int steps = 0; steps < 2; ++steps) {
      const auto& makers = makers_[find_loose(gate)];
      const auto maker = std::find_if(makers.begin(), makers.end(), [&](Node each) {
        return is_gate(nodes[each].op_class) && !nodes[each].inputs.empty() && nodes[each].inputs[0].exists();
      });
      if (maker == makers.end()) break;
      gate = nodes[*maker].inputs[0];
      if (find_loose(gate) == find_loose(data)) return true;
    }
  }
  return false;
}

// Returns true for Mul(Cast(MatMulInteger(...)), scale found at run time).
template <Side S>
bool Structure<S>::scales_integer_product(const StructureNode<S>& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const Value data = node.inputs[side], scale = node.inputs[1 - side];
    if (!data.exists() || !scale.exists() || values[data].constant || !side_[scale]) continue;
    for (const Node maker : makers_[find_loose(data)]) {
      if (is_product(nodes[maker].op_class)) return true;
    }
  }
  return false;
}

// Returns true for arithmetic on constants, of which one is a vector and none a matrix: what batch norms with fixed
// statistics scale and shift by.
template <Side S>
bool Structure<S>::computes_per_channel(const StructureNode<S>& node) const {
  if (!may_be_without_effect(node.op_class) && !operators::has(node.op_type, operators::transparent)) return false;
  bool any = false;
  for (const Value input : node.inputs) {
    if (!input.exists()) continue;
    const Tensor tensor = values[input].tensor;
    if (tensor.exists() && !tensors[tensor].is_vector()) return false;
    any = any || per_channel_[input];
    if (operators::has(node.op_type, operators::transparent)) break;  // further inputs are sizes
  }
  return any;
}

template <Side S>
ValueIndex<S> Structure<S>::find_loose(Value value) {
  return Value(loose_.root(static_cast<std::size_t>(value.number())));
}

// A value that several forms make brings together what each of them makes it from.
template <Side S>
void Structure<S>::same_but_layout(Value a, Value b) {
  a = find_loose(a);
  b = find_loose(b);
  if (a == b) return;
  loose_.unite(static_cast<std::size_t>(b.number()), static_cast<std::size_t>(a.number()));
  makers_[a].append(makers_[b]);
  makers_[b].clear();
}

template <Side S>
void Structure<S>::classify() {
  makers_.assign(values.size(), {});
  loose_ = DisjointSets(values.size());
  side_.assign(values.size(), false);
  per_channel_.assign(values.size(), false);
  for (const Value i : values.keys()) {
    values[i].constant = values[i].tensor.exists();
    const Tensor tensor = values[i].tensor;
    per_channel_[i] = tensor.exists() && tensors[tensor].is_vector() && tensors[tensor].elements() > 1;
  }
  for (const Node index : order) {
    StructureNode<S>& node = nodes[index];
    bool constant = !node.holds_bodies, side = false;
    for (const Value input : node.inputs) {
      if (!input.exists()) continue;
      constant &= values[input].constant;
      side = side || side_[input];
    }
    const bool random =
        node.op_type.starts_with("Random") || node.op_type == "Multinomial" || node.op_type == "Bernoulli";
    if (constant && !random) {
      node.kind = NodeKind::constant;
      for (const Value output : node.outputs) {
        if (!output.exists()) continue;
        values[output].constant = true;
        side_[output] = side;
        per_channel_[output] = per_channel_[output] || (!side && computes_per_channel(node));
      }
      continue;
    }
    Value data;
    for (const Value input : node.inputs) {
      if (input.exists() && !values[input].constant) data = data.exists() ? data : input;
    }
    const bool layout = (operators::has(node.op_type, operators::transparent) || cuts_nothing(node)) &&
                        !node.inputs.empty() && node.inputs[0].exists() && !values[node.inputs[0]].constant;
    if (layout) data = node.inputs[0];
    node.computes_sizes = computes_sizes(node);
    if (gates_itself(node)) node.op_class = op_class("Gelu");
    node.kind = layout || adds_bias(node) || scales_integer_product(node) ? NodeKind::transparent : NodeKind::heavy;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value output = node.outputs[i];
      if (!output.exists()) continue;
      if (node.kind == NodeKind::heavy) makers_[find_loose(output)].push_back(index);
      if (node.kind == NodeKind::transparent && i == 0) same_but_layout(data, output);
      if (node.op_type == "DynamicQuantizeLinear" && i > 0) {
        side_[output] = true;
        values[output].constant = true;
      }
    }
  }
  for (const Value i : values.keys()) values[i].loose = find_loose(i);
  loose_ = DisjointSets();
  heavy_uses_.assign(values.size(), {});
  for (const Node index : order) {
    const auto& node = nodes[index];
    if (node.kind != NodeKind::heavy) continue;
    const std::vector<Value> data = data_inputs(index);
    for (std::size_t slot = 0; slot < data.size(); ++slot) {
      if (data[slot].exists()) heavy_uses_[data[slot]].push_back({index, static_cast<std::int32_t>(slot)});
    }
  }
}

// Returns true for Shape(x), and for nodes that compute only from such results: Gather, Add, Div, Concat, ...
template <Side S>
bool Structure<S>::computes_sizes(const StructureNode<S>& node) const {
  if (node.op_type == "Shape" || node.op_type == "Size") return true;
  if (!operators::has(node.op_type, operators::integer_arithmetic)) return false;
  return std::ranges::all_of(node.inputs, [&](Value input) {
    if (!input.exists() || values[input].constant) return true;
    const auto& makers = values[input].producers;
    return !makers.empty() && std::ranges::all_of(makers, [&](auto maker) { return nodes[maker].computes_sizes; });
  });
}

template <Side S>
std::vector<ValueIndex<S>> Structure<S>::data_inputs(Node node) const {
  std::vector<Value> data;
  data.reserve(nodes[node].inputs.size());
  for (const Value input : nodes[node].inputs) {
    data.push_back(!input.exists() || values[input].constant ? Value() : values[input].loose);
  }
  return data;
}

template <Side S>
IndexedVector<NodeIndex<S>, std::int32_t> Structure<S>::positions() const {
  IndexedVector<Node, std::int32_t> result(nodes.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<std::int32_t>(i);
  return result;
}

template class Structure<Side::foreign>;
template class Structure<Side::reference>;

}  // namespace whence::match
