#include "annotator/match/structure.h"

#include <algorithm>

#include "annotator/match/classification.h"
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

std::vector<std::int64_t> sorted_sizes(std::vector<std::int64_t> dims) {
  std::erase(dims, 1);
  std::ranges::sort(dims);
  return dims;
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
  Classification<S>(*this).run();
}

// Kahn's algorithm. All producers of a value come before its consumers. One producer of several (in references) would
// be enough, but then the order would depend on which form of the program came first.
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
bool Structure<S>::is_product_with_weights(Node node) const {
  return is_product(nodes[node].op_class) && reads_weights(node);
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
std::ptrdiff_t Structure<S>::count_data_inputs(Node node) const {
  return std::ranges::count_if(nodes[node].inputs,
                               [&](Value input) { return input.exists() && !values[input].constant; });
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
