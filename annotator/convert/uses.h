// The uses of values in a Program: the operations that read a value or a parameter, by argument name.
//
// Converters query them if the best form depends on the rest of the program: whether a weight may be stored transposed,
// whether anything reads the indices of a pooling. Built once per program, in one pass.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "schema/program.h"

namespace whence::convert {

struct ProgramUse {
  const Node* node = nullptr;  // nullptr: an output of the program or of a nested block
  std::string_view argument;   // schema name
};

class ProgramUses {
 public:
  // `program` must outlive this object and stay unchanged.
  explicit ProgramUses(const Program& program);

  // Returns the uses of the value, or of every value of the same parameter. In execution order, outputs last.
  const std::vector<ProgramUse>& of(ValueId value) const;

 private:
  void read(const Block& block);
  void read(const Argument& argument, const ProgramUse& use);

  const Program& program_;
  std::unordered_map<ValueId, std::vector<ProgramUse>> by_value_;
  std::unordered_map<ParameterId, std::vector<ProgramUse>> by_parameter_;
};

}  // namespace whence::convert
