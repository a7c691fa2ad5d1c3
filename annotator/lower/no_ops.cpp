// y = detach(x); z = f(y)   ->   z = f(x)
// Drops operators that return their input: always, outside training, or because dtype or shape do not change.
#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/operator_facts.h"

namespace whence::lower {

using program::replace;
using program::same_shape;

namespace {

bool same_dtype(const Type& a, const Type& b) { return a.dtype != DType::undefined && a.dtype == b.dtype; }

// Returns true for an expand that keeps the shape only in the example. Its converter finds no-ops, too (ops/shape.cpp),
// but only after use_constants() has replaced a buffer, and its name, with its content.
bool widens_in_other_runs(const Program& program, const Node& node, const Type& before) {
  const Argument* size =
      node.target == "aten::expand" || node.target == "aten::broadcast_to" ? node.find("size") : nullptr;
  const auto* sizes = size == nullptr ? nullptr : size->as<ArgumentList>();
  if (sizes == nullptr || !before.dims || sizes->size() != before.dims->size()) return false;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    if (program::may_widen(program, (*before.dims)[i], known_integer(program, (*sizes)[i]))) return true;
  }
  return false;
}

bool holds(const Program& program, const Node& node, Identity identity, ValueId input) {
  const Type& before = program.values[input].type;
  const Type& after = program.values[node.outputs.front()].type;
  switch (identity) {
    case Identity::never:
      return false;
    case Identity::always:
      return true;
    case Identity::not_training: {
      const Argument* train = node.find("train");
      return train != nullptr && known_flag(program, *train) == false;
    }
    case Identity::same_dtype:
      return same_dtype(before, after);
    case Identity::same_shape:
      return same_dtype(before, after) && same_shape(before, after) && !widens_in_other_runs(program, node, before);
  }
  return false;
}

void drop(const Lowering& lowering, Block& block, program::Replacements& replacements) {
  const Program& program = lowering.program;
  for (Node& node : block.nodes) {
    replace(node.arguments, replacements);
    for (Block& nested : node.blocks) drop(lowering, nested, replacements);
    const Identity identity = facts_of(node.target).identity;
    if (identity == Identity::never || node.outputs.size() != 1 || node.list_output) continue;
    if (node.arguments.empty()) continue;  // a damaged archive, refused by its converter
    if (program::named_in(lowering.untouched, qualified(node)) != nullptr) continue;
    const auto* input = node.arguments.front().value.as<ValueRef>();
    if (input == nullptr || !holds(program, node, identity, input->id)) continue;
    replacements[node.outputs.front()] = Argument{*input};
  }
  for (Argument& output : block.outputs) replace(output, replacements);
}

}  // namespace

void drop_no_ops(Lowering& lowering) {
  program::Replacements replacements;
  drop(lowering, lowering.program.body, replacements);
  for (ProgramOutput& output : lowering.program.outputs) replace(output.value, replacements);
}

}  // namespace whence::lower
