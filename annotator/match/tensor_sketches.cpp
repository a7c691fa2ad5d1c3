#include "annotator/match/tensor_sketches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace whence::match {
namespace {

constexpr double min_likeness = 0.8;
constexpr double deviations = 6;          // above the likeness by chance, in standard deviations
constexpr std::int64_t max_offsets = 64;  // of a block in a tensor, or of a tensor in a parameter
constexpr std::size_t min_in_row = 4;     // elements that a row needs inside the tensor, or all of a shorter row
constexpr std::size_t short_row = 8;      // elements; shorter rows are compared without subtracting their mean
constexpr std::size_t max_similar = 16;   // parameters; if there are more, the likeness is no evidence

// Returns true if not all elements are equal.
bool is_varied(const std::vector<std::int8_t>& sketch) {
  return std::ranges::adjacent_find(sketch, std::not_equal_to()) != sketch.end();
}

// An arrangement of a parameter's matrix in a tensor's, or of the tensor's in the parameter's: the parameter's element
// (row, column) is the tensor's element (row - row_shift, column - column_shift), or with row and column exchanged.
struct Arrangement {
  std::int64_t row_shift = 0, column_shift = 0;
  bool transposed = false;
  bool flat = false;               // the same elements with other sizes
  bool transposed_within = false;  // each of the tensor's matrices is transposed
  std::int64_t gates = 0;          // number of a recurrent layer's gates in ONNX's order; 0: none
};

// Returns the row in ONNX's recurrent weights of a row in PyTorch's: the gates i f c o become i o f c, and r z n become
// z r h.
std::int64_t row_in_gates(std::int64_t row, std::int64_t rows, std::int64_t gates) {
  constexpr std::array<std::int64_t, 4> lstm = {0, 2, 3, 1}, gru = {1, 0, 2, 3};
  const std::int64_t size = rows / gates;
  return (gates == 4 ? lstm : gru)[static_cast<std::size_t>(row / size)] * size + row % size;
}

// Returns the elements at a form's places; NaN for places outside the tensor.
std::vector<double> elements_at(const WeightElements& tensor, MatrixForm form, const SketchPlaces& places,
                                const Arrangement& arrangement) {
  std::vector<double> found;
  found.reserve(places.columns.size());
  for (std::size_t i = 0; i < places.columns.size(); ++i) {
    std::int64_t row = places.rows[i / places.per_row], column = places.columns[i];
    if (arrangement.flat) {
      const std::int64_t at = row * form.columns + column;
      row = at / tensor.columns();
      column = at % tensor.columns();
    } else {
      if (arrangement.gates > 0) row = row_in_gates(row, form.rows, arrangement.gates);
      if (arrangement.transposed_within) {
        const std::int64_t inner = tensor.inner_columns(), outer = tensor.columns() / inner;
        column = column % outer * inner + column / outer;
      }
      row -= arrangement.row_shift;
      column -= arrangement.column_shift;
      if (arrangement.transposed) std::swap(row, column);
    }
    const bool inside = row >= 0 && column >= 0 && row < tensor.rows() && column < tensor.columns();
    found.push_back(inside ? tensor.number(row, column) : NAN);
  }
  return found;
}

struct Moments {
  double count = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;

