// Rearranges weights as bytes.
#include "annotator/convert/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "annotator/program/tensor_values.h"
#include "schema/result.h"

namespace whence::convert {

using origin::OriginKind;

namespace {

constexpr std::int64_t cache_line = 64;  // bytes

// Transposes [rows, columns] elements of Width bytes to [columns, rows]; the result's rows are `stride` elements long.
// Each square tile is a cache line wide and is transposed in a local buffer, so that every cache line of the result is
// written once and completely.
template <std::size_t Width>
void transpose(const std::byte* from, std::byte* to, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  struct Element {
    std::byte bytes[Width];
  };
  constexpr std::int64_t side = cache_line / static_cast<std::int64_t>(Width);
  const auto transpose_tile = [&](std::int64_t r0, std::int64_t c0, auto height, auto width) {
    std::array<std::array<Element, side>, side> tile;
    std::array<Element, side> line;
    for (std::int64_t r = 0; r < height; ++r) {
      std::memcpy(line.data(), from + ((r0 + r) * columns + c0) * Width, static_cast<std::size_t>(width) * Width);
      for (std::int64_t c = 0; c < width; ++c) tile[c][r] = line[c];
    }
    for (std::int64_t c = 0; c < width; ++c) {
      std::memcpy(to + ((c0 + c) * stride + r0) * Width, tile[c].data(), static_cast<std::size_t>(height) * Width);
    }
  };
  constexpr std::integral_constant<std::int64_t, side> full_side;  // a compile-time constant
  for (std::int64_t r0 = 0; r0 < rows; r0 += side) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += side) {
      if (r0 + side <= rows && c0 + side <= columns) {
        transpose_tile(r0, c0, full_side, full_side);
      } else {
        transpose_tile(r0, c0, std::min(side, rows - r0), std::min(side, columns - c0));
      }
    }
  }
}

using Transpose = void (*)(const std::byte*, std::byte*, std::int64_t, std::int64_t, std::int64_t);

Transpose transpose_of(std::size_t width) {
  switch (width) {
    case 1:
      return transpose<1>;
    case 2:
      return transpose<2>;
    case 4:
      return transpose<4>;
    case 8:
      return transpose<8>;
    default:
      return transpose<16>;
  }
}

// Memory for the result, left uninitialised until it is written.
struct Buffer {
  explicit Buffer(std::size_t size) : bytes(std::make_shared_for_overwrite<std::byte[]>(size)), size(size) {}
  Bytes take() const { return Bytes::part_of(bytes, bytes.get(), size); }

  std::shared_ptr<std::byte[]> bytes;
  std::size_t size;
};

// Reads a weight from its file some rows at a time: pages read through the mapping would count as this process's
// memory. Returns false if the file cannot be read completely.
bool transpose_from_file(const TensorData& matrix, std::byte* to) {
  constexpr std::size_t at_once = std::size_t{1} << 20;  // bytes
  if (matrix.bytes.file().empty()) return false;
  const int fd = ::open(matrix.bytes.file().c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  const std::size_t width = size_of(matrix.dtype), row = static_cast<std::size_t>(columns) * width;
  const auto step =
      static_cast<std::int64_t>(std::max<std::size_t>(at_once / std::max<std::size_t>(row, 1), cache_line));
  const Buffer piece(static_cast<std::size_t>(std::min(step, rows)) * row);
  bool complete = true;
  for (std::int64_t r = 0; r < rows && complete; r += step) {
    const std::int64_t count = std::min(step, rows - r);
    const std::size_t size = static_cast<std::size_t>(count) * row;
    const auto offset = static_cast<off_t>(matrix.bytes.offset() + static_cast<std::size_t>(r) * row);
    complete = ::pread(fd, piece.bytes.get(), size, offset) == static_cast<ssize_t>(size);
    if (complete)
      transpose_of(width)(piece.bytes.get(), to + static_cast<std::size_t>(r) * width, count, columns, rows);
  }
  ::close(fd);
  return complete;
}

TensorData with_bytes(DType dtype, Ints shape, std::string bytes) {
  return TensorData{dtype, std::move(shape), Bytes::owned(std::move(bytes))};
}

}  // namespace

