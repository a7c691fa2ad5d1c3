// if c: a [n, 91, 4] else: b [n, 364]   ->   if c: a else: reshape(b, [0, 91, 4])
// The sides of a branch return tensors of different ranks, but a reader needs one rank: the rank of the side that the
// example takes is used. The other side returns an empty tensor of that rank, as `if n > 0` does for no elements. If it
// had elements, the file would fail to run, so no number is ever read along a wrong axis.
#include <optional>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "annotator/program/program_facts.h"

namespace whence::lower {

namespace {

using Dims = std::vector<Dim>;

const Dims* dims_of(const Program& program, const Argument& output) {
  const auto* value = output.as<ValueRef>();
  if (value == nullptr) return nullptr;
  const Type& type = program.values[value->id].type;
  return type.kind == ValueKind::tensor && type.dims ? &*type.dims : nullptr;
}

// Returns the shape of an empty tensor: 0 along dynamic axes; nullopt if every size is fixed and nonzero.
std::optional<ArgumentList> empty_shape(const Dims& dims) {
  ArgumentList shape;
  bool empty = false;
  for (const Dim& dim : dims) {
    empty |= !dim.is_static() || dim.size == 0;
    shape.push_back({dim.is_static() ? dim.size : std::int64_t{0}});
  }
  return empty ? std::optional(std::move(shape)) : std::nullopt;
}

class ExampleRanks {
 public:
  ExampleRanks(Program& program, Diagnostics& notes) : program_(program), notes_(notes) {}

  bool settle(Block& block) {
    bool changed = false;
    for (Node& node : block.nodes) {
      for (Block& nested : node.blocks) changed |= settle(nested);
      const Argument* taken = node.find(example_argument);
      const bool* first = taken == nullptr ? nullptr : taken->as<bool>();
      if (node.target != "prim::If" || first == nullptr || node.blocks.size() != 2) continue;
      for (std::size_t i = 0; i < node.outputs.size(); ++i) changed |= settle(node, i, *first ? 0 : 1);
    }
    return changed;
  }

 private:
  bool settle(Node& branch, std::size_t i, std::size_t taken) {
    Type& result = program_.values[branch.outputs[i]].type;
    Block& other = branch.blocks[1 - taken];
    if (result.dims || i >= branch.blocks[taken].outputs.size() || i >= other.outputs.size()) return false;
    const Dims* dims = dims_of(program_, branch.blocks[taken].outputs[i]);
    const Dims* others = dims_of(program_, other.outputs[i]);
    if (dims == nullptr || others == nullptr || dims->size() == others->size()) return false;
    const auto shape = empty_shape(*dims);
    if (!shape) return false;
    notes_.push_back(warning(Code::unsupported_feature,
                             "the two sides of a condition return tensors of " + std::to_string(dims->size()) +
                                 " and " + std::to_string(others->size()) +
                                 " axes: the file uses the former, as in the example, and can take the " +
                                 "other side only if its tensor is empty",
                             "return tensors of the same rank", program::place_of(program_, branch, "export")));
    result.dims = *dims;
    for (Dim& dim : *result.dims) {
      if (!dim.is_static()) dim = {dim.size, true, none_id};
    }
    Node reshape = program::node_like(branch, "aten::reshape", "", {{"self", other.outputs[i]}, {"shape", {*shape}}});
    reshape.outputs.push_back(ValueId(program_.values.size()));
    Value emptied = program_.values[branch.outputs[i]];
    emptied.name += ".empty";
    emptied.type.dims.reset();  // a type without elements would be folded, together with the condition
    program_.values.push_back(std::move(emptied));
    other.outputs[i] = {ValueRef{reshape.outputs.front()}};
    other.nodes.push_back(std::move(reshape));
    return true;
  }

  Program& program_;
  Diagnostics& notes_;
};

}  // namespace

std::optional<Program> with_example_ranks(const Program& program, Diagnostics& notes) {
  Program settled = program;
  if (!ExampleRanks(settled, notes).settle(settled.body)) return std::nullopt;
  return settled;
}

}  // namespace whence::lower
