// Rules for arithmetic on complex numbers represented as [real, imaginary] pairs.
#include "annotator/lower/complex_pairs.h"

namespace whence::lower {
namespace {

bool is_tensor(const Argument& argument) { return argument.as<ValueRef>() != nullptr; }

// Returns a constant operand as a complex number.
ComplexNumber number(PairSteps& c, const Argument& argument) {
  if (const auto* complex = argument.as<ComplexNumber>()) return *complex;
  if (const auto* real = argument.as<double>()) return {*real, 0};
  if (const auto* integer = argument.as<std::int64_t>()) return {static_cast<double>(*integer), 0};
  c.refuse("an operand is not a number known at export");
}

// Adds an axis of 1 to a real tensor, so that it broadcasts over both parts of a pair.
Argument broadcast_to_parts(PairSteps& c, const Argument& real) {
  std::vector<Dim> dims = c.steps.dims(real);
  dims.push_back(fixed(1));
  return c.steps.add("aten::unsqueeze", {{"self", real}, {"dim", {std::int64_t{-1}}}}, c.steps.dtype(real),
                     std::move(dims));
}

Argument sum(PairSteps& c, const char* with_tensor, const char* with_number) {
  const Argument &a = c.argument("self"), &b = c.argument("other");
  const double alpha = c.has("alpha") ? c.steps.number("alpha") : 1;
  if (is_tensor(b)) {
    Argument right = c.as_pair(b);
    if (alpha != 1) right = c.binary("aten::mul.Scalar", right, {alpha});
    return c.binary(with_tensor, c.as_pair(a), right);
  }
  const ComplexNumber constant = number(c, b);
  const Argument x = c.as_pair(a);
  const Argument imag = constant.imag == 0 ? c.imag(x) : c.binary(with_number, c.imag(x), {constant.imag * alpha});
  return c.pair(c.binary(with_number, c.real(x), {constant.real * alpha}), imag);
}

Argument add(PairSteps& c) { return sum(c, "aten::add.Tensor", "aten::add.Scalar"); }
Argument sub(PairSteps& c) { return sum(c, "aten::sub.Tensor", "aten::sub.Scalar"); }

// Computes other - self; PyTorch records 1 - z as rsub(z, 1).
Argument rsub(PairSteps& c) {
  if (c.has("alpha") && c.steps.number("alpha") != 1) c.refuse("rsub with alpha other than 1");
  return c.binary("aten::mul.Scalar", sub(c), {-1.0});
}

// Computes (a + bi) (r + si) for a constant r + si.
Argument scaled(PairSteps& c, const Argument& pair, ComplexNumber by) {
  if (by.imag == 0) return c.binary("aten::mul.Scalar", pair, {by.real});
  const Argument a = c.real(pair), b = c.imag(pair);
  const auto times = [&](const Argument& x, double y) { return c.binary("aten::mul.Scalar", x, {y}); };
  return c.pair(c.binary("aten::sub.Tensor", times(a, by.real), times(b, by.imag)),
                c.binary("aten::add.Tensor", times(a, by.imag), times(b, by.real)));
}

Argument mul(PairSteps& c) {
  const Argument &self = c.argument("self"), &other = c.argument("other");
  if (!is_tensor(other)) return scaled(c, c.as_pair(self), number(c, other));
  // A traced Python number is a complex128 tensor and must not decide the dtype of the result.
  const Argument a = c.in_result_dtype(self), b = c.in_result_dtype(other);
  if (c.is_pair(self) && c.is_pair(other)) return c.multiplied(a, b);
  return c.is_pair(self) ? c.binary("aten::mul.Tensor", a, broadcast_to_parts(c, b))
                         : c.binary("aten::mul.Tensor", b, broadcast_to_parts(c, a));
}

// Computes z / w = z conj(w) / |w|^2.
Argument div(PairSteps& c) {
  const Argument &a = c.argument("self"), &b = c.argument("other");
  if (!is_tensor(b)) {
    const ComplexNumber by = number(c, b);
    const double square = by.real * by.real + by.imag * by.imag;
    return scaled(c, c.as_pair(a), {by.real / square, -by.imag / square});
  }
  if (!c.is_pair(b)) return c.binary("aten::div.Tensor", a, broadcast_to_parts(c, b));
  const Argument re = c.real(b), im = c.imag(b);
  const auto times = [&](const Argument& l, const Argument& r) { return c.binary("aten::mul.Tensor", l, r); };
  const Argument square = c.binary("aten::add.Tensor", times(re, re), times(im, im));
  return c.binary("aten::div.Tensor", c.multiplied(c.as_pair(a), c.conjugate(b)), broadcast_to_parts(c, square));
}

// Computes 1 / z = conj(z) / |z|^2.
Argument reciprocal(PairSteps& c) {
  const Argument& z = c.argument("self");
  const auto squared = [&](const Argument& part) { return c.binary("aten::mul.Tensor", part, part); };
  const Argument square = c.binary("aten::add.Tensor", squared(c.real(z)), squared(c.imag(z)));
  return c.binary("aten::div.Tensor", c.conjugate(z), broadcast_to_parts(c, square));
}

Argument conj(PairSteps& c) { return c.conjugate(c.argument("self")); }

Argument magnitude(PairSteps& c, const Argument& z) {
  std::vector<Dim> dims = c.steps.dims(z, 1);
  dims.pop_back();
  return c.steps.add("aten::linalg_vector_norm",
                     {{"self", z}, {"ord", {2.0}}, {"dim", {ArgumentList{{std::int64_t{-1}}}}}}, c.steps.dtype(z),
                     std::move(dims));
}

Argument absolute(PairSteps& c) { return magnitude(c, c.argument("self")); }

Argument angle(PairSteps& c) { return c.binary("aten::atan2", c.imag(c.argument("self")), c.real(c.argument("self"))); }

Argument real(PairSteps& c) { return c.real(c.argument("self")); }
Argument imag(PairSteps& c) { return c.imag(c.argument("self")); }

// Broadcasts both parts to one shape before pairing them.
Argument complex(PairSteps& c) {
  const Argument &re = c.argument("real"), &im = c.argument("imag");
  if (c.steps.dims(re) == c.steps.dims(im)) return c.pair(re, im);
  const auto like = [&](const Argument& x, const Argument& other) {
    return c.binary("aten::add.Tensor", x, c.unary("aten::zeros_like", other));
  };
  return c.pair(like(re, im), like(im, re));
}

// Pads with zeros. The axis of the pairs is last, and `pad` lists axes from the last one backwards.
Argument pad(PairSteps& c) {
  const auto* mode = c.argument("mode").as<std::string>();
  if (mode != nullptr && *mode != "constant") c.refuse("complex padding with a mode other than constant");
  std::vector<NamedArgument> arguments = c.node().arguments;
  std::erase_if(arguments, [](const NamedArgument& given) { return given.name == "mode" || given.value.is_none(); });
  for (NamedArgument& argument : arguments) {
    if (argument.name == "value" && number(c, argument.value).real != 0)
      c.refuse("complex padding with a value other than 0");
    auto* list = argument.name == "pad" ? std::get_if<ArgumentList>(&argument.value.data) : nullptr;
    if (list != nullptr) list->insert(list->begin(), 2, Argument{std::int64_t{0}});
  }
  return c.steps.add("aten::constant_pad_nd", std::move(arguments), c.real_dtype(), c.result_dims());
}

Argument from_polar(PairSteps& c, const Argument& length, const Argument& phase) {
  const auto part = [&](const char* of) { return c.binary("aten::mul.Tensor", length, c.unary(of, phase)); };
  const Argument re = part("aten::cos");
  return c.pair(re, part("aten::sin"));
}

Argument polar(PairSteps& c) { return from_polar(c, c.argument("abs"), c.argument("angle")); }

// Halves the phase and takes the square root of the magnitude: the principal root, with a real part >= 0.
Argument sqrt(PairSteps& c) {
  const Argument& z = c.argument("self");
  const Argument phase = c.binary("aten::atan2", c.imag(z), c.real(z));
  return from_polar(c, c.unary("aten::sqrt", magnitude(c, z)), c.binary("aten::mul.Scalar", phase, {0.5}));
}

Argument log(PairSteps& c) {
  const Argument& z = c.argument("self");
  return c.pair(c.unary("aten::log", magnitude(c, z)), c.binary("aten::atan2", c.imag(z), c.real(z)));
}

// Computes z / |z|, and 0 for z = 0.
Argument sgn(PairSteps& c) {
  const Argument& z = c.argument("self");
  const Argument length = magnitude(c, z);
  const Argument none =
      c.steps.add("aten::eq.Scalar", {{"self", length}, {"other", {0.0}}}, DType::boolean, c.steps.dims(length));
  const Argument divisor = c.steps.add("aten::masked_fill.Scalar", {{"self", length}, {"mask", none}, {"value", {1.0}}},
                                       c.steps.dtype(length), c.steps.dims(length));
  return c.binary("aten::div.Tensor", z, broadcast_to_parts(c, divisor));
}

Argument exp(PairSteps& c) {
  const Argument& z = c.argument("self");
  return from_polar(c, c.unary("aten::exp", c.real(z)), c.imag(z));
}

Argument square(PairSteps& c) { return c.multiplied(c.argument("self"), c.argument("self")); }

// Supports the integer exponents 1 to 4.
Argument pow(PairSteps& c) {
  const Argument& exponent = c.argument("exponent");
  const double times = is_tensor(exponent) || !c.is_pair(c.argument("self")) ? 0 : number(c, exponent).real;
  if (times != 1 && times != 2 && times != 3 && times != 4) c.refuse("complex pow supports only the exponents 1 to 4");
  Argument result = c.argument("self");
  for (int i = 1; i < static_cast<int>(times); ++i) result = c.multiplied(result, c.argument("self"));
  return result;
}

// Converts to and from complex dtypes. A conversion to a real dtype drops the imaginary part; PyTorch warns about it.
Argument to(PairSteps& c) {
  const Argument& x = c.argument(c.node().find("a") != nullptr ? "a" : "self");
  if (c.result_is_pair() && !c.is_pair(x)) return c.as_pair(x);
  const Argument kept = c.result_is_pair() ? x : c.real(x);
  if (c.steps.dtype(kept) == c.real_dtype()) return kept;
  return c.steps.add("aten::_to_copy", {{"self", kept}, {"dtype", {c.real_dtype()}}}, c.real_dtype(),
                     c.steps.dims(kept));
}

// Computes a complex matrix product from four real ones.
Argument product(PairSteps& c) {
  const bool two = c.node().find("mat2") != nullptr;
  const Argument &a = c.argument("self"), &b = c.argument(two ? "mat2" : "other");
  const std::vector<Dim> dims = c.part_dims();
  const auto times = [&](const Argument& l, const Argument& r) {
    return c.steps.add("aten::matmul", {{"self", l}, {"other", r}}, c.real_dtype(), dims);
  };
  const Argument x = c.as_pair(a), y = c.as_pair(b);
  const Argument p = c.real(x), q = c.imag(x), r = c.real(y), s = c.imag(y);
  return c.pair(c.binary("aten::sub.Tensor", times(p, r), times(q, s)),
                c.binary("aten::add.Tensor", times(p, s), times(q, r)));
}

// ---- selection and comparison -----------------------------------------------------------------------------------

// Returns a constant as a pair, shape [2], of the given dtype.
Argument number_pair(PairSteps& c, const Argument& given, DType dtype) {
  const ComplexNumber value = number(c, given);
  const auto part = [&](double of) {
    return c.steps.add("aten::full", {{"size", {ArgumentList{}}}, {"fill_value", {of}}, {"dtype", {dtype}}}, dtype, {});
  };
  return c.pair(part(value.real), part(value.imag));
}

// Returns one alternative of a selection as a pair.
Argument choice(PairSteps& c, const Argument& given) {
  return is_tensor(given) ? c.as_pair(given) : number_pair(c, given, c.real_dtype());
}

Argument chosen(PairSteps& c, const Argument& mask, const Argument& yes, const Argument& no) {
  return c.steps.add("aten::where.self", {{"condition", broadcast_to_parts(c, mask)}, {"self", yes}, {"other", no}},
                     c.real_dtype(), c.result_dims());
}

Argument where(PairSteps& c) {
  if (!c.has("self")) c.refuse("where() with a condition only (the indices of nonzero elements)");
  const Argument yes = choice(c, c.argument("self")), no = choice(c, c.argument("other"));
  return chosen(c, c.argument("condition"), yes, no);
}

Argument masked_fill(PairSteps& c) {
  const Argument value = choice(c, c.argument("value"));
  return chosen(c, c.argument("mask"), value, c.as_pair(c.argument("self")));
}

// Reduces a boolean result over both parts with `target` (aten::all.dim or aten::any.dim).
Argument reduce_parts(PairSteps& c, const char* target, const Argument& each) {
  return c.steps.add(target, {{"self", each}, {"dim", {std::int64_t{-1}}}}, DType::boolean, c.result_dims());
}

Argument compared(PairSteps& c, const char* target, const char* joined) {
  const Argument &self = c.argument("self"), &other = c.argument("other");
  if (is_tensor(other) && c.is_pair(self) != c.is_pair(other))
    c.refuse("a comparison of a complex tensor with a real one");
  const Argument right = is_tensor(other) ? other : number_pair(c, other, c.steps.dtype(self));
  std::vector<Dim> dims = c.result_dims();
  dims.push_back(fixed(2));
  return reduce_parts(c, joined,
                      c.steps.add(target, {{"self", self}, {"other", right}}, DType::boolean, std::move(dims)));
}

Argument equal(PairSteps& c) { return compared(c, "aten::eq.Tensor", "aten::all.dim"); }
Argument unequal(PairSteps& c) { return compared(c, "aten::ne.Tensor", "aten::any.dim"); }

Argument tested(PairSteps& c, const char* target) {
  const Argument& z = c.argument("self");
  return reduce_parts(c, "aten::any.dim", c.steps.add(target, {{"self", z}}, DType::boolean, c.steps.dims(z)));
}

Argument isnan(PairSteps& c) { return tested(c, "aten::isnan"); }
Argument isinf(PairSteps& c) { return tested(c, "aten::isinf"); }

// ---- statistics -------------------------------------------------------------------------------------------------

// Calls the same operator on another `self`, which has no axis of pairs.
Argument called_on(PairSteps& c, const std::string& target, const Argument& self) {
  std::vector<NamedArgument> arguments = c.node().arguments;
  for (NamedArgument& argument : arguments) {
    if (argument.name == "self") argument.value = self;
  }
  const std::string& overload = c.node().overload;
  return c.steps.add(overload.empty() ? target : target + "." + overload, std::move(arguments), c.real_dtype(),
                     c.part_dims());
}

Argument norm(PairSteps& c) { return called_on(c, c.node().target, magnitude(c, c.argument("self"))); }

Argument variance(PairSteps& c) {
  const Argument& z = c.argument("self");
  const auto of = [&](const Argument& part) { return called_on(c, "aten::var", part); };
  return c.binary("aten::add.Tensor", of(c.real(z)), of(c.imag(z)));
}

Argument deviation(PairSteps& c) { return c.unary("aten::sqrt", variance(c)); }

// ---- part by part ------------------------------------------------------------------------------------------------

// Applies the operator to each part, for operators that append an axis after the pair axis or whose index lacks that
// axis.
Argument by_parts(PairSteps& c) {
  const Argument& z = c.argument("self");
  return c.pair(called_on(c, c.node().target, c.real(z)), called_on(c, c.node().target, c.imag(z)));
}

// ---- writing and creating --------------------------------------------------------------------------------------

// Returns `self` with one part replaced with `src`.
Argument scattered(PairSteps& c) {
  std::vector<NamedArgument> arguments{{"self", c.as_pair(c.argument("self"))}, {"src", c.as_pair(c.argument("src"))}};
  for (const char* name : {"index", "start", "end", "step"}) {
    if (c.node().find(name) != nullptr) arguments.push_back({name, c.argument(name)});
  }
  const std::int64_t dim = c.has("dim") ? c.steps.integer("dim") : 0;
  arguments.push_back({"dim", {dim < 0 ? dim - 1 : dim}});  // the pair axis comes after it
  return c.steps.add(c.node().target, std::move(arguments), c.real_dtype(), c.result_dims());
}

// Returns `src` in the shape and dtype of `self`.
Argument copy(PairSteps& c) {
  std::vector<NamedArgument> arguments{{"self", c.as_pair(c.argument("self"))}, {"src", c.as_pair(c.argument("src"))}};
  return c.steps.add("aten::copy", std::move(arguments), c.real_dtype(), c.result_dims());
}

// Returns a tensor filled with one complex number, in the shape `size` or that of `self`.
Argument filled_with(PairSteps& c, ComplexNumber value) {
  const std::vector<Dim> dims = c.part_dims();
  const auto part = [&](double number) {
    std::vector<NamedArgument> arguments{{"fill_value", {number}}, {"dtype", {c.real_dtype()}}};
    if (c.node().find("size") != nullptr) {
      arguments.insert(arguments.begin(), {"size", c.argument("size")});
      return c.steps.add("aten::full", std::move(arguments), c.real_dtype(), dims);
    }
    const Argument& like = c.argument("self");
    arguments.insert(arguments.begin(), {"self", c.is_pair(like) ? c.real(like) : like});
    return c.steps.add("aten::full_like", std::move(arguments), c.real_dtype(), dims);
  };
  return c.pair(part(value.real), part(value.imag));
}

Argument full(PairSteps& c) { return filled_with(c, number(c, c.argument("fill_value"))); }
Argument zeros(PairSteps& c) { return filled_with(c, {0, 0}); }
Argument ones(PairSteps& c) { return filled_with(c, {1, 0}); }

// Supports at most two operands: the product is linear in each, so its parts are sums of products of their parts.
Argument einsum(PairSteps& c) {
  const auto* operands = c.argument("tensors").as<ArgumentList>();
  if (operands == nullptr || operands->empty() || operands->size() > 2) {
    c.refuse("complex einsum supports at most two operands");
  }
  const std::vector<Dim> dims = c.part_dims();
  const auto product = [&](ArgumentList parts) {
    return c.steps.add("aten::einsum", {{"equation", c.argument("equation")}, {"tensors", {std::move(parts)}}},
                       c.real_dtype(), dims);
  };
  const Argument a = c.as_pair(operands->front());
  if (operands->size() == 1) return c.pair(product({c.real(a)}), product({c.imag(a)}));
  const Argument b = c.as_pair(operands->back());
  return c.pair(c.binary("aten::sub.Tensor", product({c.real(a), c.real(b)}), product({c.imag(a), c.imag(b)})),
                c.binary("aten::add.Tensor", product({c.real(a), c.imag(b)}), product({c.imag(a), c.real(b)})));
}

}  // namespace

const PairRules& pair_arithmetic() {
  static const PairRules table{
      {"aten::_conj", conj},
      {"aten::_conj_physical", conj},
      {"aten::_to_copy", to},
      {"aten::abs", absolute},
      {"aten::add", add},
      {"aten::angle", angle},
      {"aten::bmm", product},
      {"aten::complex", complex},
      {"aten::conj", conj},
      {"aten::conj_physical", conj},
      {"aten::constant_pad_nd", pad},
      {"aten::pad", pad},
      {"aten::copy", copy},
      {"aten::div", div},
      {"aten::einsum", einsum},
      {"aten::eq", equal},
      {"aten::exp", exp},
      {"aten::full", full},
      {"aten::full_like", full},
      {"aten::gather", by_parts},
      {"aten::imag", imag},
      {"aten::isinf", isinf},
      {"aten::isnan", isnan},
      {"aten::linalg_vector_norm", norm},
      {"aten::masked_fill", masked_fill},
      {"aten::matmul", product},
      {"aten::mm", product},
      {"aten::mul", mul},
      {"aten::ne", unequal},
      {"aten::new_full", full},
      {"aten::new_ones", ones},
      {"aten::new_zeros", zeros},
      {"aten::ones", ones},
      {"aten::ones_like", ones},
      {"aten::polar", polar},
      {"aten::pow", pow},
      {"aten::real", real},
      {"aten::rsub", rsub},
      {"aten::reciprocal", reciprocal},
      {"aten::sqrt", sqrt},
      {"aten::log", log},
      {"aten::sgn", sgn},
      {"aten::square", square},
      {"aten::std", deviation},
      {"aten::unfold", by_parts},
      {"aten::var", variance},
      {"aten::where", where},
      {"aten::select_scatter", scattered},
      {"aten::slice_scatter", scattered},
      {"aten::sub", sub},
      {"aten::to", to},
      {"aten::zeros", zeros},
      {"prims::convert_element_type", to},
  };
  return table;
}

}  // namespace whence::lower
