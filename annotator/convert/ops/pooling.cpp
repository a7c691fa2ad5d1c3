// Pooling with a sliding window: max_pool and avg_pool. input [N, C, *spatial] or [C, *spatial]. ONNX pools only
// batches, so an unbatched input temporarily gets a batch of one.
#include <algorithm>
#include <optional>
#include <utility>

#include "annotator/convert/ops/families.h"
#include "annotator/convert/reduce.h"
#include "schema/element_count.h"

namespace whence::convert {
namespace {

struct Window {
  std::size_t axes;  // number of spatial axes
  Ints kernel, stride, padding, dilation;
  Ints end;           // padding after each axis; `padding` is before it
  bool ceil = false;  // the last window may extend past the padding
};

// The number of axes is the size of kernel_size in the operator's schema.
Window read(Ctx& c) {
  Window window;
  window.axes = c.schema().find("kernel_size")->type.list_size;
  window.kernel = c.counts("kernel_size", window.axes);
  window.stride = c.integers("stride").empty() ? window.kernel : c.counts("stride", window.axes);
  window.padding = c.counts("padding", window.axes, 0);
  window.dilation = c.schema().find("dilation") ? c.counts("dilation", window.axes) : Ints(window.axes, 1);
  window.end = window.padding;
  window.ceil = c.flag("ceil_mode");
  return window;
}

// Returns the axes of dynamic size that the window covers completely: F.avg_pool2d(x, x.shape[2:]). On the other axes
// the window must have size and stride 1; for any other window, returns no axes.
Ints covered_axes(Ctx& c) {
  const Val x = c.tensor("self");
  const auto axes = static_cast<std::int64_t>(c.schema().find("kernel_size")->type.list_size);
  const std::vector<Size> kernel = c.sizes("kernel_size"), stride = c.sizes("stride");
  if (std::ssize(kernel) != axes || c.rank(x) <= axes) return {};
  const auto all_equal = [&](std::string_view name, std::int64_t number) {
    if (c.schema().find(name) == nullptr) return true;
    return std::ranges::all_of(c.sizes(name), [&](const Size& size) { return c.static_size(size) == number; });
  };
  if (!all_equal("padding", 0) || !all_equal("dilation", 1)) return {};
  Ints covered;
  for (std::int64_t i = 0; i < axes; ++i) {
    const std::int64_t axis = c.rank(x) - axes + i;
    if (const auto known = c.static_size(kernel[i])) {
      const bool each = stride.empty() || c.static_size(stride[i]) == 1;
      if (*known != 1 || !each) return {};
    } else if (c.same_size(kernel[i], x, axis)) {
      covered.push_back(axis);
    } else {
      return {};
    }
  }
  return covered;
}

// Returns the end of the last window of spatial axis `i`, counted from the start of the padding; nullopt for dynamic
// sizes.
std::optional<std::int64_t> reach(Ctx& c, const Window& window, std::size_t i) {
  const auto result = c.output_dims();
  if (!result) return std::nullopt;
  const Dim& out = (*result)[result->size() - window.axes + i];
  if (!out.is_static()) return std::nullopt;
  std::int64_t last = 0;  // the start of the last window
  c.expect(!__builtin_mul_overflow(out.size - 1, window.stride[i], &last), "windows must fit into the input");
  return last + window.dilation[i] * (window.kernel[i] - 1) + 1;
}

// ceil_mode drops a last window that would start in the padding after the input. The ONNX checker counts that window,
// so for static sizes the padding is cut or, if `extend`, grown to the end of the windows, and ceil_mode is not needed.
void settle_ceil_mode(Ctx& c, Window& window, bool extend) {
  if (!window.ceil) return;
  window.ceil = false;
  for (std::size_t i = 0; i < window.axes; ++i) {
    const auto covered = reach(c, window, i);
    const auto in =
        c.static_dim(c.tensor("self"), static_cast<std::int64_t>(i) - static_cast<std::int64_t>(window.axes));
    if (covered && in && (extend || *covered <= *in + 2 * window.padding[i])) {
      window.end[i] = std::max(std::int64_t{0}, *covered - *in - window.padding[i]);
    } else {
      window.ceil = true;
    }
  }
}

Attributes attributes_of(const Window& window) {
  Attributes attributes{{"kernel_shape", window.kernel}};
  if (window.ceil) attributes.push_back({"ceil_mode", 1});
  Ints pads = window.padding;
  pads.insert(pads.end(), window.end.begin(), window.end.end());
  attributes.push_back({"pads", pads});
  attributes.push_back({"strides", window.stride});
  return attributes;
}

bool batched(Ctx& c, const Window& window) { return c.rank(c.tensor("self")) == static_cast<int>(window.axes) + 2; }

Val with_batch(Ctx& c, const Window& window) {
  const Val x = c.tensor("self");
  return batched(c, window) ? x : c.unsqueeze(x, {0});
}

Val without_batch(Ctx& c, const Window& window, Val y) { return batched(c, window) ? y : c.squeeze(y, {0}); }

Attributes max_attributes(const Window& window) {
  Attributes attributes = attributes_of(window);
  if (window.dilation != Ints(window.axes, 1)) attributes.push_back({"dilations", window.dilation});
  return attributes;
}

Window read_max(Ctx& c) {
  Window window = read(c);
  settle_ceil_mode(c, window, true);
  return window;
}

void max_pool(Ctx& c) {
  if (const Ints covered = covered_axes(c); !covered.empty()) {
    return c.yield(reduce(c, "ReduceMax", c.tensor("self"), covered, true));
  }
  const Window window = read_max(c);
  c.yield(without_batch(c, window, c.emit("MaxPool", {with_batch(c, window)}, max_attributes(window))));
}

// Number of elements of the spatial axes of the input, as an int64 scalar.
Val plane_size(Ctx& c, const Window& window) {
  const Val x = c.tensor("self");
  Val size = c.constant_int(1);
  std::int64_t known = 1;
  bool dynamic = false;
  for (int axis = c.rank(x) - static_cast<int>(window.axes); axis < c.rank(x); ++axis) {
    if (const auto fixed = c.static_dim(x, axis)) {
      known *= *fixed;
    } else {
      size = dynamic ? c.emit("Mul", {size, c.dim_of(x, axis)}) : c.dim_of(x, axis);
      dynamic = true;
    }
  }
  if (!dynamic) return c.constant_int(known);
  return known == 1 ? size : c.emit("Mul", {size, c.constant_int(known)});
}

// ONNX counts indices through the whole tensor, PyTorch from the start of each plane; the remainder by its size
// converts.
void max_pool_with_indices(Ctx& c) {
  if (!c.result_used(1)) {
    if (const Ints covered = covered_axes(c); !covered.empty()) {
      return c.yield({reduce(c, "ReduceMax", c.tensor("self"), covered, true), absent});
    }
    const Window window = read_max(c);
    const Val values = c.emit("MaxPool", {with_batch(c, window)}, max_attributes(window));
    return c.yield({without_batch(c, window, values), absent});
  }
  const Window window = read_max(c);
  const auto results = c.emit_many("MaxPool", {with_batch(c, window)}, max_attributes(window), 2);
  const Val indices = c.emit("Mod", {results[1], plane_size(c, window)});
  c.yield({without_batch(c, window, results[0]), without_batch(c, window, indices)});
}

// The sum over the window divided by `divisor`: the mean with all pads counted, times window / divisor. A window that
// ceil_mode clips would count too few elements, so the input is padded explicitly up to the end of the last window.
Val divided_by(Ctx& c, Window window, std::int64_t divisor) {
  Val x = with_batch(c, window);
  settle_ceil_mode(c, window, true);
  if (window.ceil) {
    c.refuse("divisor_override with ceil_mode over a dynamic size is not supported",
             "export with a fixed size, or ceil_mode=False");
  }
  if (window.end != window.padding) {
    Ints pads(2, 0);
    pads.insert(pads.end(), window.padding.begin(), window.padding.end());
    pads.insert(pads.end(), 2, 0);
    pads.insert(pads.end(), window.end.begin(), window.end.end());
    x = c.emit("Pad", {x, c.constant_ints(pads)});
    window.padding = window.end = Ints(window.axes, 0);
  }
  Attributes attributes = attributes_of(window);
  attributes.push_back({"count_include_pad", 1});
  const Val mean = c.emit("AveragePool", {x}, std::move(attributes));
  c.expect(divisor != 0, "divisor_override must not be 0");
  const std::int64_t count = whence::element_count(window.kernel);
  const double factor = static_cast<double>(count) / static_cast<double>(divisor);
  return c.emit("Mul", {mean, c.constant_number(factor, c.output_dtype())});
}

void avg_pool(Ctx& c) {
  const bool override = c.schema().find("divisor_override") && c.has("divisor_override");
  if (const Ints covered = covered_axes(c); !covered.empty() && !override) {
    return c.yield(reduce(c, "ReduceMean", c.tensor("self"), covered, true));
  }
  Window window = read(c);
  if (override) return c.yield(without_batch(c, window, divided_by(c, window, c.integer("divisor_override"))));
  const bool pads_count = c.flag("count_include_pad") && window.padding != Ints(window.axes, 0);
  settle_ceil_mode(c, window, !pads_count);
  Attributes attributes = attributes_of(window);
  if (pads_count) attributes.push_back({"count_include_pad", 1});
  c.yield(without_batch(c, window, c.emit("AveragePool", {with_batch(c, window)}, std::move(attributes))));
}

// Puts each element at the index it was pooled from, zeros elsewhere; `indices` count within a plane of output_size.
void max_unpool(Ctx& c) {
  const Val x = c.tensor("self"), indices = c.tensor("indices");
  const Ints size = c.integers("output_size");
  const int leading = c.rank(x) - static_cast<int>(size.size());
  c.expect(leading >= 0, "output_size must not have more axes than self");
  Ints flat(static_cast<std::size_t>(leading), 0);
  flat.push_back(-1);
  std::vector<Size> planes;
  for (int axis = 0; axis < leading; ++axis) {
    const auto known = c.static_dim(x, axis);
    planes.push_back(known ? Size{*known} : Size{c.dim_of(x, axis)});
  }
  planes.emplace_back(whence::element_count(size));
  const Val empty = c.emit("Expand", {c.constant_number(0, c.dtype(x)), c.to_vector(planes)});
  const auto in_planes = [&](Val v) { return c.emit("Reshape", {v, c.constant_ints(flat)}); };
  const Val filled = c.emit("ScatterElements", {empty, in_planes(indices), in_planes(x)}, {{"axis", -1}});
  c.yield(c.reshape_to_output(filled));
}

const OpEntry kPooling[] = {
    {"aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", max_unpool},
    {"aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor",
     max_unpool},
    {"aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], "
     "bool ceil_mode=False) -> Tensor",
     max_pool},
    {"aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
     "bool ceil_mode=False) -> Tensor",
     max_pool},
    {"aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, "
     "bool ceil_mode=False) -> Tensor",
     max_pool},
    {"aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], "
     "int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)",
     max_pool_with_indices},
    {"aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
     "int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     max_pool_with_indices},
    {"aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, "
     "int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
     max_pool_with_indices},
    {"aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, "
     "bool count_include_pad=True) -> Tensor",
     avg_pool},
    {"aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
     "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
     avg_pool},
    {"aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, "
     "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
     avg_pool},
};

}  // namespace

OpFamily pooling_ops() { return kPooling; }

}  // namespace whence::convert
