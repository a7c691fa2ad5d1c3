#include "annotator/match/spelled_out_norms.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace whence::match {
namespace {

bool contains(const std::vector<ForeignNode>& nodes, ForeignNode node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

}  // namespace

void SpelledOutNorms::place_before(ForeignNode scale) {
  if (!nearest_.is_known(scale) || f_.nodes[scale].op_type != "Mul") return;
  if (placement_.matches[scale].units.size() != 1) return;
  std::vector<ForeignNode> nodes = nodes_before(scale);
  const bool has_mean = std::ranges::any_of(nodes, [&](ForeignNode node) { return takes_mean(node); });
  if (!has_mean) return;
  drop_nodes_read_elsewhere(nodes);
  drop_operand(nodes);
  for (const ForeignNode node : nodes) {
    if (node == scale) continue;
    placement_.place(node, placement_.matches[scale].units, origin::Confidence::inferred, MatchRule::dataflow);
  }
}

// Returns the scale and the arithmetic before it, nearest first.
std::vector<ForeignNode> SpelledOutNorms::nodes_before(ForeignNode scale) const {
  constexpr std::size_t max_nodes = 16;
  std::vector<ForeignNode> nodes = {scale};
  for (std::size_t i = 0; i < nodes.size() && nodes.size() < max_nodes; ++i) {
    for (const ForeignNode source : placement_.sources(nodes[i])) {
      if (!nearest_.is_known(source) && may_normalize(source) && !contains(nodes, source)) nodes.push_back(source);
    }
  }
  return nodes;
}

void SpelledOutNorms::drop_nodes_read_elsewhere(std::vector<ForeignNode>& nodes) const {
  const ForeignNode scale = nodes.front();
  const auto is_read_elsewhere = [&](ForeignNode node) {
    return node != scale &&
           std::ranges::any_of(placement_.readers(node), [&](ForeignNode reader) { return !contains(nodes, reader); });
  };
  while (std::erase_if(nodes, is_read_elsewhere) > 0) continue;
}

// Drops the nodes that compute the norm's operand. A Cast before the operand belongs to the norm.
void SpelledOutNorms::drop_operand(std::vector<ForeignNode>& nodes) const {
  const std::vector<ForeignNode> operand = operand_of(nodes);
  std::erase_if(nodes, [&](ForeignNode node) {
    const auto readers = placement_.readers(node);
    const bool is_first_cast = f_.nodes[node].op_type == "Cast" &&
                               std::ranges::none_of(readers, [&](ForeignNode each) { return contains(operand, each); });
    return contains(operand, node) && !is_first_cast;
  });
}

// Returns the nodes that compute the norm's operand, which both its means and its scaling read. `nodes` begins with the
// scale. The Reshapes around an InstanceNormalization belong to the norm.
std::vector<ForeignNode> SpelledOutNorms::operand_of(const std::vector<ForeignNode>& nodes) const {
  std::vector<ForeignNode> operand = nodes_computing(nodes.front(), nodes, false);
  for (const ForeignNode node : nodes) {
    if (!takes_mean(node)) continue;
    const std::vector<ForeignNode> of_mean = nodes_computing(node, nodes, true);
    std::erase_if(operand, [&](ForeignNode each) { return each == node || !contains(of_mean, each); });
    if (f_.nodes[node].op_type == "InstanceNormalization") operand = without_reshape(of_mean);
  }
  return operand;
}

// Drops the InstanceNormalization, which is the first node, and the Reshape into its groups.
std::vector<ForeignNode> SpelledOutNorms::without_reshape(std::vector<ForeignNode> nodes) const {
  const ForeignNode norm = nodes.front();
  std::erase_if(nodes, [&](ForeignNode node) {
    const bool makes_groups = f_.nodes[node].op_type == "Reshape" && contains(placement_.readers(node), norm);
    return node == norm || makes_groups;
  });
  return nodes;
}

// Returns `node` and the nodes of `among` by which it is computed. If `through_means` is false, stops at means.
std::vector<ForeignNode> SpelledOutNorms::nodes_computing(ForeignNode node, const std::vector<ForeignNode>& among,
                                                          bool through_means) const {
  std::vector<ForeignNode> found = {node};
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!through_means && i > 0 && takes_mean(found[i])) continue;
    for (const ForeignNode source : placement_.sources(found[i])) {
      if (contains(among, source) && !contains(found, source)) found.push_back(source);
    }
  }
  return found;
}

bool SpelledOutNorms::may_normalize(ForeignNode node) const {
  static const std::set<std::string_view> operators = {
      "Cast", "Div", "InstanceNormalization", "Mul", "Pow", "Reciprocal", "ReduceMean", "Reshape", "Sqrt", "Sub"};
  const auto& entry = f_.nodes[node];
  if (operators.contains(entry.op_type)) return true;
  return entry.op_type == "Add" && std::ranges::any_of(entry.inputs, [&](ForeignValue input) {
           return input.exists() && f_.values[input].constant;
         });
}

bool SpelledOutNorms::takes_mean(ForeignNode node) const {
  return f_.nodes[node].op_type == "ReduceMean" || f_.nodes[node].op_type == "InstanceNormalization";
}

}  // namespace whence::match
