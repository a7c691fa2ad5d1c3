// Normalisation, convolution and pooling.
#include <charconv>

#include "annotator/merge/python_text.h"
#include "annotator/read/exported/retrace/rule_helpers.h"

namespace whence {
namespace {

using Arguments = Retrace::Arguments;
using Keywords = Retrace::Keywords;

// ---- normalisation and convolution ----------------------------------------------------------------------------------

bool batch_norm(Retrace& t, const FxCall& c) {
  if (c.text("training") != "False") return false;
  t.sizes().compare("eq", t.element_count(self(c)), number(0));
  const std::string node = t.emit("aten._native_batch_norm_legit_no_training.default",
                                  {first(c), c.text("weight"), c.text("bias"), c.text("running_mean"),
                                   c.text("running_var"), c.text("momentum"), c.text("eps")});
  return t.yield(t.items(node, 3).front()), true;
}

// aten.convolution with every argument, of one sample too.
bool convolution(Retrace& t, const FxCall& c, bool transposed, const std::string& padding, std::string input) {
  const FxCall::Given* weight = c.find("weight");
  const auto rank = static_cast<std::size_t>(t.facts(weight == nullptr ? "" : weight->value).rank());
  if (rank < 3) return false;
  const bool alone = t.facts(self(c)).sizes.size() + 1 == rank;
  if (alone) input = t.emit("aten.unsqueeze.default", {input, "0"});
  const auto one_for_each_axis = [&](const char* name, std::int64_t otherwise) {
    std::vector<std::int64_t> numbers = c.integers(name);
    if (numbers.size() == 1) numbers.resize(rank - 2, numbers.front());
    if (numbers.empty()) numbers.resize(rank - 2, otherwise);
    return list_text(numbers);
  };
  const Arguments arguments = {input,
                               c.text("weight"),
                               c.text("bias"),
                               one_for_each_axis("stride", 1),
                               padding.empty() ? one_for_each_axis("padding", 0) : padding,
                               one_for_each_axis("dilation", 1),
                               transposed ? "True" : "False",
                               one_for_each_axis("output_padding", 0),
                               c.text("groups", "1")};
  const std::string node = t.emit("aten.convolution.default", arguments);
  return t.yield(alone ? t.emit("aten.squeeze.dim", {node, "0"}) : node), true;
}

bool conv_transpose(Retrace& t, const FxCall& c) { return convolution(t, c, true, "", first(c)); }

// `padding` in words.
bool conv_in_words(Retrace& t, const FxCall& c) {
  if (c.overload != "padding") return false;
  const FxCall::Given* given = c.find("weight");
  const std::vector<std::int64_t> weight = t.facts(given == nullptr ? "" : given->value).sizes;
  if (weight.size() < 3) return false;
  std::vector<std::int64_t> dilation = c.integers("dilation"), padding;
  if (dilation.size() <= 1) dilation.resize(weight.size() - 2, dilation.empty() ? 1 : dilation.front());
  if (dilation.size() != weight.size() - 2) return false;
  std::vector<std::int64_t> behind;  // what is padded on that side alone, from the last axis on
  for (std::size_t axis = 2; axis < weight.size(); ++axis) {
    const std::int64_t total = c.text("padding") == "same" ? dilation[axis - 2] * (weight[axis] - 1) : 0;
    padding.push_back(total / 2);
    behind.insert(behind.begin(), {0, total % 2});
  }
  const bool even = std::ranges::all_of(behind, [](auto more) { return more == 0; });
  const std::string input = even ? first(c) : t.emit("aten.constant_pad_nd.default", {first(c), list_text(behind)});
  return convolution(t, c, false, list_text(padding), input);
}

bool weight_norm(Retrace& t, const FxCall& c) {
  const std::int64_t rank = t.facts(self(c)).rank(), kept = axis_of(c, "dim", rank);
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (axis != kept) axes.push_back(axis);
  }
  return t.yield(emit_recipe(t, c, "linalg_vector_norm $v 2 $axes True; div.Tensor $g %1; mul.Tensor $v %2",
                             {{"axes", list_text(axes)}})),
         true;
}

// ---- pictures made larger ------------------------------------------------------------------------------------------

std::vector<double> scales_of(const FxCall& c) {
  std::vector<double> scales;
  const std::string said = c.text("scale_factors");
  for (const char *at = said.data(), *const end = at + said.size(); at < end;) {
    double number = 0;
    const auto [after, failed] = std::from_chars(at, end, number);
    if (failed == std::errc()) scales.push_back(number);
    at = failed == std::errc() ? after : at + 1;
  }
  return scales;
}

// Between the two elements that are next to a place. Source: _upsample_linear of torch/_decomp/decompositions.py.
bool linear_of_lines(Retrace& t, const FxCall& c) {
  const TensorFacts x = t.facts(self(c));
  const std::vector<std::int64_t> wanted = t.facts(c.results.front()).sizes;
  if (x.rank() != 3 || wanted.size() != 3 || c.overload != "vec" || x.dtype != DType::float32) return false;
  const std::int64_t given = x.sizes.back(), count = wanted.back();
  if (given < 1 || count < 1) return false;
  const std::vector<double> scales = scales_of(c);
  const bool corners = c.text("align_corners") == "True", scaled = scales.size() == 1 && scales.front() > 0;
  double step = scaled ? 1.0 / scales.front() : static_cast<double>(given) / static_cast<double>(count);
  if (corners) step = count > 1 ? static_cast<double>(given - 1) / static_cast<double>(count - 1) : 0.0;
  const Named sizes = {
      {"count", std::to_string(count)}, {"last", std::to_string(given - 1)}, {"step", python_float(step)}};
  const std::string numbers =
      emit_recipe(t, c, "arange/int64 $count device:cpu pin_memory:False; _to_copy %1 dtype:torch.float32", sizes);
  Named named = sizes;
  named.emplace_back("numbers", numbers);
  named.emplace_back("place", emit_recipe(t, c,
                                          corners ? "mul.Tensor $numbers $step"
                                                  : "add.Tensor $numbers 0.5; mul.Tensor %1 $step; sub.Tensor %2 0.5",
                                          named));
  return t.yield(emit_recipe(t, c,
                             "clamp $place 0.0; view %1 [$count]; _to_copy/int64 %2 dtype:torch.int64; "
                             "add.Tensor/int64 %3 1; clamp/int64 %4 None $last; "
                             "_unsafe_index.Tensor $input [None,None,%3]; _unsafe_index.Tensor $input [None,None,%5]; "
                             "sub.Tensor %2 %3; clamp %8 0.0 1.0; sub.Tensor %7 %6; mul.Tensor %10 %9; "
                             "add.Tensor %6 %11",
                             named)),
         true;
}

// The nearest element of each axis, looked up. Source: _upsample_nearest of torch/_decomp/decompositions.py.
bool nearest_exact(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> sizes = t.facts(self(c)).sizes, wanted = t.facts(c.results.front()).sizes;
  if (sizes.size() < 3 || sizes.size() != wanted.size() || c.overload != "vec") return false;
  const std::vector<double> scales = scales_of(c);
  std::string places = "None, None";
  for (std::size_t axis = 2; axis < sizes.size(); ++axis) {
    if (sizes[axis] < 1 || wanted[axis] < 1) return false;
    const auto size = static_cast<double>(sizes[axis]);
    const bool scaled = scales.size() == sizes.size() - 2 && scales[axis - 2] > 0;
    const double step = size / (scaled ? size * scales[axis - 2] : static_cast<double>(wanted[axis]));
    std::string place = emit_recipe(t, c,
                                    "arange/float32 $count dtype:torch.float32 device:cpu pin_memory:False; "
                                    "add.Tensor %1 0.5; mul.Tensor %2 $step; _to_copy/int64 %3 dtype:torch.int64",
                                    {{"count", std::to_string(wanted[axis])}, {"step", python_float(step)}});
    for (std::size_t i = axis + 1; i < sizes.size(); ++i) {
      place = t.emit("aten.unsqueeze.default", {place, "-1"}, {}, DType::int64);
    }
    places += ", " + place;
  }
  return t.yield(t.emit("aten._unsafe_index.Tensor", {first(c), "[" + places + "]"})), true;
}

// ---- pooling ------------------------------------------------------------------------------------------------------

// Windows along an axis: where their elements are, and how many each has where that differs.
struct Windows {
  std::string places, offsets, counts;
  std::int64_t longest = 0;
};

Windows windows_along(Retrace& t, std::int64_t size, std::int64_t wanted) {
  const auto whole = [&](const char* op, Arguments arguments, Keywords keywords = {}) {
    return t.emit(op, std::move(arguments), std::move(keywords), DType::int64);
  };
  const auto divided = [&](const std::string& what) {
    return whole("aten.div.Tensor_mode", {what, std::to_string(wanted)}, {{"rounding_mode", "trunc"}});
  };
  const auto times = [&](const std::string& what) { return whole("aten.mul.Tensor", {what, std::to_string(size)}); };
  const Keywords integers = {{"dtype", "torch.int64"}, {"device", "cpu"}, {"pin_memory", "False"}};
  const std::int64_t left = size % wanted;
  const bool of_several_sizes = left != 0 && wanted % left != 0;
  Windows windows;
  windows.longest = size / wanted + (left == 0 ? 0 : 1) + (of_several_sizes ? 1 : 0);
  const std::string numbers = whole("aten.arange.default", {std::to_string(wanted)}, integers);
  const std::string starts = divided(times(numbers));
  windows.offsets = whole("aten.arange.default", {std::to_string(windows.longest)}, integers);
  const std::string column = whole("aten.unsqueeze.default", {starts, "-1"});
  windows.places = whole("aten.add.Tensor", {column, windows.offsets});
  if (!of_several_sizes) return windows;
  const std::string last = whole("aten.scalar_tensor.default", {std::to_string(size - 1)}, integers);
  windows.places = whole("aten.minimum.default", {windows.places, last});
  const std::string after = times(whole("aten.add.Tensor", {numbers, "1"}));
  const std::string rounded_up = whole("aten.add.Tensor", {after, std::to_string(wanted)});
  const std::string ends = divided(whole("aten.sub.Tensor", {rounded_up, "1"}));
  windows.counts = whole("aten.sub.Tensor", {ends, starts});
  return windows;
}

// Of windows that are not all as long: what they hold is looked up, filled up with zeros and added up.
// Source: adaptive_avg_pool2d of torch/_decomp/decompositions.py.
std::string average_of_windows(Retrace& t, const std::string& of, std::int64_t rank, const Windows& high,
                               const Windows& wide) {
  const auto column = [&](const std::string& what, DType dtype = DType::int64) {
    return t.emit("aten.unsqueeze.default", {what, "-1"}, {}, dtype);
  };
  std::string before;
  for (std::int64_t axis = 2; axis < rank; ++axis) before += "None, ";
  const std::string rows = column(column(high.places));
  std::string all = t.emit("aten.index.Tensor", {of, "[" + before + rows + ", " + wide.places + "]"});
  if (high.counts.empty() && wide.counts.empty()) return t.emit("aten.mean.dim", {all, "[-3, -1]"});
  std::string counted_high = std::to_string(high.longest), counted_wide = std::to_string(wide.longest);
  const auto filled_up = [&](const Windows& windows, bool rows) {
    std::string beyond = t.emit("aten.ge.Tensor", {windows.offsets, column(windows.counts)}, {}, DType::boolean);
    if (rows) beyond = column(column(beyond, DType::boolean), DType::boolean);
    all = t.emit("aten.masked_fill.Scalar", {all, beyond, "0.0"});
  };
  if (!high.counts.empty()) filled_up(high, true), counted_high = column(high.counts);
  if (!wide.counts.empty()) filled_up(wide, false), counted_wide = wide.counts;
  std::string sum;
  for (std::int64_t i = 0; i < high.longest * wide.longest; ++i) {
    const auto pick = [&](const std::string& from, std::int64_t axis, std::int64_t place) {
      return t.emit("aten.select.int", {from, std::to_string(axis), std::to_string(place)});
    };
    const std::string one = pick(pick(all, rank - 1, i / wide.longest), rank, i % wide.longest);
    sum = sum.empty() ? one : t.emit("aten.add.Tensor", {sum, one});
  }
  if (high.counts.empty()) std::swap(counted_high, counted_wide);
  const std::string count = t.emit("aten.mul.Tensor", {counted_high, counted_wide}, {}, DType::int64);
  return t.emit("aten.div.Tensor", {sum, count});
}

struct Extent {
  std::int64_t height, width;
};

// "" where that is not known. `rank`: of what is pooled.
std::string adaptive_average(Retrace& t, const std::string& of, std::int64_t rank, Extent given, Extent wanted) {
  constexpr std::int64_t most = 4096;  // elements of a window, which are written out
  if (wanted.height == 1 && wanted.width == 1) return t.emit("aten.mean.dim", {of, "[-1, -2]", "True"});
  if (given.height < 1 || given.width < 1 || wanted.height < 1 || wanted.width < 1) return "";
  if (given.height % wanted.height == 0 && given.width % wanted.width == 0) {
    const std::string window = list_text({given.height / wanted.height, given.width / wanted.width});
    return t.emit("aten.avg_pool2d.default", {of, window, window});
  }
  const std::int64_t rows = given.height / wanted.height + 2, columns = given.width / wanted.width + 2;
  if (rows > most || columns > most || rows * columns > most) return "";
  const Windows high = windows_along(t, given.height, wanted.height);
  const Windows wide = windows_along(t, given.width, wanted.width);
  return average_of_windows(t, of, rank, high, wide);
}

bool adaptive_avg_pool2d(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> sizes = t.facts(self(c)).sizes, wanted = t.facts(c.results.front()).sizes;
  if (sizes.size() < 3 || wanted.size() != sizes.size()) return false;
  const std::size_t height = sizes.size() - 2, width = sizes.size() - 1;
  const std::string node = adaptive_average(t, first(c), static_cast<std::int64_t>(sizes.size()),
                                            {sizes[height], sizes[width]}, {wanted[height], wanted[width]});
  return !node.empty() && (t.yield(node), true);
}

bool adaptive_avg_pool1d(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> sizes = t.facts(self(c)).sizes, wanted = t.facts(c.results.front()).sizes;
  if (sizes.size() < 2 || wanted.size() != sizes.size()) return false;
  if (wanted.back() < 1 || (sizes.back() < 1 && wanted.back() != 1)) return false;
  const std::string row = t.emit("aten.unsqueeze.default", {first(c), "-2"});
  const std::string node =
      adaptive_average(t, row, static_cast<std::int64_t>(sizes.size()) + 1, {1, sizes.back()}, {1, wanted.back()});
  return !node.empty() && (t.yield(t.emit("aten.squeeze.dim", {node, "-2"})), true);
}

// Of windows that are all as long, the largest and where it is; others stay.
bool adaptive_max_pool(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> sizes = t.facts(self(c)).sizes, wanted = t.facts(c.results.front()).sizes;
  const std::size_t axes = static_cast<std::size_t>(c.op[sizeof("aten.adaptive_max_pool") - 1] - '0');
  if (sizes.size() < axes || sizes.size() != wanted.size() || c.results.size() != 2) return false;
  std::vector<std::int64_t> window;
  for (std::size_t axis = sizes.size() - axes; axis < sizes.size(); ++axis) {
    if (sizes[axis] < 1 || wanted[axis] < 1 || sizes[axis] % wanted[axis] != 0) return false;
    window.push_back(sizes[axis] / wanted[axis]);
  }
  if (axes == 3)
    return t.yield(t.items(t.emit("aten.max_pool3d_with_indices.default", {first(c), list_text(window)}), 2)), true;
  std::string of = first(c);
  if (axes == 1) of = t.emit("aten.unsqueeze.default", {of, "-2"}), window.insert(window.begin(), 1);
  std::vector<std::string> both = t.items(t.emit("aten.max_pool2d_with_indices.default", {of, list_text(window)}), 2);
  for (std::size_t i = both.size(); axes == 1 && i-- > 0;) both[i] = t.emit("aten.squeeze.dim", {both[i], "-2"});
  return t.yield(both), true;
}

bool adaptive_avg_pool3d(Retrace& t, const FxCall& c) {
  const std::vector<std::int64_t> wanted = t.facts(c.results.front()).sizes;
  if (wanted.size() < 3) return false;
  if (std::all_of(wanted.end() - 3, wanted.end(), [](auto size) { return size == 1; })) {
    return t.yield(t.emit("aten.mean.dim", {first(c), "[-1, -2, -3]", "True"})), true;
  }
  return t.yield(t.emit("aten._adaptive_avg_pool3d.default", {first(c), c.text("output_size")})), true;
}

constexpr auto table = std::to_array<RuleRow>({
    {"aten._upsample_nearest_exact1d", nearest_exact},
    {"aten._upsample_nearest_exact2d", nearest_exact},
    {"aten._upsample_nearest_exact3d", nearest_exact},
    {"aten._weight_norm", weight_norm},
    {"aten.upsample_linear1d", linear_of_lines},
    {"aten.adaptive_avg_pool1d", adaptive_avg_pool1d},
    {"aten.adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten._adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"aten.adaptive_avg_pool3d", adaptive_avg_pool3d},
    {"aten.adaptive_max_pool1d", adaptive_max_pool},
    {"aten.adaptive_max_pool2d", adaptive_max_pool},
    {"aten.adaptive_max_pool3d", adaptive_max_pool},
    {"aten.batch_norm", batch_norm},
    {"aten.conv1d", conv_in_words},
    {"aten.conv2d", conv_in_words},
    {"aten.conv3d", conv_in_words},
    {"aten.conv_transpose1d", conv_transpose},
    {"aten.conv_transpose2d", conv_transpose},
    {"aten.conv_transpose3d", conv_transpose},
});

}  // namespace

std::span<const RuleRow> network_rules() { return table; }

}  // namespace whence
