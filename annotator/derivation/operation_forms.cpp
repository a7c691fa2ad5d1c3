#include "annotator/derivation/operation_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include "annotator/derivation/packed_products.h"
#include "annotator/derivation/wiring.h"
#include "annotator/match/op_class.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

using onnx_file::OnnxNode;

// The value of an attribute: numbers, or texts.
struct Setting {
  std::vector<double> numbers = {};
  std::vector<std::string> texts = {};

  bool operator==(const Setting& other) const {
    constexpr double rounding = 1e-6;
    return texts == other.texts && std::ranges::equal(numbers, other.numbers, [](double a, double b) {
             return a == b || std::abs(a - b) <= rounding * std::max(std::abs(a), std::abs(b));
           });
  }
};

std::optional<Setting> setting_of(const graph::Attribute& attribute) {
  const auto numbers = [](const auto& list) { return Setting{{list.begin(), list.end()}}; };
  if (const auto* one = std::get_if<std::int64_t>(&attribute.value)) return Setting{{static_cast<double>(*one)}};
  if (const auto* one = std::get_if<float>(&attribute.value)) return Setting{{*one}};
  if (const auto* one = std::get_if<std::string>(&attribute.value)) return Setting{{}, {*one}};
  if (const auto* all = std::get_if<std::vector<std::int64_t>>(&attribute.value)) return numbers(*all);
  if (const auto* all = std::get_if<std::vector<float>>(&attribute.value)) return numbers(*all);
  if (const auto* all = std::get_if<std::vector<std::string>>(&attribute.value)) return Setting{{}, *all};
  return std::nullopt;
}

std::optional<Setting> setting_of(const onnx::AttributeProto& attribute) {
  const auto numbers = [](const auto& list) { return Setting{{list.begin(), list.end()}}; };
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return Setting{{static_cast<double>(attribute.i())}};
    case onnx::AttributeProto::FLOAT:
      return Setting{{attribute.f()}};
    case onnx::AttributeProto::STRING:
      return Setting{{}, {attribute.s()}};
    case onnx::AttributeProto::INTS:
      return numbers(attribute.ints());
    case onnx::AttributeProto::FLOATS:
      return numbers(attribute.floats());
    case onnx::AttributeProto::STRINGS:
      return Setting{{}, {attribute.strings().begin(), attribute.strings().end()}};
    default:
      return std::nullopt;
  }
}

std::string to_text(const Setting& setting) {
  std::ostringstream text;
  for (const double number : setting.numbers) text << (text.tellp() > 0 ? "," : "") << number;
  for (const std::string& each : setting.texts) text << (text.tellp() > 0 ? "," : "") << each;
  return text.str();
}

// Returns the default of an attribute; nullopt if the operator has no such attribute or no default for it.
std::optional<Setting> default_of(const std::string& op_type, const std::string& name, int opset) {
  const onnx::OpSchema* const schema = onnx::OpSchemaRegistry::Schema(op_type, opset, "");
  if (schema == nullptr) return std::nullopt;
  const auto found = schema->attributes().find(name);
  if (found == schema->attributes().end()) return std::nullopt;
  return setting_of(found->second.default_value);
}

// Returns true for an attribute that changes a recurrent layer wherever it is stated: a limit, and other activations
// than the usual ones of each direction.
bool changes_recurrence(std::string_view op_type, std::string_view name, const std::optional<Setting>& setting) {
  if (!setting || (op_type != "GRU" && op_type != "LSTM" && op_type != "RNN")) return false;
  if (name == "clip") return true;
  if (name != "activations") return false;
  const std::size_t gates = op_type == "GRU" ? 2 : op_type == "LSTM" ? 3 : 1;
  for (std::size_t i = 0; i < setting->texts.size(); ++i) {
    const bool is_gate = i % gates == 0 && gates > 1;
    if (setting->texts[i] != (is_gate ? "Sigmoid" : "Tanh")) return true;
  }
  return false;
}

