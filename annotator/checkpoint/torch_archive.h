// Reads a file that torch.save wrote: a zip with a pickle of dicts and the tensors' bytes. If a complete model was
// pickled or scripted, tensors have the names of the attributes that lead to them.
#pragma once

#include <string>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"

namespace whence::checkpoint {

// Reads the dict with most tensors, because a training run also saves its optimizer's state. Several names of one
// tensor become aliases. Notes: another dict is as large; tensors left out. Throws as ZipArchive and Pickle do, and
// Error(wrong_kind) if no dict holds tensors.
std::vector<CheckpointTensor> read_torch_archive(const std::string& path, Diagnostics& notes);

}  // namespace whence::checkpoint
