// x, known = (a, True) if c else (0, False)
// y = f(x) if known else g          ->   y = f(a) if c else g
// Merges a branch into an earlier branch whose taken side determines its condition. This happens with values that may
// be None and with early returns. One branch then computes both, and the flag is no longer needed.
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/program_walk.h"

namespace whence::lower {

namespace {

bool is_branch(const Node& node) { return node.target == "prim::If"; }

bool reads_one_of(const Block& block, const std::unordered_set<ValueId>& values) {
  bool found = false;
  each_value_read(block, [&](ValueId id) { found = found || values.contains(id); });
  return found;
}

void replace_in(Block& block, const program::Replacements& replacements) {
  const auto replace = [&](Argument& argument) { program::replace(argument, replacements); };
  each_node(block, [&](Node& node) { each_argument(node, replace); });
  for (Argument& output : block.outputs) replace(output);
}

class Joiner {
 public:
  explicit Joiner(const Program& program) : program_(program) {}

  void join(Block& block) {
    std::vector<Node> kept;
    kept.reserve(block.nodes.size());
    std::unordered_map<ValueId, std::size_t> branch_of;  // result of a branch -> its position in `kept`
    for (Node& node : block.nodes) {
      for (Block& inner : node.blocks) join(inner);
      const auto* condition = is_branch(node) ? node.arguments.front().value.as<ValueRef>() : nullptr;
      const auto earlier = condition == nullptr ? branch_of.end() : branch_of.find(condition->id);
      if (earlier != branch_of.end() && follows(node, kept, earlier->second)) {
        Node& before = kept[earlier->second];
        take_over(node, before);
        for (const ValueId output : before.outputs) branch_of[output] = earlier->second;
        continue;
      }
      if (is_branch(node)) {
        for (const ValueId output : node.outputs) branch_of[output] = kept.size();
      }
      kept.push_back(std::move(node));
    }
    block.nodes = std::move(kept);
  }

 private:
  // Returns true if the sides of the earlier branch determine the condition and no value computed in between is read.
  bool follows(const Node& node, const std::vector<Node>& kept, std::size_t at) {
    const Node& before = kept[at];
    const auto first = settled(before, 0, node), second = settled(before, 1, node);
    if (!first || !second || *first == *second) return false;
    std::unordered_set<ValueId> since;
    for (std::size_t i = at + 1; i < kept.size(); ++i) since.insert(kept[i].outputs.begin(), kept[i].outputs.end());
    return !reads_one_of(node.blocks[0], since) && !reads_one_of(node.blocks[1], since);
  }

  std::optional<bool> settled(const Node& before, std::size_t side, const Node& node) const {
    const ValueId condition = node.arguments.front().value.as<ValueRef>()->id;
    for (std::size_t i = 0; i < before.outputs.size(); ++i) {
      if (before.outputs[i] == condition) return known_flag(program_, before.blocks[side].outputs[i]);
    }
    return std::nullopt;
  }

  void take_over(Node& node, Node& before) {
    for (std::size_t side = 0; side < 2; ++side) {
      Block& own = before.blocks[side];
      Block& taken = node.blocks[*settled(before, side, node) ? 0 : 1];
      program::Replacements inside;
      for (std::size_t i = 0; i < before.outputs.size(); ++i) inside[before.outputs[i]] = own.outputs[i];
      replace_in(taken, inside);
      std::move(taken.nodes.begin(), taken.nodes.end(), std::back_inserter(own.nodes));
      std::move(taken.outputs.begin(), taken.outputs.end(), std::back_inserter(own.outputs));
    }
    before.outputs.insert(before.outputs.end(), node.outputs.begin(), node.outputs.end());
  }

  const Program& program_;
};

}  // namespace

void join_branches(Lowering& lowering) {
  if (!program::any_node(lowering.program.body, is_branch)) return;
  Joiner(lowering.program).join(lowering.program.body);
}

}  // namespace whence::lower
