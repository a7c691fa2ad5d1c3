// Scopes in node and value names, as PyTorch's TorchScript exporter and whence write them:
// `/encoder/layer.0/attention/self/query/MatMul_1`, `/encoder/layer.0/Add_output_0`. Tools that put a node in another's
// place often keep the beginning: `/encoder/layer.0/MatMul/MatMulAddFusion`, `..._quant`, `..._token_3`.
#include <algorithm>

#include "annotator/match/rules/rule.h"
#include "annotator/merge/keys.h"
#include "annotator/merge/node_name.h"

namespace whence {
namespace {

struct Named {
  const std::vector<std::int32_t>* scopes = nullptr;
  bool shortened = false;  // more than the last segment had to be dropped: a child may be meant
};

// A module's second call is `attention_1`.
std::string without_call_numbers(std::string_view path) {
  std::string result;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '_') {
      std::size_t end = i + 1;
      while (end < path.size() && path[end] >= '0' && path[end] <= '9') ++end;
      if (end > i + 1 && (end == path.size() || path[end] == '/')) {
        i = end - 1;
        continue;
      }
    }
    result += path[i];
  }
  return result;
}

// The longest beginning of the name that is a module's path, up to two segments for operator and suffix.
Named scopes_in(const ReferenceNames& names, std::string_view text) {
  if (!text.starts_with('/')) return {};
  for (int dropped = 0; dropped < 2; ++dropped) {
    if (text.find('/') == std::string_view::npos) return {};
    text = path_in_name(text).path;
    if (text.empty() && dropped > 0) return {};  // `/encoder/Unknown` says little of the root
    if (const auto& found = names.scopes_of_path(text); !found.empty()) return {&found, dropped > 0};
    const auto& repeated = names.scopes_of_path(without_call_numbers(text));
    if (!text.empty() && !repeated.empty()) return {&repeated, dropped > 0};
  }
  return {};
}

}  // namespace

namespace {

// Names that annotate gave do not say how sure the module was.
bool named_by_annotate(const RuleContext& context) {
  return context.reference.values_keep_names || find_property(context.model.metadata, keys::annotated);
}

Confidence surest_by(std::string_view name, const RuleContext& context) {
  if (path_in_name(name).below) return Confidence::ancestor;
  const std::int32_t unit = context.reference.values_keep_names ? context.names.unit_named(name) : -1;
  return std::max(Confidence::inferred, unit < 0 ? Confidence::inferred : context.reference.units[unit].confidence);
}

}  // namespace

void scopes_in_names(const RuleContext& context, EvidenceTable& table) {
  constexpr double of_node = 2, of_value = 1.6, shortened = 0.5;
  const Structure& structure = context.foreign.structure;
  const bool by_annotate = named_by_annotate(context);
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const StructureNode& node = structure.nodes[i];
    const auto say = [&](std::string_view name, double strength) {
      const Named found = scopes_in(context.names, name);
      if (found.scopes == nullptr) return false;
      const Confidence surest =
          by_annotate || path_in_name(name).below ? surest_by(name, context) : Confidence::matched;
      for (const std::int32_t scope : *found.scopes) {
        table[i].push_back({MatchRule::names, -1, scope, strength * (found.shortened ? shortened : 1), name, surest});
      }
      return true;
    };
    if (node.source >= 0 && say(node.name, of_node)) continue;
    for (const std::int32_t output : node.outputs) {
      if (output >= 0 && say(structure.values[output].name, of_value)) break;
    }
  }
}

}  // namespace whence
