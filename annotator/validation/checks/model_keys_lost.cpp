// V607: keys of whence on the model that the tool dropped or changed.
#include "annotator/validation/checks.h"
#include "annotator/validation/tool_edit.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_model_keys_lost(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const std::string& key : context.edit->lost_model_keys) items.push_back({"the model", key});
  for (const std::string& key : context.edit->changed_model_keys)
    items.push_back({"the model", key + " has another value"});
  return items;
}

}  // namespace

const Check model_keys_lost_check = {
    {"V607", "model_keys_lost", "metadata of the model that the tool dropped or changed (rule 8)",
     "copy metadata_props of the model",
     "Without them whence cannot tell which program the nodes belong to, or restore the original file.",
     Severity::error},
    find_model_keys_lost,
    /*full=*/false,
    /*compares=*/true};

}  // namespace whence::validation
