// Reductions along axes, cumulative sums, softmax and matrix products. Floating-point sums use double precision and are
// rounded once.
#include <cmath>
#include <limits>
#include <string_view>

#include "annotator/simplify/evaluate/operators.h"

namespace whence::simplify {

namespace {

template <class Number>
struct Reduction {
  std::string_view op_type;
  Number start;
  Number (*step)(Number sum, Number x);
  Number (*finish)(Number sum, double count);
};

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class Number>
Number as_is(Number sum, double) {
  return sum;
}

constexpr Reduction<double> floating_reductions[] = {
    {"ReduceL1", 0, [](double sum, double x) { return sum + std::fabs(x); }, as_is},
    {"ReduceL2", 0, [](double sum, double x) { return sum + x * x; },
     [](double sum, double) { return std::sqrt(sum); }},
    {"ReduceMax", -infinite, [](double sum, double x) { return std::isnan(x) || x > sum ? x : sum; }, as_is},
    {"ReduceMean", 0, [](double sum, double x) { return sum + x; }, [](double sum, double n) { return sum / n; }},
    {"ReduceMin", infinite, [](double sum, double x) { return std::isnan(x) || x < sum ? x : sum; }, as_is},
    {"ReduceProd", 1, [](double sum, double x) { return sum * x; }, as_is},
    {"ReduceSum", 0, [](double sum, double x) { return sum + x; }, as_is},
    {"ReduceSumSquare", 0, [](double sum, double x) { return sum + x * x; }, as_is},
};

using Int = std::int64_t;
using Unsigned = std::uint64_t;

constexpr Reduction<Int> integer_reductions[] = {
    {"ReduceMax", std::numeric_limits<Int>::min(), [](Int sum, Int x) { return std::max(sum, x); }, as_is},
    {"ReduceMin", std::numeric_limits<Int>::max(), [](Int sum, Int x) { return std::min(sum, x); }, as_is},
    {"ReduceProd", 1,
     [](Int sum, Int x) { return static_cast<Int>(static_cast<Unsigned>(sum) * static_cast<Unsigned>(x)); }, as_is},
    {"ReduceSum", 0,
     [](Int sum, Int x) { return static_cast<Int>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(x)); }, as_is},
};

template <class Number, std::size_t N>
const Reduction<Number>* find(const Reduction<Number> (&table)[N], std::string_view op_type) {
  for (const auto& entry : table) {
    if (entry.op_type == op_type) return &entry;
  }
  return nullptr;
}

// Returns which axes are reduced. They are in an attribute or, from opset 13 or 18 on, in the second input.
std::optional<std::vector<bool>> reduced_axes(const Evaluation& e) {
  const std::size_t rank = e.input(0).shape.size();
  Sizes axes;
  if (const graph::Attribute* attribute = e.node.find("axes")) {
    axes = std::get<Sizes>(attribute->value);
  } else if (e.has(1)) {
    const auto given = e.integers(1);
    if (!given) return std::nullopt;
    axes = *given;
  }
  const bool all = axes.empty() && e.node.int_attribute("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(rank, all);
  for (const std::int64_t axis : axes) {
    const auto at = axis_of(axis, rank);
    if (!at) return std::nullopt;
    reduced[*at] = true;
  }
  return reduced;
}

template <class Number>
std::optional<TensorData> reduce(const Evaluation& e, const Reduction<Number>* reduction) {
  const auto reduced = reduced_axes(e);
  if (reduction == nullptr || !reduced) return std::nullopt;
  const TensorData& x = e.input(0);
  Sizes kept = x.shape, shape;
  double count = 1;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if ((*reduced)[i]) count *= static_cast<double>(kept[i]);
    if ((*reduced)[i]) kept[i] = 1;
    if (!(*reduced)[i] || e.node.int_attribute("keepdims", 1) != 0) shape.push_back(kept[i]);
  }
  if (count == 0 || !e.fits(x.dtype, shape)) return std::nullopt;  // runtimes differ on empty tensors
  const std::vector<Number> numbers = numbers_of<Number>(x);
  std::vector<Number> result(static_cast<std::size_t>(count_of(kept)), reduction->start);
  auto number = numbers.begin();
  for_each_offset(x.shape, broadcast_strides(kept, x.shape), 0, [&](std::int64_t offset) {
    Number& sum = result[static_cast<std::size_t>(offset)];
    sum = reduction->step(sum, *number++);
  });
  for (Number& sum : result) sum = reduction->finish(sum, count);
  return tensor_of(x.dtype, shape, result);
}

template <class Number>
std::optional<TensorData> cumulative_sum(const Evaluation& e, std::size_t axis) {
  const TensorData& x = e.input(0);
  std::vector<Number> numbers = numbers_of<Number>(x);
  const std::int64_t step = strides_of(x.shape)[axis], size = x.shape[axis];
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(numbers.size()); ++i) {
    if (i / step % size != 0) numbers[static_cast<std::size_t>(i)] += numbers[static_cast<std::size_t>(i - step)];
  }
  return tensor_of(x.dtype, x.shape, numbers);
}

}  // namespace

