#include "annotator/lower/outer_writes.h"

#include <algorithm>

#include "annotator/lower/in_place.h"

namespace whence::lower {
namespace {

class Collector {
 public:
  explicit Collector(const Program& program) : program_(program) {}

  OuterWrites of(const Node& node) {
    for (const Block& block : node.blocks) visit(block);
    node.target == "prim::If" ? keep_results(node, 0) : keep_variables(node);
    OuterWrites found;
    std::unordered_set<ValueId> written;
    for (const ValueId self : written_) {
      const ValueId memory = owner(self);
      if (written.insert(memory).second && made_.count(memory) == 0) found.written.push_back(memory);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const auto same = base_.find(node.outputs[i]);
      if (same != base_.end()) found.kept.push_back({i, same->second.id});
    }
    if (node.target == "prim::Loop") found.changing = changing_variables(node);
    return found;
  }

 private:
  struct Base {
    ValueId id = none_id;
    bool same = false;  // the tensor itself, not a part of it
  };

  void visit(const Block& block) {
    note_made(block.inputs);
    for (const Node& node : block.nodes) {
      note_made(node.outputs);
      visit(node);
    }
  }

  void note_made(const std::vector<ValueId>& values) {
    made_.insert(values.begin(), values.end());
    made_in_order_.insert(made_in_order_.end(), values.begin(), values.end());
  }

  void visit(const Node& node) {
    const std::size_t made_before = made_in_order_.size();
    for (const Block& block : node.blocks) visit(block);
    if (node.target == "prim::If") return keep_results(node, made_before);
    if (node.target == "prim::Loop") {
      keep_variables(node);
      for (const std::size_t i : changing_variables(node)) {
        const auto* before = (*node.find("initial")->as<ArgumentList>())[i].as<ValueRef>();
        if (before != nullptr) written_.push_back(before->id);
      }
      return;
    }
    const auto memory = shared_memory(program_, node);
    if (!memory) return;
    if (memory->written) written_.push_back(memory->value);
    for (const ValueId output : node.outputs) base_[output] = {memory->value, memory->same};
  }

  // The tensor that an argument is, under its first name.
  ValueId first_name(const Argument& argument) const {
    const auto* value = argument.as<ValueRef>();
    if (value == nullptr) return none_id;
    ValueId id = value->id;
    for (auto next = base_.find(id); next != base_.end() && next->second.same; next = base_.find(id)) {
      id = next->second.id;
    }
    return id;
  }

  ValueId owner(ValueId id) const {
    for (auto next = base_.find(id); next != base_.end(); next = base_.find(id)) id = next->second.id;
    return id;
  }

  // Values that were made since `made_before` are inside of the branch. A side without the result returned before.
  void keep_results(const Node& branch, std::size_t made_before) {
    const std::unordered_set<ValueId> inside(made_in_order_.begin() + static_cast<std::ptrdiff_t>(made_before),
                                             made_in_order_.end());
    for (std::size_t i = 0; i < branch.outputs.size(); ++i) {
      const Argument &first = branch.blocks[0].outputs[i], &second = branch.blocks[1].outputs[i];
      const ValueId tensor = first_name(first.is_none() ? second : first);
      const bool same = first.is_none() || second.is_none() || tensor == first_name(second);
      if (tensor != none_id && same && inside.count(tensor) == 0) base_[branch.outputs[i]] = {tensor, true};
    }
  }

  void keep_variables(const Node& loop) {
    const Block& body = loop.blocks[0];
    const auto& initial = *loop.find("initial")->as<ArgumentList>();
    for (std::size_t i = 0; i < initial.size(); ++i) {
      const auto* before = initial[i].as<ValueRef>();
      const ValueId variable = body.inputs[i + 1];
      if (before == nullptr || first_name(body.outputs[i + 1]) != variable) continue;
      base_[variable] = base_[loop.outputs[i]] = {before->id, true};
    }
  }

  // Positions of the loop's variables that are written without being kept.
  std::vector<std::size_t> changing_variables(const Node& loop) const {
    const std::vector<ValueId>& inputs = loop.blocks[0].inputs;
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
      const auto writes = [&](ValueId self) { return owner(self) == inputs[i + 1]; };
      if (std::any_of(written_.begin(), written_.end(), writes)) positions.push_back(i);
    }
    return positions;
  }

  const Program& program_;
  std::vector<ValueId> written_;
  std::unordered_map<ValueId, Base> base_;
  std::unordered_set<ValueId> made_;
  std::vector<ValueId> made_in_order_;
};

}  // namespace

OuterWrites outer_writes(const Program& program, const Node& node) { return Collector(program).of(node); }

}  // namespace whence::lower
