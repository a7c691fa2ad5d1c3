#include "annotator/derivation/unsaved_buffers.h"

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/files/files.h"

namespace whence::derivation {
namespace {

constexpr std::size_t max_searched_bytes = std::size_t{1} << 20;  // of a tensor of the file whose parts are compared

bool is_saved(const Parameter& parameter, const Weights& weights) {
  return weights.find(parameter.name) != nullptr ||
         std::ranges::any_of(parameter.aliases, [&](const std::string& name) { return weights.find(name) != nullptr; });
}

// Returns the part of the tensor that has the digest; parts begin at multiples of their size.
std::string_view part_with_digest(std::string_view bytes, std::size_t size, const std::string& digest) {
  if (digest.empty() || size == 0 || bytes.size() % size != 0) return {};
  for (std::size_t first = 0; first < bytes.size(); first += size) {
    if (digest_of(bytes.data() + first, size) == digest) return bytes.substr(first, size);
  }
  return {};
}

bool is_half_of(DType stored, const TensorData& data) {
  return stored == DType::float16 && data.dtype == DType::float32;
}

// Returns the size of the buffer's elements as the file stores them; 0 if it stores other elements.
std::size_t stored_size(DType stored, const TensorData& data) {
  if (is_half_of(stored, data)) return data.bytes.size() / 2;
  return stored == data.dtype ? data.bytes.size() : 0;
}

// Returns true if the tensor may hold the buffer: a large one only complete, because each part costs a digest.
bool may_hold(DType stored, std::uint64_t bytes, const TensorData& data) {
  return bytes <= max_searched_bytes || bytes == stored_size(stored, data);
}

// Takes the elements from a tensor of the file if it holds them.
void complete(Parameter& buffer, DType stored, std::string_view bytes) {
  TensorData& data = buffer.data;
  const bool is_half = is_half_of(stored, data);
  const std::size_t size = stored_size(stored, data);
  const auto part = part_with_digest(bytes, size, is_half ? buffer.digests.float16 : buffer.digests.content);
  if (part.empty()) return;
  const TensorData found{stored, data.shape, Bytes::copy_of(part.data(), part.size())};
  if (auto converted = program::cast_tensor(found, data.dtype)) data = std::move(*converted);
}

}  // namespace

void complete_unsaved_buffers(Program& program, const Weights& weights, const FileTensors& tensors,
                              Contents& contents) {
  std::vector<Parameter*> open;
  for (Parameter& parameter : program.parameters) {
    if (parameter.kind == ParameterKind::parameter || is_saved(parameter, weights)) continue;
    parameter.persistent = false;
    if (!parameter.data.bytes.in_memory()) open.push_back(&parameter);
  }
  for (const FileTensor& tensor : tensors.all()) {
    if (open.empty()) return;
    const DType dtype = from_onnx(tensor.tensor->data_type);
    const auto elements = static_cast<std::uint64_t>(element_count(tensor.tensor->dims));
    if (dtype == DType::undefined) continue;
    const std::uint64_t size = elements * size_of(dtype);
    const auto is_candidate = [&](const Parameter* buffer) { return may_hold(dtype, size, buffer->data); };
    if (std::ranges::none_of(open, is_candidate)) continue;
    const std::string_view bytes = contents.of(tensor);
    for (Parameter* buffer : open | std::views::filter(is_candidate)) complete(*buffer, dtype, bytes);
    std::erase_if(open, [](const Parameter* buffer) { return buffer->data.bytes.in_memory().has_value(); });
  }
}

}  // namespace whence::derivation
