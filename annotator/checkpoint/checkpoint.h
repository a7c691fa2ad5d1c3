// CheckpointTensor: a parameter with its qualified name, as a training program saved it.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"
#include "schema/tensor_data.h"
#include "whence/diagnostics.h"

namespace whence::checkpoint {

struct CheckpointTensor {
  std::string name;                       // qualified name: "encoder.layer.0.attention.self.query.weight"
  std::vector<std::string> aliases = {};  // other names of the same bytes
  TensorData data = {};                   // mapped, with its file; only a non-contiguous tensor is a copy, without a file
};

// Reads a .safetensors file, an index of shards, a zip that torch.save wrote, or a folder with one of them, safetensors
// first. Returns tensors in file order, without the name prefixes of torch.compile and DataParallel. Notes: tensors
// left out. Errors: missing_file, empty_file, wrong_kind (no weights), truncated_file, corrupt_file,
// unsupported_feature (a pickle from before PyTorch 1.6).
std::vector<CheckpointTensor> read_checkpoint(const std::string& path, Diagnostics& notes);

// Converts each tensor to a parameter with digests and a sketch, by which it is found in an ONNX file, but without its
// bytes. 16-bit floats are digested as float32, as exporters convert them. Reads all bytes, one tensor at a time.
std::vector<Parameter> parameters_of(std::vector<CheckpointTensor> tensors);

}  // namespace whence::checkpoint
