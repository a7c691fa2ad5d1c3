#include "annotator/derivation/content_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <type_traits>
#include <utility>

#include "annotator/derivation/evaluate.h"
#include "annotator/program/tensor_values.h"
#include "schema/element_count.h"

namespace whence::derivation {
namespace {

constexpr std::uint64_t factor = 0x9e3779b97f4a7c15U;  // odd, so that no bits are lost
constexpr std::int64_t min_elements = 4;               // of a tensor that content alone identifies
constexpr std::int64_t min_line = 4;                   // elements of a row that identifies itself
constexpr std::int64_t min_piece = 4;                  // elements of a vector that is a part of another one
constexpr std::size_t max_alike = 64;                  // lines with one digest that are looked at
constexpr std::int64_t max_vector = 1 << 16;           // elements of a matrix that may consist of biases
constexpr std::size_t checkpoint_step = 8 << 20;       // bytes of a tensor whose pages are dropped after reading
constexpr std::size_t max_rank = 5;                    // of a tensor whose axes are tried in all orders

template <std::size_t size>
std::uint64_t bits_of(const char* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, size);
  return bits + 1;
}

// Calls visit(std::integral_constant<std::size_t, size>) for the size of an element: one the compiler knows is read by
// a single instruction.
template <class Visit>
auto with_size(std::size_t size, Visit&& visit) {
  switch (size) {
    case 1:
      return visit(std::integral_constant<std::size_t, 1>());
    case 2:
      return visit(std::integral_constant<std::size_t, 2>());
    case 4:
      return visit(std::integral_constant<std::size_t, 4>());
    default:
      return visit(std::integral_constant<std::size_t, 8>());
  }
}

std::uint64_t bits_of(const char* at, std::size_t size) {
  return with_size(size, [&](auto known) { return bits_of<known()>(at); });
}

// Four sums at once, because each product waits for the one before.
template <std::size_t size>
std::uint64_t digest_of(const char* at, std::size_t count) {
  constexpr std::size_t lanes = 4;
  constexpr std::uint64_t step = factor * factor * factor * factor;
  std::array<std::uint64_t, lanes> sums{};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] = sums[lane] * step + bits_of<size>(at + (i + lane) * size);
  }
  std::uint64_t digest = ((sums[0] * factor + sums[1]) * factor + sums[2]) * factor + sums[3];
  for (; i < count; ++i) digest = digest * factor + bits_of<size>(at + i * size);
  return digest;
}

std::uint64_t digest_of(std::string_view bytes, std::size_t size) {
  return with_size(size, [&](auto known) { return digest_of<known()>(bytes.data(), bytes.size() / known()); });
}

std::vector<std::uint64_t> row_digests(std::string_view bytes, std::size_t size, std::int64_t rows) {
  std::vector<std::uint64_t> digests;
  const std::size_t row = bytes.size() / static_cast<std::size_t>(rows);
  for (std::int64_t i = 0; i < rows; ++i)
    digests.push_back(digest_of(bytes.substr(static_cast<std::size_t>(i) * row, row), size));
  return digests;
}

// Returns the digest of rows one after the other.
std::uint64_t joined_digest(const std::vector<std::uint64_t>& rows, std::int64_t length) {
  std::uint64_t shift = 1, digest = 0;
  for (std::int64_t i = 0; i < length; ++i) shift *= factor;
  for (const std::uint64_t row : rows) digest = digest * shift + row;
  return digest;
}

std::vector<std::uint64_t> column_digests(std::string_view bytes, std::size_t size, std::int64_t columns) {
  std::vector<std::uint64_t> digests(static_cast<std::size_t>(columns), 0);
  with_size(size, [&](auto known) {
    const char* at = bytes.data();
    for (const char* const end = at + bytes.size(); at < end; at += digests.size() * known()) {
      for (std::size_t i = 0; i < digests.size(); ++i)
        digests[i] = digests[i] * factor + bits_of<known()>(at + i * known());
    }
  });
  return digests;
}

bool all_equal(std::string_view bytes, std::size_t size) {
  return bytes.size() <= size || std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

std::vector<std::int64_t> without_ones(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> result;
  std::ranges::copy_if(dims, std::back_inserter(result), [](std::int64_t size) { return size != 1; });
  return result;
}

}  // namespace

