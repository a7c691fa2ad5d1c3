// Indices, Fourier transforms, arithmetic and statistics.
#include <numeric>

#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;
using Keywords = Retrace::Keywords;

// ---- indices ------------------------------------------------------------------------------------------------------

// index_put at [None, None, indices]: along the axis that is indexed.
bool put(Retrace& t, const FxCall& c, bool accumulate) {
  const std::int64_t rank = t.facts(self(c)).rank(), indexed = axis_of(c, "dim", rank);
  if (indexed >= rank) return false;
  std::string places;
  for (std::int64_t axis = 0; axis < indexed; ++axis) places += "None, ";
  Arguments arguments = {first(c), "[" + places + c.text("index") + "]", c.text("source")};
  if (accumulate) arguments.push_back("True");
  return t.yield(t.emit("aten.index_put.default", arguments)), true;
}

bool index_add(Retrace& t, const FxCall& c) { return c.text("alpha", "1") == "1" && put(t, c, true); }
bool index_copy(Retrace& t, const FxCall& c) { return put(t, c, false); }

// One number wherever an index says.
bool index_fill(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  const FxCall::Given* index = c.find("index");
  const std::int64_t axis = axis_of(c, "dim", x.rank());
  if (c.overload != "int_Scalar" || index == nullptr || axis < 0 || axis >= x.rank()) return false;
  const TensorFacts places = t.facts(index->value);
  std::vector<std::int64_t> sizes = x.sizes;
  sizes[static_cast<std::size_t>(axis)] = places.rank() == 1 ? places.sizes.front() : 1;
  if (std::ranges::any_of(sizes, [](auto size) { return size < 0; })) return false;
  std::string indices;
  for (std::int64_t i = 0; i < axis; ++i) indices += "None, ";
  const std::string value =
      emit_recipe(t, c,
                  "scalar_tensor $value dtype:$dtype layout:torch.strided device:cpu "
                  "pin_memory:False; expand %1 $sizes",
                  {{"dtype", "torch." + std::string(name_of(x.dtype))}, {"sizes", list_text(sizes)}});
  return t.yield(t.emit("aten.index_put.default", {first(c), "[" + indices + index->text + "]", value})), true;
}

bool where(Retrace& t, const FxCall& c) {
  if (c.overload != "default") return false;
  const std::string node = t.emit("aten.nonzero.default", {first(c)}, {}, DType::int64);
  return t.yield(t.items(t.emit("aten.unbind.int", {node, "1"}), c.results.size())), true;
}

bool sort_stable(Retrace& t, const FxCall& c) {
  Keywords keywords;
  for (std::size_t i = 1; i < c.given.size(); ++i) keywords.emplace_back(c.given[i].name, c.given[i].text);
  return t.yield(t.items(t.emit("aten.sort.stable", {first(c)}, keywords), 2).back()), true;
}

bool msort(Retrace& t, const FxCall& c) {
  return t.yield(t.items(t.emit("aten.sort.default", {first(c), "0"}), 2).front()), true;
}

bool argsort(Retrace& t, const FxCall& c) {
  Arguments arguments;
  for (const FxCall::Given& given : c.given) arguments.push_back(given.text);
  if (c.overload == "stable") return sort_stable(t, c);
  return t.yield(t.items(t.emit("aten.sort.default", arguments), 2).back()), true;
}

bool one_hot(Retrace& t, const FxCall& c) {
  const std::string classes = c.text("num_classes", "-1");
  if (classes.starts_with('-')) return false;
  Layout places = t.layout(self(c));
  for (const char* op : {"ge", "lt"}) {  // a check of the values, which nobody reads
    const std::string fits = t.emit_of(places, "aten." + std::string(op) + ".Scalar",
                                       {first(c), std::string(op) == "ge" ? "0" : classes}, {}, DType::boolean);
    t.check(t.emit_of({}, "aten.all.default", {fits}, {}, DType::boolean));
  }
  places.sizes.push_back(number(1));
  places.strides.push_back(number(1));
  const std::string column = t.emit_of(places, "aten.unsqueeze.default", {first(c), "-1"});
  TracedSize count = number(c.integer("num_classes", 0));
  count.text = classes;
  const std::string numbers = t.emit_arange(count, DType::int64);
  const std::string equal = t.emit("aten.eq.Tensor", {column, numbers}, {}, DType::boolean);
  return t.yield(t.emit("aten._to_copy.default", {equal}, {{"dtype", "torch.int64"}})), true;
}

