// Recording: the state of an evaluation that containers, operations and control flow share: the Program recorded so
// far, and a part for each aspect (aliases, sizes, known values, changes). It does not depend on its users.
#pragma once

#include "recorder/script/aliases.h"
#include "recorder/script/changes.h"
#include "recorder/script/known_values.h"
#include "recorder/script/lockstep.h"
#include "recorder/script/node_writer.h"
#include "recorder/script/observed_places.h"
#include "recorder/script/parts.h"
#include "recorder/script/sizes.h"
#include "recorder/script/values.h"

namespace whence::recorder::script {

struct Recording {
  Recording(Program& recorded, const inputs::ExampleInputs& inputs)
      : program(recorded),
        runs(inputs.available ? inputs.runs : 0, inputs.single_run),
        values(recorded, inputs),
        known(values, runs),
        sizes(recorded, values, known, inputs, runs),
        writer(recorded) {}

  // Returns the term for one result of an operation, and adds its values to the node's outputs. A list becomes one
  // value for each element, or a sequence if its length differs between runs. Throws Error baked_size if no sequence
  // can hold it.
  Term result(const torch::jit::Value& output, RunValues seen, bool known_result, Node& node);

  // Notes that the step is about to change a list or dict. Throws Error unsupported_feature if it may be the same
  // object as another; warns if the change outlives the call.
  void note_change(const Term& container, const Step& step);

  // Ends the evaluation: the model runs at the first size but not at the second. It may run at another second size.
  [[noreturn]] void fail_at_second_size(const std::string& message, const std::string& remedy);

  // Writes a node with one result, called `name`.
  ValueId write(Node node, const std::string& name, Type type);

  Program& program;
  Lockstep runs;
  Changes changes;
  Values values;
  KnownValues known;
  Sizes sizes;
  Aliases aliases;
  Parts parts;
  ObservedPlaces places;
  NodeWriter writer;
  std::vector<const Call*> running;  // calls that are being evaluated, the outermost first
  Attributes attributes;
  // Results of branches whose sides produce tensors of different ranks. Sizes derived from them assume the example's
  // rank; in the finished Program their own rank is unknown.
  std::unordered_set<ValueId> mixed_ranks;
  std::optional<std::size_t> values_before_failure;  // set if the second size fails

 private:
  Term element(const std::string& name, const c10::TypePtr& type, RunValues seen, bool known_result, Node& node);
  std::optional<std::size_t> elements_in(const torch::jit::Value& output, const RunValues& seen) const;
  bool static_size(const Node& node, std::size_t axis) const;
};

// Returns true if ONNX can replace the operator with SplitToSequence. A list that is unpacked at once must have a fixed
// length.
bool becomes_sequence(const torch::jit::Value& output);

}  // namespace whence::recorder::script
