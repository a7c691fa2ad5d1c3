// Values: the rows of the Program's values, with names that are unique and types that are what the runs computed.
#pragma once

#include "recorder/inputs/example_inputs.h"
#include "recorder/program/term.h"

namespace whence::recorder {

class Values {
 public:
  Values(Program& program, const ExampleInputs& inputs) : program_(program), inputs_(inputs) {}

  ValueId add(const std::string& name, ValueSource source, Type type = {}, std::int32_t index = none_id);
  std::size_t size() const { return program_.values.size(); }

  Type& type(ValueId id) { return program_.values[id].type; }
  const Type& type(ValueId id) const { return program_.values[id].type; }
  ValueSource source(ValueId id) const { return program_.values[id].source; }
  // The dtype of a value or a settled number; undefined for anything else.
  DType dtype(const Term& term) const;

  // A size is dynamic where runs differ, and a rank on which they differ is unknown. `declared` (may be null) decides
  // for what no run computed.
  Type type_of(const Seen& seen, const c10::TypePtr& declared) const;

 private:
  Dim dim_of(const PerRun<std::optional<std::int64_t>>& sizes) const;

  Program& program_;
  const ExampleInputs& inputs_;
  std::unordered_map<std::string, int> names_;
};

}  // namespace whence::recorder
