#include "recorder/native/saved_buffers.h"

#include <torch/utils.h>

namespace whence::native {

SavedBuffers::SavedBuffers(const torch::nn::Module& module, std::set<std::string>& changed) : changed_(changed) {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : module.named_buffers()) {
    if (buffer.value().defined()) buffers_.push_back({buffer.key(), buffer.value(), buffer.value().detach().clone()});
  }
}

SavedBuffers::~SavedBuffers() {
  const at::NoGradGuard no_grad;
  for (Buffer& buffer : buffers_) {
    try {
      if (buffer.tensor.sizes() == buffer.before.sizes() && at::equal(buffer.tensor, buffer.before)) continue;
      changed_.insert(buffer.name);
      buffer.tensor.resize_(buffer.before.sizes()).copy_(buffer.before);
    } catch (const std::exception&) {
      // A buffer that forward released cannot be restored, but its change is reported.
    }
  }
}

}  // namespace whence::native
