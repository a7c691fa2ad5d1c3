#include "annotator/derivation/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "annotator/derivation/element_views.h"
#include "annotator/derivation/expression_json.h"
#include "annotator/derivation/fold.h"
#include "annotator/derivation/quantise.h"
#include "annotator/derivation/untransposed.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"
#include "schema/printable.h"

namespace whence::derivation {
namespace {

std::span<const std::byte> bytes_of(const TensorData& data) { return data.bytes.in_memory().value(); }

std::string sizes_text(const std::vector<std::int64_t>& dims) {
  std::string text = "[";
  for (const std::int64_t size : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// Expressions are read from statements, which may be of any content.
void require(bool fits) {
  if (fits) return;
  throw Error(Code::corrupt_file, "a derivation does not fit its tensors", "write the statement again",
              {.stage = "derive"});
}

void require_floats(const TensorData& data) { require(data.dtype == DType::float32); }

TensorData converted(const TensorData& data, DType dtype) {
  if (data.dtype == dtype) return data;
  auto cast = program::cast_tensor(data, dtype);
  if (!cast) {
    throw Error(Code::unsupported_feature,
                "a parameter of dtype " + std::string(name_of(data.dtype)) + " cannot be converted to " +
                    std::string(name_of(dtype)),
                "convert the checkpoint to float32", {.stage = "derive"});
  }
  return std::move(*cast);
}

// Copies elements that are not at a multiple of their size, as a safetensors file may store them.
TensorData aligned(TensorData data) {
  const auto bytes = bytes_of(data);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(data.dtype) != 0) {
    data.bytes = Bytes::copy_of(bytes.data(), bytes.size());
  }
  return data;
}

TensorData picked(const TensorData& data, const PickStep& step) {
  for (const Run& run : step.runs) {
    const std::int64_t lines = data.shape.empty() ? 0 : data.shape[0];
    require(run.first >= 0 && run.count > 0 && run.step > 0 && run.first < lines &&
            (run.count - 1) <= (lines - 1 - run.first) / run.step);
  }
  const std::size_t row = data.shape.empty() || data.shape[0] == 0 ? 0 : data.bytes.size() / data.shape[0];
  const std::byte* const from = bytes_of(data).data();
  std::string bytes;
  std::int64_t rows = 0;
  for (const Run& run : step.runs) {
    rows += run.count;
    if (run.step == 1) {
      bytes.append(reinterpret_cast<const char*>(from) + run.first * row, run.count * row);
      continue;
    }
    for (std::int64_t i = 0; i < run.count; ++i) {
      bytes.append(reinterpret_cast<const char*>(from) + (run.first + i * run.step) * row, row);
    }
  }
  std::vector<std::int64_t> dims = data.shape;
  if (!dims.empty()) dims[0] = rows;
  return {data.dtype, std::move(dims), Bytes::owned(std::move(bytes))};
}

TensorData concatenated(const std::vector<TensorData>& parts) {
  require(!parts.empty());
  for (const TensorData& part : parts) {
    require(part.dtype == parts[0].dtype && part.shape.size() == parts[0].shape.size() && !part.shape.empty());
  }
  std::string bytes;
  std::size_t size = 0;
  for (const TensorData& part : parts) size += part.bytes.size();
  bytes.reserve(size);
  std::vector<std::int64_t> dims = parts.front().shape;
  if (!dims.empty()) dims[0] = 0;
  for (const TensorData& part : parts) {
    bytes.append(as_text(bytes_of(part)));
    if (!dims.empty()) dims[0] += part.shape[0];
  }
  return {parts.front().dtype, std::move(dims), Bytes::owned(std::move(bytes))};
}

// Copies in tiles, because one of the two matrices is always read across its rows. A tile is turned in a place of its
// own: the rows of a matrix are often a power of two apart, and would replace each other in the processor's cache.
template <class T>
void transpose_matrix(const T* from, T* to, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t tile = 32;
  std::array<T, static_cast<std::size_t>(tile * tile)> turned{};
  for (std::int64_t r = 0; r < rows; r += tile) {
    const std::int64_t height = std::min(tile, rows - r);
    for (std::int64_t c = 0; c < columns; c += tile) {
      const std::int64_t width = std::min(tile, columns - c);
      for (std::int64_t i = 0; i < height; ++i) {
        const T* const row = from + (r + i) * columns + c;
        for (std::int64_t j = 0; j < width; ++j) turned[static_cast<std::size_t>(j * tile + i)] = row[j];
      }
      for (std::int64_t j = 0; j < width; ++j) std::copy_n(turned.data() + j * tile, height, to + (c + j) * rows + r);
    }
  }
}

// Turns 8 rows of 8 bytes: exchanges halves, then quarters, then single bytes between rows.
void turn_bytes(std::array<std::uint64_t, 8>& rows) {
  const auto exchange = [&](std::size_t distance, unsigned bits, std::uint64_t mask) {
    for (std::size_t i = 0; i < 8; ++i) {
      if ((i & distance) != 0) continue;
      const std::uint64_t changed = ((rows[i] >> bits) ^ rows[i + distance]) & mask;
      rows[i + distance] ^= changed;
      rows[i] ^= changed << bits;
    }
  };
  exchange(4, 32, 0x00000000ffffffff);
  exchange(2, 16, 0x0000ffff0000ffff);
  exchange(1, 8, 0x00ff00ff00ff00ff);
}

// Transposes the integers of quantised weights, 8 by 8 of them at once.
void transpose_matrix(const std::uint8_t* from, std::uint8_t* to, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t side = 8, tile = 64;
  const auto transpose_tile = [&](std::int64_t row, std::int64_t column) {
    std::array<std::uint64_t, side> turned{};
    for (std::int64_t i = 0; i < side; ++i) std::memcpy(&turned[i], from + (row + i) * columns + column, side);
    turn_bytes(turned);
    for (std::int64_t i = 0; i < side; ++i) std::memcpy(to + (column + i) * rows + row, &turned[i], side);
  };
  const std::int64_t whole_rows = rows - rows % side, whole_columns = columns - columns % side;
  for (std::int64_t r = 0; r < whole_rows; r += tile) {
    for (std::int64_t column = 0; column < whole_columns; column += side) {
      for (std::int64_t row = r; row < std::min(r + tile, whole_rows); row += side) transpose_tile(row, column);
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = row < whole_rows ? whole_columns : 0;
    for (std::int64_t column = first; column < columns; ++column)
      to[column * rows + row] = from[row * columns + column];
  }
}

template <class T>
void transpose_axes(const T* from, T* to, const std::vector<std::int64_t>& dims,
                    const std::vector<std::int64_t>& order) {
  const std::size_t rank = dims.size();
  if (rank == 2 && order[0] == 1) return transpose_matrix(from, to, dims[0], dims[1]);
  std::vector<std::int64_t> strides(rank, 1), steps(rank), sizes(rank), index(rank, 0);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  for (std::size_t i = 0; i < rank; ++i) {
    steps[i] = strides[static_cast<std::size_t>(order[i])];
    sizes[i] = dims[static_cast<std::size_t>(order[i])];
  }
  const std::int64_t count = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies());
  std::int64_t at = 0;
  for (std::int64_t written = 0; written < count; ++written) {
    to[written] = from[at];
    for (std::size_t axis = rank; axis-- > 0;) {
      at += steps[axis];
      if (++index[axis] < sizes[axis]) break;
      at -= steps[axis] * sizes[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

TransposeStep inverse_of(const TransposeStep& step) {
  std::vector<std::int64_t> axes(step.order.size());
  std::iota(axes.begin(), axes.end(), 0);
  require(std::ranges::is_permutation(step.order, axes));
  TransposeStep inverse{axes};
  for (std::size_t i = 0; i < axes.size(); ++i) inverse.order[static_cast<std::size_t>(step.order[i])] = axes[i];
  return inverse;
}

TensorData transposed(const TensorData& data, const TransposeStep& step) {
  require(inverse_of(step).order.size() == data.shape.size());
  std::vector<std::int64_t> dims;
  for (const std::int64_t axis : step.order) dims.push_back(data.shape.at(static_cast<std::size_t>(axis)));
  std::string bytes(data.bytes.size(), '\0');
  const auto run = [&](auto element) {
    using T = decltype(element);
    transpose_axes(reinterpret_cast<const T*>(bytes_of(data).data()), reinterpret_cast<T*>(bytes.data()), data.shape,
                   step.order);
  };
  switch (size_of(data.dtype)) {
    case 1:
      run(std::uint8_t{});
      break;
    case 2:
      run(std::uint16_t{});
      break;
    case 4:
      run(std::uint32_t{});
      break;
    default:
      run(std::uint64_t{});
  }
  return {data.dtype, std::move(dims), Bytes::owned(std::move(bytes))};
}

TensorData resized(const TensorData& data, const std::vector<std::int64_t>& dims) {
  require(dims.size() == data.shape.size());
  const std::size_t element = size_of(data.dtype);
  std::string bytes(static_cast<std::size_t>(element_count(dims)) * element, '\0');
  const auto copy = [&](const auto& self, std::size_t axis, std::size_t from, std::size_t to) -> void {
    if (axis == dims.size()) {
      std::memcpy(bytes.data() + to * element, bytes_of(data).data() + from * element, element);
      return;
    }
    for (std::int64_t i = 0; i < std::min(dims[axis], data.shape[axis]); ++i) {
      self(self, axis + 1, from * static_cast<std::size_t>(data.shape[axis]) + static_cast<std::size_t>(i),
           to * static_cast<std::size_t>(dims[axis]) + static_cast<std::size_t>(i));
    }
  };
  copy(copy, 0, 0, 0);
  return {data.dtype, dims, Bytes::owned(std::move(bytes))};
}

TensorData reshaped(TensorData data, const std::vector<std::int64_t>& dims) {
  require(element_count(dims) == data.element_count());
  data.shape = dims;
  return data;
}

namespace {

TensorData clamped(const TensorData& data, const CastRange& range) {
  const auto [least, largest, keeps_sign] = range;
  require_floats(data);
  std::vector<float> numbers(static_cast<std::size_t>(data.element_count()));
  std::memcpy(numbers.data(), bytes_of(data).data(), numbers.size() * sizeof(float));
  for (float& number : numbers) {
    if (number > 0 && number < least) number = least;
    if (number < 0 && number > -least) number = keeps_sign ? -least : least;
    if (number > largest && !std::isinf(number)) number = largest;
    if (number < -largest && !std::isinf(number)) number = -largest;
  }
  return of_floats(numbers, data.shape);
}

}  // namespace

TensorData rounded_to_half(const TensorData& data, const CastRange& range) {
  return converted(range.is_limited() ? clamped(data, range) : data, DType::float16);
}

namespace {

void require_valid(const Scheme& scheme, const std::vector<std::int64_t>& dims) {
  const auto rank = static_cast<std::int64_t>(dims.size());
  require(scheme.bits == 4 || scheme.bits == 8 || scheme.bits == 16);
  require(scheme.low < scheme.high && scheme.clip_low < scheme.clip_high);
  if (scheme.groups.kind != Groups::Kind::tensor) require(scheme.groups.axis >= 0 && scheme.groups.axis < rank);
  if (scheme.groups.kind == Groups::Kind::block) require(scheme.groups.block > 0);
  const bool is_matrix = rank == 2 && scheme.groups.kind == Groups::Kind::block && scheme.groups.axis == 1;
  if (scheme.layout == Layout::n_bits) require(is_matrix);
}

TensorData flat(TensorData data) {
  data.shape = {static_cast<std::int64_t>(data.bytes.size() / size_of(data.dtype))};
  return data;
}

// Returns the integers, scales or zero points of a weight. `data` may be null except for the integers.
TensorData quantised(const TensorData* data, const std::vector<std::int64_t>& dims, const GroupScales& groups,
                     const QuantiseStep& step) {
  std::string bytes;
  switch (step.part) {
    case QuantiseStep::Part::integers:
      bytes = stored_integers({floats_of(*data), dims}, step.scheme, groups);
      break;
    case QuantiseStep::Part::scales:
      bytes = stored_scales(groups, step.scheme);
      break;
    case QuantiseStep::Part::zero_points:
      bytes = stored_zeros(groups, step.scheme, dims.empty() ? 1 : dims[0]);
      break;
  }
  DType dtype = DType::uint8;
  if (step.part == QuantiseStep::Part::scales) dtype = step.scheme.half_scales ? DType::float16 : DType::float32;
  return flat({dtype, {}, Bytes::owned(std::move(bytes))});
}

TensorData quantised_bias(const std::vector<TensorData>& inputs, const QuantiseBiasStep& step) {
  require(inputs.size() == 3);
  for (const TensorData& input : inputs) require_floats(input);
  const auto bias = floats_of(inputs[0]), input = floats_of(inputs[1]), weight = floats_of(inputs[2]);
  require(!input.empty() && (weight.size() == 1 || weight.size() == bias.size()));
  std::vector<float> scales;
  for (const float each : weight) scales.push_back(input[0] * each);
  if (step.is_scale) return of_floats(scales, {static_cast<std::int64_t>(scales.size())});
  std::vector<std::int32_t> integers;
  for (std::size_t i = 0; i < bias.size(); ++i) {
    const double scale = scales[scales.size() == 1 ? 0 : i];
    const double rounded = std::nearbyint(static_cast<double>(bias[i]) / scale);
    integers.push_back(
        static_cast<std::int32_t>(std::clamp(std::isnan(rounded) ? 0 : rounded, -2147483648.0, 2147483647.0)));
  }
  return {DType::int32, inputs[0].shape, Bytes::copy_of(integers.data(), integers.size() * sizeof(std::int32_t))};
}

struct Evaluation {
  const Sources& sources;

  TensorData of(const Expression& expression) const {
    const bool is_quantised = std::holds_alternative<QuantiseStep>(expression.step);
    std::vector<TensorData> inputs;
    for (const Expression& input : expression.inputs) {
      if (!is_quantised) inputs.push_back(of(input));
    }
    const bool is_leaf = std::holds_alternative<ParameterStep>(expression.step) ||
                         std::holds_alternative<KeptStep>(expression.step) ||
                         std::holds_alternative<NumberStep>(expression.step);
    require(is_leaf == expression.inputs.empty());
    return std::visit(
        [&](const auto& step) {
          // Known scales need no weight.
          if constexpr (std::is_same_v<decltype(step), const QuantiseStep&>)
            return quantised_part(expression, step);
          else
            return apply(step, inputs);
        },
        expression.step);
  }

  TensorData quantised_part(const Expression& expression, const QuantiseStep& stated) const {
    require(expression.inputs.size() == 1);
    require_valid(stated.scheme, dims_of(expression.inputs[0]));
    const Untransposed before = untransposed(expression.inputs[0], stated.scheme.layout, stated.scheme.groups);
    const Expression& weight = *before.weight;
    const std::vector<std::int64_t> dims = dims_of(weight);
    QuantiseStep step = stated;
    step.scheme.groups = before.groups;
    std::optional<TensorData> data;
    const auto need_data = [&] {
      if (!data) data = of(weight);
      require_floats(*data);
      require(data->shape == dims);
    };
    GroupScales computed;
    const GroupScales* groups = &computed;
    const std::string key = sources.scales ? scales_key(stated.scheme, expression.inputs[0]) : "";
    const auto known = sources.scales ? sources.scales->find(key) : KnownScales::iterator();
    if (sources.scales && known != sources.scales->end()) {
      groups = &known->second;
    } else {
      need_data();
      computed = group_scales(group_ranges({floats_of(*data), dims}, step.scheme.groups), step.scheme);
      if (sources.scales) groups = &sources.scales->emplace(key, std::move(computed)).first->second;
    }
    if (step.part != QuantiseStep::Part::integers) return quantised(nullptr, dims, *groups, step);
    need_data();
    TensorData integers = quantised(&*data, dims, *groups, step);
    if (before.transpose == nullptr) return integers;
    data.reset();
    return flat(transposed({step.scheme.bits > 8 ? DType::int16 : DType::int8, dims, std::move(integers.bytes)},
                           *before.transpose));
  }

  TensorData apply(const ParameterStep& step, const std::vector<TensorData>&) const {
    const TensorData* const found = sources.weights.find(step.name);
    if (found == nullptr) {
      throw Error(Code::weights_mismatch, "the checkpoint has no parameter '" + printable(step.name) + "'",
                  "pass a checkpoint of the same model", {.stage = "derive"});
    }
    if (found->shape != step.dims) {
      throw Error(Code::weights_mismatch,
                  "the parameter '" + printable(step.name) + "' has the sizes " + sizes_text(found->shape) +
                      ", and the file was made with " + sizes_text(step.dims),
                  "export the model again with these sizes", {.stage = "derive"});
    }
    return aligned(converted(sources.weights.value(step.name), step.dtype));
  }
  TensorData apply(const KeptStep& step, const std::vector<TensorData>&) const { return sources.kept(step.tensor); }
  static TensorData apply(const NumberStep& step, const std::vector<TensorData>&) {
    return of_floats({step.number}, {});
  }
  static TensorData apply(const PickStep& step, const std::vector<TensorData>& inputs) {
    return picked(inputs[0], step);
  }
  static TensorData apply(const ConcatenateStep&, const std::vector<TensorData>& inputs) {
    return concatenated(inputs);
  }
  static TensorData apply(const TransposeStep& step, const std::vector<TensorData>& inputs) {
    return transposed(inputs[0], step);
  }
  static TensorData apply(const ReshapeStep& step, const std::vector<TensorData>& inputs) {
    return reshaped(inputs[0], step.dims);
  }
  static TensorData apply(const CastStep& step, const std::vector<TensorData>& inputs) {
    return converted(step.range.is_limited() ? clamped(inputs[0], step.range) : inputs[0], step.dtype);
  }
  static TensorData apply(const FoldStep& step, const std::vector<TensorData>& inputs) {
    const std::size_t own = !step.is_bias || step.has_bias ? 1 : 0;
    require(inputs.size() == own + (step.is_affine ? 4 : 2));
    for (const TensorData& input : inputs) require_floats(input);
    const TensorData& weight = inputs[0];
    const auto rank = static_cast<std::int64_t>(weight.shape.size());
    require(step.is_bias || (step.axis >= 0 && step.axis < rank));
    const std::int64_t channels =
        step.is_bias ? inputs.back().element_count() : weight.shape[static_cast<std::size_t>(step.axis)];
    for (std::size_t i = step.is_bias ? 0 : 1; i < inputs.size(); ++i) require(inputs[i].element_count() == channels);
    return folded(step, inputs);
  }
  static TensorData apply(const ByChannelStep& step, const std::vector<TensorData>& inputs) {
    require(inputs.size() == 2);
    const TensorData &data = inputs[0], &vector = inputs[1];
    require_floats(data);
    require_floats(vector);
    const auto rank = static_cast<std::int64_t>(data.shape.size());
    require(step.axis >= 0 && step.axis < rank);
    const auto axis = static_cast<std::size_t>(step.axis);
    const auto factors = floats_of(vector);
    const auto channels = static_cast<std::size_t>(data.shape[axis]);
    require(factors.size() == channels || factors.size() == 1);
    const std::int64_t inner =
        std::accumulate(data.shape.begin() + step.axis + 1, data.shape.end(), std::int64_t{1}, std::multiplies());
    std::vector<float> numbers(floats_of(data).begin(), floats_of(data).end());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const float other = factors[factors.size() == 1 ? 0 : i / static_cast<std::size_t>(inner) % channels];
      if (step.operation == ByChannelStep::Operation::multiply) {
        numbers[i] *= other;
      } else {
        numbers[i] += other;
      }
    }
    return of_floats(numbers, data.shape);
  }
  static TensorData apply(const PadStep& step, const std::vector<TensorData>& inputs) {
    constexpr std::int64_t most = 64;  // a block of channels
    require(step.dims.size() == inputs[0].shape.size());
    for (std::size_t axis = 0; axis < step.dims.size(); ++axis) {
      const std::int64_t added = step.dims[axis] - inputs[0].shape[axis];
      require(added >= 0 && added < most);
    }
    return resized(inputs[0], step.dims);
  }
  static TensorData apply(const QuantiseBiasStep& step, const std::vector<TensorData>& inputs) {
    return quantised_bias(inputs, step);
  }
};

}  // namespace

std::string scales_key(const Scheme& scheme, const Expression& weight) {
  return to_json(Expression{QuantiseStep{scheme, QuantiseStep::Part::scales}, {weight}}).dump();
}

TensorData evaluate(const Expression& expression, const Sources& sources) { return Evaluation{sources}.of(expression); }

}  // namespace whence::derivation
