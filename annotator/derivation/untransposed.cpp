#include "annotator/derivation/untransposed.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "whence/diagnostics.h"

namespace whence::derivation {

Untransposed untransposed(const Expression& weight, Layout layout, const Groups& groups) {
  const auto* const transpose = std::get_if<TransposeStep>(&weight.step);
  if (transpose == nullptr || layout != Layout::plain || groups.kind == Groups::Kind::block)
    return {&weight, groups, nullptr};
  std::vector<std::int64_t> axes(dims_of(weight).size());
  std::iota(axes.begin(), axes.end(), 0);
  const bool fits = std::ranges::is_permutation(transpose->order, axes) &&
                    (groups.kind == Groups::Kind::tensor || std::ranges::count(axes, groups.axis) == 1);
  if (!fits) {
    throw Error(Code::corrupt_file, "a derivation does not fit its tensors", "write the statement again",
                {.stage = "derive"});
  }
  Untransposed found{&weight.inputs[0], groups, transpose};
  if (groups.kind == Groups::Kind::channel) found.groups.axis = transpose->order[static_cast<std::size_t>(groups.axis)];
  return found;
}

}  // namespace whence::derivation
