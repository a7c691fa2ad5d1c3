// The axis arithmetic for indexing with tensors; the header describes PyTorch's rule.
#include "annotator/convert/advanced_index.h"

#include <algorithm>

#include "annotator/convert/axes.h"
#include "annotator/convert/broadcast.h"

namespace whence::convert {
namespace {

// uint8 index tensors are masks, a leftover from before PyTorch had booleans.
bool is_mask(Ctx& c, Val index) { return c.dtype(index) == DType::boolean || c.dtype(index) == DType::uint8; }

std::vector<Val> tensors_of(const std::vector<IndexedAxis>& axes) {
  std::vector<Val> tensors;
  for (const IndexedAxis& entry : axes) tensors.push_back(entry.index);
  return tensors;
}

// Transposes a mask's positions from one row per axis to one row per true element.
Val table_of_rows(Ctx& c, Val rows) { return c.emit("Transpose", {rows}, {{"perm", Ints{1, 0}}}); }

}  // namespace

Val nonzero_operand(Ctx& c, Val x) {
  const DType dtype = c.dtype(x);
  const bool served =
      dtype == DType::float32 || dtype == DType::int32 || dtype == DType::int64 || dtype == DType::uint8;
  return served ? x : c.cast(x, DType::boolean);
}

Val mask_positions(Ctx& c, Val mask) { return table_of_rows(c, c.emit("NonZero", {nonzero_operand(c, mask)})); }

std::vector<IndexedAxis> indexed_axes(Ctx& c, const std::vector<Val>& indices) {
  std::vector<IndexedAxis> axes;
  std::int64_t axis = 0;
  for (const Val index : indices) {
    if (!index) {
      ++axis;
    } else if (is_mask(c, index)) {
      if (c.rank(index) == 0) c.refuse("indexing with a boolean scalar", "use torch.where, or a mask of rank 1");
      const Val rows = c.emit("NonZero", {c.cast(index, DType::boolean)});
      const std::vector<Dim> found{Dim{-1, true}};
      for (int i = 0; i < c.rank(index); ++i) {
        axes.push_back({axis++, c.typed(c.emit("Gather", {rows, c.constant_int(i)}), DType::int64, found), rows});
      }
    } else {
      const bool as_it_is = c.dtype(index) == DType::int64 || c.dtype(index) == DType::int32;
      axes.push_back({axis++, as_it_is ? index : c.cast(index, DType::int64), absent});
    }
  }
  return axes;
}

std::optional<IndexedAxis> only_mask(Ctx& c, const std::vector<Val>& indices) {
  std::optional<IndexedAxis> found;
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis]) continue;
    if (found || !is_mask(c, indices[axis]) || c.rank(indices[axis]) == 0) return std::nullopt;
    found = IndexedAxis{static_cast<std::int64_t>(axis), c.cast(indices[axis], DType::boolean), absent};
  }
  return found;
}

IndexLayout index_layout(Ctx& c, const std::vector<IndexedAxis>& axes, int rank) {
  IndexLayout layout{{}, 0, 0};
  for (const IndexedAxis& entry : axes) {
    layout.to_front.push_back(entry.axis);
    layout.index_rank = std::max(layout.index_rank, c.rank(entry.index));
  }
  const std::int64_t first = axes.front().axis, last = axes.back().axis;
  c.expect(last < rank, "self must have an axis for each index");
  const bool neighbours = last - first + 1 == static_cast<std::int64_t>(axes.size());
  layout.before = neighbours ? static_cast<int>(first) : 0;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const bool indexed =
        std::any_of(axes.begin(), axes.end(), [axis](const auto& entry) { return entry.axis == axis; });
    if (!indexed) layout.to_front.push_back(axis);
  }
  return layout;
}

Ints result_order(const IndexLayout& layout, int result_rank) {
  Ints order = axis_order(result_rank);
  std::rotate(order.begin(), order.begin() + layout.index_rank, order.begin() + layout.index_rank + layout.before);
  return order;
}

Ints inverse(const Ints& permutation) {
  Ints inverted(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) inverted[permutation[i]] = static_cast<std::int64_t>(i);
  return inverted;
}

Val index_table(Ctx& c, const std::vector<IndexedAxis>& axes) {
  const Val rows = axes[0].mask_rows;
  const auto from_rows = [rows](const IndexedAxis& entry) { return entry.mask_rows == rows; };
  if (rows && std::all_of(axes.begin(), axes.end(), from_rows)) return table_of_rows(c, rows);

  const std::vector<Val> tensors = tensors_of(axes);
  std::vector<Val> columns;
  for (const Val index : tensors) {
    const Val column = broadcast(c, c.cast(index, DType::int64), tensors);
    columns.push_back(c.emit("Unsqueeze", {column, c.constant_ints({-1})}));
  }
  return columns.size() == 1 ? columns[0] : c.emit("Concat", columns, {{"axis", -1}});
}

}  // namespace whence::convert
