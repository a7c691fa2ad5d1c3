#include "annotator/comparison/recorded_layers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "annotator/program/tensor_values.h"
#include "schema/program_walk.h"

namespace whence::comparison {
namespace {

using Makers = std::map<ValueId, const Node*>;

std::string parameter_of(const Program& program, const Argument& argument) {
  const auto* const value = argument.as<ValueRef>();
  if (value == nullptr || program.values[value->id].source != ValueSource::parameter) return "";
  return program.parameters[ParameterId(program.values[value->id].index)].name;
}

bool flag(const Node& node, std::string_view name) {
  const Argument* const argument = node.find(name);
  const bool* const set = argument == nullptr ? nullptr : argument->as<bool>();
  return set != nullptr && *set;
}

bool is_zero(const Program& program, const Makers& makers, const Argument* argument) {
  const auto* const value = argument == nullptr ? nullptr : argument->as<ValueRef>();
  if (value == nullptr) return false;
  static const std::set<std::string_view> zeros = {"aten::zeros", "aten::zeros_like", "aten::new_zeros"};
  const auto maker = makers.find(value->id);
  if (maker != makers.end() && zeros.contains(maker->second->target)) return true;
  const ConstantId constant = program.values[value->id].content();
  if (constant == none_id) return false;
  const auto elements = program::Elements::of(program.constants[constant].data);
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    if (elements->number(i) != 0) return false;
  }
  return elements.has_value();
}

std::int64_t steps_of(const Program& program, const Node& node) {
  const Argument* const input = node.find("input");
  const auto* const value = input == nullptr ? nullptr : input->as<ValueRef>();
  const std::size_t axis = flag(node, "batch_first") ? 1 : 0;
  if (value == nullptr) return 0;
  const auto& dims = program.values[value->id].type.dims;
  return dims && dims->size() == 3 && (*dims)[axis].is_static() ? (*dims)[axis].size : 0;
}

std::optional<RecordedLayers> layers_of(const Program& program, const Makers& makers, const Node& node) {
  static const std::map<std::string_view, std::string> activations = {{"aten::rnn_tanh", "Tanh"},
                                                                      {"aten::rnn_relu", "Relu"}};
  const auto activation = activations.find(node.target);
  const Argument* const params = node.find("params");
  const auto* const list = params == nullptr ? nullptr : params->as<ArgumentList>();
  if (activation == activations.end() || node.overload != "input" || list == nullptr) return std::nullopt;
  RecordedLayers found{.operation = node.origin.op, .activation = activation->second, .steps = steps_of(program, node)};
  found.directions = flag(node, "bidirectional") ? 2 : 1;
  const std::size_t parts = flag(node, "has_biases") ? 4 : 2;
  if (found.steps < 2 || list->size() % parts != 0 || !is_zero(program, makers, node.find("hx"))) return std::nullopt;
  std::vector<std::string> names;
  for (const Argument& each : *list) names.push_back(parameter_of(program, each));
  if (std::ranges::find(names, "") != names.end()) return std::nullopt;
  for (std::size_t at = 0; at < names.size(); at += parts) {
    RecordedLayer layer{.input_weight = names[at], .weight = names[at + 1]};
    layer.biases.assign(names.begin() + static_cast<std::ptrdiff_t>(at + 2),
                        names.begin() + static_cast<std::ptrdiff_t>(at + parts));
    layer.is_reverse = found.layers.size() % found.directions == 1;
    found.layers.push_back(std::move(layer));
  }
  return found;
}

}  // namespace

std::vector<RecordedLayers> recorded_layers(const Program& program) {
  Makers makers;
  each_node(program.body, [&](const Node& node) {
    for (const ValueId output : node.outputs) makers.emplace(output, &node);
  });
  std::vector<RecordedLayers> all;
  each_node(program.body, [&](const Node& node) {
    if (auto found = layers_of(program, makers, node)) all.push_back(std::move(*found));
  });
  return all;
}

}  // namespace whence::comparison
