// One file that torch.save wrote: a zip with a pickle of tables and the tensors' bytes beside it. Of a whole model that
// was pickled, or scripted, the tensors have the names of the attributes that lead to them.
#pragma once

#include <string>
#include <vector>

#include "annotator/checkpoint/checkpoint.h"

namespace whence::checkpoint {

// Takes the one of several tables that has most tensors: a training run also saves what its optimizer keeps. Names of
// one tensor are aliases. Notes: another table is as large; tensors of an unknown kind are left out. Throws what
// ZipArchive and Pickle throw, and Error(wrong_kind) where no table holds tensors.
std::vector<CheckpointTensor> read_torch_archive(const std::string& path, Diagnostics& notes);

}  // namespace whence::checkpoint
