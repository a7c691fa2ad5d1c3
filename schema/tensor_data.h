// The bytes of a tensor, wherever they live. Weights are never copied on the way from an archive to an ONNX file:
// they stay in the mapped archive, and a writer copies them as a span from file to file.
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

// Contiguous, little-endian bytes, which need not be in memory: a sidecar leaves weights out, and a large rearranged
// weight is made only while it is written. Nobody can read them without asking whether they are there: in_memory().
class Bytes {
 public:
  Bytes() = default;  // no bytes at all, which are in memory
  static Bytes copy_of(const void* data, std::size_t size);
  static Bytes owned(std::string text);
  // Bytes of another object: a mapping or a buffer, which `owner` keeps alive.
  static Bytes part_of(std::shared_ptr<const void> owner, const void* data, std::size_t size);
  // Known by their size alone.
  static Bytes left_out(std::size_t size);
  // Made each time they are written, so that a large rearranged weight never waits in memory. `make` must give `size`
  // bytes, the same ones each time.
  static Bytes made_when_written(std::size_t size, std::function<Bytes()> make);

  // Says where the same bytes lie on disk.
  Bytes stored_in(std::string file, std::uint64_t offset) &&;

  std::size_t size() const { return size_; }
  std::optional<std::span<const std::byte>> in_memory() const;
  bool made_when_written() const { return make_ != nullptr; }
  Bytes made() const { return make_(); }  // requires made_when_written()
  // The file that holds them, and where in it; an empty name when they exist in memory only.
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

// The same bytes as text, for keys and for string functions.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A dense tensor in row-major order. Shape: any; {} is a scalar.
struct TensorData {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  Bytes bytes;

  std::int64_t element_count() const;
};

// The one element of a tensor of integers or flags that has exactly one, where it is in memory.
std::optional<std::int64_t> single_integer(const TensorData& data);

}  // namespace whence
