// V201: tensors whose external file does not exist. V203 reports files outside the model's folder instead.
#include "annotator/validation/checks.h"

namespace whence::validation {
namespace {

std::vector<FindingItem> find_external_data_missing(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const ExternalTensor& tensor : context.external) {
    if (!tensor.inside || tensor.file_size) continue;
    items.push_back({tensor.tensor, tensor.location.empty() ? "no location" : "no file " + tensor.location});
  }
  return items;
}

}  // namespace

const Check external_data_missing_check = {
    {"V201", "external_data_missing", "tensors whose external file is missing",
     "copy the data file next to the model, under its original name",
     "The model cannot be loaded. V203 reports files outside the model's folder instead.", Severity::error},
    find_external_data_missing};

}  // namespace whence::validation
