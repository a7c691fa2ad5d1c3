// if True: a else: b   ->   a
// Replaces a prim::If with the branch that is taken if the condition is known. The other branch is dropped, together
// with all nodes that only it needed.
#include <algorithm>
#include <iterator>
#include <utility>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"

namespace whence::lower {

using program::replace;

namespace {

// Rejects a prim::If with block inputs: branches read outer values directly, so block inputs would have no value. Only
// a damaged sidecar has them.
void require_branches(const Program& program, const Node& node) {
  const bool fits = node.blocks.size() == 2 && std::ranges::all_of(node.blocks, [&](const Block& branch) {
                      return branch.inputs.empty() && branch.outputs.size() == node.outputs.size();
                    });
  if (fits) return;
  throw Error(Code::corrupt_file,
              "a prim::If needs two branches without inputs that return as many values as it has results",
              "record the model again", program::place_of(program, node, "lower"));
}

void settle(const Program& program, Block& block, program::Replacements& replacements) {
  std::vector<Node> kept;
  kept.reserve(block.nodes.size());
  for (Node& node : block.nodes) {
    replace(node.arguments, replacements);
    for (Block& nested : node.blocks) settle(program, nested, replacements);
    std::optional<bool> condition;
    if (node.target == "prim::If") {
      require_branches(program, node);
      condition = known_flag(program, node.arguments.front().value);
    }
    if (!condition) {
      kept.push_back(std::move(node));
      continue;
    }
    Block& taken = node.blocks[*condition ? 0 : 1];
    std::move(taken.nodes.begin(), taken.nodes.end(), std::back_inserter(kept));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) replacements[node.outputs[i]] = taken.outputs[i];
  }
  block.nodes = std::move(kept);
  for (Argument& output : block.outputs) replace(output, replacements);
}

}  // namespace

void settle_branches(Lowering& lowering) {
  Program& program = lowering.program;
  if (!program::any_node(program.body, [](const Node& node) { return node.target == "prim::If"; })) return;
  program::Replacements replacements;
  settle(program, program.body, replacements);
  for (ProgramOutput& output : program.outputs) replace(output.value, replacements);
}

}  // namespace whence::lower
