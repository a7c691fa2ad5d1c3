// Unobserved: while an object of it lives, neither the tracer nor autograd nor whence's own callbacks see what this
// thread computes.
#pragma once

#include <functional>

#include <ATen/TracerMode.h>
#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace whence::recorder::live {

class Unobserved {
 public:
  Unobserved() = default;
  ~Unobserved() { resume_(); }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  // Pauses the tracer and returns a function that resumes it. If PyTorch itself has excluded the tracer (while Python
  // assigns to an index), there is nothing to pause, and LibTorch's pauseTracing() would throw.
  static std::function<void()> pause() {
    return at::tracer::impl::is_dispatch_enabled() ? torch::jit::tracer::pauseTracing() : [] {};
  }

  std::function<void()> resume_ = pause();
  at::RecordFunctionGuard no_callbacks_{false};
  at::NoGradGuard no_grad_;
};

}  // namespace whence::recorder::live
