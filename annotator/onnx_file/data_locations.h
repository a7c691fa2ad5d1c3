// The names of a model's data files, read without the rest of it: for a command that must not replace one of them.
#pragma once

#include <set>
#include <string>

namespace whence::onnx_file {

// Returns the locations that tensors of the file name, as it states them: of initializers and attributes, also in
// bodies and functions. Reports no errors: empty for a file that cannot be read as an ONNX model. Keeps nothing of the
// file in memory; a million nodes take a tenth of a second.
std::set<std::string> data_locations_in(const std::string& model);

}  // namespace whence::onnx_file
