// V201: tensors whose external file is not there. Files outside the model's folder are V203's: they are not looked for.
#include "annotator/validation/checks.h"

namespace whence::validation {
namespace {

std::vector<FindingItem> find_external_data_missing(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const ExternalTensor& tensor : context.external) {
    if (!tensor.inside || tensor.file_size) continue;
    items.push_back({tensor.tensor, tensor.location.empty() ? "no location is given" : "no file " + tensor.location});
  }
  return items;
}

}  // namespace

const Check external_data_missing_check = {
    {"V201", "external_data_missing", "tensors whose external file is missing",
     "copy the data file beside the model, under its original name",
     "The model cannot be loaded. Files outside the model's folder are not looked for: they are V203's.",
     Severity::error},
    find_external_data_missing};

}  // namespace whence::validation
