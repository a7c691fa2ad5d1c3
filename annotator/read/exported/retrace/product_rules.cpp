// Products of vectors and matrices, lengths of vectors, and matrices with something on their diagonal.
#include <numeric>

#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;
using Keywords = Retrace::Keywords;

// ---- products -----------------------------------------------------------------------------------------------------

// With every axis of one tensor next to the same of the other.
bool kron(Retrace& t, const FxCall& c) {
  const FxCall::Given* given = c.find("other");
  const TensorFacts a = t.facts(self(c)), b = t.facts(given == nullptr ? "" : given->value);
  if (given == nullptr || a.rank() != b.rank()) return false;
  std::vector<std::int64_t> first_shape, second_shape;
  for (std::size_t axis = 0; axis < a.sizes.size(); ++axis) {
    if (a.sizes[axis] < 0 || b.sizes[axis] < 0) return false;
    first_shape.insert(first_shape.end(), {a.sizes[axis], 1});
    second_shape.insert(second_shape.end(), {1, b.sizes[axis]});
  }
  const auto in_shape = [&](const std::string& of, const std::string& shape) {
    return t.emit("aten._unsafe_view.default", {of, shape});
  };
  const std::string x = in_shape(first(c), list_text(first_shape)), y = in_shape(given->text, list_text(second_shape));
  return t.yield(in_shape(t.emit("aten.mul.Tensor", {x, y}), t.sizes_text(c.results.front()))), true;
}

bool take_along_dim(Retrace& t, const FxCall& c) {
  const FxCall::Given* given = c.find("indices");
  const TensorFacts x = t.facts(self(c)), places = t.facts(given == nullptr ? "" : given->value);
  const std::int64_t axis = axis_of(c, "dim", x.rank());
  if (c.text("dim") == "None" || x.rank() != places.rank() || axis < 0 || axis >= x.rank()) return false;
  std::vector<std::int64_t> wide = x.sizes, taken = places.sizes;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < 0 || taken[i] < 0) return false;
    if (static_cast<std::int64_t>(i) != axis) wide[i] = taken[i] = std::max(wide[i], taken[i]);
  }
  const std::string to = t.emit("aten.expand.default", {given->text, list_text(taken)}, {}, DType::int64);
  const std::string from = t.emit("aten.expand.default", {first(c), list_text(wide)});
  const std::string within = t.emit("aten.remainder.Scalar", {to, std::to_string(x.sizes[axis])}, {}, DType::int64);
  return t.yield(t.emit("aten.gather.default", {from, std::to_string(axis), within})), true;
}

bool outer(Retrace& t, const FxCall& c) {
  if (t.facts(self(c)).rank() != 1) return false;
  Layout column = t.layout(self(c));
  const std::string shape = "[" + column.sizes.front().text + ", 1]";
  column.sizes.push_back(number(1));
  column.pack();
  const std::string view = t.emit_of(column, "aten.view.default", {first(c), shape});
  return t.yield(t.emit("aten.mul.Tensor", {view, c.text(c.find("vec2") != nullptr ? "vec2" : "other")})), true;
}

bool matrix_power(Retrace& t, const FxCall& c) {
  if (c.integer("n") == 2) return recipe<"matmul $self $self">(t, c);
  return c.integer("n") == 3 && recipe<"matmul $self $self; matmul %1 $self">(t, c);
}

// The vector on the diagonal of zeros.
bool on_diagonal(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> sizes = t.facts(c.results.front()).sizes;
  const std::int64_t rank = t.facts(self(c)).rank();
  if (c.integer("offset") != 0 || c.integer("diagonal") != 0 || c.integer("dim1", -2) != -2 || rank < 1) return false;
  if (c.op == "aten.diag" && rank == 2) return recipe<"diagonal_copy $self">(t, c);
  if (c.integer("dim2", -1) != -1 || sizes.size() < 2 || sizes.back() < 0 || sizes.back() != sizes[sizes.size() - 2]) {
    return false;
  }
  std::string of = first(c);
  const bool flat = c.op == "aten.diagflat";
  if (flat) of = t.emit("aten.view.default", {of, "[-1]"});
  std::vector<std::int64_t> order(sizes.size()), shape(sizes.size(), 1);
  std::iota(order.begin(), order.end(), 0);
  shape.back() = shape[shape.size() - 2] = sizes.back();
  return t.yield(emit_recipe(t, c,
                             "unsqueeze $of $axis; permute %1 $order; "
                             "arange/int64 $count dtype:torch.int64 device:cpu pin_memory:False; "
                             "arange.start/int64 0 $count dtype:torch.int64 device:cpu pin_memory:False; "
                             "unsqueeze/int64 %4 -1; eq.Tensor %3 %5; view/bool %6 $shape; where.ScalarOther %7 %2 0",
                             {{"of", of},
                              {"axis", std::to_string(sizes.size() - 2)},
                              {"order", list_text(order)},
                              {"count", std::to_string(sizes.back())},
                              {"shape", list_text(shape)}})),
         true;
}

