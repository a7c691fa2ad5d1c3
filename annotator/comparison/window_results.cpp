#include "annotator/comparison/window_results.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace whence::comparison {
namespace {

using graph::GraphNode;

constexpr std::size_t most_in_window = std::size_t{1} << 21;

// One axis of a pool.
struct Window {
  std::int64_t size = 1, step = 1, spread = 1, before = 0, after = 0, length = 0, places = 0;
};

std::optional<std::vector<Window>> windows_of(const GraphNode& node, const Numbers& x) {
  const std::size_t axes = x.shape.size() - 2;
  std::vector<Window> windows(axes);
  if (node.op_type.starts_with("Global")) {
    for (std::size_t i = 0; i < axes; ++i) windows[i] = {.size = x.shape[i + 2], .length = x.shape[i + 2], .places = 1};
    return windows;
  }
  const std::string padding = text_attribute(node, "auto_pad", "NOTSET");
  const Sizes64 kernel = integers_attribute(node, "kernel_shape", {});
  const Sizes64 steps = integers_attribute(node, "strides", Sizes64(axes, 1));
  const Sizes64 spreads = integers_attribute(node, "dilations", Sizes64(axes, 1));
  const Sizes64 pads = integers_attribute(node, "pads", Sizes64(2 * axes, 0));
  const bool fits = kernel.size() == axes && steps.size() == axes && spreads.size() == axes && pads.size() == 2 * axes;
  if (!fits || (padding != "NOTSET" && padding != "VALID")) return std::nullopt;
  const bool rounds_up = node.int_attribute("ceil_mode", 0) != 0;
  for (std::size_t i = 0; i < axes; ++i) {
    Window& window = windows[i];
    window = {kernel[i], steps[i], spreads[i], pads[i], pads[axes + i], x.shape[i + 2], 0};
    if (window.size < 1 || window.step < 1 || window.spread < 1) return std::nullopt;
    const std::int64_t rest = window.length + window.before + window.after - (window.size - 1) * window.spread - 1;
    if (rest < 0) return std::nullopt;
    window.places = (rest + (rounds_up ? window.step - 1 : 0)) / window.step + 1;
    // A window that starts behind the padded elements is dropped.
    if (rounds_up && (window.places - 1) * window.step >= window.length + window.before) --window.places;
  }
  return windows;
}

// Combines the elements of one window along one axis after the other.
struct Pool {
  bool is_largest = false, counts_padding = false;

  // Pools axis `axis`. For a mean, adds the elements.
  Numbers along(const Numbers& x, std::size_t axis, const Window& window) const {
    Numbers result{x.shape, {}};
    result.shape[axis] = window.places;
    const std::size_t outer = count_of_axes(x.shape, 0, axis), inner = count_of_axes(x.shape, axis + 1, x.shape.size());
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::int64_t place = 0; place < window.places; ++place) {
        for (std::size_t i = 0; i < inner; ++i) {
          double found = is_largest ? -std::numeric_limits<double>::infinity() : 0;
          for (std::int64_t k = 0; k < window.size; ++k) {
            const std::int64_t at = place * window.step - window.before + k * window.spread;
            if (at < 0 || at >= window.length) continue;
            const double element =
                x.all[(o * static_cast<std::size_t>(window.length) + static_cast<std::size_t>(at)) * inner + i];
            found = is_largest ? std::max(found, element) : found + element;
          }
          result.all.push_back(found);
        }
      }
    }
    return result;
  }
};

// Returns which two elements of an axis an interpolated one lies between, and the weight of the second.
struct Between {
  std::int64_t first = 0, second = 0;
  double weight = 0;
};

std::optional<Between> place_in(const GraphNode& node, std::int64_t index, std::int64_t from, std::int64_t to,
                                double scale) {
  const std::string mode = text_attribute(node, "mode", "nearest");
  const std::string way = text_attribute(node, "coordinate_transformation_mode", "half_pixel");
  const auto at = static_cast<double>(index);
  double place = 0;
  if (way == "half_pixel" || (way == "pytorch_half_pixel" && to > 1)) {
    place = (at + 0.5) / scale - 0.5;
  } else if (way == "align_corners") {
    place = to > 1 ? at * static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
  } else if (way == "asymmetric") {
    place = at / scale;
  } else if (way != "pytorch_half_pixel") {
    return std::nullopt;
  }
  if (mode == "linear") {
    place = std::clamp(place, 0.0, static_cast<double>(from - 1));
    const auto low = static_cast<std::int64_t>(std::floor(place));
    return Between{low, std::min(low + 1, from - 1), place - static_cast<double>(low)};
  }
  const std::string nearest = text_attribute(node, "nearest_mode", "round_prefer_floor");
  constexpr double rounding = 1e-6;
  if (nearest == "floor")
    place = std::floor(place + rounding);
  else if (nearest == "ceil")
    place = std::ceil(place - rounding);
  else if (nearest == "round_prefer_floor")
    place = std::ceil(place - 0.5 - rounding);
  else if (nearest == "round_prefer_ceil")
    place = std::floor(place + 0.5 + rounding);
  else
    return std::nullopt;
  const auto chosen = std::clamp<std::int64_t>(static_cast<std::int64_t>(place), 0, from - 1);
  return Between{chosen, chosen, 0};
}

}  // namespace

