#include "annotator/match/structure.h"

#include <algorithm>

#include "annotator/match/op_class.h"
#include "schema/result.h"

namespace whence::match {

std::int64_t StructureTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : dims) count *= std::max<std::int64_t>(size, 0);
  return count;
}

bool StructureTensor::is_vector() const {
  return std::count_if(dims.begin(), dims.end(), [](std::int64_t size) { return size != 1; }) <= 1;
}

std::int32_t Structure::add_value(std::string_view name) {
  values.emplace_back().name = name;
  return static_cast<std::int32_t>(values.size()) - 1;
}

std::int32_t Structure::add_node(StructureNode node) {
  const auto index = static_cast<std::int32_t>(nodes.size());
  for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (node.inputs[slot] >= 0) values[node.inputs[slot]].uses.push_back({index, static_cast<std::int32_t>(slot)});
  }
  for (const std::int32_t output : node.outputs) {
    if (output >= 0) values[output].producers.push_back(index);
  }
  node.op_class = op_class(node.domain, node.op_type);
  node.commutative = is_commutative(node.op_class);
  nodes.push_back(std::move(node));
  return index;
}

void Structure::finish(const std::string& file) {
  sort(file);
  classify();
}

// Kahn's algorithm. Of values with several producers (references), one producer is enough to make them known, but all
// stand before the consumers, so that the order does not depend on which form of the program came first.
void Structure::sort(const std::string& file) {
  std::vector<std::int32_t> waiting(nodes.size(), 0);
  std::vector<std::int32_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::int32_t input : nodes[i].inputs) {
      if (input >= 0) waiting[i] += static_cast<std::int32_t>(values[input].producers.size());
    }
    if (waiting[i] == 0) ready.push_back(static_cast<std::int32_t>(i));
  }
  order.clear();
  for (std::size_t next = 0; next < ready.size(); ++next) {
    order.push_back(ready[next]);
    for (const std::int32_t output : nodes[ready[next]].outputs) {
      if (output < 0) continue;
      for (const StructureUse& use : values[output].uses) {
        if (use.node >= 0 && --waiting[use.node] == 0) ready.push_back(use.node);
      }
    }
  }
  if (order.size() == nodes.size()) return;
  const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](std::int32_t count) { return count > 0; });
  const StructureNode& node = nodes[static_cast<std::size_t>(stuck - waiting.begin())];
  throw Error(Code::corrupt_file, "the graph has a cycle: a node needs its own result", "export the model again",
              {.file = file, .stage = "match", .node = std::string(node.name)});
}

std::int32_t Structure::root_tensor(std::int32_t value) const {
  for (int steps = 0; value >= 0 && steps < 16; ++steps) {
    const StructureValue& entry = values[value];
    if (entry.tensor >= 0) return entry.tensor;
    if (entry.producers.empty()) return -1;
    const StructureNode& node = nodes[entry.producers.front()];
    if (!is_transparent(node.op_type) || node.inputs.empty()) return -1;
    value = node.inputs.front();
  }
  return -1;
}

bool Structure::reads_weights(const StructureNode& node) const {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](std::int32_t input) {
    if (input < 0 || !values[input].constant) return false;
    const std::int32_t tensor = root_tensor(input);
    return tensor >= 0 ? tensors[tensor].elements() > 1 : per_channel_[input];
  });
}

bool Structure::has_no_effect(const StructureNode& node) const {
  const bool scales = node.op_type == "Mul" || node.op_type == "Div";
  const bool shifts = node.op_type == "Add" || node.op_type == "Sub";
  if ((!scales && !shifts) || node.inputs.size() != 2) return false;
  const auto is_neutral = [&](std::int32_t input) {
    const std::int32_t tensor = input < 0 || !values[input].constant ? -1 : root_tensor(input);
    return tensor >= 0 && tensors[tensor].single && tensors[tensor].number == (scales ? 1 : 0);
  };
  return is_neutral(node.inputs[1]) || (node.commutative && is_neutral(node.inputs[0]));
}

