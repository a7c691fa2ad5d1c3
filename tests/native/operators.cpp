// Operators of a user's own, for scripted modules: the library knows nothing of whence.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

// Twice as many columns as x has, so that nobody guesses the result's size.
at::Tensor widen(const at::Tensor& x, double factor) { return at::cat({x, x * factor}, -1); }

at::Tensor flipped(const at::Tensor& x) { return 1 - at::relu(x); }

}  // namespace

TORCH_LIBRARY(whence_test, library) {
  library.def("widen(Tensor x, float factor) -> Tensor");
  library.def("flipped(Tensor x) -> Tensor", &flipped);  // composite: of operators that ATen has
}

TORCH_LIBRARY_IMPL(whence_test, CPU, library) { library.impl("widen", &widen); }
