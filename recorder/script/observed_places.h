// ObservedPlaces: the memory, offset and strides that tensors had in the runs. Places are derived by rules for
// operators (schema/place.h) and checked against the runs: a place that a run contradicts becomes unknown.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "recorder/inputs/example_inputs.h"
#include "recorder/script/values.h"

namespace whence::recorder::script {

class ObservedPlaces {
 public:
  // Note the arguments of an operation before it runs, and its results.
  void note_arguments(const std::vector<Term>& arguments);
  void note_result(const Term& result, const std::vector<Term>& arguments);

  // Sets the places of a program that was run, once its sizes are known.
  void state(Program& program, const inputs::ExampleInputs& inputs) const;

 private:
  struct Layout {
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes, strides;
    bool empty = false;
  };
  struct Observation {
    PerRun<std::optional<Layout>> runs;
    PerRun<bool> shared{};  // was in the memory of `argument`
    ValueId argument = none_id;
  };
  class RunCheck;

  void note(const Term& term, const std::vector<Term>& arguments);

  // By value; omits tensors that were contiguous in their own memory in every run.
  std::unordered_map<ValueId, Observation> observations_;
  std::unordered_set<ValueId> seen_;
};

}  // namespace whence::recorder::script
