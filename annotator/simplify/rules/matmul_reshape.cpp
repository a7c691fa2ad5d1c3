// a [L.., m, k] -> Reshape [x, m, k] -> MatMul -> Reshape [L.., m, n]      before; same for b [L.., k, n]
// a -> MatMul with b                                                       after
// and
// a [L.., k] -> Reshape [x, k] -> MatMul with [k, n] -> Reshape [L.., n]   before
// a -> MatMul with [k, n]                                                  after
// PyTorch's bmm and mm take three and two axes; MatMul takes any number.
// Condition: L is the same in all of them, axis by axis, and nothing else reads the product. Origins: joined; the
// reshapes before the product stay for their other users.
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

// Returns true if the result has the columns of the right operand and the rows and number of matrices of the left one.
// With a single right matrix, the rows are part of L.
bool fits(const Dims& result, const Dims& left, const Dims& right, bool one_matrix) {
  if (result.size() < 3 || !same_size(result.back(), right.back())) return false;
  return one_matrix || (left.size() == 3 && right.size() == 3 && same_size(left.front(), right.front()) &&
                        same_size(result[result.size() - 2], left[left.size() - 2]));
}

const Dims* dims_of(const Rewriter& r, GraphValueId value) {
  const auto& dims = r.value(value).dims;
  return dims ? &*dims : nullptr;
}

// Returns the dims of an operand with the leading axes of `result` and the last `kept` axes of `now`.
Dims with_end_of(const Dims& result, const Dims& now, std::size_t kept) {
  Dims dims(result.begin(), result.end() - static_cast<std::ptrdiff_t>(kept));
  dims.insert(dims.end(), now.end() - static_cast<std::ptrdiff_t>(kept), now.end());
  return dims;
}

// An operand [x, ..] before its Reshape, as [L.., ..].
struct Operand {
  GraphValueId value = no_value;    // no_value: not available
  std::vector<std::int64_t> shape;  // shape that `value` still needs; empty if it already has it
};

// Returns a Reshape target with at most one dynamic size; empty if that is not possible.
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

// Returns the operand, reshaped if necessary.
GraphValueId reshaped_operand(Rewriter& r, const Operand& operand, GraphValueId before, const Dims& dims) {
  if (operand.shape.empty()) return operand.value;
  GraphNode reshape = make_node("Reshape", {operand.value}, r.producer(before)->origin);
  reshape.inputs.push_back(r.constant(program::integer_vector(operand.shape), reshape.origin));
  const DType dtype = r.value(before).dtype;
  return r.insert(std::move(reshape), dtype, dims);
}

}  // namespace

Outcome matmul_reshape(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& outer = rewriter.node(index);
  if (!is(outer, "Reshape")) return no_match();
  const GraphNode* product = rewriter.producer(outer.inputs[0], "MatMul");
  if (product == nullptr || rewriter.use_count(outer.inputs[0]) != 1) return no_match();
  const GraphValueId result = outer.outputs[0], left = product->inputs[0], right = product->inputs[1];
  if (dims_of(rewriter, result) == nullptr || dims_of(rewriter, left) == nullptr ||
      dims_of(rewriter, right) == nullptr) {
    return no_match();
  }
  const Dims dims = *dims_of(rewriter, result);
  const Dims left_dims = *dims_of(rewriter, left), right_dims = *dims_of(rewriter, right);
  const bool one_matrix = right_dims.size() == 2;
  const std::size_t kept = one_matrix ? 1 : 2;  // axes of the left operand that no Reshape changes
  if (!fits(dims, left_dims, right_dims, one_matrix)) return no_match();
  const Operand a = operand_before(rewriter, left, dims, kept);
  const Operand b = one_matrix ? Operand{right, {}} : operand_before(rewriter, right, dims, kept);
  if (a.value == no_value || b.value == no_value) return no_match();
  if (!a.shape.empty() && (one_matrix || !b.shape.empty())) return no_match();  // saves no node

  const origin::NodeOrigin origin = joined(product->origin, outer.origin);
  const GraphValueId first = reshaped_operand(rewriter, a, left, with_end_of(dims, left_dims, kept));
  const GraphValueId second = reshaped_operand(rewriter, b, right, with_end_of(dims, right_dims, kept));
  rewriter.replace_with(result, make_node("MatMul", {first, second}, origin));
  return changed();
}

}  // namespace whence::simplify
