#include "annotator/comparison/layout_results.h"

#include "annotator/comparison/numbers_of_node.h"
#include "annotator/derivation/evaluate.h"

namespace whence::comparison {

namespace {

constexpr std::size_t image_rank = 4;  // [N,C,H,W]

// Reads the elements in one shape, transposes them, and gives the result another shape.
std::optional<TensorData> rearranged(const TensorData& data, const Sizes64& shape, std::vector<std::int64_t> order,
                                     const Sizes64& result) {
  auto moved = derivation::transposed({data.dtype, shape, data.bytes}, {std::move(order)});
  moved.shape = result;
  return moved;
}

}  // namespace

std::optional<TensorData> blocks_moved(const graph::GraphNode& node, const TensorData& data) {
  const std::int64_t size = node.int_attribute("blocksize", 0);
  if (size < 1 || data.shape.size() != image_rank || !data.bytes.in_memory()) return std::nullopt;
  const std::int64_t n = data.shape[0], c = data.shape[1], h = data.shape[2], w = data.shape[3];
  if (node.op_type == "SpaceToDepth") {
    if (h % size != 0 || w % size != 0) return std::nullopt;
    return rearranged(data, {n, c, h / size, size, w / size, size}, {0, 3, 5, 1, 2, 4},
                      {n, c * size * size, h / size, w / size});
  }
  if (node.op_type != "DepthToSpace" || c % (size * size) != 0) return std::nullopt;
  const std::int64_t channels = c / (size * size);
  const Sizes64 result = {n, channels, h * size, w * size};
  // Which axes the channels hold first: the elements of a block, or those of the result's channels.
  if (text_attribute(node, "mode", "DCR") == "DCR")
    return rearranged(data, {n, size, size, channels, h, w}, {0, 3, 4, 1, 5, 2}, result);
  return rearranged(data, {n, channels, size, size, h, w}, {0, 1, 4, 2, 5, 3}, result);
}

}  // namespace whence::comparison