ContentIndex::ContentIndex(const Weights& weights, DType dtype) : weights_(weights), dtype_(dtype) {
  for (std::size_t i = 0; i < weights.tensors().size(); ++i) {
    const TensorData& data = weights.tensors()[i].data;
    const bool is_same_kind = is_floating(data.dtype) == is_floating(dtype);
    if (data.dtype != dtype && !(is_same_kind && is_floating(dtype))) continue;
    const auto converted = program::cast_tensor(data, dtype);
    if (converted && converted->bytes.in_memory() && converted->element_count() > 0) add(i, *converted);
    if (data.bytes.size() > checkpoint_step) weights.release();
  }
  std::ranges::sort(lines_, {}, &Line::digest);
  std::ranges::sort(elements_, {}, &Element::bits);
}

void ContentIndex::add(std::size_t tensor, const TensorData& data) {
  const auto at = static_cast<std::uint32_t>(parameters_.size());
  const std::string_view bytes = as_text(data.bytes.in_memory().value());
  const std::size_t size = size_of(dtype_);
  const auto first = std::ranges::find_if(data.shape, [](std::int64_t each) { return each != 1; });
  Parameter parameter{.tensor = tensor, .dims = data.shape, .inner = {first, data.shape.end()}};
  const auto dims = without_ones(data.shape);
  if (dims.size() == 1) {
    for (std::size_t i = 0; i < bytes.size() / size; ++i) {
      elements_.push_back({bits_of(bytes.data() + i * size, size), at, static_cast<std::uint32_t>(i)});
    }
  }
  if (parameter.inner.size() > 1) {
    const std::int64_t rows = parameter.inner[0], length = data.element_count() / rows;
    if (length >= min_line) {
      parameter.rows = row_digests(bytes, size, rows);
      for (std::size_t i = 0; i < parameter.rows.size(); ++i) {
        lines_.push_back({parameter.rows[i], at, static_cast<std::uint32_t>(i), Direction::rows});
      }
    }
    if (parameter.inner.size() == 2 && rows >= min_line) {
      parameter.columns = column_digests(bytes, size, length);
      for (std::size_t i = 0; i < parameter.columns.size(); ++i) {
        lines_.push_back({parameter.columns[i], at, static_cast<std::uint32_t>(i), Direction::columns});
      }
    }
  }
  parameter.digest = parameter.rows.empty() ? digest_of(bytes, size)
                                            : joined_digest(parameter.rows, data.element_count() / parameter.inner[0]);
  parameters_.push_back(std::move(parameter));
}

std::optional<Expression> ContentIndex::find(const Content& content, const NameFit& fit) const {
  if (parameters_.empty()) return {};
  uses_computed_ = false;
  auto found = find_arrangement(content, fit);
  if (found && is_ordered(*found)) return found;
  uses_computed_ = weights_.is_computed(parameters_.back().tensor);
  if (!uses_computed_) return found;
  if (!found) return find_arrangement(content, fit);
  // The program chose the lines in this order if it computes all of them at once.
  auto chosen = find_complete(content, digest_of(content.bytes, size_of(dtype_)), fit);
  return chosen ? chosen : found;
}

std::optional<Expression> ContentIndex::find_arrangement(const Content& content, const NameFit& fit) const {
  const std::int64_t count = element_count(content.dims);
  const std::size_t size = size_of(dtype_);
  if (content.dtype != dtype_ || count < 1 || content.bytes.size() != static_cast<std::size_t>(count) * size) return {};
  const std::uint64_t digest = digest_of(content.bytes, size);
  if (auto found = find_complete(content, digest, fit)) return found;
  if (count < min_elements || all_equal(content.bytes, size)) return {};
  const auto dims = without_ones(content.dims);
  if (dims.size() < 2) return find_vector(content, fit);
  if (auto found = find_lines(content, dims[0], fit)) return found;
  if (dims.size() > 2) {
    if (auto found = find_lines(content, count / dims.back(), fit)) return found;
    if (auto found = find_permuted(content, digest, fit)) return found;
    if (auto found = find_slices(content, fit)) return found;
  }
  return count <= max_vector ? find_vector(content, fit) : std::nullopt;
}

Expression ContentIndex::leaf(std::uint32_t parameter, const NameFit& fit) const {
  // Of parameters with equal bytes, chooses the one with the best name, and the first of them.
  const Parameter& wanted = parameters_[parameter];
  std::vector<std::uint32_t> alike;
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& other = parameters_[i];
    if (!is_skipped(i) && other.digest == wanted.digest && other.dims == wanted.dims) alike.push_back(i);
  }
  const std::uint32_t best = *std::ranges::max_element(alike, {}, [&](std::uint32_t each) { return fit(name(each)); });
  ParameterStep step = weights_.step_of(parameters_[best].tensor, dtype_);
  for (const std::uint32_t each : alike) {
    if (each == best || weights_.is_computed(parameters_[each].tensor)) continue;
    step.equals.push_back(name(each));
    step.same_bytes.push_back(name(each));
    step.is_certain = step.is_certain && fit(name(each)) < fit(step.name);
  }
  return {std::move(step)};
}

