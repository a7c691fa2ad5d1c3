// What is counted, accumulated and sorted into ranges, and functions that PyTorch leaves to prims.
#include <cmath>
#include <functional>
#include <numeric>

#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;
using Keywords = Retrace::Keywords;

// ---- functions of prims -------------------------------------------------------------------------------------------

// Of tensors that have the result's dtype and sizes; others are cast and spread first.
template <Text text>
bool prim(Retrace& t, const FxCall& c) {
  const TensorFacts result = t.facts(c.results.front());
  for (const FxCall::Given& given : c.given) {
    if (given.value.empty()) return false;
    const TensorFacts facts = t.facts(given.value);
    if (facts.dtype != result.dtype || facts.sizes != result.sizes || is_integral(facts.dtype)) return false;
  }
  return recipe<text>(t, c);
}

bool sgn(Retrace& t, const FxCall& c) { return !is_complex(t.facts(self(c)).dtype) && recipe<"sign $self">(t, c); }

bool float_power(Retrace& t, const FxCall& c) {
  return c.overload == "Tensor_Tensor" &&
         recipe<
             "_to_copy $exponent dtype:torch.float64; _to_copy $self dtype:torch.float64; "
             "pow.Tensor_Tensor %2 %1">(t, c);
}

bool distance(Retrace& t, const FxCall& c) {
  if (c.text("p", "2") == "2") return recipe<"sub.Tensor $self $other; linalg_vector_norm %1">(t, c);
  return recipe<"sub.Tensor $self $other; linalg_vector_norm %1 $p">(t, c);
}

bool nan_to_num(Retrace& t, const FxCall& c) {
  if (t.facts(self(c)).dtype != DType::float32) return false;
  return recipe<
      "isnan/bool $self; where.ScalarSelf %1 $nan=0.0 $self; isneginf/bool $self; "
      "where.ScalarSelf %3 $neginf=-3.4028234663852886e+38 %2; isposinf/bool $self; "
      "where.ScalarSelf %5 $posinf=3.4028234663852886e+38 %4">(t, c);
}

// ---- sums ---------------------------------------------------------------------------------------------------------

// As they are given, or none.
Arguments axes_given(const FxCall& c, const std::string& of) {
  Arguments arguments = {of, c.text("dim")};
  if (c.text("keepdim", "False") == "True") arguments.push_back("True");
  return arguments;
}

bool count_nonzero(Retrace& t, const FxCall& c) {
  const std::string differ = t.emit("aten.ne.Scalar", {first(c), "0"}, {}, DType::boolean);
  const std::string axes =
      c.overload == "default" && c.text("dim") != "None" ? "[" + c.text("dim") + "]" : c.text("dim");
  return t.yield(t.emit("aten.sum.dim_IntList", {differ, axes})), true;
}

std::string sum_of_numbers(Retrace& t, const FxCall& c) {
  const std::string numbers = emit_recipe(t, c, "isnan/bool $self; where.ScalarSelf %1 0 $self");
  return t.emit("aten.sum.dim_IntList", axes_given(c, numbers));
}

bool nansum(Retrace& t, const FxCall& c) { return c.text("dtype") == "None" && (t.yield(sum_of_numbers(t, c)), true); }

bool nanmean(Retrace& t, const FxCall& c) {
  if (c.text("dtype") != "None") return false;
  const std::string numbers = emit_recipe(t, c, "detach $self; ne.Tensor %1 %1; logical_not/bool %2");
  const std::string count = t.emit("aten.sum.dim_IntList", axes_given(c, numbers), {}, DType::int64);
  return t.yield(t.emit("aten.div.Tensor", {sum_of_numbers(t, c), count})), true;
}

