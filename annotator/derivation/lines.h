// Lines: a matrix as rows or as columns, and pieces of parameters that are consecutive lines of a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "annotator/derivation/expression.h"

namespace whence::derivation {

enum class Direction : std::uint8_t { rows, columns };

// Consecutive lines of one parameter.
struct Piece {
  std::uint32_t parameter = 0;
  Direction direction = Direction::rows;
  std::vector<Run> runs = {};
};

// Adds an index to the last run if it continues the run.
void add_index(std::vector<Run>& runs, std::int64_t index);

// Returns the index that continues the last run. Requires a run.
inline std::int64_t next_index(const std::vector<Run>& runs) {
  return runs.back().first + runs.back().count * runs.back().step;
}

// Returns true if tools arrange lines so: one run, blocks of one size in the order of exchanged axes (heads), or the
// gates of a recurrent layer in ONNX's order. Lines that are repeated, left out or exchanged singly are not regular.
bool is_regular(const std::vector<Run>& runs);

// Returns true if the lines of each parameter come in their order in the parameter, or are one line that is repeated.
bool is_ordered(const Expression& expression);

// Returns the lines as rows of a matrix. `dims`: of the parameter.
Expression lines_of(Expression parameter, const std::vector<std::int64_t>& dims, const Piece& piece);

// Returns the parts one after the other.
Expression joined(std::vector<Expression> parts);

Expression reshaped(Expression input, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to);
// Exchanges the axes of a matrix; the transpose of a transpose is its input.
Expression transposed(Expression input);

}  // namespace whence::derivation