std::optional<Expression> ContentIndex::find_complete(const Content& content, std::uint64_t digest,
                                                      const NameFit& fit) const {
  const std::int64_t count = element_count(content.dims);
  const bool needs_name = count < min_elements;
  const bool needs_sizes = all_equal(content.bytes, size_of(dtype_));
  std::optional<std::uint32_t> best;
  std::pair<bool, int> best_fit{false, 0};
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (is_skipped(i) || parameter.digest != digest || element_count(parameter.dims) != count) continue;
    const bool same_sizes = without_ones(parameter.dims) == without_ones(content.dims);
    const int name_fit = fit(name(i));
    const bool is_computed = weights_.is_computed(parameter.tensor);
    if ((needs_name && name_fit == 0 && !is_computed) || (needs_sizes && !same_sizes)) continue;
    const std::pair found{same_sizes, name_fit};
    if (!best || found > best_fit) {
      best = i;
      best_fit = found;
    }
  }
  if (!best) return {};
  return reshaped(leaf(*best, fit), parameters_[*best].dims, content.dims);
}

std::optional<std::vector<Piece>> ContentIndex::pieces(const std::vector<std::uint64_t>& digests, std::int64_t length,
                                                       const NameFit& fit) const {
  std::vector<Piece> found;
  const auto lines_in = [&](const Piece& piece) -> const std::vector<std::uint64_t>& {
    const Parameter& parameter = parameters_[piece.parameter];
    return piece.direction == Direction::rows ? parameter.rows : parameter.columns;
  };
  for (const std::uint64_t digest : digests) {
    if (!found.empty()) {
      Piece& last = found.back();
      const auto& lines = lines_in(last);
      const std::int64_t next = next_index(last.runs);
      const bool continues =
          next < static_cast<std::int64_t>(lines.size()) && lines[static_cast<std::size_t>(next)] == digest;
      if (continues) {
        add_index(last.runs, next);
        continue;
      }
    }
    const auto range = std::ranges::equal_range(lines_, digest, {}, &Line::digest);
    const Line* best = nullptr;
    std::tuple<bool, int, bool> best_rank;
    for (const Line& line : range | std::views::take(max_alike)) {
      if (is_skipped(line.parameter)) continue;
      const Parameter& parameter = parameters_[line.parameter];
      const std::int64_t across =
          line.direction == Direction::rows ? element_count(parameter.inner) / parameter.inner[0] : parameter.inner[0];
      if (across != length) continue;
      const bool is_same =
          !found.empty() && found.back().parameter == line.parameter && found.back().direction == line.direction;
      const std::tuple rank{is_same, fit(name(line.parameter)), line.index == 0};
      if (best == nullptr || rank > best_rank) {
        best = &line;
        best_rank = rank;
      }
    }
    if (best == nullptr) return {};
    if (!std::get<0>(best_rank)) found.push_back({best->parameter, best->direction, {}});
    add_index(found.back().runs, best->index);
  }
  const bool all_regular = std::ranges::all_of(found, is_regular, &Piece::runs);
  return all_regular ? std::optional(std::move(found)) : std::nullopt;
}

Expression ContentIndex::joined_pieces(const std::vector<Piece>& pieces, const NameFit& fit) const {
  std::vector<Expression> parts;
  for (const Piece& piece : pieces) {
    const Parameter& parameter = parameters_[piece.parameter];
    parts.push_back(
        lines_of(reshaped(leaf(piece.parameter, fit), parameter.dims, parameter.inner), parameter.inner, piece));
  }
  return joined(std::move(parts));
}

std::optional<Expression> ContentIndex::find_lines(const Content& content, std::int64_t rows,
                                                   const NameFit& fit) const {
  const std::int64_t columns = element_count(content.dims) / rows;
  const std::size_t size = size_of(dtype_);
  std::optional<Expression> found;
  if (columns >= min_line) {
    if (const auto by_rows = pieces(row_digests(content.bytes, size, rows), columns, fit))
      found = joined_pieces(*by_rows, fit);
  }
  if (!found && rows >= min_line && without_ones(content.dims).size() == 2) {
    if (const auto by_columns = pieces(column_digests(content.bytes, size, columns), rows, fit)) {
      found = transposed(joined_pieces(*by_columns, fit));
    }
  }
  if (!found) return {};
  return reshaped(std::move(*found), {rows, columns}, content.dims);
}

