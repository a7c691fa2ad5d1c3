#include "recorder/native/kept_state.h"

#include <torch/utils.h>

namespace whence::native {

KeptState::KeptState(const torch::nn::Module& module, std::set<std::string>& changed) : changed_(changed) {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : module.named_buffers()) {
    if (buffer.value().defined()) buffers_.push_back({buffer.key(), buffer.value(), buffer.value().detach().clone()});
  }
}

KeptState::~KeptState() {
  const at::NoGradGuard no_grad;
  for (Buffer& buffer : buffers_) {
    try {
      if (buffer.tensor.sizes() == buffer.before.sizes() && at::equal(buffer.tensor, buffer.before)) continue;
      changed_.insert(buffer.name);
      buffer.tensor.resize_(buffer.before.sizes()).copy_(buffer.before);
    } catch (const std::exception&) {
      // A buffer whose memory the forward took away cannot be restored, but its change is noted.
    }
  }
}

}  // namespace whence::native
