// V203: external data outside the model's folder, by an absolute location, `..` or a symbolic link. Runtimes refuse it:
// whoever opens a downloaded model must not have other files of the machine read.
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
    {"V203", "external_data_outside", "tensors whose external data lies outside the model's folder",
     "move the data file beside the model and give its bare name as location",
     "An absolute location, `..` or a symbolic link. Runtimes refuse it: whoever opens a downloaded model must not "
     "have other files of the machine read.",
     Severity::error},
    find_external_data_outside};

}  // namespace whence::validation