  void add(double a, double b) { ++count, x += a, y += b, xx += a * a, yy += b * b, xy += a * b; }
  // Returns Pearson's correlation without its sign; 0 if all elements of the tensor are equal, nullopt if all elements
  // of the sketch are.
  std::optional<double> correlation() const {
    const double across = count * xx - x * x, down = count * yy - y * y;
    if (across <= 1e-9 * count * xx) return std::nullopt;
    if (!(down > 1e-9 * count * yy)) return 0;
    return std::min(1.0, std::abs(count * xy - x * y) / std::sqrt(across * down));
  }
  // Returns the cosine without its sign. For short rows: two or three elements minus their mean are no evidence.
  std::optional<double> cosine() const {
    if (xx == 0) return std::nullopt;
    return yy > 0 ? std::min(1.0, std::abs(xy) / std::sqrt(xx * yy)) : 0;
  }
};

// Returns the mean likeness of the rows, if it is higher than by chance. By chance, the correlation of n elements is
// 0.8 / sqrt(n - 1) with a standard deviation of 0.6 / sqrt(n - 1), and their cosine about 0.8 / sqrt(n - 0.4) with
// 0.6 / sqrt(n + 1.8).
std::optional<double> likeness(std::span<const std::int8_t> sketch, std::span<const double> elements,
                               std::size_t per_row) {
  double total = 0, chance = 0, variance = 0, rows = 0;
  std::size_t used = 0;
  for (std::size_t first = 0; first < sketch.size(); first += per_row) {
    Moments row;
    for (std::size_t i = first; i < first + per_row; ++i) {
      if (std::isfinite(elements[i])) row.add(sketch[i], elements[i]);
    }
    if (row.count < static_cast<double>(std::min(min_in_row, per_row))) continue;
    const bool is_short = per_row < short_row;
    const auto row_likeness = is_short ? row.cosine() : row.correlation();
    if (!row_likeness) continue;
    total += *row_likeness;
    chance += 0.8 / std::sqrt(row.count - (is_short ? 0.4 : 1));
    variance += 0.36 / (row.count + (is_short ? 1.8 : -1));
    ++rows;
    used += static_cast<std::size_t>(row.count);
  }
  if (used < min_sketched_elements) return std::nullopt;
  const double mean = total / rows, expected = chance / rows, deviation = std::sqrt(variance) / rows;
  const bool is_more = mean >= min_likeness && mean >= std::min(0.97, expected + deviations * deviation);
  return is_more ? std::optional(mean) : std::nullopt;
}

// Returns the offsets at which a block of `part` may begin in `whole`, if all parts are multiples of one size; none if
// there are too many offsets.
std::vector<std::int64_t> block_offsets(std::int64_t whole, std::int64_t part) {
  const std::int64_t step = std::gcd(whole, part);
  if (step < 1 || whole / step > max_offsets) return {};
  std::vector<std::int64_t> offsets;
  for (std::int64_t at = 0; at + part <= whole; at += step) offsets.push_back(at);
  return offsets;
}

// Arrangements that compete for one part of the tensor.
using Part = std::vector<Arrangement>;

bool same_elements(const WeightElements& tensor, MatrixForm form) {
  return tensor.rows() * tensor.columns() == form.rows * form.columns;
}

Part whole(const WeightElements& tensor, MatrixForm form) {
  const bool is_same_form = tensor.rows() == form.rows && tensor.columns() == form.columns;
  const bool is_transposed = tensor.rows() == form.columns && tensor.columns() == form.rows;
  Part part;
  if (is_same_form) part.push_back({});
  if (is_transposed) part.push_back({.transposed = true});
  if (part.empty() && same_elements(tensor, form)) part.push_back({.flat = true});
  return part;
}

// Returns arrangements of a complete parameter in another order: recurrent weights in ONNX's order of gates, and
// several matrices in one, each transposed.
Part reordered(const WeightElements& tensor, MatrixForm form) {
  Part part;
  for (const Arrangement& arrangement : whole(tensor, form)) {
    if (arrangement.flat) continue;
    for (const std::int64_t gates : {4, 3}) {
      if (form.rows % gates == 0) part.push_back({.transposed = arrangement.transposed, .gates = gates});
    }
    if (!arrangement.transposed && tensor.inner_columns() > 1 && tensor.inner_columns() < tensor.columns())
      part.push_back({.transposed_within = true});
  }
  return part;
}

// Adds the arrangements of a parameter that is smaller than the tensor along one axis (one of several blocks) or larger
// (the tensor is a piece of it). `sign`: -1 for blocks, which are counted in the tensor.
void add_parts(std::vector<std::pair<std::int64_t, Arrangement>>& parts, std::int64_t whole, std::int64_t part,
               bool along_rows, bool transposed, int sign) {
  for (const std::int64_t at : block_offsets(whole, part)) {
    Arrangement arrangement{.transposed = transposed};
    (along_rows ? arrangement.row_shift : arrangement.column_shift) = sign * at;
    parts.emplace_back(at, arrangement);
  }
}

std::vector<std::pair<std::int64_t, Arrangement>> blocks(const WeightElements& tensor, MatrixForm form) {
  std::vector<std::pair<std::int64_t, Arrangement>> found;
  const std::int64_t rows = tensor.rows(), columns = tensor.columns();
  if (form.columns == columns && form.rows < rows) add_parts(found, rows, form.rows, true, false, -1);
  if (form.rows == rows && form.columns < columns) add_parts(found, columns, form.columns, false, false, -1);
  if (form.columns == rows && form.rows < columns) add_parts(found, columns, form.rows, true, true, -1);
  if (form.rows == columns && form.columns < rows && form.rows > 1)
    add_parts(found, rows, form.columns, false, true, -1);
  return found;
}

std::vector<std::pair<std::int64_t, Arrangement>> pieces(const WeightElements& tensor, MatrixForm form) {
  std::vector<std::pair<std::int64_t, Arrangement>> found;
  const std::int64_t rows = tensor.rows(), columns = tensor.columns();
  if (form.columns == columns && form.rows > rows) add_parts(found, form.rows, rows, true, false, 1);
  if (form.rows == rows && form.columns > columns) add_parts(found, form.columns, columns, false, false, 1);
  if (form.columns == rows && form.rows > columns) add_parts(found, form.rows, columns, true, true, 1);
  if (form.rows == columns && form.columns > rows && form.rows > 1)
    add_parts(found, form.columns, rows, false, true, 1);
  return found;
}

// The most similar parameters for one part of a tensor.
class MostSimilar {
 public:
  void offer(ParameterIndex parameter, double score) {
    auto [entry, first] = found_.try_emplace(parameter, score);
    if (!first) entry->second = std::max(entry->second, score);
    best_ = std::max(best_, score);
  }