// Products of what a triangle of ones lets through.
bool cumprod(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  const std::int64_t axis = axis_of(c, "dim", x.rank());
  if (axis < 0 || axis >= x.rank() || x.sizes[axis] < 0 || !is_floating(x.dtype) || c.text("dtype") != "None")
    return false;
  const std::string copies = t.emit("aten.unsqueeze.default", {first(c), std::to_string(axis + 1)});
  std::string within = emit_recipe(t, c,
                                   "arange/int64 $length device:cpu pin_memory:False; unsqueeze/int64 %1 1; "
                                   "le.Tensor %2 %1",
                                   {{"length", std::to_string(x.sizes[axis])}});
  for (std::int64_t i = axis + 1; i < x.rank(); ++i) {
    within = t.emit("aten.unsqueeze.default", {within, "-1"}, {}, DType::boolean);
  }
  const std::string factors = t.emit("aten.where.ScalarOther", {within, copies, "1"});
  return t.yield(t.emit("prims.prod.default", {factors, list_text({axis})})), true;
}

// Of evenly spaced values, or of values at `x`.
bool trapezoid(Retrace& t, const FxCall& c) {
  const TensorFacts y = t.facts(self(c));
  if (c.overload == "dx") {
    return recipe<
        "select.int $y $dim=-1 -1; select.int $y $dim=-1 0; add.Tensor %2 %1; mul.Scalar %3 0.5; "
        "sum.dim_IntList $y [$dim=-1]; sub.Tensor %5 %4; mul.Scalar %6 $dx=1.0">(t, c);
  }
  const FxCall::Given* x = c.find("x");
  if (x == nullptr || t.facts(x->value).sizes != y.sizes) return false;
  const Named axis = {{"axis", std::to_string(axis_of(c, "dim", y.rank(), -1))}};
  return t.yield(emit_recipe(t, c,
                             "slice.Tensor $x $axis 0 -1; slice.Tensor $x $axis 1; sub.Tensor %2 %1; "
                             "slice.Tensor $y $axis 0 -1; slice.Tensor $y $axis 1; add.Tensor %4 %5; "
                             "mul.Tensor %6 %3; sum.dim_IntList %7 [$axis]; div.Scalar %8 2.0",
                             axis)),
         true;
}

bool cumulative_trapezoid(Retrace& t, const FxCall& c) {
  if (c.overload != "dx") return false;
  const std::string dx = c.text("dx", "1.0");
  if (dx != "1.0") return false;
  return recipe<
      "slice.Tensor $y $dim=-1 0 -1; slice.Tensor $y $dim=-1 1; add.Tensor %1 %2; mul.Scalar %3 0.5; "
      "cumsum %4 $dim=-1">(t, c);
}