bool is_reduction(std::string_view op_type) { return find(floating_reductions, op_type) != nullptr; }

std::optional<TensorData> evaluate_reduction(const Evaluation& e) {
  const DType dtype = e.input(0).dtype;
  if (has_floating_form(dtype)) return reduce(e, find(floating_reductions, e.node.op_type));
  return has_integer_form(dtype) ? reduce(e, find(integer_reductions, e.node.op_type)) : std::nullopt;
}

std::optional<TensorData> evaluate_cumulative_sum(const Evaluation& e) {
  const TensorData& x = e.input(0);
  const auto given = e.integers(1);
  if (!given || given->size() != 1 || !e.fits(x.dtype, x.shape)) return std::nullopt;
  const auto axis = axis_of(given->front(), x.shape.size());
  const bool plain = e.node.int_attribute("exclusive", 0) == 0 && e.node.int_attribute("reverse", 0) == 0;
  if (!axis || !plain || x.element_count() == 0) return std::nullopt;
  if (has_floating_form(x.dtype)) return cumulative_sum<double>(e, *axis);
  return has_integer_form(x.dtype) ? cumulative_sum<Int>(e, *axis) : std::nullopt;
}

std::optional<TensorData> evaluate_softmax(const Evaluation& e) {
  const TensorData& x = e.input(0);
  const auto axis = axis_of(e.node.int_attribute("axis", -1), x.shape.size());
  if (!has_floating_form(x.dtype) || !axis || x.element_count() == 0 || !e.fits(x.dtype, x.shape)) return std::nullopt;
  const bool logarithm = e.node.op_type == "LogSoftmax";
  std::vector<double> numbers = numbers_of<double>(x);
  const std::int64_t step = strides_of(x.shape)[*axis], size = x.shape[*axis];
  Sizes lines = x.shape;  // iterates over the first element of each line along the axis
  lines[*axis] = 1;
  for_each_offset(lines, broadcast_strides(x.shape, x.shape), 0, [&](std::int64_t start) {
    const auto at = [&](std::int64_t i) -> double& { return numbers[static_cast<std::size_t>(start + i * step)]; };
    double largest = -infinite, sum = 0;
    for (std::int64_t i = 0; i < size; ++i) largest = std::max(largest, at(i));
    for (std::int64_t i = 0; i < size; ++i) sum += std::exp(at(i) - largest);
    for (std::int64_t i = 0; i < size; ++i) {
      at(i) = logarithm ? at(i) - largest - std::log(sum) : std::exp(at(i) - largest) / sum;
    }
  });
  return tensor_of(x.dtype, x.shape, numbers);
}