// Attributes that exporters and tools set as they like, because other parts of the file say the same or they have no
// effect in inference.
bool is_free(std::string_view name) {
  static const std::set<std::string_view> free = {"activation",   "activation_params",
                                                  "allowzero",    "kernel_shape",
                                                  "momentum",     "num_outputs",
                                                  "perm",         "saturate",
                                                  "seed",         "sorted",
                                                  "split",        "stash_type",
                                                  "start",        "end",
                                                  "to",           "training_mode",
                                                  "transA",       "transB",
                                                  "storage_order"};
  return free.contains(name);
}

// Counts axes from the front.
Setting from_front(Setting setting, std::int64_t rank) {
  for (double& axis : setting.numbers) {
    if (axis < 0) axis += static_cast<double>(rank);
  }
  std::ranges::sort(setting.numbers);
  return setting;
}

// Returns the number that an attribute without a stated default has for each axis.
std::optional<double> neutral_number(std::string_view name) {
  if (name == "pads" || name == "output_padding") return 0;
  if (name == "strides" || name == "dilations") return 1;
  return std::nullopt;
}

// Returns true for equal settings. One that is not stated (null) is the neutral number for each axis.
bool same_setting(std::string_view name, const std::optional<Setting>& a, const std::optional<Setting>& b) {
  if (a && b) return *a == *b;
  const Setting& stated = a ? *a : *b;
  const double neutral = neutral_number(name).value();
  return std::ranges::all_of(stated.numbers, [&](double number) { return number == neutral; });
}

// Returns true for a pooling whose windows may reach beyond the numbers.
bool pads(const std::map<std::string, Setting>& stated) {
  const auto is_neutral = [&](const char* name, const Setting& neutral) {
    const auto own = stated.find(name);
    return own == stated.end() || own->second == neutral;
  };
  const auto own = stated.find("pads");
  const bool has_pads =
      own != stated.end() && std::ranges::any_of(own->second.numbers, [](double pad) { return pad != 0; });
  return has_pads || !is_neutral("ceil_mode", {{0}}) || !is_neutral("auto_pad", {{}, {"NOTSET"}});
}

// Returns true if a depthwise convolution in the layout of blocks has channels of zeros that fill up the last block.
bool fills_block(const OnnxNode& node, const std::optional<Setting>& theirs, const graph::Graph& graph,
                 const graph::GraphNode& form) {
  constexpr double longest_block = 16;
  if (node.domain != "com.microsoft.nchwc" || !theirs || theirs->numbers.size() != 1 || form.inputs.size() < 2)
    return false;
  const auto& dims = graph.values[static_cast<std::size_t>(form.inputs[1])].dims;
  const std::int64_t groups = form.int_attribute("group", 1);
  const bool is_depthwise = dims && !dims->empty() && (*dims)[0].is_static() && (*dims)[0].size == groups;
  const double added = theirs->numbers[0] - static_cast<double>(groups);
  return is_depthwise && added > 0 && added < longest_block;
}

bool is_axis(std::string_view name) { return name == "axis" || name == "axes"; }

// Returns true for an initializer, perhaps moved or converted.
bool is_constant_in(const graph::Graph& graph, graph::GraphValueId value) {
  constexpr int longest = 8;  // a chain of movements
  for (int steps = 0; steps < longest && value != graph::no_value; ++steps) {
    const graph::GraphValue& known = graph.values[static_cast<std::size_t>(value)];
    if (known.initializer >= 0) return true;
    if (known.producer < 0 || static_cast<std::size_t>(known.producer) >= graph.nodes.size()) return false;
    const graph::GraphNode& maker = graph.nodes[static_cast<std::size_t>(known.producer)];
    if (!is_movement(maker.op_type) || maker.inputs.empty()) return maker.op_type == "Constant";
    value = maker.inputs[0];
  }
  return false;
}

