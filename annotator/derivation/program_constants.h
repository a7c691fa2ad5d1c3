// ProgramConstants: the numbers that a recorded program holds besides its parameters, and those that follow from them
// alone, to recognise them in a file: scalars, masks, positions, tables of angles.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "annotator/derivation/program_forms.h"
#include "annotator/program/tensor_values.h"
#include "schema/program.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// Returns by how much tools may round numbers of a type in ways of their own, relative to the numbers.
double rounding_of(DType dtype);

// Returns true if a converter to float16 makes `half` of the number, which it may first put into a range of its own.
bool is_half_of(double half, double number);

class ProgramConstants {
 public:
  // Evaluates every node of the forms, and of the program written out, that reads only constants.
  ProgramConstants(const Program& program, const std::vector<ProgramForm>& forms);

  // Returns true if a constant of the program has the same numbers, in whatever dtype and sizes, or if they are its
  // elements repeated. Tools compute functions such as cosine with other roundings, which are accepted.
  bool holds(const TensorData& tensor) const;
  // Returns the constants with this number of elements.
  const std::vector<TensorData>& of_size(std::int64_t elements) const;
  // Returns the conditions of the program, repeated to this number of elements, as float32 numbers that are added: 0
  // where the condition holds, the lowest number elsewhere.
  std::vector<TensorData> masks_of_size(std::int64_t elements) const;
  // Returns the numbers that is_known_number() accepts, as float32 scalars.
  std::vector<TensorData> numbers() const;

 private:
  void add(const TensorData& constant);
  void add(const graph::Graph& graph);
  template <class Visit>
  void for_each_number(Visit&& visit) const;
  bool is_known_number(double number, double bound, double smallest) const;
  bool is_mask(const program::Elements& elements) const;

  std::map<std::int64_t, std::vector<TensorData>> constants_;  // by number of elements
  std::set<std::string> digests_;                              // of those
  std::set<double> numbers_;                                   // single numbers and sizes
};

}  // namespace whence::derivation
