// The bytes of a tensor, wherever they live. Weights are never copied on the way from an archive to an ONNX file:
// they stay in the mapped archive, and a writer copies them as a span from file to file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/dtype.h"

namespace whence {

// Contiguous, little-endian bytes. `owner` keeps them alive: a mapping or a buffer.
struct Bytes {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  // Where the same bytes lie on disk; empty when they exist in memory only.
  std::string file;
  std::uint64_t offset = 0;
  // Set for bytes that are made only while they are written, so that a large rearranged weight never waits in memory:
  // `size` is right, `data` is null. Must give the same bytes each time.
  std::function<Bytes()> when_written = nullptr;

  std::span<const std::byte> span() const { return {data, size}; }
  static Bytes copy_of(const void* data, std::size_t size);
  static Bytes owned(std::string text);
};

// A dense tensor in row-major order. Shape: any; {} is a scalar.
struct TensorData {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  Bytes bytes;

  std::int64_t element_count() const;
};

}  // namespace whence
