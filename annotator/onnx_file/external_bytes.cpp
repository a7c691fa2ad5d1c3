#include "annotator/onnx_file/external_bytes.h"

#include <algorithm>
#include <charconv>

#include "annotator/onnx_file/data_file.h"
#include "annotator/onnx_file/release_part.h"

namespace whence::onnx_file {

namespace {

std::uint64_t number_of(const OnnxTensor& tensor, std::string_view key, std::uint64_t default_value,
                        const Place& place) {
  const auto text = find_property(tensor.external_data, key);
  if (!text) return default_value;
  if (const auto number = parse_data_number(*text)) return *number;
  throw Error(Code::corrupt_file,
              "the " + std::string(key) + " of tensor " + std::string(tensor.name) + " is '" + std::string(*text) +
                  "', not a number",
              "export the model again", place);
}

}  // namespace

std::string_view ExternalBytes::of(const OnnxTensor& tensor) {
  const Place place{.file = model_, .stage = "match", .node = std::string(tensor.name)};
  const auto location = find_property(tensor.external_data, "location");
  if (!location) return {};
  // Readers differ in which of two entries they use.
  for (const char* key : {"location", "offset", "length"}) {
    if (std::ranges::count(tensor.external_data, std::string_view(key), &OnnxProperty::key) < 2) continue;
    throw Error(Code::corrupt_file, "the tensor " + std::string(tensor.name) + " states its " + key + " twice",
                "export the model again", place);
  }
  auto& file = files_[std::string(*location)];
  if (file == nullptr) file = MappedFile::open(require_data_file(model_, *location, place).string());
  const std::uint64_t offset = number_of(tensor, "offset", 0, place);
  const std::uint64_t length = number_of(tensor, "length", offset <= file->size() ? file->size() - offset : 0, place);
  if (offset > file->size() || length > file->size() - offset) {
    throw Error(Code::truncated_file,
                "the data file " + std::string(*location) + " ends before the end of tensor " +
                    std::string(tensor.name) + ": needs " + std::to_string(offset) + " + " + std::to_string(length) +
                    " bytes, has " + std::to_string(file->size()),
                "copy or download the data file again", place);
  }
  return file->text().substr(offset, length);
}

void ExternalBytes::release(std::string_view bytes) const {
  for (const auto& [location, file] : files_) {
    if (file != nullptr) release_part(*file, bytes);
  }
}

}  // namespace whence::onnx_file