namespace {

constexpr std::int64_t max_products = std::int64_t{1} << 22;  // a few milliseconds

// Matrix product [..., m, k] x [..., k, n] with broadcast leading axes, summed in double precision.
struct Product {
  Sizes shape;
  std::vector<double> numbers;
};

std::optional<Product> product(const Sizes& a_shape, const std::vector<double>& left, const Sizes& b_shape,
                               const std::vector<double>& right) {
  const std::int64_t m = a_shape.end()[-2], k = a_shape.back(), n = b_shape.back();
  const Sizes a_batch(a_shape.begin(), a_shape.end() - 2), b_batch(b_shape.begin(), b_shape.end() - 2);
  const auto batch = broadcast(a_batch, b_batch);
  if (!batch || b_shape.end()[-2] != k) return std::nullopt;
  Product result{*batch, {}};
  result.shape.insert(result.shape.end(), {m, n});
  if (count_of(result.shape) * std::max<std::int64_t>(k, 1) > max_products) return std::nullopt;

  Sizes starts;  // the start of each matrix of b
  for_each_offset(*batch, broadcast_strides(b_batch, *batch), 0,
                  [&](std::int64_t at) { starts.push_back(at * k * n); });
  auto start = starts.begin();
  for_each_offset(*batch, broadcast_strides(a_batch, *batch), 0, [&](std::int64_t at) {
    for (std::int64_t row = at * m; row < (at + 1) * m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) sum += left[row * k + i] * right[*start + i * n + column];
        result.numbers.push_back(sum);
      }
    }
    ++start;
  });
  return result;
}

float factor(const graph::GraphNode& node, std::string_view name) {
  const graph::Attribute* attribute = node.find(name);
  return attribute == nullptr ? 1.0F : std::get<float>(attribute->value);
}

// Returns [m, k]; transposes [k, m] if `transposed`.
std::vector<double> matrix_of(const TensorData& data, bool transposed) {
  std::vector<double> numbers = numbers_of<double>(data);
  if (!transposed) return numbers;
  std::vector<double> transposed_numbers;
  for_each_offset({data.shape[1], data.shape[0]}, {1, data.shape[1]}, 0,
                  [&](std::int64_t at) { transposed_numbers.push_back(numbers[static_cast<std::size_t>(at)]); });
  return transposed_numbers;
}

}  // namespace

// A vector counts as one row on the left and one column on the right; the result drops that axis.
std::optional<TensorData> evaluate_matrix_product(const Evaluation& e) {
  const TensorData &a = e.input(0), &b = e.input(1);
  if (!has_floating_form(a.dtype) || a.dtype != b.dtype || a.shape.empty() || b.shape.empty()) return std::nullopt;
  Sizes left = a.shape, right = b.shape;
  if (a.shape.size() == 1) left.insert(left.begin(), 1);
  if (b.shape.size() == 1) right.push_back(1);
  auto result = product(left, numbers_of<double>(a), right, numbers_of<double>(b));
  if (!result) return std::nullopt;
  if (b.shape.size() == 1) result->shape.pop_back();
  if (a.shape.size() == 1) result->shape.erase(result->shape.end() - (b.shape.size() == 1 ? 1 : 2));
  return e.fits(a.dtype, result->shape) ? tensor_of(a.dtype, result->shape, result->numbers) : std::nullopt;
}

// Computes alpha * a b + beta * c for matrices; c broadcasts.
std::optional<TensorData> evaluate_gemm(const Evaluation& e) {
  const TensorData &a = e.input(0), &b = e.input(1);
  if (!has_floating_form(a.dtype) || a.dtype != b.dtype || a.shape.size() != 2 || b.shape.size() != 2) {
    return std::nullopt;
  }
  const bool transpose_a = e.node.int_attribute("transA", 0) != 0, transpose_b = e.node.int_attribute("transB", 0) != 0;
  const auto shape_of = [](const TensorData& data, bool transpose) {
    return transpose ? Sizes{data.shape[1], data.shape[0]} : data.shape;
  };
  auto result =
      product(shape_of(a, transpose_a), matrix_of(a, transpose_a), shape_of(b, transpose_b), matrix_of(b, transpose_b));
  if (!result || !e.fits(a.dtype, result->shape)) return std::nullopt;
  for (double& number : result->numbers) number *= static_cast<double>(factor(e.node, "alpha"));
  if (e.has(2)) {
    const TensorData& c = e.input(2);
    if (c.dtype != a.dtype || broadcast(c.shape, result->shape) != result->shape) return std::nullopt;
    const std::vector<double> added = numbers_of<double>(c);
    auto number = result->numbers.begin();
    for_each_offset(result->shape, broadcast_strides(c.shape, result->shape), 0, [&](std::int64_t at) {
      *number++ += static_cast<double>(factor(e.node, "beta")) * added[static_cast<std::size_t>(at)];
    });
  }
  return tensor_of(a.dtype, result->shape, result->numbers);
}

}  // namespace whence::simplify