bool part_of_complex(Retrace& t, const FxCall& c) {
  if (!is_complex(t.facts(self(c)).dtype)) return alias(t, c);
  const std::string pairs = t.emit("aten.view_as_real.default", {first(c)});
  const std::string axis = std::to_string(t.facts(self(c)).rank());
  return t.yield(t.emit("aten.select.int", {pairs, axis, c.op == "aten.imag" ? "1" : "0"})), true;
}

// The axes that are reduced, counted from the front; all where none are said.
std::vector<std::int64_t> reduced_axes(const FxCall& c, std::int64_t rank) {
  std::vector<std::int64_t> axes = c.integers("dim");  // none of the text None
  for (std::int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}

// ---- Fourier transforms -------------------------------------------------------------------------------------------

// How PyTorch counts the norms: 0 none, 1 by the root of the length, 2 by the length.
std::string norm_of(const FxCall& c, bool inverse) {
  const std::string said = c.text("norm");
  if (said == "ortho") return "1";
  return inverse == (said != "forward") ? "2" : "0";
}

// Over one axis, or over several; of the length that the input has.
bool fourier(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c)), result = t.facts(c.results.front());
  const std::string kind = c.op.substr(sizeof("aten.fft_") - 1);  // "fft", "irfft2"
  const bool inverse = kind.starts_with('i'), several = kind.ends_with('2') || kind.ends_with('n');
  std::vector<std::int64_t> axes = c.integers("dim");
  if (c.text("dim") == "None" && kind.ends_with('n')) return false;
  if (axes.empty()) axes = several ? std::vector<std::int64_t>{-2, -1} : std::vector<std::int64_t>{-1};
  for (std::int64_t& axis : axes) {
    axis += axis < 0 ? x.rank() : 0;
    if (axis < 0 || axis >= x.rank() || x.rank() != result.rank()) return false;
  }
  const std::int64_t length = result.sizes[axes.back()], given = x.sizes[axes.back()];
  const std::string list = list_text(axes), norm = norm_of(c, inverse);
  if (kind.starts_with("irfft")) {
    if (given != length / 2 + 1 || several) return false;
    return t.yield(t.emit("aten._fft_c2r.default", {first(c), list, norm, std::to_string(length)})), true;
  }
  if (kind.starts_with("rfft")) {
    if (length != given / 2 + 1) return false;
    return t.yield(t.emit("aten._fft_r2c.default", {first(c), list, norm, "True"})), true;
  }
  if (length != given || (kind != "fft" && kind != "ifft" && kind != "fft2" && kind != "ifft2")) return false;
  if (is_complex(x.dtype)) {
    return t.yield(t.emit("aten._fft_c2c.default", {first(c), list, norm, inverse ? "False" : "True"})), true;
  }
  if (!several) {
    return t.yield(t.emit("aten._fft_r2c.default", {first(c), list, norm, "False"})), true;
  }
  const std::string numbers = t.emit("aten._to_copy.default", {first(c)}, {{"dtype", "torch.complex64"}});
  return t.yield(t.emit("aten._fft_c2c.default", {numbers, list, norm, inverse ? "False" : "True"})), true;
}

bool fftshift(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  const std::vector<std::int64_t> axes = reduced_axes(c, x.rank());
  std::vector<std::int64_t> shifts;
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= x.rank() || x.sizes[axis] < 0) return false;
    const std::int64_t size = x.sizes[axis];
    shifts.push_back(c.op == "aten.fft_fftshift" ? size / 2 : (size + 1) / 2);
  }
  if (axes.empty()) return false;
  return t.yield(t.emit("aten.roll.default", {first(c), list_text(shifts), list_text(axes)})), true;
}

