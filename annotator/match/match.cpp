// The order of matching: the list of rules, growth, placement, and the decision if structure and names disagree.
#include "annotator/match/match.h"

#include <algorithm>

#include "annotator/match/answers_by_names.h"
#include "annotator/match/answers_by_weights.h"
#include "annotator/match/bias_owners.h"
#include "annotator/match/correspondence.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/growth.h"
#include "annotator/match/match_report.h"
#include "annotator/match/model_fit.h"
#include "annotator/match/placement.h"
#include "annotator/match/rules/rule.h"
#include "annotator/match/tensor_sources.h"
#include "annotator/match/weigh_names.h"
#include "annotator/origin/keys/program.h"

namespace whence::match {

namespace keys = origin::keys;

namespace {

struct ListedRule {
  MatchRule rule;
  MatchRuleFunction find;
};

// Strongest first. The rules are independent of each other; `whence explain` lists them in this order.
constexpr ListedRule rules[] = {
    {MatchRule::carried, carried_keys},          // keys that an exporter or whence put on this very node
    {MatchRule::tokens, carried_tokens},         // tokens that annotate --carry wrote before a tool ran
    {MatchRule::kept_values, kept_values},       // values of the tool's input, if it is given
    {MatchRule::values, equal_values},           // numbers that were recorded, if they are given
    {MatchRule::names, scopes_in_names},         // names that most tools keep
    {MatchRule::initializers, parameters_read},  // names and content of the node's weights
    {MatchRule::shapes, weight_neighbourhoods},  // a start if there is no better one
    {MatchRule::fx_names, fx_node_names},        // weak: breaks ties
};

EvidenceTable find_evidence(const onnx_file::OnnxSummary& model, const FileStructure<Side::foreign>& foreign,
                            const Reference& reference, const TensorSources& tensors, const ScopeReader& scopes,
                            const SameNames& same_names, const std::vector<KnownValue>& values,
                            const std::vector<bool>& stale) {
  EvidenceTable evidence(foreign.structure.nodes.size());
  const ReferenceNames names(reference);
  for (const ListedRule& rule : rules) {
    // This rule needs the most memory; it and the later rules add little evidence.
    if (rule.rule == MatchRule::shapes) std::ranges::for_each(evidence, &std::vector<Evidence>::shrink_to_fit);
    rule.find({model, foreign, reference, names, same_names, tensors, scopes, values, stale}, evidence);
  }
  if (!reference.structure.nodes.empty()) copy_bias_evidence(foreign.structure, evidence);
  return evidence;
}

Placement empty_placement(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                          const Correspondence& pairs) {
  return {foreign.structure, reference, pairs, IndexedVector<ForeignNode, NodeMatch>(foreign.structure.nodes.size())};
}

// Matches with a reference made of the file's own names, which has no structure.
MatchReport match_by_names(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                           const ScopeReader& reader, EvidenceTable evidence) {
  const Correspondence no_pairs(foreign.structure, reference);
  Placement placement = empty_placement(foreign, reference, no_pairs);
  place_by_names(placement, reader, evidence);
  return make_report(foreign, reference, std::move(evidence), placement.matches);
}

// Matches with a checkpoint, which has no structure either.
MatchReport match_by_weights(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                             const TensorSources& tensors, EvidenceTable evidence) {
  const Correspondence no_pairs(foreign.structure, reference);
  Placement placement = empty_placement(foreign, reference, no_pairs);
  place_by_weights(placement, tensors, evidence);
  MatchReport report = make_report(foreign, reference, std::move(evidence), placement.matches);
  report.fit.parameters = tensors.counts();
  report.fit.weights = tensors.weights();
  return report;
}

struct Findings {
  const TensorSources& tensors;
  const std::vector<KnownValue>& values;
  const SameNames& same_names;
  const EvidenceTable& evidence;
  bool stamped = false;  // the file has stamps of the reference's program
};

// Matches by the structure of both sides. Releases the correspondence, which needs much memory.
ModelFit match_by_structure(const FileStructure<Side::foreign>& foreign, const Reference& reference,
                            const Findings& findings, IndexedVector<ForeignNode, NodeMatch>& matches) {
  const ForeignStructure& structure = foreign.structure;
  const Correspondence pairs =
      grow_correspondence(structure, reference, findings.evidence, findings.values, findings.same_names);
  Placement placement = empty_placement(foreign, reference, pairs);
  if (findings.stamped) place_stamped(placement, foreign);
  place_corresponding(placement);
  place_stretches(placement);
  place_kept(placement, findings.same_names);
  place_layout(placement);
  apply_bias_owners(placement, findings.evidence);
  place_inserted(placement);
  place_leftovers(placement);
  place_constants(placement, findings.evidence);
  // Weighs names before the remaining nodes get the modules of their neighbours: the neighbours' names may be better
  // evidence. Constants come later: their readers are better evidence than a name that a tool derived from a fused
  // node.
  const auto weigh = [&](bool constants) {
    for (const ForeignNode i : structure.nodes.keys()) {
      if (constants == (structure.nodes[i].kind == NodeKind::constant)) weigh_names(placement, i, findings.evidence[i]);
    }
  };
  weigh(false);
  place_by_dataflow(placement);
  weigh(true);
  join_twins(placement);
  lower_contradicted(placement, findings.evidence);
  raise_ancestors(placement);
  place_fx_named(placement, findings.evidence);
  const ModelFit fit = model_fit(placement, findings.tensors);
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
  MatchReport report = make_report(foreign, reference, std::move(evidence), matches);
  report.fit = fit;
  report.stale = std::move(stale);
  return report;
}

}  // namespace whence::match
