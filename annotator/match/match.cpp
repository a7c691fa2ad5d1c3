// The order of matching: the list of rules, growth, placement, and then the decision where structure and names
// disagree.
#include "annotator/match/match.h"

#include <algorithm>
#include <set>

#include "annotator/match/contradicted_names.h"
#include "annotator/match/correspondence.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/growth.h"
#include "annotator/match/model_fit.h"
#include "annotator/match/op_class.h"
#include "annotator/match/placement.h"
#include "annotator/match/rules/rule.h"
#include "annotator/match/tensor_sources.h"
#include "annotator/match/weights_alone.h"
#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/keys/program.h"
#include "schema/sort_unique.h"

namespace whence::match {

using origin::Confidence;
namespace keys = origin::keys;

namespace {

struct ListedRule {
  MatchRule rule;
  MatchRuleFunction find;
};

// Strongest first. They are independent of each other; the order is that of `whence explain`.
constexpr ListedRule rules[] = {
    {MatchRule::carried, carried_keys},          // keys that an exporter or whence put on this very node
    {MatchRule::tokens, carried_tokens},         // tokens that annotate --carry put there before a tool ran
    {MatchRule::kept_values, kept_values},       // values of the file before the tool, if it is given
    {MatchRule::values, equal_values},           // numbers that were recorded, if they are given
    {MatchRule::names, scopes_in_names},         // survive most tools, except those that rename nodes
    {MatchRule::initializers, parameters_read},  // names and content of the weights it reads
    {MatchRule::shapes, weight_surroundings},    // a start if there is no better one
    {MatchRule::fx_names, fx_node_names},        // weak: breaks ties
};

// Returns the strongest evidence of a scope in names or keys; of equally strong ones, the nearest to the structure's
// answer. Null when there is none.
const Evidence* strongest_stated_scope(const std::vector<Evidence>& evidence, const Reference& reference,
                                       const NodeMatch& match) {
  const Evidence* best = nullptr;
  for (const Evidence& each : evidence) {
    if (!each.scope.exists()) continue;
    if (best == nullptr || each.strength > best->strength) best = &each;
    if (each.strength == best->strength && match.scope.exists() &&
        reference.scopes.common(each.scope, match.scope) > reference.scopes.common(best->scope, match.scope)) {
      best = &each;
    }
  }
  return best;
}

// Takes over the answer of the evidence, with at most its confidence.
void adopt(NodeMatch& match, const Evidence& evidence, Confidence confidence) {
  match.units.clear();
  match.shared = false;
  match.scope = evidence.scope;
  match.confidence = std::max(confidence, evidence.surest);
  match.rule = evidence.rule;
}

// Raises the match to the scope around its own, for a node that took in more than its name or parameters say.
void raise_to_parent(NodeMatch& match, const Reference& reference) {
  match.units.clear();
  match.shared = false;
  match.scope = std::max(reference.scopes[match.scope].parent, root_scope);
  match.confidence = Confidence::ancestor;
}

// Returns false for an operator that the module has in no form of the reference: it keeps the name of an operation that
// it took in, or it is another model's.
bool may_be_of(const Reference& reference, ScopeIndex scope, const StructureNode<Side::foreign>& node) {
  if (reference.structure.nodes.empty() || node.kind != NodeKind::heavy) return true;
  if (!node.domain.empty() && !origin::is_of_runtime(node.domain)) return true;  // a user's operator
  if (operators::has(node.op_type, operators::size_arithmetic)) return true;     // each exporter has its own
  const std::vector<std::uint16_t>& classes = reference.classes_of_scope[scope];
  return std::ranges::find(classes, node.op_class) != classes.end();
}

// Certain answers of structure prevail over names; where structure is not certain, names and keys decide.
void weigh_names(Placement& placement, ForeignNode node, const std::vector<Evidence>& evidence) {
  NodeMatch& match = placement.matches[node];
  const Reference& reference = placement.reference;
  constexpr double certain = 4;  // whence's own, exact
  const Evidence* stated = strongest_stated_scope(evidence, reference, match);
  if (stated == nullptr) return;
  if (stated->strength >= certain) {
    const Confidence found = match.scope == stated->scope ? match.confidence : Confidence::unattributed;
    if (match.scope != stated->scope) adopt(match, *stated, Confidence::exact);
    match.confidence = std::min(found, stated->surest);
    match.rule = stated->rule;
    return;
  }
  if (match.confidence <= Confidence::matched || match.rule == MatchRule::carried) return;
  if (!placement.placed(node) && placement.settled(node)) return;
  // As sure as the reference itself is of these units: a name, which came from there too, adds nothing.
  const Confidence ceiling = placement.surest(match.units);
  if (ceiling > Confidence::matched && match.confidence == ceiling) return;
  // A fused node keeps the name of one of those that it replaced.
  const bool one_of_several = !match.shared && match.units.size() > 1 &&
                              std::any_of(match.units.begin(), match.units.end(),
                                          [&](UnitIndex unit) { return reference.units[unit].scope == stated->scope; });
  if (one_of_several) return;
  if (match.scope == stated->scope && match.units.size() < 2 && match.confidence != Confidence::unattributed) {
    match.confidence = std::min(match.confidence, std::max({Confidence::matched, stated->surest, ceiling}));
    return;
  }
  // A name of which more than the operator had to be dropped may mean a child.
  if (stated->strength <= 1 && match.scope.exists() &&
      reference.scopes.common(stated->scope, match.scope) == stated->scope) {
    return;
  }
  // Tools that merge rearrangements keep the name of either; what stands where they stood says more.
  if (match.rule == MatchRule::layout && match.confidence == Confidence::inferred) return;
  const bool fits = may_be_of(reference, stated->scope, placement.foreign.nodes[node]);
  adopt(match, *stated, stated->strength > 1 && fits ? Confidence::matched : Confidence::inferred);
  // A fused node is of the module around all that it replaced.
  if (!fits && origin::is_of_runtime(placement.foreign.nodes[node].domain)) raise_to_parent(match, reference);
}

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

// "initializers: encoder.layer.0.query (val_55); names: encoder (/encoder/MatMul)": the strongest of each rule, and how
// many more answers it has when it is not sure.
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
      const ScopeIndex scope = other.unit.exists() ? reference.units[other.unit].scope : other.scope;
      if (std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) scopes.push_back(scope);
    }
    const ScopeIndex scope = best->unit.exists() ? reference.units[best->unit].scope : best->scope;
    if (!scope.exists()) continue;
    const std::string& path = reference.scopes[scope].path;
    if (!text.empty()) text += "; ";
    text += std::string(name_of(each.rule)) + ": " + (path.empty() ? "the root" : path);
    if (!best->from.empty() && best->rule != MatchRule::carried) text += " (" + std::string(best->from) + ")";
    if (scopes.size() > 1) text += " or " + std::to_string(scopes.size() - 1) + " more";
  }
  return text;
}

