// Who reads what in a Program: the operations, by argument name, that use a value or a parameter.
//
// Converters ask when the best form depends on the rest of the program: whether a weight may be stored transposed,
// whether anybody wants a pooling's indices. Built once per program, in one walk over it.
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
  // `program` must outlive this and stay as it is.
  explicit ProgramUses(const Program& program);

  // Uses of the value, or of every value that stands for the same parameter. In execution order, outputs last.
  const std::vector<ProgramUse>& of(ValueId value) const;

 private:
  void read(const Block& block);
  void read(const Argument& argument, const ProgramUse& use);

  const Program& program_;
  std::unordered_map<ValueId, std::vector<ProgramUse>> by_value_;
  std::unordered_map<ParameterId, std::vector<ProgramUse>> by_parameter_;
};

}  // namespace whence::convert
