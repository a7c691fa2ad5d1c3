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

constexpr double least_likeness = 0.8;
constexpr double deviations = 6;          // above what chance makes, in standard deviations of that
constexpr std::int64_t max_places = 64;   // places of a block in a tensor, or of a tensor in a parameter
constexpr std::size_t fewest_in_row = 4;  // elements that a row needs to say anything, where it has so many
constexpr std::size_t short_row = 8;      // elements; shorter rows are compared as they are, not around their mean
constexpr std::size_t fewest = min_sketched_elements;
constexpr std::size_t max_rivals = 16;  // parameters that are as like; more of them say nothing

// Returns true for other numbers than one in all places.
bool is_varied(const std::vector<std::int8_t>& sketch) {
  return std::ranges::adjacent_find(sketch, std::not_equal_to()) != sketch.end();
}

// A way in which a parameter's matrix may lie in a tensor's, or the tensor's in it: the parameter's element (row,
// column) is the tensor's (row - row_shift, column - column_shift), or that with row and column exchanged.
struct Arrangement {
  std::int64_t row_shift = 0, column_shift = 0;
  bool transposed = false;
  bool flat = false;           // the same elements in other sizes
  bool turned_within = false;  // each of the tensor's matrices is transposed
  std::int64_t gates = 0;      // number of a recurrent layer's gates, which are in ONNX's order; 0: none
};

// Returns the row of ONNX's recurrent weights that a row of PyTorch's is: the gates i f c o are i o f c there, and
// r z n are z r h.
std::int64_t row_in_gates(std::int64_t row, std::int64_t rows, std::int64_t gates) {
  constexpr std::array<std::int64_t, 4> lstm = {0, 2, 3, 1}, gru = {1, 0, 2, 3};
  const std::int64_t size = rows / gates;
  return (gates == 4 ? lstm : gru)[static_cast<std::size_t>(row / size)] * size + row % size;
}

// The elements at a form's places; NaN where the tensor does not have them.
std::vector<double> elements_at(const WeightElements& tensor, MatrixForm form, const SketchPlaces& places,
                                const Arrangement& lies) {
  std::vector<double> found;
  found.reserve(places.columns.size());
  for (std::size_t i = 0; i < places.columns.size(); ++i) {
    std::int64_t row = places.rows[i / places.per_row], column = places.columns[i];
    if (lies.flat) {
      const std::int64_t at = row * form.columns + column;
      row = at / tensor.columns();
      column = at % tensor.columns();
    } else {
      if (lies.gates > 0) row = row_in_gates(row, form.rows, lies.gates);
      if (lies.turned_within) {
        const std::int64_t inner = tensor.inner_columns(), outer = tensor.columns() / inner;
        column = column % outer * inner + column / outer;
      }
      row -= lies.row_shift;
      column -= lies.column_shift;
      if (lies.transposed) std::swap(row, column);
    }
    const bool inside = row >= 0 && column >= 0 && row < tensor.rows() && column < tensor.columns();
    found.push_back(inside ? tensor.number(row, column) : NAN);
  }
  return found;
}

struct Moments {
  double count = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;

  void add(double a, double b) { ++count, x += a, y += b, xx += a * a, yy += b * b, xy += a * b; }
  // Pearson's correlation without its sign; 0 where the tensor's elements are all alike, nothing where the sketch's
  // are.
  std::optional<double> correlation() const {
    const double across = count * xx - x * x, down = count * yy - y * y;
    if (across <= 1e-9 * count * xx) return std::nullopt;
    if (!(down > 1e-9 * count * yy)) return 0;
    return std::min(1.0, std::abs(count * xy - x * y) / std::sqrt(across * down));
  }
  // The cosine without its sign: two or three elements around their mean would say nothing.
  std::optional<double> cosine() const {
    if (xx == 0) return std::nullopt;
    return yy > 0 ? std::min(1.0, std::abs(xy) / std::sqrt(xx * yy)) : 0;
  }
};

// The mean likeness of the rows, if it is more than chance would make: of the correlation of n elements 0.8 / sqrt(n -
// 1) with a standard deviation of 0.6 / sqrt(n - 1), of their cosine about 0.8 / sqrt(n - 0.4) and 0.6 / sqrt(n + 1.8).
std::optional<double> likeness(std::span<const std::int8_t> sketch, std::span<const double> elements,
                               std::size_t per_row) {
  double total = 0, chance = 0, variance = 0, rows = 0;
  std::size_t used = 0;
  for (std::size_t first = 0; first < sketch.size(); first += per_row) {
    Moments row;
    for (std::size_t i = first; i < first + per_row; ++i) {
      if (std::isfinite(elements[i])) row.add(sketch[i], elements[i]);
    }
    if (row.count < static_cast<double>(std::min(fewest_in_row, per_row))) continue;
    const bool is_short = per_row < short_row;
    const auto like = is_short ? row.cosine() : row.correlation();
    if (!like) continue;
    total += *like;
    chance += 0.8 / std::sqrt(row.count - (is_short ? 0.4 : 1));
    variance += 0.36 / (row.count + (is_short ? 1.8 : -1));
    ++rows;
    used += static_cast<std::size_t>(row.count);
  }
  if (used < fewest) return std::nullopt;
  const double mean = total / rows, expected = chance / rows, deviation = std::sqrt(variance) / rows;
  const bool is_more = mean >= least_likeness && mean >= std::min(0.97, expected + deviations * deviation);
  return is_more ? std::optional(mean) : std::nullopt;
}