// Collects the answers for the file's nodes from those for the structure's.
MatchReport collect(const FileStructure<Side::foreign>& foreign, const Reference& reference, EvidenceTable evidence,
                    const IndexedVector<ForeignNode, NodeMatch>& weighed) {
  MatchReport report;
  report.nodes.resize(foreign.file_nodes.size());
  report.evidence.resize(foreign.file_nodes.size());
  std::vector<bool> seen(foreign.file_nodes.size(), false);
  for (const ForeignNode i : weighed.keys()) {
    if (!foreign.structure.nodes[i].source.exists()) continue;
    const auto source = static_cast<std::size_t>(foreign.structure.nodes[i].source.number());
    join(report.nodes[source], weighed[i], reference, !seen[source]);
    if (!seen[source]) report.evidence[source] = evidence_text(evidence[i], reference);
    report.evidence[source].shrink_to_fit();
    evidence[i] = {};  // the text is as large
    seen[source] = true;
  }
  // A call of a local function belongs to the units and scopes of its body's nodes.
  for (const FileNodeIndex call : foreign.callee_nodes.keys()) {
    bool first = true;
    for (const ForeignNode node : foreign.callee_nodes[call]) {
      join(report.nodes[static_cast<std::size_t>(call.number())], weighed[node], reference, first);
      first = false;
    }
  }
  return report;
}

