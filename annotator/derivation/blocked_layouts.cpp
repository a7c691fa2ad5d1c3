#include "annotator/derivation/blocked_layouts.h"

#include <algorithm>
#include <utility>

namespace whence::derivation {
namespace {

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

std::vector<BlockedLayout> blocked_layouts(const FileTensor& tensor) {
  constexpr std::string_view domain = "com.microsoft.nchwc";
  const auto& dims = tensor.tensor->dims;
  const bool is_weight =
      std::ranges::any_of(tensor.uses, [&](const Use& use) { return use.node->domain == domain && use.slot == 1; });
  std::vector<BlockedLayout> found;
  if (!is_weight || dims.size() != 4) return found;
  for (const std::int64_t block : {8, 16, 4}) {
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
