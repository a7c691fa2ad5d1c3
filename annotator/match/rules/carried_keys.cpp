// Metadata on the node: the module from whence, or the scopes from PyTorch's exporter. It is strong but not certain:
// PyTorch's optimiser keeps the metadata of the first of several nodes that it fuses (a folded Conv names the
// BatchNorm).
#include <algorithm>

#include "annotator/match/rules/rule.h"
#include "annotator/metadata/call_path.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/torch.h"

namespace whence::match {

using origin::Confidence;
namespace keys = origin::keys;
using onnx_file::find_property;
using origin::unstated_confidence;

void carried_keys(const RuleContext& context, EvidenceTable& table) {
  constexpr double by_whence = 4, by_exporter = 1.5;
  const ForeignStructure& structure = context.foreign.structure;
  context.each_node([&](ForeignNode i) {
    if (!structure.nodes[i].source.exists()) return;
    const onnx_file::OnnxNode& node = *context.foreign.file_nodes[structure.nodes[i].source];
    const onnx_file::OnnxProperties metadata = node.metadata;
    const auto add = [&](std::string_view module, double strength, std::string_view from, Confidence max_confidence) {
      for (const ScopeIndex scope : context.names.scopes_of_module(module)) {
        table[i].push_back({MatchRule::carried, {}, scope, strength, from, max_confidence});
      }
    };
    if (const auto module = find_property(metadata, keys::module)) {
      const bool states_confidence = find_property(metadata, keys::confidence).has_value();
      const Confidence stated =
          metadata::stated_confidence(node.domain, node.op_type, metadata).value_or(unstated_confidence);
      const auto file_node = static_cast<std::size_t>(structure.nodes[i].source.number());
      if (file_node < context.stale.size() && context.stale[file_node]) {
        add(*module, by_exporter, *module, std::max(stated, Confidence::matched));
        return;
      }
      // The module stays on the node unless it is less than exact, so the other keys have to be of this module as well.
      if (!states_confidence || stated == Confidence::exact) add(*module, by_whence, *module, stated);
    } else if (const auto scopes = metadata::exporter_scopes(node, metadata); !scopes.modules.empty()) {
      std::string_view text;  // the key that stated it
      for (const std::string_view key : {keys::name_space, keys::onnxscript_name_scopes, keys::name_scopes}) {
        text = find_property(metadata, key).value_or(text);
      }
      const Confidence most = scopes.certain ? Confidence::matched : Confidence::ancestor;
      add(scopes.modules.back().path, by_exporter, text, most);
    }
  });
}

}  // namespace whence::match