bool pairwise_distance(Retrace& t, const FxCall& c) {
  const std::string axes = list_text({std::max<std::int64_t>(t.facts(self(c)).rank() - 1, 0)});
  const std::string apart = emit_recipe(t, c, "sub.Tensor $x1 $x2; add.Scalar %1 $eps=1e-06");
  Arguments arguments = {apart, c.text("p", "2.0"), axes};
  if (c.text("keepdim", "False") == "True") arguments.push_back("True");
  return t.yield(t.emit("aten.linalg_vector_norm.default", arguments)), true;
}

// The decomposition is PyTorch's own, beneath what counts storages: only the result has one.
bool eye(Retrace& t, const FxCall& c) {
  const Layout whole = t.layout(c.results.front());
  if (whole.sizes.size() != 2) return false;
  const std::string rows = t.emit_arange(whole.sizes[0], DType::uint8);
  const std::string columns = t.emit_arange(whole.sizes[1], DType::uint8);
  const std::string column = t.emit_of({}, "aten.unsqueeze.default", {rows, "-1"}, {}, DType::uint8);
  const std::string equal = t.emit_of({}, "aten.eq.Tensor", {column, columns}, {}, DType::boolean);
  return t.yield(t.emit("aten._to_copy.default", {equal}, {{"dtype", c.text("dtype", "torch.float32")}})), true;
}

// The scalar_tensor takes its name before the clamps do.
bool cosine_similarity(Retrace& t, const FxCall& c) {
  if (t.facts(c.results.front()).dtype != DType::float32) return false;
  const std::string other = c.text("x2"), axes = "[" + c.text("dim", "1") + "]";
  const auto length = [&](const std::string& of) {
    const std::string norm = t.emit("aten.linalg_vector_norm.default", {of, "2", axes, "True"});
    return t.emit("aten.clone.default", {norm});
  };
  const std::string a = length(first(c)), b = length(other);
  const std::string least =
      t.emit("aten.scalar_tensor.default", {c.text("eps", "1e-08")}, {{"dtype", "torch.float32"}, {"device", "cpu"}});
  const std::string least_a = t.emit("aten.clamp_min.Tensor", {a, least});
  const std::string least_b = t.emit("aten.clamp_min.Tensor", {b, least});
  const std::string y = t.emit("aten.div.Tensor", {other, least_b}), x = t.emit("aten.div.Tensor", {first(c), least_a});
  return t.yield(t.emit("aten.sum.dim_IntList", {t.emit("aten.mul.Tensor", {x, y}), axes})), true;
}

// Along one axis, as a length.
bool linalg_norm(Retrace& t, const FxCall& c) {
  if (c.overload != "default" || c.integers("dim").size() != 1 || c.text("dtype") != "None") return false;
  Arguments arguments = {first(c), c.text("ord") == "None" ? "2.0" : c.text("ord"), c.text("dim")};
  if (c.text("keepdim", "False") == "True") arguments.push_back("True");
  return t.yield(t.emit("aten.linalg_vector_norm.default", arguments)), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten.cosine_similarity", cosine_similarity},
    {"aten.diag", on_diagonal},
    {"aten.diag_embed", on_diagonal},
    {"aten.diagflat", on_diagonal},
    {"aten.eye", eye},
    {"aten.kron", kron},
    {"aten.linalg_norm", linalg_norm},
    {"aten.matrix_exp", recipe<"linalg_matrix_exp.default $self">},
    {"aten.matrix_power", matrix_power},
    {"aten.outer", outer},
    {"aten.pairwise_distance", pairwise_distance},
    {"aten.take_along_dim", take_along_dim},
});

}  // namespace

std::span<const RuleRow> product_rules() { return table; }

}  // namespace whence
