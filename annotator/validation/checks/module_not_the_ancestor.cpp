// V605: a node of several modules whose `module` is not their lowest common ancestor.
#include "annotator/origin/common_module.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_module_not_the_ancestor(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const view::DiffNode& each : context.edit->after) {
    const std::vector<std::string>& modules = each.attribution.modules;
    if (modules.size() < 2) continue;
    const std::string ancestor = origin::common_module(modules);
    if (each.attribution.module != ancestor) {
      items.push_back({shown_node(*each.node), "module is '" + each.attribution.module + "', not '" + ancestor + "'"});
    }
  }
  return items;
}

}  // namespace

const Check module_not_the_ancestor_check = {
    {"V605", "module_not_the_ancestor",
     "nodes of several modules whose module is not their lowest common ancestor (rule 3)",
     "set module to the longest path, in whole segments, that all paths in modules begin with",
     "Reports by module count the node in the wrong module, or in an ancestor that is too general.", Severity::error},
    find_module_not_the_ancestor,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
