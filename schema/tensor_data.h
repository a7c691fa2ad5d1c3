// The bytes of a tensor, in memory or in a file. Weights stay in the mapped archive until a writer copies them as a
// span from file to file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/dtype.h"

namespace whence {

// Contiguous, little-endian bytes, which may not be in memory: a sidecar leaves weights out, and a large rearranged
// weight is computed only when it is written. in_memory() returns the bytes if they are available.
class Bytes {
 public:
  Bytes() = default;  // empty, in memory
  static Bytes copy_of(const void* data, std::size_t size);
  static Bytes owned(std::string text);
  // Bytes of another object (a mapping or a buffer), which `owner` keeps alive.
  static Bytes part_of(std::shared_ptr<const void> owner, const void* data, std::size_t size);
  // Bytes of which only the size is known.
  static Bytes left_out(std::size_t size);
  // Bytes that are computed each time they are written, so that large rearranged weights need no memory before. `make`
  // must return the same `size` bytes each time.
  static Bytes computed_when_written(std::size_t size, std::function<Bytes()> make);

  // Sets the location of these bytes on disk.
  Bytes stored_in(std::string file, std::uint64_t offset) &&;

  std::size_t size() const { return size_; }
  std::optional<std::span<const std::byte>> in_memory() const;
  bool computed_when_written() const { return make_ != nullptr; }
  Bytes compute() const { return make_(); }  // requires computed_when_written()
  // The file and the offset of the bytes; an empty name if they are only in memory.
  const std::string& file() const { return file_; }
  std::uint64_t offset() const { return offset_; }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string file_;
  std::uint64_t offset_ = 0;
  std::function<Bytes()> make_;
};

// Returns the bytes as text, for keys and string functions.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A dense tensor in row-major order. The shape of a scalar is {}.
struct TensorData {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  Bytes bytes;

  std::int64_t element_count() const;
};

// Returns the element of an integer or bool tensor with exactly one element, if it is in memory.
std::optional<std::int64_t> single_integer(const TensorData& data);

}  // namespace whence
