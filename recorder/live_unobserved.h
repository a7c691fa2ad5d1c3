// While it lives, nothing that this thread computes is seen by the tracer, by autograd or by our own callbacks.
#pragma once

#include <functional>

#include <ATen/record_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

namespace whence {

class Unobserved {
 public:
  Unobserved() = default;
  ~Unobserved() { resume_(); }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  std::function<void()> resume_ = torch::jit::tracer::pauseTracing();
  at::RecordFunctionGuard no_callbacks_{false};
  at::NoGradGuard no_grad_;
};

}  // namespace whence