// Limits the confidence of answers by names alone: tools that fuse keep the name of one of the nodes they replaced.
void speak_softly(Placement& placement, const ForeignStructure& structure, ForeignNode node) {
  NodeMatch& match = placement.matches[node];
  if (match.confidence == Confidence::matched) match.confidence = Confidence::inferred;
  const bool fused = structure.nodes[node].domain == "com.microsoft";
  if (fused && match.confidence == Confidence::inferred) raise_to_parent(match, placement.reference);
}

// Returns the first scope that evidence of a kind says; none if there is none.
ScopeIndex scope_said(const std::vector<Evidence>& evidence, const auto& is_of_kind) {
  const auto found = std::ranges::find_if(
      evidence, [&](const Evidence& each) { return each.scope.exists() && is_of_kind(each.rule); });
  return found == evidence.end() ? ScopeIndex() : found->scope;
}

// Exporters fold a BatchNorm into the convolution before it and name the result after either. The sign of it is a bias
// that is not the module's own, or any bias where nothing but parameters names the module; which module was folded in
// the file does not say, so the enclosing one has to do. PyTorch's exporter gives a folded convolution the keys of the
// norm, and its weight the name of the convolution: then the module around both is known, and nothing was folded where
// both are of one module.
void leave_folded_to_parent(Placement& placement, const ForeignStructure& structure, ForeignNode node,
                            const std::vector<Evidence>& evidence) {
  const auto& entry = structure.nodes[node];
  constexpr std::size_t bias = 2;
  const bool convolves = entry.op_type == "Conv" || entry.op_type == "ConvTranspose";
  NodeMatch& match = placement.matches[node];
  if (!convolves || !placement.placed(node) || match.confidence == Confidence::exact) return;
  const ScopeIndex weights = scope_said(evidence, is_of_parameter);
  const ScopeIndex keys = scope_said(evidence, [](MatchRule rule) { return rule == MatchRule::carried; });
  if (weights.exists() && keys.exists() && weights != keys) {
    match.scope = placement.reference.scopes.common(weights, keys);
    match.units.clear();
    match.confidence = Confidence::ancestor;
    return;
  }
  if (entry.inputs.size() <= bias || !entry.inputs[bias].exists()) return;
  if (weights.exists() && weights == keys) return;
  const std::string& path = placement.reference.scopes[match.scope].path;
  const bool named = match.rule != MatchRule::initializers;
  if (path.empty() || (named && structure.values[entry.inputs[bias]].name == path + ".bias")) return;
  raise_to_parent(match, placement.reference);
}

// A convolution of integers has no bias to show that it took in a norm; the name of its weight does, which is no longer
// that of a parameter. All nodes that are named after it stand for both: they scale its operands and its result.
void leave_folded_integers_to_parent(Placement& placement, const ForeignStructure& structure) {
  std::set<ScopeIndex> folded;
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    const std::size_t weight = node.op_type == "ConvInteger" ? 1 : node.op_type == "QLinearConv" ? 3 : 0;
    const NodeMatch& match = placement.matches[i];
    if (weight == 0 || weight >= node.inputs.size() || !node.inputs[weight].exists()) continue;
    if (match.rule != MatchRule::names || !match.scope.exists()) continue;
    const std::string own = placement.reference.scopes[match.scope].path + ".weight";
    if (!structure.values[node.inputs[weight]].name.starts_with(own)) folded.insert(match.scope);
  }
  for (NodeMatch& match : placement.matches) {
    if (match.rule == MatchRule::names && folded.contains(match.scope)) raise_to_parent(match, placement.reference);
  }
}

