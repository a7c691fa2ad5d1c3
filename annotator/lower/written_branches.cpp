// if c: x.add_(1)                    ->   x1 = if c: add(x, 1) else: x
// if c: t = x  (else: t = y * 2)     ->   t1 = if c: x else: y * 2
// t.add_(1)                               t2 = add(t1, 1);  x1 = if c: t2 else: x
//
// Outer memory that a branch writes to becomes a further result of the branch. A result that may be an outer tensor is
// a choice (memory.h) under the condition of the branch.
#include <array>

#include "annotator/lower/functionalizer.h"
#include "annotator/lower/result_names.h"

namespace whence::lower {

namespace {

Memory::Guard opposite(const Memory::Guard& guard) { return {guard.condition, !guard.holds}; }

}  // namespace

void Functionalizer::branch(Node node) {
  const Failure unclear = reports_.refusal(
      node, "results of this branch are written to later, and its condition does not decide whether they share memory");
  for (NamedArgument& argument : node.arguments) memory_.resolve(argument.value);
  std::array<BlockEnds, 2> ends;
  memory_.fork(node, [&](std::size_t side) {
    Block& block = node.blocks[side];
    run(block);
    memory_.origin = node.origin;
    ends[side] = block_ends(program_, memory_, block.outputs, unclear);
    for (Argument& output : block.outputs) memory_.resolve(output);
  });
  memory_.origin = node.origin;
  join(node, ends, unclear);
  memory_.sink->push_back(std::move(node));
}

void Functionalizer::join(Node& branch, const std::array<BlockEnds, 2>& ends, const Failure& unclear) {
  const std::size_t results = ends[0].results.size();
  const std::vector<ValueId> names(branch.outputs.begin(),
                                   branch.outputs.begin() + static_cast<std::ptrdiff_t>(results));
  const Argument condition = branch.arguments.front().value;
  // Makes a value of one side a further result of the branch; the other side returns `otherwise`.
  const auto add_result = [&](std::size_t side, ValueId inside, const Argument& otherwise) {
    branch.blocks[side].outputs.push_back({ValueRef{inside}});
    branch.blocks[1 - side].outputs.push_back(otherwise);
    branch.outputs.push_back(memory_.fresh_like(inside));
    return branch.outputs.back();
  };
  std::vector<std::vector<Target>> targets(results);
  std::vector<std::vector<std::size_t>> sides(results);  // by result and target: the side
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < results; ++i) {
    for (std::size_t side = 0; side < 2; ++side) {
      std::vector<Target> of_side = ends[side].results[i];
      const std::vector<Target>& others = ends[1 - side].results[i];
      // A side without this tensor has returned early or returns None.
      if (of_side.empty() && !others.empty()) of_side = is_kept(others) ? others : std::vector<Target>(1);
      for (std::size_t k = 0; k < of_side.size(); ++k) {
        Memory::Guard& guard = of_side[k].guard;
        if (k + 1 == of_side.size()) {
          if (side == 0) guard = {condition, true};
        } else if (const auto* value = guard.condition.as<ValueRef>()) {
          guard.condition = {ValueRef{add_result(side, value->id, Argument{!guard.holds})}};
        }
        targets[i].push_back(std::move(of_side[k]));
        sides[i].push_back(side);
      }
    }
    while (targets[i].size() > 1 &&
           same_target(memory_, targets[i].back(), targets[i][targets[i].size() - 2], memory_.depth()) &&
           targets[i].back().steps.empty()) {
      targets[i].erase(targets[i].end() - 2);
      sides[i].erase(sides[i].end() - 2);
    }
    // The result's own memory comes last: a write to it needs no condition.
    if (targets[i].size() == 2 && targets[i][0].kind == Target::Kind::own) {
      std::swap(targets[i][0], targets[i][1]);
      std::swap(sides[i][0], sides[i][1]);
      targets[i][0].guard = opposite(std::exchange(targets[i][1].guard, {}));
    }
    if (is_kept(targets[i])) kept.push_back(i);
  }
  ResultNames result_names(memory_, names, memory_.depth());
  result_names.bind(targets, [&](std::size_t i, std::size_t k, std::size_t, ValueId inside) {
    return add_result(sides[i][k], inside, Argument{});
  });
  for (const BlockEnds& side : ends) {
    result_names.doubt(side.unclear);
    result_names.repeat(side.repeating, unclear);
  }
  for (auto at = kept.rbegin(); at != kept.rend(); ++at) {
    for (Block& side : branch.blocks) erase_at(side.outputs, *at);
    erase_at(branch.outputs, *at);
  }
}

}  // namespace whence::lower
