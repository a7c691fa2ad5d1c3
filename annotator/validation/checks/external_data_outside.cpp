// V203: external data outside the model's folder, by an absolute location, `..` or a symbolic link. Runtimes refuse it,
// so that a downloaded model cannot read other files of the machine.
#include "annotator/validation/checks.h"

namespace whence::validation {
namespace {

std::vector<FindingItem> find_external_data_outside(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const ExternalTensor& tensor : context.external) {
    if (!tensor.inside) items.push_back({tensor.tensor, tensor.location});
  }
  return items;
}

}  // namespace

const Check external_data_outside_check = {
    {"V203", "external_data_outside", "tensors whose external data is outside the model's folder",
     "move the data file next to the model and set the location to its file name",
     "The location is absolute, or leaves the folder by `..` or a symbolic link. Runtimes refuse it, so that a "
     "downloaded model cannot read other files of the machine.",
     Severity::error},
    find_external_data_outside};

}  // namespace whence::validation