// Add(product, vector)
bool Structure::adds_bias(const StructureNode& node) {
  if (node.op_type != "Add" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const std::int32_t data = node.inputs[side], bias = node.inputs[1 - side];
    if (data < 0 || bias < 0 || !values[bias].constant || values[data].constant) continue;
    const std::int32_t tensor = root_tensor(bias);
    if (tensor < 0 || !tensors[tensor].is_vector() || tensors[tensor].elements() < 2) continue;
    for (const std::int32_t maker : makers_[find_loose(data)]) {
      if (is_product(nodes[maker].op_class)) return true;
      // One product for several linear layers, taken apart again before each gets its bias.
      if (nodes[maker].op_type != "Split" || nodes[maker].inputs.empty() || nodes[maker].inputs[0] < 0) continue;
      for (const std::int32_t behind : makers_[find_loose(nodes[maker].inputs[0])]) {
        if (is_product(nodes[behind].op_class)) return true;
      }
    }
  }
  return false;
}

// Slice(data, 0, the largest integer): `x[:]`, which some exporters write out; references write it without bounds.
bool Structure::cuts_nothing(const StructureNode& node) const {
  constexpr double open_end = 2147483647;
  if (node.op_type != "Slice" || node.inputs.empty() || node.inputs[0] < 0) return false;
  if (node.inputs.size() < 3) return node.attributes == 0;
  const auto is = [&](std::size_t slot, auto wanted) {
    const std::int32_t tensor = root_tensor(node.inputs[slot]);
    return tensor >= 0 && tensors[tensor].single && wanted(tensors[tensor].number);
  };
  return is(1, [](double start) { return start == 0; }) && is(2, [](double end) { return end >= open_end; }) &&
         (node.inputs.size() < 5 || node.inputs[4] < 0 || is(4, [](double step) { return step == 1; }));
}

// Mul(x, Sigmoid(x)), Mul(x, Tanh(Softplus(x))): an activation that others have an operator for.
bool Structure::gates_itself(const StructureNode& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const std::int32_t data = node.inputs[side];
    std::int32_t gate = node.inputs[1 - side];
    if (data < 0 || gate < 0 || values[data].constant || values[gate].constant) continue;
    for (int steps = 0; steps < 2; ++steps) {
      const auto& makers = makers_[find_loose(gate)];
      const auto maker = std::find_if(makers.begin(), makers.end(), [&](std::int32_t each) {
        return is_gate(nodes[each].op_class) && !nodes[each].inputs.empty() && nodes[each].inputs[0] >= 0;
      });
      if (maker == makers.end()) break;
      gate = nodes[*maker].inputs[0];
      if (find_loose(gate) == find_loose(data)) return true;
    }
  }
  return false;
}

// Mul(Cast(MatMulInteger(...)), scale found at run time)
bool Structure::scales_integer_product(const StructureNode& node) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  for (int side = 0; side < 2; ++side) {
    const std::int32_t data = node.inputs[side], scale = node.inputs[1 - side];
    if (data < 0 || scale < 0 || values[data].constant || !side_[scale]) continue;
    for (const std::int32_t maker : makers_[find_loose(data)]) {
      if (is_product(nodes[maker].op_class)) return true;
    }
  }
  return false;
}

// Arithmetic on constants, of which one is a vector and none a matrix: what batch norms with fixed statistics scale and
// shift by.
bool Structure::computes_per_channel(const StructureNode& node) const {
  if (!may_be_without_effect(node.op_class) && !is_transparent(node.op_type)) return false;
  bool any = false;
  for (const std::int32_t input : node.inputs) {
    if (input < 0) continue;
    const std::int32_t tensor = values[input].tensor;
    if (tensor >= 0 && !tensors[tensor].is_vector()) return false;
    any = any || per_channel_[input];
    if (is_transparent(node.op_type)) break;  // further inputs are sizes
  }
  return any;
}

// Union-find: a value that several forms make brings together what each of them makes it from.
std::int32_t Structure::find_loose(std::int32_t value) {
  while (values[value].loose != value) {
    values[value].loose = values[values[value].loose].loose;
    value = values[value].loose;
  }
  return value;
}

