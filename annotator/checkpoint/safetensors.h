// One file in the safetensors format: eight bytes with the length of a JSON header, the header, the tensors' bytes.
// Source: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"
#include "schema/files/files.h"

namespace whence::checkpoint {

// By its first bytes.
bool is_safetensors(std::string_view bytes);

// In the order of the header. Tensors of a dtype that whence does not know are left out, with a note. Throws
// Error(truncated_file or corrupt_file).
std::vector<CheckpointTensor> read_safetensors(const std::shared_ptr<MappedFile>& file, Diagnostics& notes);

}  // namespace whence::checkpoint
