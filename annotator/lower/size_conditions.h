// Adds conditions on sizes as operations of a program: "n == 1 or m == 1", computed from the shapes of tensors.
#pragma once

#include <optional>
#include <vector>

#include "annotator/lower/memory.h"

namespace whence::lower {

class SizeConditions {
 public:
  // `tensors`: tensors whose axes may be read, in addition to the program's inputs.
  SizeConditions(const Program& program, Memory& memory, std::vector<ValueId> tensors)
      : program_(program), memory_(memory), tensors_(std::move(tensors)) {}

  // Returns a flag that is true if all `constraints` hold; nullopt if one uses a size of an axis that may not be read.
  std::optional<Argument> all_hold(const std::vector<Constraint>& constraints);
  std::optional<Argument> number(const Size& size);

 private:
  std::optional<Argument> holds(const Comparison& comparison);
  std::optional<Argument> length(SymbolId symbol);
  Argument add(const char* target, const char* overload, std::vector<NamedArgument> arguments, ValueKind kind);
  Argument integer(const char* target, Argument a, Argument b);
  Argument joined(const char* target, const std::optional<Argument>& a, const Argument& b);

  const Program& program_;
  Memory& memory_;
  std::vector<ValueId> tensors_;
};

}  // namespace whence::lower
