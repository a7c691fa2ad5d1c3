// `annotate --carry` writes each node's name into its doc_string, which ONNX Runtime and onnxsim leave alone. Read
// back: the node that had this name in the file before, or the module whose path the name begins with.
#include "annotator/match/rules/rule.h"
#include "annotator/origin/carried_token.h"

namespace whence::match {

void carried_tokens(const RuleContext& context, EvidenceTable& table) {
  constexpr double of_node = 2.4, of_module = 1.9;
  const Structure& structure = context.foreign.structure;
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    if (structure.nodes[i].source < 0) continue;
    const auto token = origin::token_in(context.foreign.file_nodes[structure.nodes[i].source]->doc_string);
    if (!token) continue;
    const std::int32_t unit = context.reference.values_keep_names ? context.names.unit_named(token->name) : -1;
    if (unit >= 0) {
      table[i].push_back({MatchRule::tokens, unit, -1, of_node, token->name});
      continue;
    }
    for (const std::int32_t scope : context.names.scopes_of_path(context.scopes.read(token->name).path)) {
      table[i].push_back({MatchRule::tokens, -1, scope, of_module, token->name, token->confidence});
    }
  }
}

}  // namespace whence::match