// Returns the value of which another one has the elements, in another order.
graph::GraphValueId before_movements(const graph::Graph& graph, graph::GraphValueId value) {
  constexpr int longest = 8;  // a chain of movements
  for (int steps = 0; steps < longest && value != graph::no_value; ++steps) {
    const std::int32_t producer = graph.values[static_cast<std::size_t>(value)].producer;
    if (producer < 0) break;
    const graph::GraphNode& maker = graph.nodes[static_cast<std::size_t>(producer)];
    if (!is_movement(maker.op_type) || maker.op_type == "Split" || maker.inputs.empty()) break;
    value = maker.inputs[0];
  }
  return value;
}

// Compares a setting with that of a form's node.
bool fits(const std::string& name, const std::optional<Setting>& theirs, const std::optional<Setting>& ours,
          const graph::Graph& graph, const graph::GraphNode& node) {
  if (!is_axis(name) || !theirs || !ours) return same_setting(name, theirs, ours);
  if (node.inputs.empty() || node.inputs[0] == graph::no_value) return *theirs == *ours;
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  if (!dims) return true;
  const auto rank = static_cast<std::int64_t>(dims->size());
  return from_front(*theirs, rank) == from_front(*ours, rank);
}

// Returns the number of a constant scalar; nullopt for other values.
std::optional<double> number_in(const graph::Graph& graph, graph::GraphValueId value) {
  if (value == graph::no_value) return std::nullopt;
  const std::int32_t initializer = graph.values[static_cast<std::size_t>(value)].initializer;
  if (initializer < 0) return std::nullopt;
  const auto elements = program::Elements::of(graph.initializers[static_cast<std::size_t>(initializer)].data);
  return elements && elements->size() == 1 ? std::optional(elements->number(0)) : std::nullopt;
}

// Returns the bounds of Relu, Clip, and Max and Min with a number; nullopt for other operators.
std::optional<std::pair<double, double>> bounds_of(const graph::Graph& graph, const graph::GraphNode& node) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (node.op_type == "Relu") return std::pair(0.0, infinite);
  if ((node.op_type == "Max" || node.op_type == "Min") && node.inputs.size() == 2) {
    auto number = number_in(graph, node.inputs[1]);
    if (!number) number = number_in(graph, node.inputs[0]);
    if (!number) return std::nullopt;
    return node.op_type == "Max" ? std::pair(*number, infinite) : std::pair(-infinite, *number);
  }
  if (node.op_type != "Clip") return std::nullopt;
  const auto stated = [&](std::size_t slot) {
    return slot < node.inputs.size() && node.inputs[slot] != graph::no_value;
  };
  const auto low = stated(1) ? number_in(graph, node.inputs[1]) : -infinite;
  const auto high = stated(2) ? number_in(graph, node.inputs[2]) : infinite;
  return low && high ? std::optional(std::pair(*low, *high)) : std::nullopt;
}

}  // namespace

OperationForms::OperationForms(std::vector<ProgramForm> forms) : forms_(std::move(forms)) {
  std::set<const graph::Graph*> known;
  for (const ProgramForm& form : forms_) {
    if (known.insert(form.graph.get()).second)
      add(*form.graph, form.opset, ++graphs_, {form.graph->inputs.begin(), form.graph->inputs.end()});
  }
}

// `live`: the values that depend on an input of the program.
void OperationForms::add(const graph::Graph& graph, int opset, std::size_t form, std::set<graph::GraphValueId> live) {
  for (const graph::GraphNode& node : graph.nodes) {
    if (node.removed) continue;
    const bool is_live =
        std::ranges::any_of(node.inputs, [&](graph::GraphValueId input) { return live.contains(input); });
    if (is_live && node.op_type != "Shape" && node.op_type != "Size")
      live.insert(node.outputs.begin(), node.outputs.end());
    for (const std::int32_t operation : node.origin.ops)
      nodes_[operation].push_back({&graph, &node, opset, form, is_live});
    graph::for_each_body(node, [&](const graph::Graph& body) { add(body, opset, form, {}); });
  }
}