// Matches without a structure to compare with, by names and keys, and by what lies between nodes of one module.
MatchReport match_by_names(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                           const ScopeReader& reader, EvidenceTable evidence) {
  const ForeignStructure& structure = foreign.structure;
  const Correspondence none(structure, reference);
  Placement placement{structure, reference, none, IndexedVector<ForeignNode, NodeMatch>(structure.nodes.size())};
  const auto settled = settle_contradicted_names(reference, reader, evidence);
  for (const ForeignNode i : evidence.keys()) {
    // A parameter's reader is of the module that the parameter's name begins with.
    for (Evidence& each : evidence[i]) {
      if (each.unit.exists()) each.scope = reference.units[each.unit].scope;
    }
    weigh_names(placement, i, evidence[i]);
    NodeMatch& match = placement.matches[i];
    if (settled[i].scope.exists() && (match.rule == MatchRule::names || match.rule == MatchRule::initializers)) {
      match.scope = settled[i].scope;
      match.confidence = std::max(match.confidence, settled[i].surest);
    }
    leave_folded_to_parent(placement, structure, i, evidence[i]);
    speak_softly(placement, structure, i);
  }
  leave_folded_integers_to_parent(placement, structure);
  place_inserted(placement, /*quantizers_only=*/true);
  for (NodeMatch& match : placement.matches) {
    if (match.rule == MatchRule::inserted) match.confidence = std::max(match.confidence, Confidence::inferred);
  }
  place_between(placement);
  return collect(foreign, reference, std::move(evidence), placement.matches);
}

// Matches with a checkpoint, which has no structure either.
MatchReport match_by_weights(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                             const TensorSources& tensors, EvidenceTable evidence) {
  const Correspondence none(foreign.structure, reference);
  Placement placement{foreign.structure, reference, none,
                      IndexedVector<ForeignNode, NodeMatch>(foreign.structure.nodes.size())};
  place_by_weights(placement, tensors, evidence);
  MatchReport report = collect(foreign, reference, std::move(evidence), placement.matches);
  report.fit.parameters = tensors.counts();
  report.fit.weights = tensors.weights();
  return report;
}

// A bias is added behind its product, which it tells from others of the same sizes when the product's own weights were
// changed: copies what is known of the parameter that it is to the product.
void let_biases_speak(const ForeignStructure& structure, EvidenceTable& evidence) {
  for (const ForeignNode i : structure.nodes.keys()) {
    const auto& node = structure.nodes[i];
    if (node.kind != NodeKind::transparent || node.op_type != "Add" || node.outputs.empty()) continue;
    for (const ForeignNode product : structure.makers(structure.loose(node.outputs[0]))) {
      if (!is_product(structure.nodes[product].op_class)) continue;
      for (const Evidence& each : evidence[i]) {
        if (is_of_parameter(each.rule)) evidence[product].push_back(each);
      }
    }
  }
}

// A bias whose parameter is clearly another module's than the place in the reference says is that one's: the file may
// have the operands of what follows exchanged.
void heed_biases(Placement& placement, const EvidenceTable& evidence) {
  constexpr double clear = 1.8;
  const auto& [f, reference, pairs, matches] = placement;
  for (const ForeignNode i : f.nodes.keys()) {
    const NodeMatch& match = matches[i];
    if (f.nodes[i].op_type != "Add" || match.rule != MatchRule::layout || !match.scope.exists()) continue;
    for (const Evidence& each : evidence[i]) {
      if (!is_of_parameter(each.rule) || !each.unit.exists() || each.strength < clear) continue;
      if (reference.scopes.within(reference.units[each.unit].scope, match.scope)) break;
      placement.place(i, {each.unit}, Confidence::matched, each.rule);
      break;
    }
  }
}

