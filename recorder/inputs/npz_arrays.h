// The arrays of numpy's .npz files as they lie in there. Knows nothing of LibTorch, so that sanitizers and fuzzers read
// hostile files with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/dtype.h"

namespace whence::recorder::inputs {

struct NpzArray {
  std::string name;  // the member's, without ".npy"
  DType dtype = DType::undefined;
  std::vector<std::int64_t> dims;  // outermost first
  bool fortran = false;            // elements lie with the first axis fastest
  std::string bytes;               // little-endian; as many as `dims` ask for
};

// A zip of .npy members, stored or deflated, in the file's order. Errors: those of ZipArchive; corrupt_file for a
// member that is damaged, cut off, or holds what PyTorch has no dtype for.
std::vector<NpzArray> read_npz_arrays(const std::string& path);

}  // namespace whence::recorder::inputs
