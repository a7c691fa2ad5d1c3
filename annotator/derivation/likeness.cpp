#include "annotator/derivation/likeness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "annotator/derivation/equal_parameters.h"
#include "schema/element_count.h"

namespace whence::derivation {
namespace {

constexpr double min_likeness = 0.9;
constexpr std::int64_t max_sampled = 64;  // elements of a line
constexpr std::int64_t min_length = 4;    // of a line

// Returns the elements of a line that are compared: evenly spaced over its length.
template <class Number>
std::vector<double> sample(std::int64_t first, std::int64_t length, std::int64_t step, const Number& number) {
  const std::int64_t taken = std::min(length, max_sampled);
  std::vector<double> result;
  for (std::int64_t i = 0; i < taken; ++i) result.push_back(number(first + i * length / taken * step));
  return result;
}

// Returns the cosine of the angle between two lines without regard to sign; 1 if both are zero.
double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  const auto dot = [](const auto& x, const auto& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); };
  const double sizes = dot(a, a) * dot(b, b);
  if (sizes > 0) return std::abs(dot(a, b)) / std::sqrt(sizes);
  return dot(a, a) == dot(b, b) ? 1 : 0;
}

bool is_zero(const std::vector<double>& line) {
  return std::ranges::all_of(line, [](double number) { return number == 0; });
}

}  // namespace

bool Likeness::has_next(const Piece& piece, const std::vector<const Side*>& sides) {
  return std::ranges::any_of(sides, [&](const Side* side) {
    return side->parameter == piece.parameter && side->direction == piece.direction &&
           next_index(piece.runs) < side->count;
  });
}

Likeness::Likeness(const Weights& weights) : weights_(weights) {
  for (std::uint32_t i = 0; i < weights.tensors().size(); ++i) {
    const TensorData& data = weights.tensors()[i].data;
    elements_.push_back(is_floating(data.dtype) ? program::Elements::of(data) : std::nullopt);
    if (!elements_.back() || elements_.back()->size() == 0 || data.shape.empty()) continue;
    const std::int64_t rows = data.shape[0], width = data.element_count() / rows;
    if (data.shape.size() == 1) sides_.push_back({i, Direction::columns, 1, rows});
    if (data.shape.size() > 1)
      sides_.push_back({i, Direction::rows, rows, width, {data.shape.begin() + 1, data.shape.end()}});
    if (data.shape.size() == 2) sides_.push_back({i, Direction::columns, width, rows});
  }
}

Expression Likeness::leaf(std::uint32_t parameter, const NameFit& fit) const {
  ParameterStep step = weights_.step_of(parameter, DType::float32);
  list_equals(step, weights_, fit);
  return {std::move(step)};
}

std::optional<Expression> Likeness::find(const SampledTensor& tensor, const NameFit& fit) const {
  if (element_count(tensor.dims) < min_length) return {};
  const bool is_vector = std::ranges::count_if(tensor.dims, [](std::int64_t size) { return size > 1; }) < 2;
  if (is_vector) return find_vector(tensor, fit);
  if (auto rows = find_lines(tensor, Direction::rows, fit)) return rows;
  if (tensor.dims.size() == 2) return find_lines(tensor, Direction::columns, fit);
  return tensor.dims.size() == 3 ? find_slices(tensor, fit) : std::nullopt;
}

double Likeness::likeness(const std::vector<double>& line, const Side& side, std::int64_t index) const {
  return index == 0 ? cosine(line, first_line(side)) : cosine(line, line_of(side, index));
}

const std::vector<double>& Likeness::first_line(const Side& side) const {
  if (!side.first.empty()) return side.first;
  side.first = line_of(side, 0);
  constexpr std::size_t interval = 16;
  if (++first_lines_ % interval == 0) weights_.release();
  return side.first;
}

std::vector<double> Likeness::line_of(const Side& side, std::int64_t index) const {
  const program::Elements& elements = *elements_[side.parameter];
  const auto number = [&](std::int64_t at) { return elements.number(static_cast<std::size_t>(at)); };
  const bool by_rows = side.direction == Direction::rows;
  const std::int64_t first = by_rows ? index * side.length : index, step = by_rows ? 1 : side.count;
  return sample(first, side.length, step, number);
}

// Finds the line that continues the last piece, or else the most similar one, preferring first lines of parameters.
std::optional<Piece> Likeness::best_line(const std::vector<double>& line, const std::vector<const Side*>& sides,
                                         const std::optional<Piece>& last, const NameFit& fit) const {
  std::optional<Piece> best;
  std::pair<double, int> best_rank{min_likeness, 0};
  const auto look_at = [&](const Side& side, std::int64_t index) {
    const double found = likeness(line, side, index);
    // Equal parameters differ by their names only.
    const std::pair rank{std::round(found * 1e6), fit(weights_.tensors()[side.parameter].name)};
    if (found < min_likeness || (best && rank <= best_rank)) return;
    best = Piece{side.parameter, side.direction, {{index, 1, 1}}};
    best_rank = rank;
  };
  if (last) {
    const auto side = std::ranges::find_if(sides, [&](const Side* each) {
      return each->parameter == last->parameter && each->direction == last->direction;
    });
    const std::int64_t next = next_index(last->runs);
    if (side != sides.end() && next < (*side)->count) look_at(**side, next);
    if (best) return best;
  }
  for (const Side* side : sides) look_at(*side, 0);
  if (best) return best;
  for (const Side* side : sides) {
    for (std::int64_t index = 1; index < side->count; ++index) look_at(*side, index);
  }
  return best;
}

