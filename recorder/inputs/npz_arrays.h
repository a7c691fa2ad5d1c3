// Reads the arrays of numpy's .npz files. Does not use LibTorch, so that sanitizers and fuzzers can run it on hostile
// files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/dtype.h"

namespace whence::recorder::inputs {

struct NpzArray {
  std::string name;  // name of the member without ".npy"
  DType dtype = DType::undefined;
  std::vector<std::int64_t> dims;  // outermost first
  bool fortran = false;            // column-major: the first axis varies fastest
  std::string bytes;               // little-endian; as many as `dims` need
};

// Reads a zip of .npy members, stored or deflated, in the file's order. Throws the errors of ZipArchive, and
// corrupt_file for a member that is damaged, truncated, or has a dtype that PyTorch lacks.
std::vector<NpzArray> read_npz_arrays(const std::string& path);

}  // namespace whence::recorder::inputs
