// V606: a module or an identity that no node had before the tool.
#include "annotator/metadata/operation_ids.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_provenance_invented(const CheckContext& context) {
  std::vector<FindingItem> items;
  const ToolEdit& edit = *context.edit;
  for (const view::DiffNode& each : edit.after) {
    const auto add = [&](const std::string& what, const std::string& name) {
      items.push_back({shown_node(*each.node), what + " '" + name + "'"});
    };
    for (const std::string& id : metadata::parse_ids(each.attribution.id)) {
      if (!edit.operation_confidence.contains(id)) add("identity", id);
    }
    for (const std::string& module : each.attribution.modules) {
      if (!edit.known_modules.contains(module)) add("module", module);
    }
  }
  return items;
}

}  // namespace

const Check provenance_invented_check = {
    {"V606", "provenance_invented", "nodes with modules or identities that are not in the tool's input (rule 7)",
     "copy identities and modules; never invent them",
     "An identity denotes a recorded operation; an invented one denotes none, or a wrong one.", Severity::error},
    find_provenance_invented,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