// Between the two values that are next to a place in the sorted ones. Source: aten/src/ATen/native/Sorting.cpp.
bool quantile(Retrace& t, const FxCall& c) {
  TensorFacts x = t.facts(self(c));
  const bool of_all = c.text("dim") == "None", one = c.overload == "scalar", skips_nan = c.op == "aten.nanquantile";
  if (c.text("interpolation", "linear") != "linear" || c.text("keepdim", "False") == "True" || x.rank() == 0)
    return false;
  if (std::ranges::any_of(x.sizes, [](auto size) { return size < 1; })) return false;
  if (!of_all && axis_of(c, "dim", x.rank()) != x.rank() - 1) return false;
  const std::string dtype = "torch." + std::string(name_of(x.dtype));
  const FxCall::Given* places = c.find("q");
  if (places == nullptr || (!one && t.facts(places->value).rank() != 1)) return false;
  const std::int64_t count = one ? 1 : t.facts(places->value).sizes.front();
  std::string values = first(c), place = c.text("q");
  const Keywords there = {{"layout", "torch.strided"}, {"device", "cpu"}};
  const auto with = [&](const std::string& dtype, Keywords more = {}) {
    Keywords keywords = {{"dtype", dtype}};
    keywords.insert(keywords.end(), there.begin(), there.end());
    keywords.insert(keywords.end(), more.begin(), more.end());
    return keywords;
  };
  if (one) place = t.emit("aten.scalar_tensor.default", {place}, with(dtype, {{"pin_memory", "False"}}));
  if (of_all) {
    x.sizes = {std::accumulate(x.sizes.begin(), x.sizes.end(), std::int64_t{1}, std::multiplies<>())};
    values = t.emit("aten.view.default", {values, list_text(x.sizes)});
  }
  values = t.items(t.emit("aten.sort.default", {values}), 2).front();
  values = t.emit("aten.view.default", {values, list_text(x.sizes)});
  const std::string last = std::to_string(x.sizes.back() - 1);
  std::vector<std::int64_t> wanted = x.sizes;
  wanted.back() = count;
  if (skips_nan) {
    const std::string number =
        emit_recipe(t, c,
                    "isnan/bool $values; logical_not/bool %1; sum.dim_IntList/int64 %2 [-1] True; "
                    "sub.Scalar/int64 %3 1; mul.Tensor $place %4; lt.Scalar %5 0; "
                    "masked_fill.Scalar %5 %6 0",
                    {{"values", values}, {"place", place}});
    place = number;
  } else {
    place = t.emit("aten.mul.Scalar", {place, last});
    std::string unknown = emit_recipe(t, c, "isnan/bool $values; any.dim/bool %1 -1 True", {{"values", values}});
    place = t.emit("aten.expand.default", {place, list_text(wanted)});
    if (count > 1) unknown = t.emit("aten.expand.default", {unknown, list_text(wanted)}, {}, DType::boolean);
    place = t.emit("aten.masked_fill.Scalar", {place, unknown, last});
  }
  const auto at = [&](const std::string& place) {
    const std::string whole = t.emit("aten._to_copy.default", {place}, with("torch.int64"), DType::int64);
    return std::pair(whole, t.emit("aten.gather.default", {values, "-1", whole}));
  };
  const auto [whole, below] = at(place);
  const std::string rest = t.emit("aten.sub.Tensor", {place, whole});
  const std::string above = at(t.emit("aten.ceil.default", {place})).second;
  std::string result = t.emit("aten.lerp.Tensor", {below, above, rest});
  if (!one) result = emit_recipe(t, c, "unsqueeze $result 0; transpose.int %1 0 -1", {{"result", result}});
  return t.yield(t.emit("aten.squeeze.dim", {result, "-1"})), true;
}

// Compared with each of the few elements that are looked for.
bool isin(Retrace& t, const FxCall& c) {
  const FxCall::Given* test = c.find("test_elements");
  const FxCall::Given* elements = c.find("elements");
  if (test == nullptr || elements == nullptr || c.overload != "Tensor_Tensor") return false;
  std::vector<std::int64_t> sizes = t.facts(elements->value).sizes;
  const std::vector<std::int64_t> wanted = t.facts(test->value).sizes;
  const auto count = [](const auto& of) {
    return static_cast<double>(std::accumulate(of.begin(), of.end(), std::int64_t{1}, std::multiplies<>()));
  };
  if (count(wanted) >= 10.0 * std::pow(count(sizes), 0.145) || count(sizes) < 1) return false;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    sizes.push_back(1);
    axes.push_back(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(wanted.size()));
  }
  const DType dtype = t.facts(elements->value).dtype;
  const std::string column = t.emit("aten.view.default", {elements->text, list_text(sizes)}, {}, dtype);
  const std::string equal = t.emit("aten.eq.Tensor", {column, test->text}, {}, DType::boolean);
  const std::string found = t.emit("aten.any.dims", {equal, list_text(axes)}, {}, DType::boolean);
  if (c.text("invert", "False") == "False") return t.yield(found), true;
  return t.yield(t.emit("aten.logical_not.default", {found})), true;
}

// ---- ranges -------------------------------------------------------------------------------------------------------