std::optional<Expression> Likeness::find_lines(const SampledTensor& tensor, Direction direction,
                                               const NameFit& fit) const {
  const bool by_rows = direction == Direction::rows;
  const std::int64_t rows = tensor.dims[0], width = element_count(tensor.dims) / rows;
  const std::int64_t count = by_rows ? rows : width, length = by_rows ? width : rows;
  if (length < min_length) return {};
  const std::vector<std::int64_t> inner(tensor.dims.begin() + 1, tensor.dims.end());
  std::vector<const Side*> sides;
  for (const Side& side : sides_) {
    // A row of a convolution's weight is compared with rows of the same sizes.
    const bool fits = side.length == length && (side.inner.size() < 2 || side.inner == inner);
    if (fits && weights_.tensors()[side.parameter].data.shape.size() > 1) sides.push_back(&side);
  }
  std::vector<Piece> pieces;
  std::int64_t leading_zeros = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto line = sample(by_rows ? i * width : i, length, by_rows ? 1 : width, tensor.number);
    // A norm with the scale 0 leaves nothing of a channel: its place is that between its neighbours.
    if (is_zero(line) && pieces.empty()) {
      ++leading_zeros;
      continue;
    }
    if (is_zero(line) && has_next(pieces.back(), sides)) {
      add_index(pieces.back().runs, next_index(pieces.back().runs));
      continue;
    }
    const auto last = pieces.empty() ? std::nullopt : std::optional(pieces.back());
    const auto found = best_line(line, sides, last, fit);
    if (!found) return {};
    const bool continues = last && last->parameter == found->parameter && last->direction == found->direction;
    if (!continues) pieces.push_back({found->parameter, found->direction});
    if (!last) {
      if (found->runs[0].first < leading_zeros) return {};
      for (; leading_zeros > 0; --leading_zeros) add_index(pieces.back().runs, found->runs[0].first - leading_zeros);
    }
    add_index(pieces.back().runs, found->runs[0].first);
  }
  if (pieces.empty()) return {};
  if (!std::ranges::all_of(pieces, is_regular, &Piece::runs)) return {};
  std::vector<Expression> parts;
  for (const Piece& piece : pieces) {
    parts.push_back(lines_of(leaf(piece.parameter, fit), weights_.tensors()[piece.parameter].data.shape, piece));
  }
  Expression found = joined(std::move(parts));
  if (!by_rows) return transposed(std::move(found));
  const bool is_whole = std::holds_alternative<ReshapeStep>(found.step) && pieces.size() == 1 &&
                        weights_.tensors()[pieces[0].parameter].data.shape == tensor.dims;
  if (is_whole) return leaf(pieces[0].parameter, fit);
  return reshaped(std::move(found), {rows, width}, tensor.dims);
}

std::optional<Expression> Likeness::find_vector(const SampledTensor& tensor, const NameFit& fit) const {
  const std::int64_t count = element_count(tensor.dims);
  const auto line = sample(0, count, 1, tensor.number);
  std::optional<std::uint32_t> best;
  std::pair<double, int> best_rank;
  for (const Side& side : sides_) {
    if (side.count != 1 || side.length != count) continue;
    const double found = likeness(line, side, 0);
    const std::pair rank{std::round(found * 1e6), fit(weights_.tensors()[side.parameter].name)};
    if (found < min_likeness || (best && rank <= best_rank)) continue;
    best = side.parameter;
    best_rank = rank;
  }
  if (!best) return {};
  return reshaped(leaf(*best, fit), weights_.tensors()[*best].data.shape, tensor.dims);
}

// Finds each slice along the first axis, such as the directions of a recurrent layer.
std::optional<Expression> Likeness::find_slices(const SampledTensor& tensor, const NameFit& fit) const {
  const std::vector<std::int64_t> inner(tensor.dims.begin() + 1, tensor.dims.end());
  std::vector<std::int64_t> one = inner;
  one.insert(one.begin(), 1);
  const std::int64_t size = element_count(inner);
  std::vector<Expression> parts;
  for (std::int64_t i = 0; i < tensor.dims[0]; ++i) {
    auto part = find({inner, [&](std::int64_t at) { return tensor.number(i * size + at); }}, fit);
    if (!part) return {};
    parts.push_back(reshaped(std::move(*part), inner, one));
  }
  return joined(std::move(parts));
}

}  // namespace whence::derivation