std::optional<Expression> ContentIndex::find_vector(const Content& content, const NameFit& fit) const {
  const std::size_t size = size_of(dtype_);
  const auto count = static_cast<std::size_t>(element_count(content.dims));
  const auto bits_at = [&](std::size_t i) { return bits_of(content.bytes.data() + i * size, size); };
  std::map<std::uint32_t, TensorData> read;
  const auto data_of = [&](std::uint32_t parameter) -> const TensorData& {
    const auto [at, is_new] = read.try_emplace(parameter);
    if (is_new) at->second = *program::cast_tensor(weights_.tensors()[parameters_[parameter].tensor].data, dtype_);
    return at->second;
  };
  std::vector<Expression> parts;
  for (std::size_t at = 0; at < count;) {
    std::optional<Element> best;
    std::tuple<std::size_t, int> best_rank{0, 0};
    const auto range = std::ranges::equal_range(elements_, bits_at(at), {}, &Element::bits);
    for (const Element& element : range | std::views::take(max_alike)) {
      if (is_skipped(element.parameter)) continue;
      const std::string_view bytes = as_text(data_of(element.parameter).bytes.in_memory().value());
      const std::size_t length = bytes.size() / size;
      std::size_t same = 0;
      while (at + same < count && element.index + same < length &&
             bits_of(bytes.data() + (element.index + same) * size, size) == bits_at(at + same)) {
        ++same;
      }
      const std::tuple rank{same, fit(name(element.parameter))};
      if (!best || rank > best_rank) {
        best = element;
        best_rank = rank;
      }
    }
    const auto length = static_cast<std::int64_t>(std::get<0>(best_rank));
    if (!best || length < min_piece) return {};
    Expression part = leaf(best->parameter, fit);
    const std::int64_t all = element_count(parameters_[best->parameter].dims);
    part = reshaped(std::move(part), parameters_[best->parameter].dims, {all});
    if (length < all) part = {PickStep{{{static_cast<std::int64_t>(best->index), length, 1}}}, {std::move(part)}};
    parts.push_back(std::move(part));
    at += static_cast<std::size_t>(length);
  }
  return reshaped(joined(std::move(parts)), {static_cast<std::int64_t>(count)}, content.dims);
}

std::optional<Expression> ContentIndex::find_permuted(const Content& content, std::uint64_t digest,
                                                      const NameFit& fit) const {
  const std::size_t rank = content.dims.size();
  if (rank > max_rank) return {};
  auto sorted = content.dims;
  std::ranges::sort(sorted);
  for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    auto dims = parameter.dims;
    std::ranges::sort(dims);
    if (is_skipped(i) || dims != sorted) continue;
    const TensorData data = *program::cast_tensor(weights_.tensors()[parameter.tensor].data, dtype_);
    std::vector<std::int64_t> order(rank);
    std::iota(order.begin(), order.end(), 0);
    while (std::ranges::next_permutation(order).found) {
      const bool fits = std::ranges::equal(
          order, content.dims, {}, [&](std::int64_t axis) { return parameter.dims[static_cast<std::size_t>(axis)]; });
      if (!fits) continue;
      const Expression candidate{TransposeStep{order}, {leaf(i, fit)}};
      const TensorData result = evaluate(candidate, {weights_, {}});
      if (digest_of(as_text(result.bytes.in_memory().value()), size_of(dtype_)) == digest) return candidate;
    }
  }
  return {};
}

// Finds each slice along the first axis, such as the experts of a layer.
std::optional<Expression> ContentIndex::find_slices(const Content& content, const NameFit& fit) const {
  const std::vector<std::int64_t> inner(content.dims.begin() + 1, content.dims.end());
  const std::size_t size = content.bytes.size() / static_cast<std::size_t>(content.dims[0]);
  std::vector<std::int64_t> one = inner;
  one.insert(one.begin(), 1);
  std::vector<Expression> parts;
  for (std::int64_t i = 0; i < content.dims[0]; ++i) {
    auto part = find_arrangement({dtype_, inner, content.bytes.substr(static_cast<std::size_t>(i) * size, size)}, fit);
    if (!part) return {};
    parts.push_back({ReshapeStep{one}, {std::move(*part)}});
  }
  return Expression{ConcatenateStep{}, std::move(parts)};
}

}  // namespace whence::derivation
