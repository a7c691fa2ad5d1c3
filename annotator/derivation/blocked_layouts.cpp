#include "annotator/derivation/blocked_layouts.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "annotator/derivation/element_views.h"

namespace whence::derivation {
namespace {

constexpr std::array<std::int64_t, 3> block_sizes = {8, 16, 4};

Expression rearranged(Expression input, std::vector<std::int64_t> from, std::vector<std::int64_t> order,
                      std::vector<std::int64_t> to) {
  Expression split{ReshapeStep{std::move(from)}, {std::move(input)}};
  Expression moved{TransposeStep{std::move(order)}, {std::move(split)}};
  return {ReshapeStep{std::move(to)}, {std::move(moved)}};
}

}  // namespace

Expression BlockedLayout::blocked(Expression weight) const { return rearranged(std::move(weight), split, order, dims); }

Expression BlockedLayout::plain(Expression stored) const {
  std::vector<std::int64_t> stored_dims, inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    stored_dims.push_back(split[static_cast<std::size_t>(order[i])]);
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  return rearranged(std::move(stored), stored_dims, inverse, dims);
}

bool reads_in_blocks(const FileTensor& tensor, std::size_t slot) {
  return std::ranges::any_of(
      tensor.uses, [&](const Use& use) { return use.node->domain == "com.microsoft.nchwc" && use.slot == slot; });
}

std::vector<std::int64_t> without_padding(const TensorData& plain) {
  std::vector<std::int64_t> dims = plain.shape;
  const std::string_view bytes = text_of(plain);
  const auto row = static_cast<std::size_t>(dims.empty() || dims[0] == 0 ? 0 : plain.bytes.size() / dims[0]);
  const auto is_zero = [](std::string_view part) { return part.find_first_not_of('\0') == std::string_view::npos; };
  const std::int64_t least = dims.empty() ? 0 : dims[0] - std::ranges::max(block_sizes);
  while (!dims.empty() && dims[0] > 1 && dims[0] > least + 1 &&
         is_zero(bytes.substr(static_cast<std::size_t>(dims[0] - 1) * row, row)))
    --dims[0];
  if (dims.size() < 2) return dims;
  const std::size_t line = dims[1] == 0 ? 0 : row / static_cast<std::size_t>(dims[1]);
  const auto is_empty_input = [&](std::int64_t input) {
    for (std::int64_t output = 0; output < dims[0]; ++output) {
      if (!is_zero(bytes.substr(static_cast<std::size_t>(output) * row + static_cast<std::size_t>(input) * line, line)))
        return false;
    }
    return true;
  };
  const std::int64_t fewest = dims[1] - std::ranges::max(block_sizes);
  while (dims[1] > 1 && dims[1] > fewest + 1 && is_empty_input(dims[1] - 1)) --dims[1];
  return dims;
}

std::vector<BlockedLayout> blocked_layouts(const FileTensor& tensor) {
  const auto& dims = tensor.tensor->dims;
  std::vector<BlockedLayout> found;
  if (!reads_in_blocks(tensor, 1) || dims.size() != 4) return found;
  for (const std::int64_t block : block_sizes) {
    const std::int64_t outputs = dims[0], inputs = dims[1];
    if (outputs % block != 0) continue;
    if (inputs % block == 0) {
      found.push_back({dims, {outputs / block, block, inputs / block, block, dims[2], dims[3]}, {0, 2, 4, 5, 3, 1}});
    }
    found.push_back({dims, {outputs / block, block, inputs, dims[2], dims[3]}, {0, 2, 3, 4, 1}});
  }
  return found;
}

}  // namespace whence::derivation
