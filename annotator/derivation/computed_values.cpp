#include "annotator/derivation/computed_values.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "annotator/derivation/evaluate_node.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"
#include "schema/files/files.h"

namespace whence::derivation {
namespace {

using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;

constexpr std::size_t max_bytes = std::size_t{1} << 31;  // of a value
constexpr std::size_t max_recipe = 400;                  // characters

bool moves_elements(std::string_view op_type) {
  static const std::set<std::string_view> movements = {"Cast",     "Concat",  "Expand",    "Flatten",
                                                       "Identity", "Reshape", "Slice",     "Split",
                                                       "Squeeze",  "Tile",    "Transpose", "Unsqueeze"};
  return movements.contains(op_type);
}

// Returns true for a part along the first axis with more than one element: such rows of a parameter are found
// unchanged. One row alone is not, as many tensors could be.
bool chooses_rows(const Graph& graph, const GraphNode& node) {
  const auto& dims = graph.values[static_cast<std::size_t>(node.inputs[0])].dims;
  const auto& parts = graph.values[static_cast<std::size_t>(node.outputs[0])].dims;
  if (!dims || !parts || dims->size() != parts->size()) return false;
  const auto is_longer = [](const Dim& dim) { return !dim.is_static() || dim.size > 1; };
  const auto first = static_cast<std::size_t>(std::ranges::find_if(*dims, is_longer) - dims->begin());
  for (std::size_t axis = first + 1; axis < dims->size(); ++axis) {
    if (!((*dims)[axis] == (*parts)[axis])) return false;
  }
  return first < dims->size() && is_longer((*parts)[first]);
}

// Returns true for a part of a value that is not one of its rows.
bool chooses_part(const Graph& graph, const GraphNode& node) {
  return (node.op_type == "Slice" || node.op_type == "Split") && !chooses_rows(graph, node);
}

// A value that depends on parameters and constants alone.
struct Known {
  const Parameter* parameter = nullptr;  // null: a constant, or the result of `node`
  const TensorData* constant = nullptr;
  const GraphNode* node = nullptr;
  bool is_computed = false;  // a node before it, or its own, does more than moving elements
  bool is_rounded = false;   // one of them does arithmetic
  std::set<std::string> parameters = {};
  std::string recipe = {}, digest = {};
};

class Evaluator {
 public:
  Evaluator(const Graph& graph, const Program& program,
            const std::function<std::optional<TensorData>(const Parameter&)>& value)
      : graph_(graph), value_(value) {
    std::unordered_map<std::string_view, const Parameter*> parameters;
    for (const Parameter& parameter : program.parameters) parameters.emplace(parameter.name, &parameter);
    for (const GraphValueId input : graph.inputs) {
      const std::string& name = graph.values[static_cast<std::size_t>(input)].name;
      const auto found = parameters.find(name);
      if (found == parameters.end()) continue;
      known_[input] = {.parameter = found->second, .recipe = name, .digest = name};
      // What follows from buffers that no checkpoint has is a constant of the program.
      if (found->second->persistent) known_[input].parameters = {name};
    }
    for (const graph::Initializer& initializer : graph.initializers) {
      const auto bytes = initializer.data.bytes.in_memory();
      if (!bytes || initializer.parameter || initializer.rearranged) continue;
      known_[initializer.value] = {
          .constant = &initializer.data, .recipe = "constant", .digest = digest_of(bytes->data(), bytes->size())};
    }
  }

  std::vector<ComputedValue> run() {
    for (const GraphNode& node : graph_.nodes) note(node);
    note_readers();
    std::vector<ComputedValue> found;
    std::unordered_map<std::string, std::size_t> numbers;
    for (const GraphNode& node : graph_.nodes) {
      const auto known = node.outputs.empty() ? known_.end() : known_.find(node.outputs[0]);
      if (known == known_.end() || !known->second.is_computed || known->second.node != &node) continue;
      const TensorData* const data = evaluated(node.outputs[0]);
      if (data == nullptr) continue;
      const Known& value = known->second;
      const std::string name = node.op_type + "@" + value.digest.substr(0, 16);
      const auto [number, is_new] = numbers.try_emplace(name, found.size());
      if (is_new)
        found.push_back(
            {name, *data, {value.parameters.begin(), value.parameters.end()}, value.recipe, value.is_rounded, {}});
      const auto& readers = readers_[node.outputs[0]];
      auto& all = found[number->second].readers;
      all.insert(all.end(), readers.begin(), readers.end());
    }
    return found;
  }

