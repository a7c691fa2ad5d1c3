// Unobserved: hides this thread's computations from the tracer, autograd and whence's callbacks while it exists.
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
  // Pauses the tracer and returns a function that resumes it. If PyTorch itself has already excluded the tracer, as
  // during an index assignment in Python, LibTorch's pauseTracing() would throw.
  static std::function<void()> pause() {
    return at::tracer::impl::is_dispatch_enabled() ? torch::jit::tracer::pauseTracing() : [] {};
  }

  std::function<void()> resume_ = pause();
  at::RecordFunctionGuard no_callbacks_{false};
  at::NoGradGuard no_grad_;
};

}  // namespace whence::recorder::live