// ---- arithmetic ---------------------------------------------------------------------------------------------------

bool reversed_sub(Retrace& t, const FxCall& c) {
  return c.text("alpha", "1") == "1" && recipe<"sub.Tensor $other $self">(t, c);
}

// What is put before and behind a tensor has its sizes but one.
std::string put_together(Retrace& t, const FxCall& c, std::int64_t axis, TracedSize& length) {
  const std::vector<TracedSize> sizes = t.layout(self(c)).sizes;
  std::string parts;
  for (const char* name : {"prepend", "self", "append"}) {
    const FxCall::Given* given = c.find(name);
    if (given == nullptr || given->value.empty()) continue;
    parts += (parts.empty() ? "" : ", ") + given->text;
    if (given->value == self(c)) continue;
    const std::vector<TracedSize> part = t.layout(given->value).sizes;
    if (part.size() != sizes.size()) return "";
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (static_cast<std::int64_t>(i) != axis) t.sizes().compare("eq", part[i], sizes[i]);
    }
    const bool numbers = length.is_number() && part[axis].is_number();
    length = numbers ? number(length.number + part[axis].number) : unknown_size();
  }
  if (parts == first(c)) return parts;
  const std::string whole = t.emit("aten.cat.default", {"[" + parts + "]", c.text("dim", "-1")});
  if (!length.is_number()) length = t.sizes().ask(whole, axis);
  return whole;
}

// at::narrow with a `length` of 1 less than the axis has, whose own length has the name `whole_name` if it has one.
std::string narrowed(Retrace& t, const FxCall& c, const std::string& of, std::int64_t start, const TracedSize& whole,
                     const TracedSize& length, const std::string& whole_name) {
  SizeArithmetic& sizes = t.sizes();
  const TracedSize from = number(start);
  sizes.compare("ge", length, number(0));
  if (!whole.is_number()) {
    sizes.note("neg", {whole.text});
    sizes.note("le", {"", whole.text});
    sizes.note("le", {whole.text, ""});
    sizes.note("sub", {whole.text, length.text});
  }
  std::string end = sizes.add(from, length).text;
  if (start == 1 && !whole_name.empty()) end = whole_name;
  return t.emit("aten.slice.Tensor", {of, c.text("dim", "-1"), from.text, end});
}

// The differences of neighbours, `n` times, of the tensor with what is put before and behind it.
bool diff(Retrace& t, const FxCall& c) {
  constexpr std::int64_t most = 100;  // written out
  const TensorFacts x = t.facts(self(c));
  const std::int64_t axis = axis_of(c, "dim", x.rank(), -1), times = c.integer("n", 1);
  if (axis < 0 || axis >= x.rank() || x.dtype == DType::boolean || times < 0 || times > most) return false;
  TracedSize whole = t.layout(self(c)).sizes[axis];
  if (whole.is_number() && whole.number < times) return false;
  std::string result = put_together(t, c, axis, whole);
  if (result.empty()) return false;
  std::string whole_name = result == first(c) ? whole.text : "";
  TracedSize length = t.sizes().add(whole, number(-1), "sub");
  t.sizes().compare("gt", number(times), whole);
  for (std::int64_t i = 0; i < times; ++i) {
    if (i + 1 == times) t.name_size(c.results.front(), axis, length);
    const std::string front = narrowed(t, c, result, 0, whole, length, whole_name);
    if (!whole.is_number()) t.sizes().ask(front, axis);
    const std::string back = narrowed(t, c, result, 1, whole, length, whole_name);
    whole = whole.is_number() ? length : t.sizes().ask(back, axis);
    result = t.emit("aten.sub.Tensor", {back, front});
    whole_name = length.text;
    length = t.sizes().add(length, number(-1), "sub");
  }
  return t.yield(result), true;
}