EvidenceTable find_evidence(const onnx_file::OnnxSummary& model, const FileStructure<Side::foreign>& foreign,
                            const Reference& reference, const TensorSources& tensors, const ScopeReader& scopes,
                            const SameNames& same_names, const std::vector<KnownValue>& values,
                            const std::vector<bool>& stale) {
  EvidenceTable evidence(foreign.structure.nodes.size());
  const ReferenceNames names(reference);
  for (const ListedRule& rule : rules) {
    // It takes the most memory, and it and those behind it say little.
    if (rule.rule == MatchRule::shapes) std::ranges::for_each(evidence, &std::vector<Evidence>::shrink_to_fit);
    rule.find({model, foreign, reference, names, same_names, tensors, scopes, values, stale}, evidence);
  }
  if (!reference.structure.nodes.empty()) let_biases_speak(foreign.structure, evidence);
  return evidence;
}

struct Findings {
  const TensorSources& tensors;
  const std::vector<KnownValue>& values;
  const SameNames& same_names;
  const EvidenceTable& evidence;
  bool stamped = false;  // stamps of the file are the reference's
};

// Decides by the structure of both sides, whose correspondence takes much memory and is not kept.
ModelFit match_by_structure(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                            const Findings& found, IndexedVector<ForeignNode, NodeMatch>& matches) {
  const ForeignStructure& structure = foreign.structure;
  const Correspondence pairs =
      grow_correspondence(structure, reference, found.evidence, found.values, found.same_names);
  Placement placement{structure, reference, pairs, IndexedVector<ForeignNode, NodeMatch>(structure.nodes.size())};
  if (found.stamped) place_stamped(placement, foreign);
  place_corresponding(placement);
  place_stretches(placement);
  place_kept(placement, found.same_names);
  place_layout(placement);
  heed_biases(placement, found.evidence);
  place_inserted(placement);
  place_leftovers(placement);
  place_constants(placement, found.evidence);
  // Names are weighed before the remaining nodes follow their neighbours, which may be known better by their names.
  // Constants come later: their readers are better evidence than a name that a tool derived from a fused node's.
  const auto weigh = [&](bool constants) {
    for (const ForeignNode i : structure.nodes.keys()) {
      if (constants == (structure.nodes[i].kind == NodeKind::constant)) weigh_names(placement, i, found.evidence[i]);
    }
  };
  weigh(false);
  place_by_dataflow(placement);
  weigh(true);
  join_twins(placement);
  lower_contradicted(placement, found.evidence);
  raise_ancestors(placement);
  place_fx_named(placement, found.evidence);
  const ModelFit fit = model_fit(placement, found.tensors);
  matches = std::move(placement.matches);
  return fit;
}

}  // namespace

MatchReport match_model(const onnx_file::OnnxSummary& model, const Reference& reference, std::vector<bool> stale) {
  const FileStructure foreign = make_structure<Side::foreign>(model);
  const ForeignStructure& structure = foreign.structure;
  const SameNames same_names = reference.values_keep_names ? SameNames(structure, reference) : SameNames();
  const TensorSources tensors(model, foreign, reference);
  const ScopeReader scopes(model);
  const std::vector<KnownValue> values = known_values(structure, reference);
  EvidenceTable evidence = find_evidence(model, foreign, reference, tensors, scopes, same_names, values, stale);

  if (reference.of_weights) return match_by_weights(foreign, reference, tensors, std::move(evidence));
  if (reference.structure.nodes.empty()) return match_by_names(foreign, reference, scopes, std::move(evidence));
  const bool stamped =
      reference.program && onnx_file::find_property(model.metadata, keys::program) == reference.program;
  IndexedVector<ForeignNode, NodeMatch> matches;
  const ModelFit fit =
      match_by_structure(foreign, reference, {tensors, values, same_names, evidence, stamped}, matches);
  MatchReport report = collect(foreign, reference, std::move(evidence), matches);
  report.fit = fit;
  report.stale = std::move(stale);
  return report;
}

}  // namespace whence::match
