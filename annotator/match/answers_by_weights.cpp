#include "annotator/match/answers_by_weights.h"

#include <algorithm>
#include <set>

#include "annotator/match/folded_norms_by_weights.h"
#include "annotator/match/op_class.h"
#include "annotator/match/weights_held.h"
#include "schema/module_path.h"
#include "schema/parse_number.h"
#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;

namespace {

class ByWeights {
 public:
  ByWeights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence)
      : placement_(placement),
        f_(placement.foreign),
        scopes_(placement.reference.scopes),
        evidence_(evidence),
        held_(f_, placement.reference, tensors),
        norms_(placement, held_),
        misleading_(scopes_.size(), false),
        alternatives_(f_.nodes.size()),
        agreeing_(f_.nodes.size(), false),
        above_(f_.nodes.size()),
        below_(f_.nodes.size()),
        known_(f_.nodes.size(), false),
        children_(scopes_.size()) {
    for (const ScopeIndex scope : scopes_.keys()) {
      if (scopes_[scope].parent.exists()) children_[scopes_[scope].parent].push_back(scope);
    }
  }

  void place() {
    for (const ForeignNode node : f_.order) place_reader(node);
    for (const ForeignNode node : f_.order) settle_alternatives(node);
    for (const ForeignNode node : f_.order) join_folded(node);
    learn_names();
    for (const ForeignNode node : f_.nodes.keys()) known_[node] = placement_.placed(node);
    find_frontiers();
    for (const ForeignNode node : f_.order) raise_fused(node);
    for (const ForeignNode node : f_.order) place_normalization(node);
    for (const ForeignNode node : f_.order) place_between(node);
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) place_constant(*node);
    for (const ForeignNode node : f_.order) weigh_clipping(node);
  }

 private:
  void place_reader(ForeignNode node) {
    std::vector<UnitIndex> sure;
    std::vector<std::vector<UnitIndex>> open;
    MatchRule rule = MatchRule::none;
    bool changed = false;
    for (const ForeignTensor tensor : held_.read_by(node)) {
      const Holding& holding = held_.of(tensor);
      sure.insert(sure.end(), holding.parts.begin(), holding.parts.end());
      if (!holding.alternatives.empty()) open.push_back(holding.alternatives);
      if (holding.parts.empty()) continue;
      rule = rule == MatchRule::none ? holding.rule : std::min(rule, holding.rule);
      changed = changed || holding.rule != MatchRule::digests;
    }
    sort_unique(sure);
    if (!sure.empty()) {
      placement_.place(node, sure, rule == MatchRule::initializers ? Confidence::inferred : Confidence::matched, rule);
      if (shares_table(node)) return place_around(node, root_scope);
      if (is_of_another(node)) return place_around(node, scopes_[placement_.matches[node].scope].parent);
      if (may_be_lent(node)) return place_around(node, placement_.matches[node].scope);
      if (changed) take_in_norm(node);
      return;
    }
    if (open.empty()) return;
    alternatives_[node] = open.front();
    agreeing_[node] = open.size() > 1;
    for (const auto& each : open) {
      std::erase_if(alternatives_[node], [&](UnitIndex unit) { return std::ranges::find(each, unit) == each.end(); });
    }
  }

  // A product with an Embedding's table is of a module that shares it, wherever that is.
  bool shares_table(ForeignNode node) const {
    const auto& entry = f_.nodes[node];
    const bool multiplies = is_product(entry.op_class) && !is_convolution(entry.op_type);
    return (multiplies || entry.op_type == "Transpose") &&
           std::ranges::any_of(held_.read_by(node), [&](ForeignTensor tensor) {
             return held_.is_table(tensor) && held_.is_embedding(held_.of(tensor).parts.front());
           });
  }

  // A bias of which the module has no weight may be that of a module within it, as a head's is that of its decoder,
  // which is tied to it: a checkpoint keeps one of the names.
  bool may_be_lent(ForeignNode node) const {
    const NodeMatch& match = placement_.matches[node];
    if (match.units.size() != 1 || children_[match.scope].empty()) return false;
    return std::ranges::all_of(placement_.reference.parameters_of_unit[match.units.front()], [&](ParameterIndex each) {
      return last_segment(placement_.reference.parameters[each].names.front()) == "bias";
    });
  }

  // A table whose rows were picked while the file was made stands in the sum that took them, and one that a norm is
  // applied to in that norm; a convolution of which only the bias is known may have taken in a norm.
  bool is_of_another(ForeignNode node) const {
    static const std::set<std::string_view> arithmetic = {"Add", "Div", "Mul", "Pow", "ReduceMean", "Sub"};
    const auto tensors = held_.read_by(node);
    if (arithmetic.contains(f_.nodes[node].op_type)) {
      return std::ranges::any_of(tensors, [&](ForeignTensor tensor) { return held_.is_table(tensor); });
    }
    return is_convolution(f_.nodes[node].op_type) && std::ranges::none_of(tensors, [&](ForeignTensor tensor) {
             return f_.tensors[tensor].dims.size() > 2 && !held_.of(tensor).parts.empty();
           });
  }

  // A convolution with other numbers than its module's has taken in the norm behind it, any other product a scale.
  void take_in_norm(ForeignNode node) {
    NodeMatch& match = placement_.matches[node];
    if (!is_convolution(f_.nodes[node].op_type)) {
      const bool scaled = is_product(f_.nodes[node].op_class) && match.units.size() == 1 &&
                          std::ranges::any_of(held_.read_by(node),
                                              [&](ForeignTensor tensor) { return held_.has_other_numbers(tensor); });
      if (scaled) place_around(node, scopes_[match.scope].parent);
      return;
    }
    match.confidence = std::max(match.confidence, Confidence::inferred);  // it may have taken in more
    norms_.look_at(node, match.units.front());
  }

  // A reader of the weights of either is of both.
  void join_folded(ForeignNode node) {
    const NodeMatch& match = placement_.matches[node];
    std::vector<UnitIndex> units = match.units;
    for (const UnitIndex unit : match.units) {
      if (norms_.other(unit).exists()) units.push_back(norms_.other(unit));
    }
    if (units.size() > match.units.size()) placement_.place(node, units, Confidence::inferred, match.rule);
  }

  // A bias whose bytes several modules have is of the one whose product or norm it stands behind, and a scale of the
  // one whose bias is added to it. Other neighbours may be modules of their own. Several parameters together may leave
  // one module.
  void settle_alternatives(ForeignNode node) {
    const std::vector<UnitIndex>& candidates = alternatives_[node];
    if (placement_.placed(node) || candidates.empty()) return;
    std::vector<UnitIndex> beside;
    Confidence weakest = Confidence::matched;
    const auto look_at = [&](const std::vector<ForeignNode>& others) {
      for (const ForeignNode other : others) {
        for (const UnitIndex unit : placement_.matches[other].units) {
          if (std::ranges::find(candidates, unit) == candidates.end()) continue;
          beside.push_back(unit);
          weakest = std::max(weakest, placement_.matches[other].confidence);
        }
      }
    };
    if (f_.nodes[node].op_type == "Add") look_at(placement_.sources(node));
    if (f_.nodes[node].op_type == "Mul") look_at(placement_.readers(node));
    sort_unique(beside);
    if (candidates.size() == 1 && agreeing_[node]) beside = candidates;
    if (beside.size() == 1) placement_.place(node, beside, weakest, MatchRule::digests);
  }

  // The modules of the nearest nodes before and behind each node that are known by what they read.
  void find_frontiers() {
    constexpr std::size_t most = 8;
    const auto see = [&](std::vector<ScopeIndex>& list, ForeignNode other, const auto& beyond) {
      const auto add = [&](ScopeIndex scope) {
        if (list.size() < most && std::ranges::find(list, scope) == list.end()) list.push_back(scope);
      };
      if (known_[other]) return add(placement_.matches[other].scope);
      for (const ScopeIndex scope : beyond[other]) add(scope);
    };
    for (const ForeignNode node : f_.order) {
      for (const ForeignNode source : placement_.sources(node)) see(above_[node], source, above_);
    }
    for (auto node = f_.order.rbegin(); node != f_.order.rend(); ++node) {
      for (const ForeignNode reader : placement_.readers(*node)) see(below_[*node], reader, below_);
    }
  }

  // The innermost module, called once, that holds a call of one of `before` and one of `behind`.
  ScopeIndex around(const std::vector<ScopeIndex>& before, const std::vector<ScopeIndex>& behind) const {
    ScopeIndex best = root_scope;
    for (const ScopeIndex a : before) {
      for (const ScopeIndex b : behind) {
        ScopeIndex common = scopes_.common(a, b);
        while (common != root_scope && (is_container(common) || held_.is_called_often(common)))
          common = scopes_[common].parent;
        if (scopes_[common].depth > scopes_[best].depth) best = common;
      }
    }
    return best;
  }

  // A list of modules is never called, and a Sequential looks the same.
  bool is_container(ScopeIndex scope) const {
    if (held_.has_parameters(scope)) return false;
    return !children_[scope].empty() && std::ranges::all_of(children_[scope], [&](ScopeIndex child) {
      return is_digits(last_segment(scopes_[child].path));
    });
  }

  void place_around(ForeignNode node, ScopeIndex scope) {
    NodeMatch& match = placement_.matches[node];
    match = {.scope = std::max(scope, root_scope), .confidence = Confidence::ancestor, .rule = MatchRule::dataflow};
  }

  // A runtime's fused operator is also of what it took in: a sum before a norm, an activation behind a product.
  void raise_fused(ForeignNode node) {
    if (!known_[node] || !took_in_neighbour(node)) return;
    const std::vector<ScopeIndex> own = {placement_.matches[node].scope};
    place_around(node, sums(node) ? around(above_[node], own) : around(own, below_[node]));
  }
  bool sums(ForeignNode node) const { return f_.nodes[node].op_type.starts_with("Skip"); }
  bool took_in_neighbour(ForeignNode node) const {
    const auto& entry = f_.nodes[node];
    const bool activates = entry.states_activation || entry.op_type.starts_with("Fused") ||
                           entry.op_type.starts_with("Bias") || entry.op_type.ends_with("Gelu");
    return entry.inputs.size() > 1 && origin::is_of_runtime(entry.domain) && (sums(node) || activates);
  }

  // QuantizeLinear clips like an activation, which tools then leave out: of the node before it nothing says whether it
  // stands for one, too.
  void weigh_clipping(ForeignNode node) {
    NodeMatch& match = placement_.matches[node];
    const auto readers = placement_.readers(node);
    const bool clipped = !readers.empty() && std::ranges::all_of(readers, [&](ForeignNode reader) {
      return f_.nodes[reader].op_type == "QuantizeLinear";
    });
    if (!clipped || match.confidence != Confidence::inferred || f_.nodes[node].kind != NodeKind::heavy) return;
    place_around(node, match.units.size() > 1 ? match.scope : scopes_[match.scope].parent);
  }

  // The arithmetic of a norm that is written out, before its scale: nodes that nothing else reads, back to what the
  // mean is taken of.
  void place_normalization(ForeignNode scale) {
    if (!known_[scale] || f_.nodes[scale].op_type != "Mul" || placement_.matches[scale].units.size() != 1) return;
    constexpr std::size_t most = 16;
    std::vector<ForeignNode> found = {scale};
    bool mean = false;
    for (std::size_t i = 0; i < found.size() && found.size() < most; ++i) {
      for (const ForeignNode source : placement_.sources(found[i])) {
        if (known_[source] || !may_normalize(source) || std::ranges::find(found, source) != found.end()) continue;
        found.push_back(source);
        mean = mean || f_.nodes[source].op_type == "ReduceMean" || f_.nodes[source].op_type == "InstanceNormalization";
      }
    }
    for (bool left = true; left;) {
      left = std::erase_if(found, [&](ForeignNode node) {
               return node != scale && std::ranges::any_of(placement_.readers(node), [&](ForeignNode reader) {
                        return std::ranges::find(found, reader) == found.end();
                      });
             }) > 0;
    }
    if (!mean) return;
    drop_operand(found);
    for (const ForeignNode node : found) {
      if (node == scale) continue;
      placement_.place(node, placement_.matches[scale].units, Confidence::inferred, MatchRule::dataflow);
    }
  }

  // Drops what computes the norm's operand, which both its means and its scaling read. `found` begins with the scale. A
  // Cast before the operand is the norm's, and the Reshape around an InstanceNormalization.
  void drop_operand(std::vector<ForeignNode>& found) const {
    const auto takes_mean = [&](ForeignNode node) {
      return f_.nodes[node].op_type == "ReduceMean" || f_.nodes[node].op_type == "InstanceNormalization";
    };
    const auto in_norm = [&](ForeignNode node) { return std::ranges::find(found, node) != found.end(); };
    // The nodes that `from` is computed by; not through means, if `past_means` is false.
    const auto behind = [&](ForeignNode from, bool past_means) {
      std::vector<ForeignNode> seen = {from};
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (!past_means && i > 0 && takes_mean(seen[i])) continue;
        for (const ForeignNode source : placement_.sources(seen[i])) {
          if (in_norm(source) && std::ranges::find(seen, source) == seen.end()) seen.push_back(source);
        }
      }
      return seen;
    };
    std::vector<ForeignNode> operand = behind(found.front(), false);
    for (const ForeignNode node : found) {
      if (!takes_mean(node)) continue;
      const std::vector<ForeignNode> of_mean = behind(node, true);
      std::erase_if(
          operand, [&](ForeignNode each) { return each == node || std::ranges::find(of_mean, each) == of_mean.end(); });
      if (f_.nodes[node].op_type == "InstanceNormalization") operand = without_reshape(of_mean);
    }
    const auto is_operand = [&](ForeignNode node) { return std::ranges::find(operand, node) != operand.end(); };
    std::erase_if(found, [&](ForeignNode node) {
      const auto readers = placement_.readers(node);
      const bool first_cast = f_.nodes[node].op_type == "Cast" && std::ranges::none_of(readers, is_operand);
      return is_operand(node) && !first_cast;
    });
  }

  // Drops the InstanceNormalization, which is the first node, and the Reshape into its groups.
  std::vector<ForeignNode> without_reshape(std::vector<ForeignNode> nodes) const {
    const ForeignNode norm = nodes.front();
    std::erase_if(nodes, [&](ForeignNode node) {
      const auto readers = placement_.readers(node);
      const bool makes_groups =
          f_.nodes[node].op_type == "Reshape" && std::ranges::find(readers, norm) != readers.end();
      return node == norm || makes_groups;
    });
    return nodes;
  }

  bool may_normalize(ForeignNode node) const {
    static const std::set<std::string_view> operators = {
        "Cast", "Div", "InstanceNormalization", "Mul", "Pow", "Reciprocal", "ReduceMean", "Reshape", "Sqrt", "Sub"};
    const auto& entry = f_.nodes[node];
    if (operators.contains(entry.op_type)) return true;
    return entry.op_type == "Add" && std::ranges::any_of(entry.inputs, [&](ForeignValue input) {
             return input.exists() && f_.values[input].constant;
           });
  }

  // The strongest name of a node, the last one of equals.
  const Evidence* stated(ForeignNode node) const {
    const Evidence* best = nullptr;
    for (const Evidence& each : evidence_[node]) {
      if (each.scope.exists() && (best == nullptr || each.strength >= best->strength)) best = &each;
    }
    return best;
  }
  const Evidence* named(ForeignNode node) const {
    const Evidence* name = stated(node);
    return name != nullptr && !misleading_[name->scope] ? name : nullptr;
  }

  // Names mislead where they say another module than the weights: those of another vocabulary, and second names of one
  // module. So do those of the modules around, as far as the two differ.
  void learn_names() {
    for (const ForeignNode node : f_.nodes.keys()) {
      const Evidence* name = placement_.placed(node) ? stated(node) : nullptr;
      if (name == nullptr || f_.nodes[node].kind == NodeKind::constant) continue;
      const ScopeIndex own = placement_.matches[node].scope;
      if (scopes_.within(name->scope, own) || scopes_.within(own, name->scope)) continue;
      if (held_.has_parameters(name->scope)) continue;  // a neighbour's name that a tool kept, of the same vocabulary
      const ScopeIndex common = scopes_.common(own, name->scope);
      for (ScopeIndex at = name->scope; at.exists() && at != common; at = scopes_[at].parent) misleading_[at] = true;
    }
  }

  void place_between(ForeignNode node) {
    const auto& entry = f_.nodes[node];
    if (placement_.placed(node) || entry.kind == NodeKind::constant) return;
    const bool between = !above_[node].empty() && !below_[node].empty();
    const ScopeIndex holds = !between               ? root_scope
                             : entry.computes_sizes ? around_all(node)
                                                    : around(above_[node], below_[node]);
    if (place_by_name(node, holds)) return;
    place_around(node, holds);
    const bool alone = holds != root_scope && children_[holds].empty() && held_.has_parameters(holds);
    if (between && alone) placement_.matches[node].confidence = Confidence::inferred;
  }

  // Exporters merge sizes that several modules compute: all readers count.
  ScopeIndex around_all(ForeignNode node) const {
    ScopeIndex scope;
    for (const ScopeIndex behind : below_[node]) scope = scopes_.together(scope, around(above_[node], {behind}));
    return std::max(scope, root_scope);
  }

  // Returns false where no name says anything.
  bool place_by_name(ForeignNode node, ScopeIndex holds) {
    const Evidence* name = named(node);
    if (name == nullptr) return false;
    // Tools put a Reshape around a product and give it that one's name, or merge it with one that was there; a
    // convolution, or a runtime's operator, keeps the name of one of those that it took in.
    const auto& entry = f_.nodes[node];
    const bool may_be_a_tools = entry.kind == NodeKind::transparent && held_.has_parameters(name->scope);
    const bool took_in = is_convolution(entry.op_type) || took_in_neighbour(node);
    if (!scopes_.within(name->scope, holds) || may_be_a_tools || took_in) {
      const ScopeIndex scope = took_in ? std::max(scopes_[name->scope].parent, root_scope) : name->scope;
      place_around(node, scopes_.common(holds, scope));
      return true;
    }
    const UnitIndex unit = held_.unit_of(name->scope);
    if (unit.exists() && norms_.other(unit).exists()) {
      placement_.place(node, {unit, norms_.other(unit)}, Confidence::inferred, name->rule);
      return true;
    }
    const auto confidence = std::max(name->strength > 1 ? Confidence::inferred : Confidence::ancestor, name->surest);
    placement_.matches[node] = {.scope = name->scope, .confidence = confidence, .rule = name->rule};
    return true;
  }

  // A number or a list of sizes that one operator takes is of that one's module. What is computed from constants may be
  // handed in from any module around, and so may what a table is asked for.
  void place_constant(ForeignNode node) {
    const auto& entry = f_.nodes[node];
    if (placement_.placed(node)) return;
    ScopeIndex scope;
    Confidence weakest = Confidence::exact;
    bool own = entry.op_type == "Constant";
    for (const ForeignNode reader : placement_.readers(node)) {
      const NodeMatch& match = placement_.matches[reader];
      own = own && match.scope.exists() && f_.nodes[reader].op_type != "Gather";
      scope = scopes_.together(scope, match.scope);
      weakest = std::max(weakest, match.confidence);
    }
    if (place_by_name(node, own ? scope : root_scope)) return;
    place_around(node, own ? scope : root_scope);
    const auto readers = placement_.readers(node);
    const bool one = own && std::ranges::all_of(
                                readers, [&](ForeignNode reader) { return placement_.matches[reader].scope == scope; });
    if (one && !readers.empty()) placement_.matches[node].confidence = std::max(weakest, Confidence::inferred);
  }

  Placement& placement_;
  const ForeignStructure& f_;
  const origin::CallTree& scopes_;
  const EvidenceTable& evidence_;
  const WeightsHeld held_;
  FoldedNorms norms_;
  IndexedVector<ScopeIndex, bool> misleading_;  // modules that names say where weights say others
  IndexedVector<ForeignNode, std::vector<UnitIndex>> alternatives_;
  IndexedVector<ForeignNode, bool> agreeing_;  // several tensors have these alternatives in common
  IndexedVector<ForeignNode, std::vector<ScopeIndex>> above_, below_;
  IndexedVector<ForeignNode, bool> known_;  // placed by what it reads
  IndexedVector<ScopeIndex, std::vector<ScopeIndex>> children_;
};

}  // namespace

void place_by_weights(Placement& placement, const TensorSources& tensors, const EvidenceTable& evidence) {
  ByWeights(placement, tensors, evidence).place();
}

}  // namespace whence::match
