// y = detach(x); z = f(y)   ->   z = f(x)
// Operators that give their input back: always, outside training, or when dtype or shape turn out to stay.
#include <string_view>
#include <unordered_map>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"

namespace whence::lower {

using program::replace;
using program::same_shape;

namespace {

enum class When { always, not_training, same_dtype, same_shape };

// By operator name; the rule holds for every overload.
const std::unordered_map<std::string_view, When>& no_ops() {
  static const std::unordered_map<std::string_view, When> table{
      // memory and autograd, of which ONNX knows nothing
      {"aten::alias", When::always},
      {"aten::clone", When::always},
      {"aten::contiguous", When::always},
      {"aten::detach", When::always},
      {"aten::detach_copy", When::always},
      {"aten::lift", When::always},
      {"aten::lift_fresh", When::always},
      {"aten::lift_fresh_copy", When::always},
      {"aten::positive", When::always},
      {"aten::resolve_conj", When::always},
      {"aten::resolve_neg", When::always},
      // training only
      {"aten::alpha_dropout", When::not_training},
      {"aten::dropout", When::not_training},
      {"aten::feature_alpha_dropout", When::not_training},
      {"aten::feature_dropout", When::not_training},
      // to another device, dtype or layout
      {"aten::_to_copy", When::same_dtype},
      {"aten::cpu", When::same_dtype},
      {"aten::cuda", When::same_dtype},
      {"aten::to", When::same_dtype},
      {"aten::type_as", When::same_dtype},
      // to a shape that is there already; slices keep every element when they keep every size
      {"aten::_unsafe_view", When::same_shape},
      {"aten::broadcast_to", When::same_shape},
      {"aten::expand", When::same_shape},
      {"aten::flatten", When::same_shape},
      {"aten::narrow", When::same_shape},
      {"aten::reshape", When::same_shape},
      {"aten::reshape_as", When::same_shape},
      {"aten::slice", When::same_shape},
      {"aten::unflatten", When::same_shape},
      {"aten::view", When::same_shape},
      {"aten::view_as", When::same_shape},
  };
  return table;
}

bool same_dtype(const Type& a, const Type& b) { return a.dtype != DType::undefined && a.dtype == b.dtype; }

// An expand that leaves the shape as it is in the example alone. Its converter sees what does nothing, too
// (ops/shape.cpp), but only after use_constants() has put a buffer's content in the place of the buffer, and its name.
bool widens_in_other_runs(const Program& program, const Node& node, const Type& before) {
  const Argument* size =
      node.target == "aten::expand" || node.target == "aten::broadcast_to" ? node.find("size") : nullptr;
  const auto* sizes = size == nullptr ? nullptr : size->as<ArgumentList>();
  if (sizes == nullptr || !before.dims || sizes->size() != before.dims->size()) return false;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    if (program::may_widen(program, (*before.dims)[i], program::known_integer(program, (*sizes)[i]))) return true;
  }
  return false;
}

bool holds(const Program& program, const Node& node, When when, ValueId input) {
  const Type& before = program.values[input].type;
  const Type& after = program.values[node.outputs.front()].type;
  switch (when) {
    case When::always:
      return true;
    case When::not_training: {
      const Argument* train = node.find("train");
      return train != nullptr && program::known_flag(program, *train) == false;
    }
    case When::same_dtype:
      return same_dtype(before, after);
    case When::same_shape:
      return same_dtype(before, after) && same_shape(before, after) && !widens_in_other_runs(program, node, before);
  }
  return false;
}

void drop(const Lowering& lowering, Block& block, program::Replacements& replacements) {
  const Program& program = lowering.program;
  for (Node& node : block.nodes) {
    replace(node.arguments, replacements);
    for (Block& nested : node.blocks) drop(lowering, nested, replacements);
    const auto rule = no_ops().find(node.target);
    if (rule == no_ops().end() || node.outputs.size() != 1 || node.list_output) continue;
    if (program::named_in(lowering.untouched, qualified(node)) != nullptr) continue;
    const auto* input = node.arguments.front().value.as<ValueRef>();
    if (input == nullptr || !holds(program, node, rule->second, input->id)) continue;
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
