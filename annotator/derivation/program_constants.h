// ProgramConstants: the numbers that a recorded program holds besides its parameters, to recognise them in a file.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "annotator/derivation/weights.h"
#include "annotator/graph/graph.h"
#include "schema/program.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

class ProgramConstants {
 public:
  // Collects the constants of the program, and those that its export computes, with small parameters from `weights`.
  ProgramConstants(const Program& program, const Weights& weights);

  // Returns true if a constant of the program has the same numbers, in whatever dtype and sizes.
  bool holds(const TensorData& tensor) const;

 private:
  void add(const TensorData& constant);
  void add(const graph::Graph& graph);

  std::set<std::pair<std::int64_t, std::uint64_t>> digests_;  // number of elements, digest of their values
};

}  // namespace whence::derivation
