// PlacesSeen: where tensors lay in the runs. Places follow from the rules of operators (schema/place.h), and the runs
// are their witnesses: what a run contradicts is not known.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "recorder/inputs/example_inputs.h"
#include "recorder/script/values.h"

namespace whence::recorder::script {

class PlacesSeen {
 public:
  // Tensors that an operation is given, before it runs, and those that it returns.
  void note_arguments(const std::vector<Term>& arguments);
  void note_result(const Term& result, const std::vector<Term>& arguments);

  // States the places in a program that was run, once its sizes are known.
  void state(Program& program, const inputs::ExampleInputs& inputs) const;

 private:
  struct Layout {
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes, strides;
    bool empty = false;
  };
  struct Sight {
    PerRun<std::optional<Layout>> runs;
    PerRun<bool> shared{};  // it lay in memory of `argument`
    ValueId argument = none_id;
  };
  class Witness;

  void note(const Term& term, const std::vector<Term>& arguments);

  // By value: those of a tensor that lay in rows of its own in every run are not kept.
  std::unordered_map<ValueId, Sight> sights_;
  std::unordered_set<ValueId> seen_;
};

}  // namespace whence::recorder::script
