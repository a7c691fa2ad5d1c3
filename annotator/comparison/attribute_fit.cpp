#include "annotator/comparison/attribute_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include "annotator/comparison/pool_windows.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::comparison {
namespace {

using onnx_file::OnnxNode;
using FormNode = OperationForms::FormNode;

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

// Returns whether a MaxPool has the windows of a form's node, whatever decides their number; nullopt for other
// operators and dynamic sizes.
std::optional<bool> has_same_windows(const std::map<std::string, Setting>& stated, const graph::Graph& graph,
                                     const graph::GraphNode& node) {
  const auto pads = stated.find("pads"), rounding = stated.find("ceil_mode");
  const auto automatic = stated.find("auto_pad");
  const bool is_stated = automatic == stated.end() || automatic->second == Setting{{}, {"NOTSET"}};
  if (node.op_type != "MaxPool" || !is_stated) return std::nullopt;
  std::vector<std::int64_t> own;
  if (pads != stated.end()) own.assign(pads->second.numbers.begin(), pads->second.numbers.end());
  return has_windows_of(graph, node, std::move(own), rounding != stated.end() && rounding->second != Setting{{0}});
}

// Writes `auto_pad` as the padding that it stands for at the sizes of a form's node; leaves it for unknown sizes.
void state_padding(std::map<std::string, Setting>& stated, const FormNode& form) {
  const auto automatic = stated.find("auto_pad");
  const auto kernel = stated.find("kernel_shape");
  if (automatic == stated.end() || automatic->second.texts.size() != 1 || kernel == stated.end()) return;
  const std::string way = automatic->second.texts[0];
  const std::size_t axes = kernel->second.numbers.size();
  const auto& dims = form.graph->values[static_cast<std::size_t>(form.node->inputs.at(0))].dims;
  const auto number = [&](const char* name, std::size_t at) {
    const auto found = stated.find(name);
    return found == stated.end() || at >= found->second.numbers.size() ? 1 : found->second.numbers[at];
  };
  std::vector<double> pads(2 * axes, 0);
  if (way == "SAME_UPPER" || way == "SAME_LOWER") {
    if (!dims || dims->size() != axes + 2) return;
    for (std::size_t i = 0; i < axes; ++i) {
      const Dim& dim = (*dims)[i + 2];
      const double step = number("strides", i);
      if (!dim.is_static() && step != 1) return;
      const double window = (kernel->second.numbers[i] - 1) * number("dilations", i) + 1;
      const auto length = static_cast<double>(dim.size);
      const double all = step == 1 ? window - 1 : (std::ceil(length / step) - 1) * step + window - length;
      const double smaller = std::floor(std::max(all, 0.0) / 2), larger = std::max(all, 0.0) - smaller;
      pads[i] = way == "SAME_UPPER" ? smaller : larger;
      pads[axes + i] = way == "SAME_UPPER" ? larger : smaller;
    }
  } else if (way != "VALID") {
    return;
  }
  stated.erase("auto_pad");
  stated["pads"] = {.numbers = std::move(pads)};
}

bool is_axis(std::string_view name) { return name == "axis" || name == "axes"; }

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

}  // namespace

std::string attribute_difference(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                                 const OperationForms& forms, int opset, const SameAxesAfter& same_axes) {
  const std::string_view row = operators::onnx_operator(node.op_type).plain;
  const std::string op_type(row.empty() ? node.op_type : row);
  std::set<std::string> names;
  std::vector<FormNode> same;
  forms.for_each_node(operations, [&](const FormNode& form) {
    if (form.node->op_type == op_type && form.node->domain.empty()) same.push_back(form);
  });
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
  if (op_type == "Conv" || op_type.ends_with("Pool")) state_padding(stated, same.front());
  if (stated.contains("pads")) names.insert("pads");
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
    bool is_comparable = false, is_equal = false, has_other_windows = false;
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
      // Both decide together how many windows there are.
      const bool is_of_windows = name == "pads" || name == "ceil_mode";
      const auto same_windows = is_of_windows ? has_same_windows(stated, *form.graph, *form.node) : std::nullopt;
      has_other_windows = has_other_windows || same_windows == false;
      is_equal = is_equal || same_windows.value_or(fits(name, theirs, ours, *form.graph, *form.node)) ||
                 (name == "group" && fills_block(node, theirs, *form.graph, *form.node)) ||
                 (name == "keepdims" && same_axes(theirs == Setting{{1}}, form));
      expected = std::move(ours);
    }
    if (!is_comparable || is_equal) continue;
    if (has_other_windows) return "has other windows than in the program";
    const auto text = [](const std::optional<Setting>& setting) { return setting ? to_text(*setting) : "not set"; };
    return name + " is " + text(theirs) + ", in the program " + text(expected);
  }
  return "";
}

}  // namespace whence::comparison