// The places at which a block of `part` may begin in `whole`, when all parts are multiples of one size; nothing when
// there would be too many places.
std::vector<std::int64_t> beginnings(std::int64_t whole, std::int64_t part) {
  const std::int64_t step = std::gcd(whole, part);
  if (step < 1 || whole / step > max_places) return {};
  std::vector<std::int64_t> places;
  for (std::int64_t at = 0; at + part <= whole; at += step) places.push_back(at);
  return places;
}

// Arrangements that compete for one part of the tensor.
using Part = std::vector<Arrangement>;

bool same_elements(const WeightElements& tensor, MatrixForm form) {
  return tensor.rows() * tensor.columns() == form.rows * form.columns;
}

Part whole(const WeightElements& tensor, MatrixForm form) {
  const bool as_it_is = tensor.rows() == form.rows && tensor.columns() == form.columns;
  const bool turned = tensor.rows() == form.columns && tensor.columns() == form.rows;
  Part part;
  if (as_it_is) part.push_back({});
  if (turned) part.push_back({.transposed = true});
  if (part.empty() && same_elements(tensor, form)) part.push_back({.flat = true});
  return part;
}

// Sizes that fit and elements that do not: recurrent weights in ONNX's order of gates, and several matrices in one,
// each transposed.
Part reordered(const WeightElements& tensor, MatrixForm form) {
  Part part;
  for (const Arrangement& lies : whole(tensor, form)) {
    if (lies.flat) continue;
    for (const std::int64_t gates : {4, 3}) {
      if (form.rows % gates == 0) part.push_back({.transposed = lies.transposed, .gates = gates});
    }
    if (!lies.transposed && tensor.inner_columns() > 1 && tensor.inner_columns() < tensor.columns())
      part.push_back({.turned_within = true});
  }
  return part;
}

// The parameter is smaller than the tensor along one axis, or larger: one of several blocks, or what a piece comes
// from. `sign`: -1 for blocks, whose places count in the tensor.
void add_parts(std::vector<std::pair<std::int64_t, Arrangement>>& parts, std::int64_t whole, std::int64_t part,
               bool along_rows, bool transposed, int sign) {
  for (const std::int64_t at : beginnings(whole, part)) {
    Arrangement lies{.transposed = transposed};
    (along_rows ? lies.row_shift : lies.column_shift) = sign * at;
    parts.emplace_back(at, lies);
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

// The likest parameters for one part of a tensor.
class Likest {
 public:
  void offer(ParameterIndex parameter, double like) {
    auto [entry, first] = found_.try_emplace(parameter, like);
    if (!first) entry->second = std::max(entry->second, like);
    best_ = std::max(best_, like);
  }

  // Rivals within what the tool's rounding explains count as well.
  void add_to(SketchFindings& findings) const {
    const double enough = 1 - 2 * (1 - best_) - 0.01;
    std::vector<ParameterIndex> alike;
    for (const auto& [parameter, like] : found_) {
      if (like >= enough) alike.push_back(parameter);
    }
    findings.recognised = findings.recognised || !alike.empty();
    if (alike.size() > max_rivals) return;
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
  std::map<std::int64_t, Likest> likest;  // by the part of the tensor
  const auto compare = [&](MatrixForm form, const Form& entry, std::int64_t part, const Arrangement& lies) {
    const std::vector<double> elements = elements_at(tensor, form, entry.places, lies);
    for (const ParameterIndex parameter : entry.parameters) {
      const auto like = likeness(reference_.parameters[parameter].sketch, elements, entry.places.per_row);
      if (like) likest[part].offer(parameter, *like);
    }
  };
  SketchFindings findings;
  const auto take = [&] {
    for (const auto& [part, found] : likest) found.add_to(findings);
    likest.clear();
    return findings.recognised;
  };
  for (const auto& [form, entry] : forms_) {
    for (const Arrangement& lies : whole(tensor, form)) {
      findings.comparable = findings.comparable || entry.is_varied;
      compare(form, entry, 0, lies);
    }
  }
  if (take()) return findings;
  for (const auto& [form, entry] : forms_) {
    for (const Arrangement& lies : reordered(tensor, form)) compare(form, entry, 0, lies);
  }
  if (take()) return findings;
  for (const auto& [form, entry] : forms_) {
    for (const auto& [part, lies] : blocks(tensor, form)) compare(form, entry, part, lies);
  }
  if (take()) return findings;
  for (const auto& [form, entry] : forms_) {
    for (const auto& [part, lies] : pieces(tensor, form)) compare(form, entry, 0, lies);
  }
  take();
  return findings;
}

}  // namespace whence::match