bool larger_of_two(Retrace& t, const FxCall& c) {
  if (c.overload != "other") return false;
  const char* target = c.op == "aten.max" ? "aten.maximum.default" : "aten.minimum.default";
  return t.yield(t.emit(target, {first(c), c.text("other")})), true;
}

std::string correction_of(const FxCall& c) {
  std::string correction = "1.0";
  if (c.text("unbiased", "True") == "False") correction = "0.0";
  if (c.text("correction") != "None") correction = c.text("correction");
  return correction.find('.') == std::string::npos ? correction + ".0" : correction;
}

// What was reduced, with axes of one where the operator keeps them.
std::string kept(Retrace& t, const FxCall& c, const std::string& reduced, const std::vector<std::int64_t>& axes) {
  if (c.text("keepdim", "False") == "False") return reduced;
  std::vector<std::int64_t> left;
  for (std::int64_t axis = 0; axis < t.facts(self(c)).rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) left.push_back(axis);
  }
  return t.emit("prims.broadcast_in_dim.default", {reduced, t.sizes_text(c.results.front()), list_text(left)});
}

bool std_deviation(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  const std::vector<std::int64_t> axes = reduced_axes(c, x.rank());
  const bool half = x.dtype == DType::float16 || x.dtype == DType::bfloat16, root = c.op == "aten.std";
  const std::string of = half ? emit_recipe(t, c, "_to_copy/float32 $self dtype:torch.float32") : first(c);
  const std::string variance = kept(t, c, t.emit("prims.var.default", {of, list_text(axes), correction_of(c)}), axes);
  const std::string spread =
      root ? t.emit("aten.sqrt.default", {variance}, {}, half ? DType::float32 : x.dtype) : variance;
  const std::string dtype = "torch." + std::string(name_of(x.dtype));
  if (half && root) return t.yield(t.emit("aten._to_copy.default", {spread}, {{"dtype", dtype}})), true;
  return t.yield(half ? t.emit("prims.convert_element_type.default", {spread, dtype}) : spread), true;
}

// The deviation or variance, and the mean.
bool with_mean(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  const std::vector<std::int64_t> axes = reduced_axes(c, x.rank());
  if (c.results.size() != 2 || x.dtype == DType::float16 || x.dtype == DType::bfloat16) return false;
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) {
    if (axis < 0 || axis >= x.rank() || x.sizes[axis] < 0) return false;
    if (__builtin_mul_overflow(count, x.sizes[axis], &count)) return false;
  }
  std::string spread = kept(t, c, t.emit("prims.var.default", {first(c), list_text(axes), correction_of(c)}), axes);
  const std::string sum = kept(t, c, t.emit("prims.sum.default", {first(c), list_text(axes)}), axes);
  const std::string mean = t.emit("prims.div.default", {sum, std::to_string(count) + ".0"});
  if (c.op == "aten.std_mean") spread = t.emit("aten.sqrt.default", {spread});
  return t.yield({spread, mean}), true;
}

// A number of the model's own: one with a fraction is taken to have the dtype of what it is used with.
bool item(Retrace& t, const FxCall& c) {
  const DType dtype = is_floating(t.facts(self(c)).dtype) ? DType::float32 : DType::undefined;
  return t.yield(t.emit("aten._local_scalar_dense.default", {first(c)}, {}, dtype)), true;
}

// A node's result in row-major order.
std::string in_order(Retrace& t, const std::string& node, Layout layout) {
  if (t.sizes().contiguous(layout, t.sizes().element_count(layout.sizes))) return node;
  layout.pack();
  return t.emit_of(layout, "aten.clone.default", {node}, {{"memory_format", "torch.contiguous_format"}});
}

