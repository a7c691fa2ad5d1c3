#include "annotator/match/weight_readers.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "annotator/match/op_class.h"
#include "schema/module_path.h"
#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;

WeightReaders::WeightReaders(Placement& placement, const TensorOwners& owners, FoldedNorms& norms)
    : placement_(placement),
      f_(placement.foreign),
      scopes_(placement.reference.scopes),
      owners_(owners),
      norms_(norms),
      alternatives_(f_.nodes.size()),
      agreeing_(f_.nodes.size(), false) {}

void WeightReaders::place() {
  for (const ForeignNode node : f_.order) place_reader(node);
  for (const ForeignNode node : f_.order) settle_alternatives(node);
  for (const ForeignNode node : f_.order) join_folded(node);
}

void WeightReaders::place_reader(ForeignNode node) {
  std::vector<UnitIndex> units;
  std::vector<std::vector<UnitIndex>> alternatives;
  MatchRule rule = MatchRule::none;
  bool has_changed_weights = false;
  for (const ForeignTensor tensor : owners_.read_by(node)) {
    const TensorOwner& owner = owners_.of(tensor);
    units.insert(units.end(), owner.parts.begin(), owner.parts.end());
    if (!owner.alternatives.empty()) alternatives.push_back(owner.alternatives);
    if (owner.parts.empty()) continue;
    rule = rule == MatchRule::none ? owner.rule : std::min(rule, owner.rule);
    has_changed_weights = has_changed_weights || owner.rule != MatchRule::digests;
  }
  sort_unique(units);
  if (!units.empty()) {
    place_known(node, std::move(units), rule, has_changed_weights);
  } else if (!alternatives.empty()) {
    keep_common_alternatives(node, alternatives);
  }
}

void WeightReaders::place_known(ForeignNode node, std::vector<UnitIndex> units, MatchRule rule,
                                bool has_changed_weights) {
  const auto confidence = rule == MatchRule::initializers ? Confidence::inferred : Confidence::matched;
  placement_.place(node, std::move(units), confidence, rule);
  const ScopeIndex scope = placement_.matches[node].scope;
  if (shares_table(node)) {
    placement_.place_inside(node, root_scope);
  } else if (is_of_another(node)) {
    placement_.place_inside(node, scopes_[scope].parent);
  } else if (may_be_shared_bias(node)) {
    placement_.place_inside(node, scope);
  } else if (has_changed_weights) {
    look_for_folded(node);
  }
}

void WeightReaders::keep_common_alternatives(ForeignNode node,
                                             const std::vector<std::vector<UnitIndex>>& alternatives) {
  alternatives_[node] = alternatives.front();
  agreeing_[node] = alternatives.size() > 1;
  for (const auto& each : alternatives) {
    std::erase_if(alternatives_[node], [&](UnitIndex unit) { return std::ranges::find(each, unit) == each.end(); });
  }
}

// Returns true for a product with an Embedding's table: it belongs to a module that shares the table, wherever that is.
bool WeightReaders::shares_table(ForeignNode node) const {
  const auto& entry = f_.nodes[node];
  const bool multiplies = is_product(entry.op_class) && !is_convolution(entry.op_type);
  return (multiplies || entry.op_type == "Transpose") &&
         std::ranges::any_of(owners_.read_by(node), [&](ForeignTensor tensor) {
           return owners_.is_table(tensor) && owners_.is_embedding(owners_.of(tensor).parts.front());
         });
}

// Returns true for arithmetic that reads a table: a sum after a tool gathered the table's rows, or a norm applied to
// them. Also for a convolution with only a known bias, which may have absorbed a norm.
bool WeightReaders::is_of_another(ForeignNode node) const {
  static const std::set<std::string_view> arithmetic = {"Add", "Div", "Mul", "Pow", "ReduceMean", "Sub"};
  const auto tensors = owners_.read_by(node);
  if (arithmetic.contains(f_.nodes[node].op_type)) {
    return std::ranges::any_of(tensors, [&](ForeignTensor tensor) { return owners_.is_table(tensor); });
  }
  return is_convolution(f_.nodes[node].op_type) && std::ranges::none_of(tensors, [&](ForeignTensor tensor) {
           return f_.tensors[tensor].dims.size() > 2 && !owners_.of(tensor).parts.empty();
         });
}

// Returns true for a bias of a module that has modules inside and no weight. It may be that of a module inside: a
// head's bias is tied to that of its decoder, and a checkpoint keeps one of the names.
bool WeightReaders::may_be_shared_bias(ForeignNode node) const {
  const NodeMatch& match = placement_.matches[node];
  if (match.units.size() != 1 || !owners_.has_modules_inside(match.scope)) return false;
  return std::ranges::all_of(placement_.reference.parameters_of_unit[match.units.front()], [&](ParameterIndex each) {
    return last_segment(placement_.reference.parameters[each].names.front()) == "bias";
  });
}

// A convolution whose weights differ from its module's has absorbed the norm after it; any other such product, a scale.
void WeightReaders::look_for_folded(ForeignNode node) {
  NodeMatch& match = placement_.matches[node];
  if (is_convolution(f_.nodes[node].op_type)) {
    match.confidence = std::max(match.confidence, Confidence::inferred);  // it may have absorbed more
    norms_.find_norm(node, match.units.front());
    return;
  }
  const bool is_scaled = is_product(f_.nodes[node].op_class) && match.units.size() == 1 &&
                         std::ranges::any_of(owners_.read_by(node), [&](ForeignTensor tensor) {
                           return owners_.has_changed_elements(tensor);
                         });
  if (is_scaled) placement_.place_inside(node, scopes_[match.scope].parent);
}

// Places a node by neighbours if several modules have the bytes of its parameter: a bias in the module of the product
// or norm before it, a scale in the module of the bias after it. Other neighbours may belong to other modules. Several
// parameters together may leave one module.
void WeightReaders::settle_alternatives(ForeignNode node) {
  const std::vector<UnitIndex>& candidates = alternatives_[node];
  if (placement_.placed(node) || candidates.empty()) return;
  std::vector<UnitIndex> units;
  Confidence weakest = Confidence::matched;
  const auto look_at = [&](const std::vector<ForeignNode>& neighbours) {
    for (const ForeignNode neighbour : neighbours) {
      for (const UnitIndex unit : placement_.matches[neighbour].units) {
        if (std::ranges::find(candidates, unit) == candidates.end()) continue;
        units.push_back(unit);
        weakest = std::max(weakest, placement_.matches[neighbour].confidence);
      }
    }
  };
  if (f_.nodes[node].op_type == "Add") look_at(placement_.sources(node));
  if (f_.nodes[node].op_type == "Mul") look_at(placement_.readers(node));
  sort_unique(units);
  if (candidates.size() == 1 && agreeing_[node]) units = candidates;
  if (units.size() == 1) placement_.place(node, units, weakest, MatchRule::digests);
}

// Adds the norm to a reader of the weights of the convolution that absorbed it, and the convolution to a reader of the
// norm's weights.
void WeightReaders::join_folded(ForeignNode node) {
  const NodeMatch& match = placement_.matches[node];
  std::vector<UnitIndex> units = match.units;
  for (const UnitIndex unit : match.units) {
    if (norms_.partner(unit).exists()) units.push_back(norms_.partner(unit));
  }
  if (units.size() > match.units.size()) placement_.place(node, units, Confidence::inferred, match.rule);
}

}  // namespace whence::match
