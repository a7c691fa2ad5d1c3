// `annotate --carry` writes each node's name into its doc_string, which ONNX Runtime and onnxsim do not change. The
// rule reads it: the token is the name of a node in the tool's input, or begins with a module's path.
#include "annotator/match/rules/rule.h"
#include "annotator/origin/carried_token.h"

namespace whence::match {

void carried_tokens(const RuleContext& context, EvidenceTable& table) {
  constexpr double of_node = 2.4, of_module = 1.9;
  const ForeignStructure& structure = context.foreign.structure;
  for (const ForeignNode i : structure.nodes.keys()) {
    if (!structure.nodes[i].source.exists()) continue;
    const auto token = origin::token_in(context.foreign.file_nodes[structure.nodes[i].source]->doc_string);
    if (!token) continue;
    const UnitIndex unit = context.reference.values_keep_names ? context.names.unit_named(token->name) : UnitIndex();
    if (unit.exists()) {
      table[i].push_back({MatchRule::tokens, unit, {}, of_node, token->name});
      continue;
    }
    for (const ScopeIndex scope : context.names.scopes_of_path(context.scopes.read(token->name).path)) {
      table[i].push_back({MatchRule::tokens, {}, scope, of_module, token->name, token->confidence});
    }
  }
}

}  // namespace whence::match