bool rms_norm(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  if (x.dtype != DType::float32 && x.dtype != DType::float16 && x.dtype != DType::bfloat16) return false;
  std::string of = first(c);
  if (x.dtype != DType::float32) of = emit_recipe(t, c, "_to_copy/float32 $input dtype:torch.float32");
  std::vector<std::int64_t> axes;
  Layout reduced = t.layout(self(c));
  const auto normalized = static_cast<std::int64_t>(c.integers("normalized_shape").size());
  for (std::int64_t axis = std::max<std::int64_t>(x.rank() - normalized, 0); axis < x.rank(); ++axis) {
    axes.push_back(axis);
    reduced.sizes[axis] = number(1);
  }
  reduced.pack();
  const std::string eps = c.text("eps") == "None" ? "1.1920928955078125e-07" : c.text("eps");
  const std::string squares = t.emit("aten.pow.Tensor_Scalar", {of, "2"}, {}, DType::float32);
  const std::string mean = t.emit_of(reduced, "aten.mean.dim", {squares, list_text(axes), "True"}, {}, DType::float32);
  const std::string shifted = t.emit_of(reduced, "aten.add.Scalar", {mean, eps}, {}, DType::float32);
  const std::string root = t.emit_of(reduced, "aten.rsqrt.default", {shifted}, {}, DType::float32);
  std::string result = t.emit("aten.mul.Tensor", {of, root}, {}, DType::float32);
  if (c.text("weight") != "None") result = t.emit("aten.mul.Tensor", {result, c.text("weight")});
  result = in_order(t, result, t.layout(self(c)));
  in_order(t, root, reduced);  // which a backward pass would read
  return t.yield(t.emit("aten.type_as.default", {result, first(c)})), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten._local_scalar_dense", item},
    {"aten.__and__", recipe<"bitwise_and.Tensor $self $other">},
    {"aten.__or__", recipe<"bitwise_or.Tensor $self $other">},
    {"aten.__xor__", recipe<"bitwise_xor.Tensor $self $other">},
    {"aten.argsort", argsort},
    {"aten.msort", msort},
    {"aten.zero", recipe<"zeros_like $self pin_memory:False">},
    {"aten.argwhere", recipe<"nonzero.default $self">},
    {"aten.cdist", recipe<"_cdist_forward.default $x1 $x2 $p=2.0 None">},
    {"aten.diff", diff},
    {"aten.fft_fft", fourier},
    {"aten.fft_fft2", fourier},
    {"aten.fft_fftshift", fftshift},
    {"aten.fft_ifft", fourier},
    {"aten.fft_ifft2", fourier},
    {"aten.fft_ifftshift", fftshift},
    {"aten.fft_irfft", fourier},
    {"aten.fft_rfft", fourier},
    {"aten.fft_rfft2", fourier},
    {"aten.hardshrink", recipe<"abs.default $self; le.Scalar %1 $lambd=0.5; where.ScalarSelf %2 0 $self">},
    {"aten.imag", part_of_complex},
    {"aten.index_add", index_add},
    {"aten.index_copy", index_copy},
    {"aten.index_fill", index_fill},
    {"aten.item", item},
    {"aten.max", larger_of_two},
    {"aten.min", larger_of_two},
    {"aten.one_hot", one_hot},
    {"aten.real", part_of_complex},
    {"aten.rms_norm", rms_norm},
    {"aten.rsub", reversed_sub},
    {"aten.softshrink",
     recipe<"abs.default $self; gt.Scalar %1 $lambd=0.5; sign.default $self; mul.Tensor %3 $lambd=0.5; "
            "sub.Tensor $self %4; mul.Tensor $self 0; where.self %2 %5 %6">},
    {"aten.square", recipe<"pow.Tensor_Scalar $self 2">},
    {"aten.std", std_deviation},
    {"aten.std_mean", with_mean},
    {"aten.threshold", recipe<"le.Scalar $self $threshold; where.ScalarSelf %1 $value $self">},
    {"aten.trace", recipe<"diagonal_copy.default $self; sum.default %1">},
    {"aten.var", std_deviation},
    {"aten.var_mean", with_mean},
    {"aten.where", where},
});

}  // namespace

std::span<const RuleRow> number_rules() { return table; }

}  // namespace whence
