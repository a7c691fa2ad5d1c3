// Reads NumPy's .npz: complete files, or after an 'm', one member of an archive with a valid checksum.
#include "recorder/inputs/npz_arrays.h"
#include "tests/fuzz/stored_zip.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void run(std::string_view input) {
  const bool member = input.starts_with('m');
  const std::string path =
      file_of("inputs.npz", member ? stored_zip({{"x.npy", input.substr(1)}}) : std::string(input));
  for (const recorder::inputs::NpzArray& array : recorder::inputs::read_npz_arrays(path)) {
    std::size_t elements = 1;
    for (const std::int64_t dim : array.dims) elements *= static_cast<std::size_t>(dim);
    require(array.bytes.size() == elements * size_of(array.dtype), "an array's bytes do not match its sizes");
  }
}

const Target target("npz", run, 2048);

}  // namespace
}  // namespace whence::fuzz
