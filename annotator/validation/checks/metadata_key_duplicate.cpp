// V103: a metadata key that occurs twice on one element. ONNX forbids it, but no checker reports it, and readers
// disagree on which value is valid.
#include <set>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

void add_duplicates(const onnx_file::OnnxProperties& metadata, const std::string& owner,
                    std::vector<FindingItem>& items) {
  std::set<std::string_view> seen, reported;
  for (const onnx_file::OnnxProperty& entry : metadata) {
    if (!seen.insert(entry.key).second && reported.insert(entry.key).second)
      items.push_back({owner, std::string(entry.key)});
  }
}

std::vector<FindingItem> find_metadata_key_duplicate(const CheckContext& context) {
  std::vector<FindingItem> items;
  add_duplicates(context.model.metadata, "the model", items);
  walk_metadata(context.model, [&](const onnx_file::OnnxProperties& metadata, const std::string& owner) {
    add_duplicates(metadata, owner, items);
  });
  return items;
}

}  // namespace

const Check metadata_key_duplicate_check = {
    {"V103", "metadata_key_duplicate", "metadata keys that occur twice on one element",
     "keep one entry for each key; `whence strip` removes the entries that whence wrote",
     "ONNX forbids it, but no checker reports it, and readers disagree on which value is valid.", Severity::warning},
    find_metadata_key_duplicate};

}  // namespace whence::validation
