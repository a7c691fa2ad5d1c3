// Reads a file in the safetensors format: eight bytes with the length of a JSON header, the header, the tensors' bytes.
// Source: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"
#include "schema/files/files.h"

namespace whence::checkpoint {

// Recognises the format by the first bytes.
bool is_safetensors(std::string_view bytes);

// Returns the tensors in the order of the header. Leaves out tensors of an unknown dtype, with a note. Throws
// Error(truncated_file or corrupt_file).
std::vector<CheckpointTensor> read_safetensors(const std::shared_ptr<MappedFile>& file, Diagnostics& notes);

// Writes tensors in this order. Their bytes may be computed when they are written. Throws the errors of AtomicFile.
void write_safetensors(const std::vector<CheckpointTensor>& tensors, AtomicFile& to);

}  // namespace whence::checkpoint
