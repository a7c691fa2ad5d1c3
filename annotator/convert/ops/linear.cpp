// Matrix products: linear layers, addmm and matmul with related operators.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "annotator/convert/convert.h"
#include "annotator/convert/ops/elementwise.h"
#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "annotator/convert/uses.h"
#include "annotator/convert/weights.h"
#include "schema/folding.h"

namespace whence::convert {

namespace {

// Returns true if Gemm can be used: it is defined for integers, but runtimes lack those forms.
bool gemm_serves(Ctx& c, Val x) { return is_floating(c.dtype(x)); }

Val plus(Ctx& c, Val x, Val bias) { return bias ? c.emit("Add", {x, bias}) : x; }

Val gemm(Ctx& c, Val a, Val b, Val addend, Attributes attributes) {
  return c.emit("Gemm", addend ? std::vector{a, b, addend} : std::vector{a, b}, std::move(attributes));
}

// Returns true if the program reads the weight only in linear layers, and always with more axes than Gemm accepts.
bool only_multiplied_transposed(Ctx& c) {
  const auto value_of = [](const Argument* argument) {
    return argument == nullptr ? nullptr : argument->as<ValueRef>();  // a sidecar may contain anything
  };
  const ValueRef* weight = value_of(c.node().find("weight"));
  if (weight == nullptr) return false;
  const Program& program = c.session().program();
  for (const ProgramUse& use : c.session().uses().of(weight->id)) {
    if (!use.node || use.node->target != "aten::linear" || use.argument != "weight") return false;
    const ValueRef* input = value_of(use.node->find("input"));
    if (input == nullptr) return false;
    const auto& dims = program.values[input->id].type.dims;
    if (!dims || dims->size() == 2) return false;
  }
  return true;
}

// Returns `weight` [out, in] as [in, out], or absent if that would store a second copy in the file. A constant that
// nothing reads in its own layout is written transposed. A small constant, whose copy costs little, and a computed
// weight get a Transpose node.
Val transposed_weight(Ctx& c, Val weight) {
  if (!c.constant(weight)) return c.transpose(weight, {1, 0});
  if (only_multiplied_transposed(c)) return derived_constant(c, weight, "T", transposed_when_written);
  const TensorData& data = *c.constant(weight);
  const bool copied = c.session().as_other_exporters() || may_store_additionally(data, data.bytes.size());
  return copied ? c.transpose(weight, {1, 0}) : absent;
}

// y = x W^T + b. input [*, in], weight [out, in] or [in], bias [out].
void linear(Ctx& c) {
  const Val x = c.tensor("input"), weight = c.tensor("weight"), bias = c.optional_tensor("bias");
  if (c.rank(weight) == 1) return c.yield(plus(c, c.emit("MatMul", {x, weight}), bias));
  if (c.rank(x) == 2 && gemm_serves(c, x)) return c.yield(gemm(c, x, weight, bias, {{"transB", 1}}));

  if (const Val matrix = transposed_weight(c, weight)) return c.yield(plus(c, c.emit("MatMul", {x, matrix}), bias));
  // The weight is also read in its own layout (an embedding tied to the output layer), so a transposed copy would store
  // it twice. The rows are flattened for Gemm instead, which reads the weight transposed.
  const std::int64_t features = c.constant(weight)->shape[1];
  const Val product = gemm(c, c.reshape(x, {-1, features}), weight, bias, {{"transB", 1}});
  c.yield(c.reshape_to_output(product));
}

// Returns the number of a Scalar argument if it is known at export.
std::optional<double> known_number(Ctx& c, const char* name) {
  const TensorData* known = c.constant(c.scalar(name, DType::float64));
  return known == nullptr ? std::nullopt : program::single_number(*known);
}

// beta * self + alpha * product, for products and factors that Gemm does not accept.
Val scaled_sum(Ctx& c, Val product) {
  const DType dtype = c.output_dtype();
  product = times_scalar(c, product, "alpha", dtype);
  if (known_number(c, "beta") == 0.0) return product;
  return c.emit("Add", {times_scalar(c, c.tensor("self"), "beta", dtype), product});
}

// beta * self + alpha * (mat1 @ mat2). mat1 [n, k], mat2 [k, m], self broadcasts to [n, m].
void addmm(Ctx& c) {
  const Val a = c.tensor("mat1"), b = c.tensor("mat2");
  // ONNX Runtime's Gemm ignores beta if the summed axis is empty.
  const bool nothing = c.static_dim(a, 1) == std::int64_t{0};
  const auto alpha = known_number(c, "alpha"), beta = known_number(c, "beta");
  if (nothing || !gemm_serves(c, a) || !alpha || !beta) return c.yield(scaled_sum(c, c.emit("MatMul", {a, b})));
  Attributes scales;
  if (*alpha != 1) scales.push_back({"alpha", static_cast<float>(*alpha)});
  if (*beta != 1 && *beta != 0) scales.push_back({"beta", static_cast<float>(*beta)});
  c.yield(gemm(c, a, b, *beta == 0 ? absent : c.tensor("self"), std::move(scales)));
}

// beta * self + alpha * (mat @ vec)
void addmv(Ctx& c) { c.yield(scaled_sum(c, c.emit("MatMul", {c.tensor("mat"), c.tensor("vec")}))); }

// beta * self + alpha * (vec1 outer vec2). vec1 [n], vec2 [m], self broadcasts to [n, m].
void addr(Ctx& c) {
  const auto [a, b] = c.promoted(c.tensor("vec1"), c.tensor("vec2"));
  c.yield(scaled_sum(c, c.emit("Mul", {c.unsqueeze(a, {1}), b})));
}

// beta * self + alpha * (batch1 @ batch2), batch by batch
void baddbmm(Ctx& c) { c.yield(scaled_sum(c, c.emit("MatMul", {c.tensor("batch1"), c.tensor("batch2")}))); }

// beta * self + alpha * sum over the batch of batch1 @ batch2
void addbmm(Ctx& c) {
  const Val products = c.emit("MatMul", {c.tensor("batch1"), c.tensor("batch2")});
  c.yield(scaled_sum(c, reduce(c, "ReduceSum", products, {0}, false)));
}

// PyTorch and ONNX both follow NumPy's rules for vectors and batches, so these differ only in argument names.
void matmul(Ctx& c) { c.yield(c.emit("MatMul", {c.tensor("self"), c.tensor("other")})); }
void mm(Ctx& c) { c.yield(c.emit("MatMul", {c.tensor("self"), c.tensor("mat2")})); }
void mv(Ctx& c) { c.yield(c.emit("MatMul", {c.tensor("self"), c.tensor("vec")})); }
void dot(Ctx& c) { c.yield(c.emit("MatMul", {c.tensor("self"), c.tensor("tensor")})); }

// Real vectors only, which equal their conjugates.
void vdot(Ctx& c) { matmul(c); }

// [n] x [m] -> [n, m]
void outer(Ctx& c) {
  const auto [a, b] = c.promoted(c.tensor("self"), c.tensor("vec2"));
  c.yield(c.emit("Mul", {c.unsqueeze(a, {1}), b}));
}

// Sums over the last axis of both: [..., k] x [..., k] -> [..., ...]; an element-wise product if one is a scalar.
void inner(Ctx& c) {
  const Val a = c.tensor("self"), b = c.tensor("other");
  if (c.rank(a) == 0 || c.rank(b) == 0) return c.yield(c.emit("Mul", {a, b}));
  if (c.rank(b) == 1) return c.yield(c.emit("MatMul", {a, b}));
  if (c.rank(b) == 2) return c.yield(c.emit("MatMul", {a, c.transpose(b, {1, 0})}));
  std::string left, right;
  for (int i = 1; i < c.rank(a); ++i) left.push_back(static_cast<char>('a' + i));
  for (int i = 1; i < c.rank(b); ++i) right.push_back(static_cast<char>('A' + i));
  c.yield(c.emit("Einsum", {a, b}, {{"equation", left + "a," + right + "a->" + left + right}}));
}

// y_o = sum over i and j of a_i * W_oij * b_j, + bias. a [*, I], b [*, J], W [O, I, J] -> [*, O]
void bilinear(Ctx& c) {
  const Val w = c.tensor("weight");
  const Val a = c.unsqueeze(c.tensor("input1"), {c.rank(c.tensor("input1")) - 1});
  const Val b = c.unsqueeze(c.tensor("input2"), {c.rank(c.tensor("input2")) - 1});
  // [*, 1, 1, I] @ [O, I, J] -> [*, O, 1, J]
  const Val row = c.unsqueeze(a, {c.rank(c.tensor("input1")) - 1});
  const Val left = c.emit("MatMul", {row, w});
  const Val column = c.unsqueeze(b, {c.rank(c.tensor("input2")) - 1});
  const Val product = c.typed(c.emit("Mul", {left, column}), c.output_dtype());
  Val y = reduce(c, "ReduceSum", product, {-2, -1}, false);
  if (const Val bias = c.optional_tensor("bias")) y = c.emit("Add", {y, bias});
  c.yield(y);
}

// The product of three tensors, each with new axes (`expand`, in order), summed over `sumdim`.
void trilinear(Ctx& c) {
  Val product;
  for (const auto& [tensor, expand] : {std::pair{"i1", "expand1"}, {"i2", "expand2"}, {"i3", "expand3"}}) {
    Ints axes = c.integers(expand);
    std::sort(axes.begin(), axes.end());
    const Val factor = c.unsqueeze(c.tensor(tensor), axes);
    product = product ? c.typed(c.emit("Mul", {product, factor}), c.output_dtype()) : factor;
  }
  c.yield(reduce(c, "ReduceSum", product, c.integers("sumdim"), false));
}

const OpEntry kLinear[] = {
    {"aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, "
     "int unroll_dim=1) -> Tensor",
     trilinear},
    {"aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear},
    {"aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm},
    {"aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmv},
    {"aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addr},
    {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", baddbmm},
    {"aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addbmm},
    {"aten::matmul(Tensor self, Tensor other) -> Tensor", matmul},
    {"aten::mm(Tensor self, Tensor mat2) -> Tensor", mm},
    {"aten::bmm(Tensor self, Tensor mat2) -> Tensor", mm},
    {"aten::mv(Tensor self, Tensor vec) -> Tensor", mv},
    {"aten::dot(Tensor self, Tensor tensor) -> Tensor", dot},
    {"aten::vdot(Tensor self, Tensor other) -> Tensor", vdot},
    {"aten::outer(Tensor self, Tensor vec2) -> Tensor", outer},
    {"aten::inner(Tensor self, Tensor other) -> Tensor", inner},
    {"aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear},
};

}  // namespace

OpFamily linear_ops() { return kLinear; }

}  // namespace whence::convert