  // Adds the best parameter, and rivals within the error of a tool's rounding.
  void add_to(SketchFindings& findings) const {
    const double enough = 1 - 2 * (1 - best_) - 0.01;
    std::vector<ParameterIndex> alike;
    for (const auto& [parameter, score] : found_) {
      if (score >= enough) alike.push_back(parameter);
    }
    findings.recognised = findings.recognised || !alike.empty();
    if (alike.size() > max_similar) return;
    for (const ParameterIndex parameter : alike) {
      findings.sources.push_back({parameter, TensorSource::How::sketch, static_cast<double>(alike.size())});
    }
  }

 private:
  std::map<ParameterIndex, double> found_;
  double best_ = 0;
};

}  // namespace

ParameterSketches::ParameterSketches(const Reference& reference) : reference_(reference) {
  for (const ParameterIndex i : reference.parameters.keys()) {
    const ReferenceParameter& parameter = reference.parameters[i];
    if (parameter.sketch.empty()) continue;
    const MatrixForm form =
        matrix_form(parameter.sketched_without_ones ? without_leading_ones(parameter.dims) : parameter.dims);
    Form& entry = forms_[form];
    if (entry.parameters.empty()) entry.places = sketch_places(form);
    if (parameter.sketch.size() != entry.places.columns.size()) continue;
    entry.parameters.push_back(i);
    entry.is_varied = entry.is_varied || is_varied(parameter.sketch);
  }
}

SketchFindings ParameterSketches::find(const WeightElements& tensor) const {
  std::map<std::int64_t, MostSimilar> most_similar;  // by part of the tensor
  const auto compare = [&](MatrixForm form, const Form& entry, std::int64_t part, const Arrangement& arrangement) {
    const std::vector<double> elements = elements_at(tensor, form, entry.places, arrangement);
    for (const ParameterIndex parameter : entry.parameters) {
      const auto score = likeness(reference_.parameters[parameter].sketch, elements, entry.places.per_row);
      if (score) most_similar[part].offer(parameter, *score);
    }
  };
  SketchFindings findings;
  const auto take = [&] {
    for (const auto& [part, found] : most_similar) found.add_to(findings);
    most_similar.clear();
    return findings.recognised;
  };
  for (const auto& [form, entry] : forms_) {
    for (const Arrangement& arrangement : whole(tensor, form)) {
      findings.comparable = findings.comparable || entry.is_varied;
      compare(form, entry, 0, arrangement);
    }
  }
  if (take()) return findings;
  for (const auto& [form, entry] : forms_) {
    for (const Arrangement& arrangement : reordered(tensor, form)) compare(form, entry, 0, arrangement);
  }
  if (take()) return findings;
  for (const auto& [form, entry] : forms_) {
    for (const auto& [part, arrangement] : blocks(tensor, form)) compare(form, entry, part, arrangement);
  }
  if (take()) return findings;
  for (const auto& [form, entry] : forms_) {
    for (const auto& [part, arrangement] : pieces(tensor, form)) compare(form, entry, 0, arrangement);
  }
  take();
  return findings;
}

}  // namespace whence::match
