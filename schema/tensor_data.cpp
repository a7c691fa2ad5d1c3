// Bytes and tensors: ownership and element counts.
#include "schema/tensor_data.h"

#include <utility>

namespace whence {

Bytes Bytes::owned(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  Bytes bytes;
  bytes.data = reinterpret_cast<const std::byte*>(owner->data());
  bytes.size = owner->size();
  bytes.owner = std::move(owner);
  return bytes;
}

Bytes Bytes::copy_of(const void* data, std::size_t size) {
  return owned(std::string(static_cast<const char*>(data), size));
}

std::int64_t TensorData::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

}  // namespace whence
