// V303: nodes that name a module that is not in the sidecar's module table. Needs --sidecar.
#include <set>

#include "annotator/validation/checks.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_module_unknown(const CheckContext& context) {
  if (context.program == nullptr) return {};
  std::set<std::string_view> known;
  for (const Module& module : context.program->modules) {
    known.insert(module.path);
    known.insert(module.aliases.begin(), module.aliases.end());
  }
  std::vector<FindingItem> items;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    const metadata::Attribution attribution = metadata::attribution_of(*node, context.recorded);
    for (const std::string& module : attribution.modules) {
      if (known.count(module) == 0) items.push_back({shown_node(*node), "names " + module});
    }
  }
  return items;
}

}  // namespace

const Check module_unknown_check = {
    {"V303", "module_unknown", "nodes that name a module the model does not have",
     "pass the sidecar of the same model, or annotate the file again",
     "The module is not in the sidecar's module table: the file was annotated from another model. Needs --sidecar.",
     Severity::warning},
    find_module_unknown};

}  // namespace whence::validation
