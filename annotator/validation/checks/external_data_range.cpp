// V202: tensors whose range in the external file passes its end, or does not have the size that dtype and shape
// require.
#include "annotator/validation/checks.h"

namespace whence::validation {
namespace {

std::string problem_of(const ExternalTensor& tensor) {
  if (!tensor.numbers_valid) return "offset or length is not a number";
  const std::uint64_t size = *tensor.file_size;
  if (tensor.offset > size) {
    return "offset " + std::to_string(tensor.offset) + " in a file of " + std::to_string(size) + " bytes";
  }
  const std::uint64_t length = tensor.length.value_or(size - tensor.offset);
  if (length > size - tensor.offset) {
    return std::to_string(length) + " bytes at " + std::to_string(tensor.offset) + " in a file of " +
           std::to_string(size) + " bytes";
  }
  if (tensor.needed && (tensor.length ? length != *tensor.needed : length < *tensor.needed)) {
    return std::to_string(length) + " bytes, but dtype and shape require " + std::to_string(*tensor.needed);
  }
  return "";
}

std::vector<FindingItem> find_external_data_range(const CheckContext& context) {
  std::vector<FindingItem> items;
  for (const ExternalTensor& tensor : context.external) {
    if (!tensor.inside || !tensor.file_size) continue;
    if (std::string problem = problem_of(tensor); !problem.empty())
      items.push_back({tensor.tensor, std::move(problem)});
  }
  return items;
}

}  // namespace

const Check external_data_range_check = {
    {"V202", "external_data_range", "tensors whose external data does not fit its file, dtype or shape",
     "the data file belongs to another model or is truncated: copy it again",
     "The range passes the end of the file, or does not have the size that dtype and shape require, so the weights are "
     "not "
     "the model's.",
     Severity::error},
    find_external_data_range};

}  // namespace whence::validation
