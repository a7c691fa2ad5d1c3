// Places nodes with confidence `ancestor` by the names that torch.export gave: `node_cos_1` is the program's second
// cos. The names number operations, so they are evidence only if both sides number the same operations: the program has
// every such name of the file, no name contradicts a node that is known otherwise, and either one name agrees with such
// a node or the file has all names.
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>

#include "annotator/match/placement.h"
#include "annotator/match/scope_in_name.h"

namespace whence::match {

using origin::Confidence;

namespace {

constexpr std::string_view node_prefix = "node_";

// Returns "cos" for "cos_1".
std::string_view stem_of(std::string_view name) { return name.substr(0, name.size() - number_ending(name).size()); }

struct Numbering {
  std::int64_t recorded = 0;
  std::set<UnitIndex> met;
  bool agrees = false, disagrees = false;

  bool is_known() const { return !disagrees && (agrees || static_cast<std::int64_t>(met.size()) == recorded); }
};

class FxNamed {
 public:
  FxNamed(Placement& placement, const EvidenceTable& evidence) : placement_(placement), evidence_(evidence) {
    for (const ReferenceUnit& unit : placement.reference.units) ++numberings_[std::string(stem_of(unit.name))].recorded;
    for (const ForeignNode node : placement.foreign.nodes.keys()) {
      if (const UnitIndex unit = named(node); unit.exists()) {
        compare(node, unit);
      } else {
        note_unknown(placement.foreign.nodes[node]);
      }
    }
  }

  void place() {
    for (const ForeignNode node : placement_.foreign.nodes.keys()) {
      const NodeMatch& match = placement_.matches[node];
      if (match.confidence < Confidence::ancestor) continue;
      if (match.rule == MatchRule::carried || match.rule == MatchRule::inserted) continue;
      const UnitIndex unit = named(node);
      if (!unit.exists() || !numbering_of(unit).is_known()) continue;
      if (operators_.empty()) find_operators();
      if (!may_be(node, unit)) continue;
      placement_.place(node, {unit}, Confidence::inferred, MatchRule::fx_names);
    }
  }

 private:
  UnitIndex named(ForeignNode node) const {
    const auto found = std::ranges::find(evidence_[node], MatchRule::fx_names, &Evidence::rule);
    return found == evidence_[node].end() ? UnitIndex() : found->unit;
  }

  Numbering& numbering_of(UnitIndex unit) {
    return numberings_[std::string(stem_of(placement_.reference.units[unit].name))];
  }

  void find_operators() {
    const Reference& reference = placement_.reference;
    for (const ReferenceNode i : reference.structure.nodes.keys()) {
      for (const UnitIndex unit : reference.units_of_node[i]) {
        operators_.emplace(unit, reference.structure.nodes[i].op_type);
      }
    }
  }

  // Notes that the file numbers other operations if a node's name is not one of the program's.
  void note_unknown(const StructureNode<Side::foreign>& node) {
    const auto note = [&](std::string_view name) {
      const auto found = numberings_.find(std::string(stem_of(name)));
      if (found != numberings_.end()) found->second.disagrees = true;
    };
    if (node.name.starts_with(node_prefix)) return note(node.name.substr(node_prefix.size()));
    for (const ForeignValue output : node.outputs) {
      if (output.exists()) note(placement_.foreign.values[output].name);
    }
  }

  void compare(ForeignNode node, UnitIndex unit) {
    Numbering& numbering = numbering_of(unit);
    numbering.met.insert(unit);
    const NodeMatch& match = placement_.matches[node];
    if (match.confidence > Confidence::matched || match.units.empty()) return;
    const bool same = std::ranges::find(match.units, unit) != match.units.end();
    numbering.agrees = numbering.agrees || same;
    numbering.disagrees = numbering.disagrees || !same;
  }

  // Returns true if the node may represent the unit. Tools move a name to another value, so the unit has to use the
  // operator of the node in some form. It has to be inside the known module, and the weights of the node must not
  // belong to another module.
  bool may_be(ForeignNode node, UnitIndex unit) const {
    const Reference& reference = placement_.reference;
    const ScopeIndex scope = reference.units[unit].scope, enclosing = placement_.matches[node].scope;
    if (!scope.exists() || (enclosing.exists() && !reference.scopes.within(scope, enclosing))) return false;
    if (std::ranges::any_of(evidence_[node], [&](const Evidence& each) {
          return is_of_parameter(each.rule) && each.unit.exists() && reference.units[each.unit].scope != scope;
        })) {
      return false;
    }
    return operators_.contains({unit, placement_.foreign.nodes[node].op_type});
  }

  Placement& placement_;
  const EvidenceTable& evidence_;
  std::unordered_map<std::string, Numbering> numberings_;
  std::set<std::pair<UnitIndex, std::string_view>> operators_;  // operators that the units use
};

}  // namespace

void place_fx_named(Placement& placement, const EvidenceTable& evidence) {
  if (placement.reference.program) FxNamed(placement, evidence).place();
}

}  // namespace whence::match
