// Likeness: finds the parameters that a tensor is similar to, if a tool rounded or scaled its elements. Compares some
// elements of rows and columns by their correlation, which neither the scale nor the sign of a row changes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "annotator/derivation/content_index.h"
#include "annotator/derivation/expression.h"
#include "annotator/derivation/lines.h"
#include "annotator/derivation/weights.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {

// Real numbers that are read one at a time.
struct SampledTensor {
  std::vector<std::int64_t> dims;
  std::function<double(std::int64_t element)> number;
};

class Likeness {
 public:
  explicit Likeness(const Weights& weights);

  // Returns lines of parameters that together are similar to the tensor, in float32 and with its sizes; nullopt if some
  // line is similar to no parameter.
  std::optional<Expression> find(const SampledTensor& tensor, const NameFit& fit) const;

 private:
  // A parameter as a matrix, in one direction.
  struct Side {
    std::uint32_t parameter = 0;  // index in the checkpoint
    Direction direction = Direction::rows;
    std::int64_t count = 0, length = 0;
    std::vector<std::int64_t> inner = {};    // sizes of a row
    mutable std::vector<double> first = {};  // the compared elements of line 0; empty before it was read
  };

  std::optional<Expression> find_lines(const SampledTensor& tensor, Direction direction, const NameFit& fit) const;
  std::optional<Expression> find_vector(const SampledTensor& tensor, const NameFit& fit) const;
  std::optional<Expression> find_slices(const SampledTensor& tensor, const NameFit& fit) const;
  std::optional<Piece> best_line(const std::vector<double>& line, const std::vector<const Side*>& sides,
                                 const std::optional<Piece>& last, const NameFit& fit) const;
  // Returns true if the parameter of the piece has a line after its last one.
  static bool has_next(const Piece& piece, const std::vector<const Side*>& sides);
  double likeness(const std::vector<double>& line, const Side& side, std::int64_t index) const;
  std::vector<double> line_of(const Side& side, std::int64_t index) const;
  // Returns line 0, which every tensor is compared with. It is kept, because the elements of a column are in pages of
  // their own, of which all parameters have more than fit into memory.
  const std::vector<double>& first_line(const Side& side) const;
  Expression leaf(std::uint32_t parameter, const NameFit& fit) const;

  const Weights& weights_;
  std::vector<std::optional<program::Elements>> elements_;
  std::vector<Side> sides_;
  mutable std::size_t first_lines_ = 0;  // that were read
};

}  // namespace whence::derivation