std::vector<std::int32_t> OperationForms::computing() const {
  std::vector<std::int32_t> found;
  for (const auto& [operation, nodes] : nodes_) {
    std::set<std::size_t> forms;
    for (const FormNode& each : nodes) {
      // A constant that several operations share computes nothing of its own. A norm in a product is in its weight.
      const auto kind = each.node->origin.kind;
      const bool is_own =
          kind == origin::OriginKind::own || (kind == origin::OriginKind::fused && !multiplies(each.node->op_type));
      const bool computes = is_arithmetic(each.node->op_type) && is_own;
      const bool is_floating_result =
          !each.node->outputs.empty() &&
          is_floating(each.graph->values[static_cast<std::size_t>(each.node->outputs[0])].dtype);
      if (computes && is_floating_result && each.is_live) forms.insert(each.form);
    }
    if (forms.size() == graphs_) found.push_back(operation);
  }
  std::ranges::sort(found);
  return found;
}

// Returns the operations of all nodes of this class that stand for one of the operations.
std::set<std::int32_t> OperationForms::of_same_nodes(const std::vector<std::int32_t>& operations,
                                                     std::uint16_t op_class) const {
  std::set<std::int32_t> all;
  for (const std::int32_t operation : operations) {
    const auto found = nodes_.find(operation);
    if (found == nodes_.end()) continue;
    for (const FormNode& form : found->second) {
      const origin::NodeOrigin& origin = form.node->origin;
      const bool is_same = match::op_class(form.node->op_type) == op_class;
      if (is_same && origin.kind != origin::OriginKind::shared) all.insert(origin.ops.begin(), origin.ops.end());
    }
  }
  return all;
}

// Calls visit(const FormNode&) with the nodes of the operations.
template <class Visit>
void OperationForms::for_each_node(const std::vector<std::int32_t>& operations, Visit&& visit) const {
  for (const std::int32_t operation : operations) {
    const auto found = nodes_.find(operation);
    if (found == nodes_.end()) continue;
    for (const FormNode& form : found->second) visit(form);
  }
}

std::optional<bool> OperationForms::reads_twice(const std::vector<std::int32_t>& operations,
                                                std::uint16_t op_class) const {
  std::optional<bool> twice;
  for_each_node(operations, [&](const FormNode& form) {
    if (match::op_class(form.node->op_type) != op_class || form.node->inputs.size() != 2) return;
    const graph::Graph& graph = *form.graph;
    const bool is_same = before_movements(graph, form.node->inputs[0]) == before_movements(graph, form.node->inputs[1]);
    twice = twice.value_or(false) || is_same;
  });
  return twice;
}

std::set<double> OperationForms::factors(const std::vector<std::int32_t>& operations) const {
  std::set<double> single;
  for_each_node(operations, [&](const FormNode& form) {
    if (const graph::Attribute* const scale = form.node->find("scale")) {
      if (const auto* number = std::get_if<float>(&scale->value)) single.insert(*number);
    }
    if (form.node->op_type != "Mul" && form.node->op_type != "Div") return;
    for (const graph::GraphValueId input : form.node->inputs) {
      if (input == graph::no_value) continue;
      const std::int32_t number = form.graph->values[static_cast<std::size_t>(input)].initializer;
      if (number < 0) continue;
      const TensorData& data = form.graph->initializers[static_cast<std::size_t>(number)].data;
      const auto elements = data.bytes.in_memory() ? program::Elements::of(data) : std::nullopt;
      if (elements && elements->size() == 1 && elements->number(0) != 0) single.insert(elements->number(0));
    }
  });
  std::set<double> all = {1};
  for (const double one : single) {
    all.insert({one, 1 / one});
    for (const double other : single) all.insert({one * other, 1 / (one * other)});
  }
  return all;
}

