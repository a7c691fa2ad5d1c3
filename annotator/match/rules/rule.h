// A rule reads one kind of evidence and adds to a table the modules to which nodes may belong. It decides nothing:
// match.cpp lists the rules in order, and PairScore weighs the evidence against the structure. ../README.md describes
// how to add a rule.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/known_values.h"
#include "annotator/match/reference.h"
#include "annotator/match/same_names.h"
#include "annotator/match/scope_in_name.h"
#include "annotator/match/tensor_sources.h"
#include "schema/flat_map.h"

namespace whence::match {

// Looks up names that tools leave in files. The reference must outlive it.
class ReferenceNames {
 public:
  explicit ReferenceNames(const Reference& reference);

  // Return the scopes of all calls, by the module's qualified name or by the path in exporters' names
  // ("/encoder/layer.0").
  const std::vector<ScopeIndex>& scopes_of_module(std::string_view path) const;
  const std::vector<ScopeIndex>& scopes_of_path(std::string_view path) const;
  UnitIndex unit_named(std::string_view name) const;  // none for an unknown name

 private:
  using Scopes = FlatMap<std::string_view, std::vector<ScopeIndex>>;
  IndexedVector<ScopeIndex, std::string> without_containers_;  // paths as PyTorch's TorchScript exporter writes them
  Scopes modules_, paths_;
  FlatMap<std::string_view, UnitIndex> units_;
};

struct RuleContext {
  const onnx_file::OnnxSummary& model;
  const FileStructure<Side::foreign>& foreign;
  const Reference& reference;
  const ReferenceNames& names;
  const SameNames& same_names;
  const TensorSources& tensors;
  const ScopeReader& scopes;  // reads scopes from the model's names
  const std::vector<KnownValue>& known_values;
  const std::vector<bool>& stale;  // match_model()

  // Calls `visit` with every node of the file in order.
  void each_node(const auto& visit) const {
    for (const ForeignNode i : foreign.structure.nodes.keys()) visit(i);
  }
};

using MatchRuleFunction = void (*)(const RuleContext& context, EvidenceTable& table);

void carried_keys(const RuleContext& context, EvidenceTable& table);
void carried_tokens(const RuleContext& context, EvidenceTable& table);
void kept_values(const RuleContext& context, EvidenceTable& table);
void equal_values(const RuleContext& context, EvidenceTable& table);
void scopes_in_names(const RuleContext& context, EvidenceTable& table);
void fx_node_names(const RuleContext& context, EvidenceTable& table);
void parameters_read(const RuleContext& context, EvidenceTable& table);  // by name and content
void weight_neighbourhoods(const RuleContext& context, EvidenceTable& table);

}  // namespace whence::match
