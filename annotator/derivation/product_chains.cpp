#include "annotator/derivation/product_chains.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "annotator/derivation/operator_classes.h"
#include "annotator/derivation/parameter_names.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {
namespace {

constexpr int longest_chain = 12;  // a chain of movements

class Search {
 public:
  Search(const graph::Graph& graph, std::set<ProductChain>& found) : graph_(graph), found_(found) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      if (graph.nodes[i].removed) continue;
      for (const graph::GraphValueId input : graph.nodes[i].inputs) readers_[input].push_back(i);
    }
  }

  void run() {
    for (const graph::GraphNode& node : graph_.nodes) {
      const bool is_product = !node.removed && multiplies(node.op_type) && node.inputs.size() > 1;
      const graph::Initializer* const weight = is_product ? constant(node.inputs[1]) : nullptr;
      ProductChain chain{.weight = weight == nullptr ? "" : name_of(*weight)};
      if (chain.weight.empty()) continue;
      const auto slot = bias_slot(node.op_type);
      const graph::Initializer* const bias =
          slot && node.inputs.size() > *slot ? constant(node.inputs[*slot]) : nullptr;
      if (bias != nullptr) chain.bias = name_of(*bias);
      follow(chain, node.outputs[0], longest_chain);
    }
  }

 private:
  const graph::GraphValue& value(graph::GraphValueId id) const { return graph_.values[static_cast<std::size_t>(id)]; }
  std::string name_of(const graph::Initializer& initializer) const { return parameter_name(graph_, initializer); }

  // Returns the initializer that a value is, perhaps moved; null for other values.
  const graph::Initializer* constant(graph::GraphValueId id) const {
    for (int steps = 0; steps < longest_chain && id != graph::no_value; ++steps) {
      if (value(id).initializer >= 0) return &graph_.initializers[static_cast<std::size_t>(value(id).initializer)];
      if (value(id).producer < 0) return nullptr;
      const graph::GraphNode& maker = graph_.nodes[static_cast<std::size_t>(value(id).producer)];
      if (!is_movement(maker.op_type) || maker.inputs.empty()) return nullptr;
      id = maker.inputs[0];
    }
    return nullptr;
  }

  // Follows the result through movements, one sum with a bias and one factor.
  void follow(const ProductChain& chain, graph::GraphValueId result, int steps) {
    found_.insert(chain);
    const auto readers = readers_.find(result);
    if (readers == readers_.end() || steps == 0) return;
    for (const std::size_t reader : readers->second) {
      const graph::GraphNode& node = graph_.nodes[reader];
      if (is_movement(node.op_type) && node.inputs[0] == result) follow(chain, node.outputs[0], steps - 1);
      if (node.inputs.size() != 2) continue;
      const graph::Initializer* const other = constant(node.inputs[node.inputs[0] == result ? 1 : 0]);
      if (other == nullptr) continue;
      ProductChain next = chain;
      if (node.op_type == "Mul" && add_factor(next, *other)) found_.insert(std::move(next));
      if (node.op_type != "Add" || !chain.bias.empty()) continue;
      next.bias = name_of(*other);
      if (!next.bias.empty()) follow(next, node.outputs[0], steps - 1);
    }
  }

  bool add_factor(ProductChain& chain, const graph::Initializer& factor) const {
    chain.factor = name_of(factor);
    if (!chain.factor.empty()) return true;
    const auto elements = program::Elements::of(factor.data);
    if (!elements || elements->size() != 1) return false;
    chain.number = static_cast<float>(elements->number(0));
    return true;
  }

  const graph::Graph& graph_;
  std::set<ProductChain>& found_;
  std::unordered_map<graph::GraphValueId, std::vector<std::size_t>> readers_;
};

}  // namespace

std::vector<ProductChain> product_chains(const std::vector<ProgramForm>& forms) {
  std::set<ProductChain> found;
  for (const ProgramForm& form : forms) Search(*form.graph, found).run();
  return {found.begin(), found.end()};
}

}  // namespace whence::derivation
