// The order of matching: the one list of rules, then growth, placement, and the last word between what structure and
// what names say.
#include "annotator/match/match.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "annotator/match/correspondence.h"
#include "annotator/match/foreign_structure.h"
#include "annotator/match/placement.h"
#include "annotator/match/rules/rule.h"
#include "annotator/match/tensor_sources.h"

namespace whence {
namespace {

struct ListedRule {
  MatchRule rule;
  MatchRuleFunction find;
};

// Strongest first. They are independent of each other; the order is that of `whence explain`.
constexpr ListedRule rules[] = {
    {MatchRule::carried, carried_keys},       // what an exporter or whence said of this very node
    {MatchRule::names, scopes_in_names},      // survives most tools, but for renaming
    {MatchRule::initializers, parameters_read},  // names and bytes of the weights it reads
    {MatchRule::fx_names, fx_node_names},     // weak: breaks ties
};

// The scope that names or keys give a node, when they give one: that nearest to what the structure says.
const Evidence* said_scope(const std::vector<Evidence>& evidence, const Reference& reference, const NodeMatch& match) {
  const Evidence* best = nullptr;
  for (const Evidence& each : evidence) {
    if (each.scope < 0) continue;
    if (best == nullptr || each.strength > best->strength) best = &each;
    if (each.strength == best->strength && match.scope >= 0 &&
        reference.common_scope(each.scope, match.scope) > reference.common_scope(best->scope, match.scope)) {
      best = &each;
    }
  }
  return best;
}

void say(NodeMatch& match, const Evidence& evidence, MatchConfidence confidence) {
  match.units.clear();
  match.shared = false;
  match.scope = evidence.scope;
  match.confidence = confidence;
  match.rule = evidence.rule;
}

// Structure that is sure of itself stands, also against names; where it is not, names and keys decide.
void weigh_names(NodeMatch& match, const std::vector<Evidence>& evidence, const Reference& reference) {
  constexpr double certain = 4;  // whence's own, exact
  const Evidence* said = said_scope(evidence, reference, match);
  if (said == nullptr) return;
  if (said->strength >= certain) {
    if (match.scope != said->scope) say(match, *said, MatchConfidence::exact);
    match.confidence = MatchConfidence::exact;
    match.rule = said->rule;
    return;
  }
  if (match.confidence == MatchConfidence::matched) return;
  // A fused node keeps the name of one of those that it replaced.
  const bool one_of_several = !match.shared && match.units.size() > 1 &&
                              std::any_of(match.units.begin(), match.units.end(), [&](std::int32_t unit) {
                                return reference.units[unit].scope == said->scope;
                              });
  if (one_of_several) return;
  if (match.scope == said->scope && match.units.size() < 2 && match.confidence != MatchConfidence::unattributed) {
    match.confidence = MatchConfidence::matched;
    return;
  }
  say(match, *said, said->strength > 1 ? MatchConfidence::matched : MatchConfidence::inferred);
}

// Several calls of one local function: its nodes belong to all of them.
void join(NodeMatch& into, const NodeMatch& other, const Reference& reference, bool first) {
  if (first) {
    into = other;
    return;
  }
  if (other.scope < 0) return;
  if (into.scope < 0) {
    into = other;
    return;
  }
  into.scope = reference.common_scope(into.scope, other.scope);
  into.units.insert(into.units.end(), other.units.begin(), other.units.end());
  std::sort(into.units.begin(), into.units.end());
  into.units.erase(std::unique(into.units.begin(), into.units.end()), into.units.end());
  into.confidence = std::max(into.confidence, other.confidence);
}

}  // namespace

std::string_view name_of(MatchRule rule) {
  constexpr std::string_view names[] = {"none",    "carried", "names",     "fx_names", "initializers", "digests",
                                        "shapes",  "structure", "cone", "layout",   "dataflow"};
  return names[static_cast<std::size_t>(rule)];
}

MatchReport match_model(const OnnxSummary& model, const Reference& reference) {
  const ForeignStructure foreign = make_structure(model);
  const Structure& structure = foreign.structure;
  const TensorSources tensors(model, structure, reference);
  const ReferenceNames names(reference);
  EvidenceTable evidence(structure.nodes.size());
  const RuleContext context{model, foreign, reference, names, tensors};
  for (const ListedRule& rule : rules) rule.find(context, evidence);

  Correspondence pairs(structure, reference, evidence);
  pairs.grow();

  if (getenv("DBG")) {  // DEBUG
    const Structure& r = reference.structure;
    fprintf(stderr, "ref nodes %zu owners %zu\n", r.nodes.size(), reference.owners.size());
    auto dump = [&](const Structure& s, int n, bool ref) {
      const auto& node = s.nodes[n];
      fprintf(stderr, "%s k%d [", std::string(node.op_type).c_str(), (int)node.kind);
      for (int v : node.inputs) fprintf(stderr, " %d", v);
      fprintf(stderr, " ->");
      for (int v : node.outputs) fprintf(stderr, " %d(%d)", v, s.loose(v));
      fprintf(stderr, "] %s", std::string(node.name).c_str());
      if (ref) for (int u : reference.units_of_node[n]) fprintf(stderr, " u%d:%s@%s", u, reference.units[u].name.c_str(), reference.scopes[reference.units[u].scope].path.c_str());
    };
    for (int n : structure.order) {
      fprintf(stderr, "F%d ", n); dump(structure, n, false);
      for (int o : structure.nodes[n].outputs) if (o >= 0) fprintf(stderr, " '%s' v=%d", std::string(structure.values[o].name).c_str(), pairs.value(structure.loose(o)));
      if (pairs.node(n) >= 0) { fprintf(stderr, "\n    == R%d ", pairs.node(n)); dump(r, pairs.node(n), true); if (!pairs.certain(n)) fprintf(stderr, " TIE"); }
      fprintf(stderr, "\n");
    }
    for (int n : r.order) { fprintf(stderr, "R%d ", n); dump(r, n, true); fprintf(stderr, "\n"); }
  }
  Placement placement{structure, reference, pairs, std::vector<NodeMatch>(structure.nodes.size())};
  place_corresponding(placement);
  place_stretches(placement);
  place_layout(placement);
  place_constants(placement, evidence);
  place_by_dataflow(placement);

  MatchReport report;
  report.nodes.resize(foreign.file_nodes.size());
  report.evidence.resize(foreign.file_nodes.size());
  std::vector<bool> seen(foreign.file_nodes.size(), false);
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const std::int32_t source = structure.nodes[i].source;
    if (structure.nodes[i].kind == NodeKind::heavy) {
      ++report.fit.nodes;
      report.fit.corresponding += pairs.node(static_cast<std::int32_t>(i)) >= 0;
    }
    if (source < 0) continue;
    NodeMatch match = placement.matches[i];
    weigh_names(match, evidence[i], reference);
    join(report.nodes[source], match, reference, !seen[source]);
    if (!seen[source]) report.evidence[source] = evidence[i];
    seen[source] = true;
  }
  // A call of a local function is what its body is.
  for (std::size_t i = 0; i < foreign.callee_nodes.size(); ++i) {
    bool first = true;
    for (const std::int32_t node : foreign.callee_nodes[i]) {
      NodeMatch match = placement.matches[node];
      weigh_names(match, evidence[node], reference);
      join(report.nodes[i], match, reference, first);
      first = false;
    }
  }
  report.fit.parameters = tensors.parameters;
  report.fit.by_name = tensors.by_name;
  report.fit.by_bytes = tensors.by_bytes;
  report.fit.by_shape = tensors.by_shape;
  return report;
}

}  // namespace whence