 private:
  void note(const GraphNode& node) {
    if (!can_evaluate(graph_, node)) return;
    Known known{.node = &node,
                .is_computed = !moves_elements(node.op_type) || chooses_part(graph_, node),
                .is_rounded = is_arithmetic(node.op_type)};
    std::string recipe, digests = node.op_type;
    bool joins_constant = false;
    for (const GraphValueId input : node.inputs) {
      if (input == graph::no_value) continue;
      const auto found = known_.find(input);
      if (found == known_.end()) return;
      const Known& from = found->second;
      joins_constant = joins_constant || (node.op_type == "Concat" && from.parameters.empty());
      known.is_computed = known.is_computed || from.is_computed;
      known.is_rounded = known.is_rounded || from.is_rounded;
      known.parameters.insert(from.parameters.begin(), from.parameters.end());
      if (!from.parameters.empty()) recipe += (recipe.empty() ? "" : ", ") + from.recipe;
      digests += "(" + from.digest + ")";
    }
    known.is_computed = (known.is_computed || joins_constant) && !known.parameters.empty();
    for (const graph::Attribute& attribute : node.attributes) digests += attribute_text(attribute);
    known.digest = digest_of(digests.data(), digests.size());
    known.recipe = node.op_type + "(" + recipe + ")";
    if (known.recipe.size() > max_recipe) known.recipe = known.recipe.substr(0, max_recipe) + "...";
    known_[node.outputs[0]] = std::move(known);
  }

  // From the last node to the first, because a value that is only moved is read where its copy is read.
  void note_readers() {
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      std::set<std::int32_t> readers(node->origin.ops.begin(), node->origin.ops.end());
      for (const GraphValueId output : node->outputs) {
        if (known_.contains(output)) readers.insert(readers_[output].begin(), readers_[output].end());
      }
      for (const GraphValueId input : node->inputs) {
        if (known_.contains(input)) readers_[input].insert(readers.begin(), readers.end());
      }
    }
  }

  static std::string attribute_text(const graph::Attribute& attribute) {
    std::string text = ";" + attribute.name + "=";
    if (const auto* number = std::get_if<std::int64_t>(&attribute.value)) text += std::to_string(*number);
    if (const auto* number = std::get_if<float>(&attribute.value)) text += std::to_string(*number);
    if (const auto* word = std::get_if<std::string>(&attribute.value)) text += *word;
    if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
      for (const std::int64_t number : *numbers) text += std::to_string(number) + ",";
    }
    return text;
  }

  // Evaluates the nodes before a value as well; a movement of a large weight only where a computation needs it.
  const TensorData* evaluated(GraphValueId value) {
    if (const auto found = values_.find(value); found != values_.end())
      return found->second ? &*found->second : nullptr;
    const Known& known = known_.at(value);
    std::optional<TensorData> result;
    if (known.constant != nullptr) {
      result = *known.constant;
    } else if (known.parameter != nullptr) {
      result = value_(*known.parameter);
    } else {
      simplify::Constants inputs;
      bool all_known = true;
      for (const GraphValueId input : known.node->inputs) {
        inputs.push_back(input == graph::no_value ? nullptr : evaluated(input));
        all_known = all_known && (input == graph::no_value || inputs.back() != nullptr);
      }
      if (all_known) result = evaluate(graph_, *known.node, inputs, max_bytes);
    }
    auto& stored = values_[value] = std::move(result);
    return stored ? &*stored : nullptr;
  }

  const Graph& graph_;
  const std::function<std::optional<TensorData>(const Parameter&)>& value_;
  std::unordered_map<GraphValueId, Known> known_;
  std::unordered_map<GraphValueId, std::set<std::int32_t>> readers_;
  std::unordered_map<GraphValueId, std::optional<TensorData>> values_;
};

}  // namespace

std::vector<ComputedValue> computed_values(const Program& program,
                                           const std::function<std::optional<TensorData>(const Parameter&)>& value) {
  exporter::ExportOptions options;
  options.unsupported_as_domain = true;
  options.weights_as_inputs = true;
  options.simplify = false;
  const Program filled = exporter::with_filled_weights(program);
  const Result<Graph> graph = exporter::export_program(filled, options);
  return graph ? Evaluator(*graph, filled, value).run() : std::vector<ComputedValue>();
}

}  // namespace whence::derivation
