// V111: tensors with more or fewer bytes in the file than dtype and shape require.
#include "annotator/validation/checks.h"
#include "annotator/validation/external_data.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

std::vector<FindingItem> find_tensor_size(const CheckContext& context) {
  std::vector<FindingItem> items;
  walk_tensors(context.model, [&](const onnx_file::OnnxTensor& tensor) {
    const auto needed = bytes_needed(tensor);
    // onnx's checker counts the values in typed fields.
    if (tensor.external || tensor.stored_bytes == 0 || !needed || *needed == tensor.stored_bytes) return;
    items.push_back({std::string(tensor.name), std::to_string(tensor.stored_bytes) +
                                                   " bytes, but dtype and shape require " + std::to_string(*needed)});
  });
  return items;
}

}  // namespace

const Check tensor_size_check = {
    {"V111", "tensor_size", "tensors whose bytes do not fit their dtype and shape",
     "write the tensor again: shape or dtype were changed without the bytes",
     "Readers use the first bytes or read past the end, so the weights are not the model's.", Severity::error},
    find_tensor_size};

}  // namespace whence::validation
