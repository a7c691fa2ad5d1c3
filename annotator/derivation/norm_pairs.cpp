#include "annotator/derivation/norm_pairs.h"

#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>

#include "schema/program_walk.h"

namespace whence::derivation {
namespace {

bool is_convolution(const Node& node) {
  static const std::set<std::string_view> targets = {"aten::conv1d", "aten::conv2d", "aten::conv3d",
                                                     "aten::convolution", "aten::_convolution"};
  const Argument* const transposed = node.find("transposed");
  const bool* const is_transposed = transposed == nullptr ? nullptr : transposed->as<bool>();
  return targets.contains(node.target) && (is_transposed == nullptr || !*is_transposed);
}

// Returns the name of the parameter that an argument is; "" for None; nullopt for other values.
std::optional<std::string> parameter_of(const Program& program, const Node& node, std::string_view name) {
  const Argument* const argument = node.find(name);
  if (argument == nullptr || argument->is_none()) return "";
  const ValueRef* const reference = argument->as<ValueRef>();
  if (reference == nullptr) return std::nullopt;
  const Value& value = program.values[reference->id];
  if (value.source != ValueSource::parameter) return std::nullopt;
  return program.parameters[ParameterId(value.index)].name;
}

}  // namespace

std::vector<NormPair> norm_pairs(const Program& program) {
  std::vector<NormPair> pairs;
  std::unordered_map<ValueId, std::string> weights;  // by result of the convolution
  each_node(program.body, [&](const Node& node) {
    if (is_convolution(node) && node.outputs.size() == 1) {
      const auto weight = parameter_of(program, node, "weight");
      if (weight && !weight->empty()) weights[node.outputs[0]] = *weight;
      return;
    }
    if (node.target != "aten::batch_norm") return;
    const Argument* const input = node.find("input");
    const Argument* const epsilon = node.find("eps");
    const ValueRef* const read = input == nullptr ? nullptr : input->as<ValueRef>();
    const double* const number = epsilon == nullptr ? nullptr : epsilon->as<double>();
    const auto product = read == nullptr ? weights.end() : weights.find(read->id);
    const auto scale = parameter_of(program, node, "weight"), shift = parameter_of(program, node, "bias"),
               mean = parameter_of(program, node, "running_mean"),
               variance = parameter_of(program, node, "running_var");
    const bool is_known = product != weights.end() && number != nullptr && scale && shift && mean && variance;
    if (!is_known || mean->empty() || variance->empty() || scale->empty() != shift->empty()) return;
    pairs.push_back({product->second, *scale, *shift, *mean, *variance, *number});
  });
  return pairs;
}

}  // namespace whence::derivation
