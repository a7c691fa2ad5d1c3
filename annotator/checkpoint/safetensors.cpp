#include "annotator/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/json_text.h"
#include "schema/printable.h"

namespace whence::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t prefix = 8;
constexpr std::uint64_t longest_header = 100'000'000;  // bytes, the limit of the format

using Row = std::pair<std::string_view, DType>;
constexpr std::array rows = {
    Row{"F32", DType::float32},
    Row{"F16", DType::float16},
    Row{"BF16", DType::bfloat16},
    Row{"F64", DType::float64},
    Row{"I64", DType::int64},
    Row{"I32", DType::int32},
    Row{"I16", DType::int16},
    Row{"I8", DType::int8},
    Row{"U8", DType::uint8},
    Row{"BOOL", DType::boolean},
    Row{"F8_E4M3", DType::float8_e4m3fn},
    Row{"F8_E5M2", DType::float8_e5m2},
    Row{"U64", DType::uint64},
    Row{"U32", DType::uint32},
    Row{"U16", DType::uint16},
    Row{"C64", DType::complex64},
};

DType dtype_of(std::string_view name) {
  for (const auto& [known, dtype] : rows) {
    if (known == name) return dtype;
  }
  return DType::undefined;
}

std::uint64_t header_size(std::string_view bytes) {
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), prefix);
  return size;
}

class Reader {
 public:
  Reader(const std::shared_ptr<MappedFile>& file, Diagnostics& notes) : file_(file), notes_(notes) {}

  std::vector<CheckpointTensor> read() {
    const std::string_view text = file_->text();
    const std::uint64_t size = text.size() < prefix ? 0 : header_size(text);
    if (text.size() < prefix || size > text.size() - prefix) {
      throw Error(Code::truncated_file, "the file ends before its header does", "get the file again", place());
    }
    begin_ = prefix + static_cast<std::size_t>(size);
    const Json header = Json::parse(text.substr(prefix, size), nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) corrupt("its header is not JSON");
    std::vector<CheckpointTensor> tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      if (auto tensor = tensor_of(name, entry); tensor.data.dtype != DType::undefined)
        tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  CheckpointTensor tensor_of(const std::string& name, const Json& entry) {
    const std::string label = "the tensor '" + printable(name) + "'";
    const bool complete = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                          entry.contains("shape") && entry["shape"].is_array() && entry.contains("data_offsets") &&
                          entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2;
    if (!complete) corrupt(label + " lacks its dtype, sizes or offsets");
    CheckpointTensor tensor{.name = name};
    for (const Json& size : entry["shape"]) {
      if (!size.is_number_unsigned() || size.get<std::uint64_t>() > INT64_MAX) corrupt(label + " has an invalid size");
      tensor.data.shape.push_back(size.get<std::int64_t>());
    }
    const auto offset = [&](std::size_t i) {
      const Json& number = entry["data_offsets"][i];
      if (!number.is_number_unsigned()) corrupt(label + " has an invalid offset");
      return number.get<std::uint64_t>();
    };
    const std::uint64_t first = offset(0), last = offset(1), room = file_->size() - begin_;
    if (first > last) corrupt(label + " ends before its start");
    if (last > room) {
      throw Error(Code::truncated_file, label + " ends after the end of the file", "get the file again", place());
    }
    const auto dtype = entry["dtype"].get<std::string>();
    tensor.data.dtype = dtype_of(dtype);
    if (tensor.data.dtype == DType::undefined) {
      notes_.push_back(warning(Code::unsupported_feature,
                               label + " has the unknown dtype " + printable(dtype) + " and is left out",
                               "ignore this if the ONNX file does not contain the tensor", place()));
      return tensor;
    }
    const auto count = static_cast<std::uint64_t>(element_count(tensor.data.shape));
    if (count * size_of(tensor.data.dtype) != last - first) {
      corrupt(label + " has a number of bytes that does not match its sizes");
    }
    tensor.data.bytes = file_->slice(file_, begin_ + first, last - first);
    return tensor;
  }

  Place place() const { return {.file = file_->path(), .stage = "read"}; }
  [[noreturn]] void corrupt(const std::string& why) const {
    throw Error(Code::corrupt_file, why, "get the file again", place());
  }

  const std::shared_ptr<MappedFile>& file_;
  Diagnostics& notes_;
  std::size_t begin_ = 0;  // file offset of the tensors' bytes
};

}  // namespace

bool is_safetensors(std::string_view bytes) {
  return bytes.size() > prefix && bytes[prefix] == '{' && header_size(bytes) <= longest_header;
}

std::vector<CheckpointTensor> read_safetensors(const std::shared_ptr<MappedFile>& file, Diagnostics& notes) {
  return Reader(file, notes).read();
}

void write_safetensors(const std::vector<CheckpointTensor>& tensors, AtomicFile& to) {
  constexpr std::size_t alignment = 8;
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::size_t at = 0;
  for (const CheckpointTensor& tensor : tensors) {
    const auto row = std::ranges::find(rows, tensor.data.dtype, &Row::second);
    if (row == rows.end()) {
      throw Error(Code::unsupported_feature,
                  "the format has no dtype " + std::string(name_of(tensor.data.dtype)) + ", which '" +
                      printable(tensor.name) + "' has",
                  "leave the parameter out", {.file = to.target(), .stage = "write"});
    }
    header[tensor.name] = {
        {"dtype", row->first}, {"shape", tensor.data.shape}, {"data_offsets", {at, at + tensor.data.bytes.size()}}};
    at += tensor.data.bytes.size();
  }
  std::string text = json_text(header);
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  const auto size = static_cast<std::uint64_t>(text.size());
  to.write(&size, sizeof size);
  to.write(text);
  for (const CheckpointTensor& tensor : tensors) to.write(tensor.data.bytes);
}

}  // namespace whence::checkpoint
