// Scopes in node and value names, as PyTorch's TorchScript exporter and whence write them:
// `/encoder/layer.0/attention/self/query/MatMul_1`, `/encoder/layer.0/Add_output_0`. Tools that put a node in another's
// place often keep the beginning: `/encoder/layer.0/MatMul/MatMulAddFusion`, `..._quant`, `..._token_3`.
#include "annotator/match/rules/rule.h"

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
    const std::size_t slash = text.rfind('/');
    if (slash == std::string_view::npos) return {};
    text = text.substr(0, slash);
    if (text.empty() && dropped > 0) return {};  // `/encoder/Unknown` says little of the root
    if (const auto& found = names.scopes_of_path(text); !found.empty()) return {&found, dropped > 0};
    const auto& repeated = names.scopes_of_path(without_call_numbers(text));
    if (!text.empty() && !repeated.empty()) return {&repeated, dropped > 0};
  }
  return {};
}

}  // namespace

void scopes_in_names(const RuleContext& context, EvidenceTable& table) {
  constexpr double of_node = 2, of_value = 1.6, shortened = 0.5;
  const Structure& structure = context.foreign.structure;
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const StructureNode& node = structure.nodes[i];
    const auto say = [&](std::string_view name, double strength) {
      const Named found = scopes_in(context.names, name);
      if (found.scopes == nullptr) return false;
      for (const std::int32_t scope : *found.scopes) {
        table[i].push_back({MatchRule::names, -1, scope, strength * (found.shortened ? shortened : 1), name});
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
