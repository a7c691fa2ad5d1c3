// CheckpointTensor: parameters by their qualified names, as a training program saved them.
#pragma once

#include <string>
#include <vector>

#include "schema/program.h"
#include "schema/tensor_data.h"
#include "whence/diagnostics.h"

namespace whence::checkpoint {

struct CheckpointTensor {
  std::string name;                       // qualified name: "encoder.layer.0.attention.self.query.weight"
  std::vector<std::string> aliases = {};  // further names of the same bytes
  TensorData data = {};                   // mapped, never copied, but for a tensor that is not contiguous
};

// A .safetensors file, an index of shards, a zip that torch.save wrote, or a folder with one of them, safetensors
// first. In the order of the files, without what torch.compile and DataParallel put in front of names. Notes: what was
// left out. Errors: missing_file, empty_file, wrong_kind (no weights), truncated_file, corrupt_file,
// unsupported_feature (a pickle from before PyTorch 1.6).
std::vector<CheckpointTensor> read_checkpoint(const std::string& path, Diagnostics& notes);

// Gives each tensor as a parameter, by what it is found again in an ONNX file: digests and a sketch, without the bytes.
// Tensors of 16 bits count as the float32 that exporters make of them. Reads all bytes, one tensor after the other.
std::vector<Parameter> parameters_of(std::vector<CheckpointTensor> tensors);

}  // namespace whence::checkpoint
