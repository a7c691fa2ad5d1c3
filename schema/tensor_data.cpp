// Ownership of bytes, and element counts of tensors.
#include "schema/tensor_data.h"

#include <cstring>
#include <utility>

#include "schema/element_count.h"

namespace whence {

Bytes Bytes::part_of(std::shared_ptr<const void> owner, const void* data, std::size_t size) {
  Bytes bytes;
  bytes.owner_ = std::move(owner);
  bytes.data_ = static_cast<const std::byte*>(data);
  bytes.size_ = size;
  return bytes;
}

Bytes Bytes::owned(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return part_of(owner, owner->data(), owner->size());
}

Bytes Bytes::copy_of(const void* data, std::size_t size) {
  return owned(std::string(static_cast<const char*>(data), size));
}

Bytes Bytes::left_out(std::size_t size) {
  Bytes bytes;
  bytes.size_ = size;
  return bytes;
}

Bytes Bytes::computed_when_written(std::size_t size, std::function<Bytes()> make) {
  Bytes bytes = left_out(size);
  bytes.make_ = std::move(make);
  return bytes;
}

Bytes Bytes::stored_in(std::string file, std::uint64_t offset) && {
  file_ = std::move(file);
  offset_ = offset;
  return std::move(*this);
}

std::optional<std::span<const std::byte>> Bytes::in_memory() const {
  if (data_ == nullptr && size_ > 0) return std::nullopt;
  return std::span(data_, size_);
}

std::int64_t TensorData::element_count() const { return whence::element_count(shape); }

std::optional<std::int64_t> single_integer(const TensorData& data) {
  const auto bytes = data.bytes.in_memory();
  const bool integral = is_integral(data.dtype) || data.dtype == DType::boolean;
  const std::size_t size = size_of(data.dtype);
  if (!integral || !bytes || bytes->size() < size || data.element_count() != 1) return std::nullopt;
  std::int64_t number = 0;
  std::memcpy(&number, bytes->data(), size);  // little-endian
  const bool negative_ones = data.dtype == DType::int8 || data.dtype == DType::int16 || data.dtype == DType::int32;
  const auto unused = static_cast<int>(8 * (sizeof number - size));
  return negative_ones ? number << unused >> unused : number;
}

}  // namespace whence
