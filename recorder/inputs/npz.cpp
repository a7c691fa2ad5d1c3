// Converts the arrays of numpy's .npz files to tensors, and transposes those in Fortran order.
#include <algorithm>
#include <cstring>

#include "recorder/inputs/example_inputs.h"
#include "recorder/inputs/npz_arrays.h"

namespace whence::recorder::inputs {

namespace {

at::Tensor tensor_of(const NpzArray& array) {
  std::vector<std::int64_t> dims = array.dims;
  if (array.fortran) std::reverse(dims.begin(), dims.end());
  at::Tensor tensor = at::empty(dims, static_cast<at::ScalarType>(to_scalar_type(array.dtype)));
  std::memcpy(tensor.data_ptr(), array.bytes.data(), array.bytes.size());
  if (!array.fortran) return tensor;
  std::vector<std::int64_t> back(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) back[i] = static_cast<std::int64_t>(dims.size() - 1 - i);
  return tensor.permute(back).contiguous();
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::string& path) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const NpzArray& array : read_npz_arrays(path)) tensors.emplace_back(array.name, tensor_of(array));
  return tensors;
}

}  // namespace whence::recorder::inputs