TensorData permuted(const TensorData& tensor, const Ints& permutation) {
  const std::size_t rank = tensor.shape.size();
  const std::size_t width = size_of(tensor.dtype);
  const bool dense = static_cast<std::size_t>(tensor.element_count()) * width == tensor.bytes.size();
  if (permutation.size() != rank || !dense) {
    throw Error(Code::corrupt_file, "a constant of rank " + std::to_string(rank) + " does not match its stated shape",
                "save the model again with torch.export.save");
  }
  const Buffer buffer(tensor.bytes.size());
  std::byte* to = buffer.bytes.get();
  if (rank == 2 && permutation == Ints{1, 0}) {
    const std::int64_t rows = tensor.shape[0];
    if (!transpose_from_file(tensor, to)) {
      transpose_of(width)(tensor.bytes.in_memory().value().data(), to, rows, tensor.shape[1], rows);
    }
    return {tensor.dtype, {tensor.shape[1], rows}, buffer.take()};
  }

  Ints strides(rank, 1), shape(rank), step(rank), index(rank, 0);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * tensor.shape[i];
  for (std::size_t i = 0; i < rank; ++i) {
    shape[i] = tensor.shape[permutation[i]];
    step[i] = strides[permutation[i]];
  }
  const std::byte* from = tensor.bytes.in_memory().value().data();
  std::int64_t at = 0;
  for (std::int64_t n = tensor.element_count(); n > 0; --n, to += width) {
    std::memcpy(to, from + at * width, width);
    for (std::size_t i = rank; i-- > 0;) {
      at += step[i];
      if (++index[i] < shape[i]) break;
      at -= step[i] * shape[i];
      index[i] = 0;
    }
  }
  return {tensor.dtype, shape, buffer.take()};
}

TensorData transposed(const TensorData& matrix) { return permuted(matrix, {1, 0}); }

TensorData transposed_when_written(const TensorData& matrix) {
  constexpr std::size_t small = std::size_t{1} << 16;  // bytes
  if (matrix.bytes.size() <= small) return transposed(matrix);
  return {matrix.dtype, {matrix.shape[1], matrix.shape[0]}, Bytes::computed_when_written(matrix.bytes.size(), [matrix] {
            return transposed(matrix).bytes;
          })};
}

TensorData reshaped(TensorData tensor, const Ints& shape) {
  tensor.shape = shape;
  return tensor;
}

TensorData rows(const TensorData& tensor, std::int64_t begin, std::int64_t end) {
  const std::string_view content = as_text(tensor.bytes.in_memory().value());
  const std::size_t row = tensor.shape[0] == 0 ? 0 : content.size() / tensor.shape[0];
  Ints shape = tensor.shape;
  shape[0] = end - begin;
  return with_bytes(tensor.dtype, std::move(shape), std::string(content.substr(begin * row, (end - begin) * row)));
}

TensorData concatenated(const std::vector<TensorData>& parts) {
  Ints shape = parts.front().shape;
  shape[0] = 0;
  std::string bytes;
  bytes.reserve(std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                                [](std::size_t sum, const TensorData& part) { return sum + part.bytes.size(); }));
  for (const TensorData& part : parts) {
    shape[0] += part.shape[0];
    bytes.append(as_text(part.bytes.in_memory().value()));
  }
  return with_bytes(parts.front().dtype, std::move(shape), std::move(bytes));
}

TensorData filled(const Ints& shape, double value, DType dtype) {
  const TensorData scalar = program::number_scalar(value, dtype);
  TensorData result{dtype, shape, {}};
  std::string bytes;
  const std::string_view element = as_text(scalar.bytes.in_memory().value());
  bytes.reserve(result.element_count() * element.size());
  for (std::int64_t n = result.element_count(); n > 0; --n) bytes.append(element);
  result.bytes = Bytes::owned(std::move(bytes));
  return result;
}

Val derived_constant(Ctx& c, Val source, std::string_view suffix,
                     const std::function<TensorData(const TensorData&)>& make) {
  graph::Graph& graph = c.graph();
  const std::string base = graph.values[source.id].name;
  if (base.empty()) return c.constant_tensor(make(*c.constant(source)));
  const std::string name = base + "." + std::string(suffix);
  const std::int32_t op = c.node().origin.op;
  for (graph::Initializer& existing : graph.initializers) {
    if (graph.values[existing.value].name != name) continue;
    existing.origin =
        origin::merge_origins(existing.origin, origin::NodeOrigin{OriginKind::own, {op}}, OriginKind::shared);
    return Val{existing.value};
  }
  const std::int32_t held = graph.values[source.id].initializer;
  const bool of_weights = held >= 0 && (graph.initializers[held].parameter || graph.initializers[held].rearranged);
  const graph::GraphValueId derived =
      graph.add_initializer(name, make(*c.constant(source)), origin::NodeOrigin{OriginKind::own, {op}}, false);
  graph.initializers.back().rearranged = of_weights;
  return Val{derived};
}

Val per_channel(Ctx& c, Val weight, int trailing) {
  c.expect(trailing >= 0, "the input must have a batch axis and a channel axis");
  if (trailing == 0) return weight;
  if (const TensorData* data = c.constant(weight)) {
    Ints shape = data->shape;
    shape.insert(shape.end(), trailing, 1);
    return derived_constant(c, weight, "per_channel", [&](const TensorData& w) { return reshaped(w, shape); });
  }
  Ints axes(trailing);
  std::iota(axes.begin(), axes.end(), 1);
  return c.unsqueeze(weight, axes);
}

}  // namespace whence::convert