std::optional<std::int64_t> OperationForms::step_before_negation(const std::vector<std::int32_t>& operations) const {
  constexpr std::size_t steps_slot = 4;
  std::optional<std::int64_t> step;
  for_each_node(operations, [&](const FormNode& form) {
    if (form.node->op_type != "Neg") return;
    graph::GraphValueId value = form.node->inputs[0];
    constexpr int longest = 8;  // a chain of movements
    for (int i = 0; i < longest && value != graph::no_value; ++i) {
      const std::int32_t number = form.graph->values[static_cast<std::size_t>(value)].producer;
      if (number < 0 || static_cast<std::size_t>(number) >= form.graph->nodes.size()) return;
      const graph::GraphNode& maker = form.graph->nodes[static_cast<std::size_t>(number)];
      if (maker.op_type == "Slice") {
        step = step.value_or(1);
        if (maker.inputs.size() <= steps_slot || maker.inputs[steps_slot] == graph::no_value) return;
        const std::int32_t steps = form.graph->values[static_cast<std::size_t>(maker.inputs[steps_slot])].initializer;
        if (steps < 0) return;
        const auto elements = program::Elements::of(form.graph->initializers[static_cast<std::size_t>(steps)].data);
        if (elements && elements->size() == 1) step = static_cast<std::int64_t>(elements->number(0));
        return;
      }
      if (!is_movement(maker.op_type) || maker.inputs.empty()) return;
      value = maker.inputs[0];
    }
  });
  return step;
}

std::set<std::int32_t> OperationForms::fused_with(std::int32_t operation) const {
  std::set<std::int32_t> all = {operation};
  const auto found = nodes_.find(operation);
  if (found == nodes_.end()) return all;
  for (const FormNode& form : found->second) {
    const origin::NodeOrigin& origin = form.node->origin;
    if (origin.kind == origin::OriginKind::fused && !multiplies(form.node->op_type))
      all.insert(origin.ops.begin(), origin.ops.end());
  }
  return all;
}

std::vector<std::int32_t> OperationForms::covered(std::vector<std::int32_t> operations, std::uint16_t op_class) const {
  const auto allowed = of_same_nodes(operations, op_class);
  std::erase_if(operations, [&](std::int32_t each) { return !allowed.contains(each); });
  return operations;
}

std::vector<std::int32_t> OperationForms::with_joined(std::vector<std::int32_t> operations,
                                                      std::uint16_t op_class) const {
  auto all = of_same_nodes(operations, op_class);
  all.insert(operations.begin(), operations.end());
  return {all.begin(), all.end()};
}

std::int64_t OperationForms::count(std::int32_t operation, std::uint16_t op_class) const {
  const auto found = nodes_.find(operation);
  if (found == nodes_.end()) return 0;
  std::map<std::size_t, std::int64_t> counts;
  std::int64_t largest = 0;
  for (const FormNode& form : found->second) {
    if (match::op_class(form.node->op_type) == op_class) largest = std::max(largest, ++counts[form.form]);
  }
  return largest;
}

std::optional<std::pair<double, double>> OperationForms::bounds(std::int32_t operation) const {
  const auto found = nodes_.find(operation);
  if (found == nodes_.end()) return std::nullopt;
  std::map<std::size_t, std::pair<double, double>> by_form;
  for (const FormNode& form : found->second) {
    if (!is_arithmetic(form.node->op_type)) continue;
    const auto own = bounds_of(*form.graph, *form.node);
    if (!own) return std::nullopt;
    const auto [known, is_new] = by_form.try_emplace(form.form, *own);
    auto& [low, high] = known->second;
    if (!is_new) std::tie(low, high) = std::pair(std::max(low, own->first), std::min(high, own->second));
  }
  return by_form.empty() ? std::nullopt : std::optional(by_form.begin()->second);
}