std::optional<Numbers> pooled(const GraphNode& node, const Numbers& x) {
  if (x.shape.size() < 3) return std::nullopt;
  const auto windows = windows_of(node, x);
  if (!windows) return std::nullopt;
  const bool is_largest = node.op_type.ends_with("MaxPool");
  const Pool pool{.is_largest = is_largest};
  Numbers result = x, counts{x.shape, std::vector<double>(x.all.size(), 1)};
  double all = 1;  // elements of a window
  for (std::size_t i = 0; i < windows->size(); ++i) {
    result = pool.along(result, i + 2, (*windows)[i]);
    if (!is_largest) counts = pool.along(counts, i + 2, (*windows)[i]);
    all *= static_cast<double>((*windows)[i].size);
  }
  if (is_largest) return result;
  const bool counts_padding = node.int_attribute("count_include_pad", 0) != 0;
  // With both settings, runtimes count the last windows in different ways.
  if (counts_padding && node.int_attribute("ceil_mode", 0) != 0) return std::nullopt;
  for (std::size_t i = 0; i < result.all.size(); ++i) result.all[i] /= counts_padding ? all : counts.all[i];
  return result;
}

std::optional<Numbers> interpolated(const GraphNode& node, const Numbers& x, const simplify::Constants& inputs) {
  const std::string mode = text_attribute(node, "mode", "nearest");
  const bool is_plain = node.int_attribute("antialias", 0) == 0 && node.find("axes") == nullptr &&
                        text_attribute(node, "keep_aspect_ratio_policy", "stretch") == "stretch";
  if (!is_plain || (mode != "nearest" && mode != "linear")) return std::nullopt;
  constexpr std::size_t scales_slot = 2, sizes_slot = 3;
  const auto scales = numbers_of(inputs, scales_slot), sizes = numbers_of(inputs, sizes_slot);
  const bool has_sizes = sizes && sizes->all.size() == x.shape.size();
  if (!has_sizes && (!scales || scales->all.size() != x.shape.size())) return std::nullopt;
  Numbers result = x;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    const std::int64_t from = x.shape[axis];
    const double stated = has_sizes ? sizes->all[axis] : std::floor(scales->all[axis] * static_cast<double>(from));
    if (!(stated >= 1) || stated > static_cast<double>(most_in_window) || from < 1) return std::nullopt;
    const auto to = static_cast<std::int64_t>(stated);
    const double scale = has_sizes ? stated / static_cast<double>(from) : scales->all[axis];
    if (to == from && scale == 1) continue;
    Numbers next{result.shape, {}};
    next.shape[axis] = to;
    const std::size_t outer = count_of_axes(result.shape, 0, axis);
    const std::size_t inner = count_of_axes(result.shape, axis + 1, result.shape.size());
    if (outer * inner * static_cast<std::size_t>(to) > most_in_window) return std::nullopt;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::int64_t place = 0; place < to; ++place) {
        const auto between = place_in(node, place, from, to, scale);
        if (!between) return std::nullopt;
        const auto element = [&](std::int64_t at, std::size_t i) {
          return result.all[(o * static_cast<std::size_t>(from) + static_cast<std::size_t>(at)) * inner + i];
        };
        for (std::size_t i = 0; i < inner; ++i) {
          next.all.push_back(element(between->first, i) * (1 - between->weight) +
                             element(between->second, i) * between->weight);
        }
      }
    }
    result = std::move(next);
  }
  return result;
}

std::optional<Numbers> padded(const GraphNode& node, const Numbers& x, const Sizes64& pads) {
  const std::string mode = text_attribute(node, "mode", "constant");
  if ((mode != "reflect" && mode != "edge") || pads.size() != 2 * x.shape.size()) return std::nullopt;
  Numbers result = x;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    const std::int64_t from = x.shape[axis], before = pads[axis], after = pads[x.shape.size() + axis];
    if (before == 0 && after == 0) continue;
    const bool fits = before >= 0 && after >= 0 &&
                      std::max(before, after) < (mode == "edge" ? static_cast<std::int64_t>(most_in_window) : from);
    if (!fits || from < 1) return std::nullopt;
    Numbers next{result.shape, {}};
    next.shape[axis] = from + before + after;
    const std::size_t outer = count_of_axes(result.shape, 0, axis);
    const std::size_t inner = count_of_axes(result.shape, axis + 1, result.shape.size());
    if (outer * inner * static_cast<std::size_t>(next.shape[axis]) > most_in_window) return std::nullopt;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::int64_t place = -before; place < from + after; ++place) {
        std::int64_t at = std::clamp<std::int64_t>(place, 0, from - 1);
        if (mode == "reflect" && place < 0) at = -place;
        if (mode == "reflect" && place >= from) at = 2 * (from - 1) - place;
        const auto first =
            result.all.begin() +
            static_cast<std::ptrdiff_t>((o * static_cast<std::size_t>(from) + static_cast<std::size_t>(at)) * inner);
        next.all.insert(next.all.end(), first, first + static_cast<std::ptrdiff_t>(inner));
      }
    }
    result = std::move(next);
  }
  return result;
}

}  // namespace whence::comparison
