// User-defined operators for scripted modules, in a library that does not use whence.
#include <torch/library.h>
#include <torch/torch.h>

namespace {

// Doubles the number of columns, so that the size of the result cannot be guessed.
at::Tensor widen(const at::Tensor& x, double factor) { return at::cat({x, x * factor}, -1); }

at::Tensor flipped(const at::Tensor& x) { return 1 - at::relu(x); }

}  // namespace

TORCH_LIBRARY(whence_test, library) {
  library.def("widen(Tensor x, float factor) -> Tensor");
  library.def("flipped(Tensor x) -> Tensor", &flipped);  // a composite of ATen's operators
}

TORCH_LIBRARY_IMPL(whence_test, CPU, library) { library.impl("widen", &widen); }
