// Files that a model keeps weights in, found as ONNX Runtime 1.32 finds them: relative to the folder of the model's
// path, and, links followed, in that folder or in the one that the model file itself lies in when its path is a link
// (the cache of Hugging Face is made of such links). Everything else is refused, by ONNX Runtime and onnx's checker
// alike: who opens a foreign model must not have other files of the machine read or copied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "whence/diagnostics.h"

namespace whence::onnx_file {

enum class DataFault : std::uint8_t {
  none,
  unnamed,  // an empty location
  outside,  // an absolute location, `..` or a symbolic link that leads out of the folder
  missing,  // nothing is there
  no_file,  // a folder, a pipe, a device
};

struct DataFile {
  std::filesystem::path path;  // as the location says it, links not followed
  DataFault fault = DataFault::none;
  std::uint64_t size = 0;
};

// Looks at the file system, opens nothing.
DataFile find_data_file(const std::string& model, std::string_view location);

// The offset or length of external data: digits alone. Nothing for any other text.
std::optional<std::uint64_t> parse_data_number(std::string_view text);

// Throws Error for a fault: corrupt_file, outside_folder, missing_file, wrong_kind.
std::filesystem::path require_data_file(const std::string& model, std::string_view location, const Place& place);

}  // namespace whence::onnx_file