std::string OperationForms::exchanged(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                                      const FileTensors& tensors) const {
  static const std::set<std::string_view> ordered = {
      "Sub", "Div", "Pow", "MatMul", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Mod"};
  if (!ordered.contains(node.op_type) || node.inputs.size() != 2) return "";
  const auto is_constant = [&](std::string_view value) {
    constexpr int longest = 8;  // a chain of movements
    for (int steps = 0; steps < longest; ++steps) {
      if (tensors.find(value) != no_tensor) return true;
      const OnnxNode* const maker = tensors.producer(value);
      if (maker == nullptr || !is_movement(maker->op_type) || maker->inputs.empty()) return false;
      value = maker->inputs[0];
    }
    return false;
  };
  const bool left = is_constant(node.inputs[0]), right = is_constant(node.inputs[1]);
  if (left == right) return "";
  bool is_known = false;
  for (const std::int32_t operation : operations) {
    const auto found = nodes_.find(operation);
    if (found == nodes_.end()) continue;
    for (const FormNode& form : found->second) {
      if (form.node->op_type != node.op_type || form.node->inputs.size() != 2) continue;
      const auto is_fixed = [&](std::size_t slot) { return is_constant_in(*form.graph, form.node->inputs[slot]); };
      if (is_fixed(0) == left && is_fixed(1) == right) return "";
      is_known = is_known || is_fixed(0) != is_fixed(1);
    }
  }
  return is_known ? "its operands are exchanged" : "";
}

std::string OperationForms::difference(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                                       int opset) const {
  const std::string_view row = operators::onnx_operator(node.op_type).plain;
  const std::string op_type(row.empty() ? node.op_type : row);
  std::set<std::string> names;
  std::vector<FormNode> same;
  for (const std::int32_t operation : operations) {
    const auto found = nodes_.find(operation);
    if (found == nodes_.end()) continue;
    for (const FormNode& form : found->second) {
      if (form.node->op_type == op_type && form.node->domain.empty()) same.push_back(form);
    }
  }
  std::map<std::string, Setting> stated;
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
    onnx::AttributeProto message;
    if (attribute.holds_graph ||
        !message.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size())))
      continue;
    if (auto setting = setting_of(message)) stated.emplace(message.name(), std::move(*setting));
    names.insert(message.name());
  }
  // Where the program has another operator, for example a MatMul, a factor of Gemm must be neutral.
  for (const char* factor : {"alpha", "beta"}) {
    const bool is_product = node.op_type == "Gemm" && same.empty() && stated.contains(factor);
    if (is_product && stated[factor] != Setting{{1}}) return std::string(factor) + " is " + to_text(stated[factor]);
  }
  // AttentionFit knows what the attributes of an attention mean together with its inputs.
  if (same.empty() || op_type == "Attention") return "";
  for (const FormNode& form : same) {
    for (const graph::Attribute& attribute : form.node->attributes) names.insert(attribute.name);
  }
  const auto states = [&](const std::string& name) {
    return stated.contains(name) ||
           std::ranges::any_of(same, [&](const FormNode& form) { return form.node->find(name); });
  };
  const auto mode = stated.find("mode");
  const bool is_nearest = mode == stated.end() || mode->second == Setting{{}, {"nearest"}};
  for (const std::string& name : names) {
    if (is_free(name) || !states(name) || (name == "nearest_mode" && !is_nearest)) continue;
    if (name == "count_include_pad" && !pads(stated)) continue;
    const auto own = stated.find(name);
    const auto theirs = own == stated.end() ? default_of(op_type, name, opset) : std::optional(own->second);
    if (!theirs && !neutral_number(name)) continue;
    bool is_comparable = false, is_equal = false;
    std::optional<Setting> expected;
    for (const FormNode& form : same) {
      const graph::Attribute* const attribute = form.node->find(name);
      auto ours = attribute == nullptr ? default_of(op_type, name, form.opset) : setting_of(*attribute);
      if (!ours && changes_recurrence(op_type, name, theirs)) {
        is_comparable = true;
        continue;
      }
      if (!ours && (!theirs || !neutral_number(name))) {
        is_equal = is_equal || !theirs;
        continue;
      }
      is_comparable = true;
      is_equal = is_equal || fits(name, theirs, ours, *form.graph, *form.node) ||
                 (name == "group" && fills_block(node, theirs, *form.graph, *form.node));
      expected = std::move(ours);
    }
    if (!is_comparable || is_equal) continue;
    const auto text = [](const std::optional<Setting>& setting) { return setting ? to_text(*setting) : "not set"; };
    return name + " is " + text(theirs) + ", in the program " + text(expected);
  }
  return "";
}

}  // namespace whence::derivation
