#include "annotator/match/match_report.h"

#include <algorithm>

#include "schema/sort_unique.h"

namespace whence::match {
namespace {

// Joins the matches of a node in several calls of one local function: it belongs to all of them.
void join(NodeMatch& into, const NodeMatch& other, const Reference& reference, bool first) {
  if (first) {
    into = other;
    return;
  }
  if (!other.scope.exists()) return;
  if (!into.scope.exists()) {
    into = other;
    return;
  }
  into.scope = reference.scopes.common(into.scope, other.scope);
  into.units.insert(into.units.end(), other.units.begin(), other.units.end());
  sort_unique(into.units);
  into.confidence = std::max(into.confidence, other.confidence);
}

ScopeIndex scope_of(const Evidence& evidence, const Reference& reference) {
  return evidence.unit.exists() ? reference.units[evidence.unit].scope : evidence.scope;
}

// Returns the strongest evidence of each rule, and how many other answers the rule has:
// "initializers: encoder.layer.0.query (val_55); names: encoder (/encoder/MatMul)".
std::string evidence_text(const std::vector<Evidence>& evidence, const Reference& reference) {
  std::string text;
  std::vector<MatchRule> listed_rules;
  for (const Evidence& each : evidence) {
    if (std::find(listed_rules.begin(), listed_rules.end(), each.rule) != listed_rules.end()) continue;
    listed_rules.push_back(each.rule);
    const Evidence* best = &each;
    std::vector<ScopeIndex> scopes;
    for (const Evidence& other : evidence) {
      if (other.rule != each.rule) continue;
      if (other.strength > best->strength) best = &other;
      const ScopeIndex scope = scope_of(other, reference);
      if (std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) scopes.push_back(scope);
    }
    const ScopeIndex scope = scope_of(*best, reference);
    if (!scope.exists()) continue;
    const std::string& path = reference.scopes[scope].path;
    if (!text.empty()) text += "; ";
    text += std::string(name_of(each.rule)) + ": " + (path.empty() ? "the root" : path);
    if (!best->from.empty() && best->rule != MatchRule::carried) text += " (" + std::string(best->from) + ")";
    if (scopes.size() > 1) text += " or " + std::to_string(scopes.size() - 1) + " more";
  }
  return text;
}

}  // namespace

MatchReport make_report(const FileStructure<Side::foreign>& foreign, const Reference& reference, EvidenceTable evidence,
                        const IndexedVector<ForeignNode, NodeMatch>& matches) {
  MatchReport report;
  report.nodes.resize(foreign.file_nodes.size());
  report.evidence.resize(foreign.file_nodes.size());
  std::vector<bool> seen(foreign.file_nodes.size(), false);
  for (const ForeignNode i : matches.keys()) {
    if (!foreign.structure.nodes[i].source.exists()) continue;
    const auto source = static_cast<std::size_t>(foreign.structure.nodes[i].source.number());
    join(report.nodes[source], matches[i], reference, !seen[source]);
    if (!seen[source]) report.evidence[source] = evidence_text(evidence[i], reference);
    report.evidence[source].shrink_to_fit();
    evidence[i] = {};
    seen[source] = true;
  }
  // A call of a local function belongs to the units and scopes of its body's nodes.
  for (const FileNodeIndex call : foreign.callee_nodes.keys()) {
    bool first = true;
    for (const ForeignNode node : foreign.callee_nodes[call]) {
      join(report.nodes[static_cast<std::size_t>(call.number())], matches[node], reference, first);
      first = false;
    }
  }
  return report;
}

}  // namespace whence::match
