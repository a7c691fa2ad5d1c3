// Removes operations whose results reach no output. None has side effects by now: writes have become values, and
// recording refuses operators with external effects. Checks (aten::_assert_*) have no result, so they are removed too.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/program_walk.h"

namespace whence::lower {

namespace {

class Sweep {
 public:
  explicit Sweep(const Program& program) : program_(program) {}

  void need(const Argument& argument) {
    each_value(argument, [this](ValueId id) {
      if (program_.values[id].source == ValueSource::node) needed_.insert(id);
    });
  }

  // Goes backwards, so that every reader is visited before its operands.
  void sweep(std::vector<Node>& nodes) {
    std::vector<Node> kept;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const bool has_needed_output = std::any_of(node->outputs.begin(), node->outputs.end(),
                                                 [this](ValueId id) { return needed_.count(id) != 0; });
      if (!has_needed_output) continue;
      if (node->target == "prim::If") drop_unneeded_results(*node);
      if (node->target == "prim::Loop") drop_unneeded_variables(*node);
      for (const NamedArgument& argument : node->arguments) need(argument.value);
      for (Block& block : node->blocks) {
        for (const Argument& output : block.outputs) need(output);
        sweep(block.nodes);
      }
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    nodes = std::move(kept);
  }

 private:
  // Drops results of both sides that nothing reads.
  void drop_unneeded_results(Node& branch) const {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < branch.outputs.size(); ++i) {
      if (!needed_.contains(branch.outputs[i])) continue;
      branch.outputs[kept] = branch.outputs[i];
      for (Block& block : branch.blocks) block.outputs[kept] = block.outputs[i];
      ++kept;
    }
    branch.outputs.resize(kept);
    for (Block& block : branch.blocks) block.outputs.resize(kept);
  }

  // Drops loop variables that are read neither after the loop nor inside it.
  void drop_unneeded_variables(Node& loop) const {
    auto& initial = std::get<ArgumentList>(loop.arguments.back().value.data);
    Block& body = loop.blocks[0];
    std::vector<bool> keep(initial.size());
    for (std::size_t i = 0; i < keep.size(); ++i) keep[i] = needed_.contains(loop.outputs[i]);
    for (bool more = true; more && std::ranges::find(keep, false) != keep.end();) {
      more = false;
      const std::unordered_set<ValueId> read = read_for(body, keep);
      for (std::size_t i = 0; i < keep.size(); ++i) {
        if (keep[i] || !read.contains(body.inputs[i + 1])) continue;
        keep[i] = more = true;
      }
    }
    const auto erase = [](auto& list, std::size_t at) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(at)); };
    for (std::size_t i = keep.size(); i-- > 0;) {
      if (keep[i]) continue;
      erase(body.inputs, i + 1);
      erase(body.outputs, i + 1);
      erase(loop.outputs, i);
      erase(initial, i);
    }
  }

  // Returns the values that an iteration needs for its condition, its kept variables and its stacked results.
  static std::unordered_set<ValueId> read_for(const Block& body, const std::vector<bool>& keep) {
    std::unordered_set<ValueId> read;
    const auto add = [&](ValueId id) { read.insert(id); };
    for (std::size_t i = 0; i < body.outputs.size(); ++i) {
      if (i == 0 || i > keep.size() || keep[i - 1]) each_value(body.outputs[i], add);
    }
    for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node) {
      if (std::ranges::none_of(node->outputs, [&](ValueId id) { return read.contains(id); })) continue;
      for (const NamedArgument& argument : node->arguments) each_value(argument.value, add);
      for (const Block& block : node->blocks) each_value_read(block, add);
    }
    return read;
  }

  const Program& program_;
  std::unordered_set<ValueId> needed_;
};

}  // namespace

void drop_dead_code(Lowering& lowering) {
  Sweep sweep(lowering.program);
  for (const ProgramOutput& output : lowering.program.outputs) sweep.need(output.value);
  sweep.sweep(lowering.program.body.nodes);
}

}  // namespace whence::lower
