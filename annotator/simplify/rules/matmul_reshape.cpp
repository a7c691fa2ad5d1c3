// a [L.., m, k] -> Reshape [x, m, k] -> MatMul -> Reshape [L.., m, n]      before; b [L.., k, n] is reshaped likewise
// a -> MatMul with b                                                       after
// and
// a [L.., k] -> Reshape [x, k] -> MatMul with [k, n] -> Reshape [L.., n]   before
// a -> MatMul with [k, n]                                                  after
// PyTorch's bmm and mm take three and two axes; MatMul takes any number.
// Condition: L is the same in all of them, axis by axis, and nothing else reads the product. Origins: joined; the
// reshapes before stay for their other users.
#include <algorithm>

#include "annotator/program/tensor_values.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

using Dims = std::vector<Dim>;

// The product has the columns of its right operand, the rows of its left one, which a single matrix leaves in L, and as
// many matrices as both.
bool fits(const Dims& result, const Dims& left, const Dims& right, bool one_matrix) {
  if (result.size() < 3 || !same_size(result.back(), right.back())) return false;
  return one_matrix || (left.size() == 3 && right.size() == 3 && same_size(left.front(), right.front()) &&
                        same_size(result[result.size() - 2], left[left.size() - 2]));
}

const Dims* dims_of(const Rewriter& r, GraphValueId value) {
  const auto& dims = r.value(value).dims;
  return dims ? &*dims : nullptr;
}

// The dims of a matrix product's operand that begins as `result` and ends with `kept` axes of `now`.
Dims with_end_of(const Dims& result, const Dims& now, std::size_t kept) {
  Dims dims(result.begin(), result.end() - static_cast<std::ptrdiff_t>(kept));
  dims.insert(dims.end(), now.end() - static_cast<std::ptrdiff_t>(kept), now.end());
  return dims;
}

// `operand` [x, ..] as [L.., ..], of which `kept` axes stand at the end.
struct Operand {
  GraphValueId value = no_value;    // no_value: it is not to be had
  std::vector<std::int64_t> shape;  // into which `value` has yet to be reshaped; empty: it is so already
};

// A shape of sizes known while exporting, but for one.
std::vector<std::int64_t> as_target(const Dims& dims) {
  std::vector<std::int64_t> target;
  for (const Dim& dim : dims) target.push_back(dim.is_static() ? dim.size : -1);
  const bool computed = std::ranges::count(target, -1) > 1 || std::ranges::count(target, 0) > 0;
  return computed ? std::vector<std::int64_t>() : target;
}

Operand operand_before(const Rewriter& r, GraphValueId operand, const Dims& result, std::size_t kept) {
  const GraphNode* reshape = r.producer(operand, "Reshape");
  if (reshape == nullptr) return {};
  const Dims *from = dims_of(r, reshape->inputs[0]), *to = dims_of(r, operand);
  if (from == nullptr || to == nullptr || to->size() != kept + 1) return {};
  const Dims dims = with_end_of(result, *to, kept);
  if (std::ranges::equal(*from, dims, same_size)) return {reshape->inputs[0], {}};
  if (r.use_count(operand) != 1) return {};
  auto target = as_target(dims);
  return target.empty() ? Operand{} : Operand{reshape->inputs[0], std::move(target)};
}

// The operand, after a reshape of its own where it needs one.
GraphValueId made(Rewriter& r, const Operand& operand, GraphValueId before, const Dims& dims) {
  if (operand.shape.empty()) return operand.value;
  GraphNode reshape = make_node("Reshape", {operand.value}, r.producer(before)->origin);
  reshape.inputs.push_back(r.constant(program::integer_vector(operand.shape), reshape.origin));
  const DType dtype = r.value(before).dtype;
  return r.insert(std::move(reshape), dtype, dims);
}

}  // namespace

Outcome matmul_reshape(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  if (!is(outer, "Reshape")) return not_mine();
  const GraphNode* product = rewriter.producer(outer.inputs[0], "MatMul");
  if (product == nullptr || rewriter.use_count(outer.inputs[0]) != 1) return not_mine();
  const GraphValueId result = outer.outputs[0], left = product->inputs[0], right = product->inputs[1];
  if (dims_of(rewriter, result) == nullptr || dims_of(rewriter, left) == nullptr ||
      dims_of(rewriter, right) == nullptr) {
    return not_mine();
  }
  const Dims dims = *dims_of(rewriter, result);
  const Dims left_dims = *dims_of(rewriter, left), right_dims = *dims_of(rewriter, right);
  const bool one_matrix = right_dims.size() == 2;
  const std::size_t kept = one_matrix ? 1 : 2;  // axes of the left operand that no reshape touches
  if (!fits(dims, left_dims, right_dims, one_matrix)) return not_mine();
  const Operand a = operand_before(rewriter, left, dims, kept);
  const Operand b = one_matrix ? Operand{right, {}} : operand_before(rewriter, right, dims, kept);
  if (a.value == no_value || b.value == no_value) return not_mine();
  if (!a.shape.empty() && (one_matrix || !b.shape.empty())) return not_mine();  // no node fewer

  const origin::NodeOrigin origin = joined(product->origin, outer.origin);
  const GraphValueId first = made(rewriter, a, left, with_end_of(dims, left_dims, kept));
  const GraphValueId second = made(rewriter, b, right, with_end_of(dims, right_dims, kept));
  rewriter.put_in_place_of(result, make_node("MatMul", {first, second}, origin));
  return changed();
}

}  // namespace whence::simplify