void Structure::same_but_layout(std::int32_t a, std::int32_t b) {
  a = find_loose(a);
  b = find_loose(b);
  if (a == b) return;
  values[b].loose = a;
  makers_[a].insert(makers_[a].end(), makers_[b].begin(), makers_[b].end());
  makers_[b].clear();
}

void Structure::classify() {
  makers_.assign(values.size(), {});
  side_.assign(values.size(), false);
  per_channel_.assign(values.size(), false);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i].loose = static_cast<std::int32_t>(i);
    values[i].constant = values[i].tensor >= 0;
    const std::int32_t tensor = values[i].tensor;
    per_channel_[i] = tensor >= 0 && tensors[tensor].is_vector() && tensors[tensor].elements() > 1;
  }
  for (const std::int32_t index : order) {
    StructureNode& node = nodes[index];
    bool constant = !node.holds_bodies, side = false;
    for (const std::int32_t input : node.inputs) {
      if (input < 0) continue;
      constant &= values[input].constant;
      side = side || side_[input];
    }
    const bool random =
        node.op_type.starts_with("Random") || node.op_type == "Multinomial" || node.op_type == "Bernoulli";
    if (constant && !random) {
      node.kind = NodeKind::constant;
      for (const std::int32_t output : node.outputs) {
        if (output < 0) continue;
        values[output].constant = true;
        side_[output] = side;
        per_channel_[output] = per_channel_[output] || (!side && computes_per_channel(node));
      }
      continue;
    }
    std::int32_t data = -1;
    for (const std::int32_t input : node.inputs) {
      if (input >= 0 && !values[input].constant) data = data < 0 ? input : data;
    }
    const bool layout = (is_transparent(node.op_type) || cuts_nothing(node)) && !node.inputs.empty() &&
                        node.inputs[0] >= 0 && !values[node.inputs[0]].constant;
    if (layout) data = node.inputs[0];
    node.computes_sizes = computes_sizes(node);
    if (gates_itself(node)) node.op_class = op_class("", "Gelu");
    node.kind = layout || adds_bias(node) || scales_integer_product(node) ? NodeKind::transparent : NodeKind::heavy;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::int32_t output = node.outputs[i];
      if (output < 0) continue;
      if (node.kind == NodeKind::heavy) makers_[find_loose(output)].push_back(index);
      if (node.kind == NodeKind::transparent && i == 0) same_but_layout(data, output);
      if (node.op_type == "DynamicQuantizeLinear" && i > 0) {
        side_[output] = true;
        values[output].constant = true;
      }
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i].loose = find_loose(static_cast<std::int32_t>(i));
  heavy_uses_.assign(values.size(), {});
  for (const std::int32_t index : order) {
    const StructureNode& node = nodes[index];
    if (node.kind != NodeKind::heavy) continue;
    const std::vector<std::int32_t> data = data_inputs(node);
    for (std::size_t slot = 0; slot < data.size(); ++slot) {
      if (data[slot] >= 0) heavy_uses_[data[slot]].push_back({index, static_cast<std::int32_t>(slot)});
    }
  }
}

// Shape(x), and what is computed from nothing else: Gather, Add, Div, Concat, ...
bool Structure::computes_sizes(const StructureNode& node) const {
  if (node.op_type == "Shape" || node.op_type == "Size") return true;
  if (!is_integer_arithmetic(node.op_type)) return false;
  return std::ranges::all_of(node.inputs, [&](std::int32_t input) {
    if (input < 0 || values[input].constant) return true;
    const auto& makers = values[input].producers;
    return !makers.empty() && std::ranges::all_of(makers, [&](auto maker) { return nodes[maker].computes_sizes; });
  });
}

std::vector<std::int32_t> Structure::data_inputs(const StructureNode& node) const {
  std::vector<std::int32_t> data;
  data.reserve(node.inputs.size());
  for (const std::int32_t input : node.inputs) {
    data.push_back(input < 0 || values[input].constant ? -1 : values[input].loose);
  }
  return data;
}

}  // namespace whence::match