// A binary search, as many steps as the boundaries can take. Source: bucketize of torch/_refs/__init__.py.
bool bucketize(Retrace& t, const FxCall& c) {
  const FxCall::Given* boundaries = c.find("boundaries");
  const TensorFacts x = t.facts(self(c)), limits = t.facts(boundaries == nullptr ? "" : boundaries->value);
  if (c.overload != "Tensor" || c.text("out_int32", "False") == "True" || limits.rank() != 1) return false;
  const std::int64_t count = limits.sizes.front();
  if (count < 1 || x.rank() == 0 || std::ranges::any_of(x.sizes, [](auto size) { return size < 0; })) return false;
  const bool right = c.text("right", "False") == "True";
  std::string start = t.emit("aten.zeros.default", {list_text(x.sizes)},
                             {{"dtype", "torch.int64"}, {"device", "cpu"}, {"pin_memory", "False"}});
  std::string end = t.emit("aten.add.Tensor", {start, std::to_string(count)});
  std::string active;
  const auto both = [&](const std::string& a, const std::string& b) {
    return t.emit("aten.bitwise_and.Tensor", {a, b}, {}, DType::boolean);
  };
  for (std::int64_t left = count; left > 0; left /= 2) {
    const std::string width = t.emit("aten.sub.Tensor", {end, start});
    const std::string half = t.emit("aten.floor_divide.default", {width, "2"});
    std::string middle = t.emit("aten.add.Tensor", {start, half});
    if (!active.empty()) middle = t.emit("aten.where.ScalarOther", {active, middle, "0"});
    const std::string value = t.emit("aten.index.Tensor", {boundaries->text, "[" + middle + "]"}, {}, limits.dtype);
    const std::string before =
        t.emit(right ? "aten.gt.Tensor" : "aten.ge.Tensor", {value, first(c)}, {}, DType::boolean);
    if (active.empty()) {
      const std::string next = t.emit("aten.add.Tensor", {middle, "1"});
      start = t.emit("aten.where.self", {before, start, next});
      active = emit_recipe(t, c, "ones_like/bool $input dtype:torch.bool pin_memory:False");
    } else {
      const std::string beyond = both(t.emit("aten.bitwise_not.default", {before}, {}, DType::boolean), active);
      const std::string next = t.emit("aten.add.Tensor", {middle, "1"});
      start = t.emit("aten.where.self", {beyond, next, start});
    }
    if (left == 1) break;
    end = t.emit("aten.where.self", {both(before, active), middle, end});
    active = t.emit("aten.lt.Tensor", {start, end}, {}, DType::boolean);
  }
  return t.yield(start), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten.bucketize", bucketize},
    {"aten.copysign",
     prim<"prims.signbit.default/bool $other; _to_copy/bool %1 dtype:torch.bool; prims.abs.default $self; "
          "prims.neg.default %3; prims.abs.default $self; prims.where.default %2 %4 %5">},
    {"aten.count_nonzero", count_nonzero},
    {"aten.cumprod", cumprod},
    {"aten.cumulative_trapezoid", cumulative_trapezoid},
    {"aten.digamma", prim<"prims.digamma.default $self">},
    {"aten.dist", distance},
    {"aten.erfinv", prim<"prims.erf_inv.default $self">},
    {"aten.float_power", float_power},
    {"aten.fmax", prim<"prims.fmax.default $self $other">},
    {"aten.fmin", prim<"prims.fmin.default $self $other">},
    {"aten.hypot", prim<"prims.hypot.default $self $other">},
    {"aten.i0", prim<"prims.bessel_i0.default $self">},
    {"aten.isin", isin},
    {"aten.ldexp", recipe<"new_full $self [] 2.0 dtype:torch.float32 pin_memory:False; pow.Tensor_Tensor %1 $other; "
                          "mul.Tensor $self %2">},
    {"aten.lgamma", prim<"prims.lgamma.default $self">},
    {"aten.nan_to_num", nan_to_num},
    {"aten.nanmean", nanmean},
    {"aten.nanquantile", quantile},
    {"aten.nansum", nansum},
    {"aten.pdist", recipe<"_pdist_forward $self">},
    {"aten.quantile", quantile},
    {"aten.sgn", sgn},
    {"aten.trapezoid", trapezoid},
});

}  // namespace

std::span<const RuleRow> statistics_rules() { return table; }

}  // namespace whence
