// Finds a model's data files like ONNX Runtime 1.32: relative to the folder of the model's path. After following links
// the file must be in that folder, or in the folder of the real model file if the path is a link (the Hugging Face
// cache consists of such links). All other locations are refused, as by ONNX Runtime and onnx's checker, so that a
// foreign model cannot read or copy other files of the machine.
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
  missing,  // no such file
  no_file,  // a folder, a pipe, a device
};

struct DataFile {
  std::filesystem::path path;  // as in the location, without following links
  DataFault fault = DataFault::none;
  std::uint64_t size = 0;
};

// Queries the file system but opens no file.
DataFile find_data_file(const std::string& model, std::string_view location);

// Parses the offset or length of external data; nullopt for anything but digits.
std::optional<std::uint64_t> parse_data_number(std::string_view text);

// Returns the path, or throws Error: corrupt_file, outside_folder, missing_file, wrong_kind.
std::filesystem::path require_data_file(const std::string& model, std::string_view location, const Place& place);

}  // namespace whence::onnx_file
