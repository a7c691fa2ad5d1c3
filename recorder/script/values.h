// Values: adds values to the Program, with unique names and with the types that the runs computed.
#pragma once

#include "recorder/inputs/example_inputs.h"
#include "recorder/program/term.h"

namespace whence::recorder::script {

using program::RunValues;
using program::Term;

class Values {
 public:
  Values(Program& program, const inputs::ExampleInputs& inputs) : program_(program), inputs_(inputs) {}

  ValueId add(const std::string& name, ValueSource source, Type type = {}, std::int32_t index = none_id);
  std::size_t size() const { return program_.values.size(); }

  Type& type(ValueId id) { return program_.values[id].type; }
  const Type& type(ValueId id) const { return program_.values[id].type; }
  ValueSource source(ValueId id) const { return program_.values[id].source; }
  // Returns the dtype of a value or a settled number; undefined for any other term.
  DType dtype(const Term& term) const;

  // Returns the type of a value. A size is dynamic if it differs between runs, and a rank that differs is unknown. If
  // no run computed the value, its type is `declared` (may be null).
  Type type_of(const RunValues& seen, const c10::TypePtr& declared);

  // Returns true if a size has no symbol because of this run with large sizes.
  bool hides_symbol(int run) const { return hides_symbol_[run]; }

  // Returns the symbol that has these sizes in every run; none_id if there is none.
  using Numbers = PerRun<std::optional<std::int64_t>>;
  SymbolId symbol_of(const Numbers& sizes) const;

 private:
  Dim dim_of(const Numbers& sizes);
  void note_large_runs(const Numbers& sizes);

  Program& program_;
  const inputs::ExampleInputs& inputs_;
  std::unordered_map<std::string, int> names_;
  PerRun<bool> hides_symbol_{};
};

}  // namespace whence::recorder::script
