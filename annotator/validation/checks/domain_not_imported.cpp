// V106: operators of a domain for which the model, or the function that uses them, imports no opset version.
#include <algorithm>
#include <map>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

using Uses = std::map<std::string_view, std::pair<std::size_t, std::string>>;  // domain -> count, first node

void add_uses(const std::vector<onnx_file::OnnxNode>& nodes, const std::vector<onnx_file::OnnxOpset>& imports,
              Uses& uses) {
  walk_nodes(nodes, [&](const onnx_file::OnnxNode& node) {
    const bool imported = std::any_of(imports.begin(), imports.end(),
                                      [&](const onnx_file::OnnxOpset& opset) { return opset.domain == node.domain; });
    if (imported) return;
    auto& [count, first] = uses[node.domain];
    if (count++ == 0) first = shown_node(node);
  });
}

std::vector<FindingItem> find_domain_not_imported(const CheckContext& context) {
  Uses uses;
  add_uses(context.model.graph.nodes, context.model.opsets, uses);
  for (const onnx_file::OnnxFunction& function : context.model.functions)
    add_uses(function.nodes, function.opsets, uses);
  std::vector<FindingItem> items;
  for (const auto& [domain, use] : uses) {
    items.push_back({domain.empty() ? "ai.onnx" : std::string(domain),
                     std::to_string(use.first) + (use.first == 1 ? " node, " : " nodes, first ") + use.second});
  }
  return items;
}

}  // namespace

const Check domain_not_imported_check = {
    {"V106", "domain_not_imported", "domains that are used without an opset import", "add the domain to opset_import",
     "Without an import the version of the operator is undefined, and runtimes refuse the model.", Severity::error},
    find_domain_not_imported};

}  // namespace whence::validation
