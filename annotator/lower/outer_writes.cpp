#include "annotator/lower/outer_writes.h"

#include <algorithm>
#include <set>

#include "annotator/lower/in_place.h"
#include "annotator/lower/views.h"
#include "schema/operator_facts.h"

namespace whence::lower {
namespace {

// True for transpose_ and its like: which part of the tensor a view takes is not the same before it and after it.
bool gives_other_shape(const Program& program, const Node& node) {
  if (!is_in_place(node) || node.outputs.empty()) return false;
  Node view = node;
  view.target.pop_back();
  return view_info(program, view).kind == ViewKind::view;
}

class Collector {
 public:
  Collector(const Program& program, const MayMeet& may_meet) : program_(program), may_meet_(may_meet) {}

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
    if (node.target == "prim::Loop") note_variables(node, found);
    return found;
  }

 private:
  struct Base {
    ValueId id = none_id;
    bool same = false;           // the tensor itself, not a part of it
    const Node* made = nullptr;  // by which view
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
      OuterWrites inner;
      note_variables(node, inner, made_before);
      written_.insert(written_.end(), inner.changing.begin(), inner.changing.end());
      return join_variables(node);
    }
    const auto memory = shared_memory(program_, node);
    if (!memory) return;
    if (memory->written) written_.push_back(memory->values.front());
    // Results for elements of a list may be views of one tensor, and are no parts of it.
    const Node* made = facts_of(node.target).memory == ResultMemory::elements ? nullptr : &node;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      base_[node.outputs[i]] = {memory->values[i], memory->same, made};
    }
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
      if (tensor != none_id && same && inside.count(tensor) == 0) {
        base_[branch.outputs[i]] = {tensor, true};
      } else {
        join(branch.outputs[i], {&first, &second});
      }
    }
  }

  void join(ValueId result, const std::vector<const Argument*>& of) {
    for (const Argument* each : of) {
      if (const auto* value = each->as<ValueRef>()) joined_[result].push_back(value->id);
    }
  }

  // Notes for a loop that is part of another body what its variables and results may be.
  void join_variables(const Node& loop) {
    const Block& body = loop.blocks[0];
    const auto& initial = *loop.find("initial")->as<ArgumentList>();
    for (std::size_t i = 0; i < initial.size(); ++i) {
      for (const ValueId value : {body.inputs[i + 1], loop.outputs[i]}) {
        if (base_.count(value) == 0) join(value, {&initial[i], &body.outputs[i + 1]});
      }
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

  // The memory that a value may lie in, of `inside` values too.
  std::vector<Root> roots(ValueId of) const {
    std::vector<Root> found, open{{of}};
    std::set<std::pair<ValueId, ValueId>> seen;
    while (!open.empty()) {
      Root at = open.back();
      open.pop_back();
      if (!seen.emplace(at.memory, at.part).second) continue;
      const auto base = base_.find(at.memory);
      const auto joined = joined_.find(at.memory);
      if (base != base_.end()) {
        const Base& step = base->second;
        if (!step.same) at = {at.memory, at.memory, step.made};
        if (step.same && step.made != nullptr && gives_other_shape(program_, *step.made)) at.made = nullptr;
        open.push_back({base->second.id, at.part, at.made});
      } else if (joined != joined_.end()) {
        for (const ValueId value : joined->second) open.push_back({value, at.part, at.made});
      } else {
        found.push_back(at);
      }
    }
    return found;
  }

  // Adds what the variables are that are not one tensor all along, and what those that are written change outside.
  void note_variables(const Node& loop, OuterWrites& writes, std::size_t made_before = 0) {
    const Block& body = loop.blocks[0];
    const auto& initial = *loop.find("initial")->as<ArgumentList>();
    std::vector<PassedOn> variables(loop.outputs.size());
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const ValueId variable = body.inputs[i + 1];
      variables[i].variable = variable;
      if (base_.count(variable) != 0 || program_.values[variable].type.kind != ValueKind::tensor) continue;
      if (const auto* start = initial[i].as<ValueRef>()) variables[i].starts = roots(start->id);
      if (const auto* left = body.outputs[i + 1].as<ValueRef>()) variables[i].left = roots(left->id);
    }
    const std::unordered_set<ValueId> inside(made_in_order_.begin() + static_cast<std::ptrdiff_t>(made_before),
                                             made_in_order_.end());
    const LoopPassages passages = loop_passages(program_, variables, inside, may_meet_);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const ValueId variable = variables[i].variable;
      for (const ValueId value : passages.outside[i]) writes.sometimes.push_back({variable, value});
      const auto writes_it = [&](ValueId self) { return owner(self) == variable; };
      if (std::ranges::none_of(written_, writes_it)) continue;
      writes.changing.insert(writes.changing.end(), passages.outside[i].begin(), passages.outside[i].end());
    }
    for (const auto& [one, other] : passages.shared) {
      writes.sometimes.push_back({body.inputs[one + 1], body.inputs[other + 1]});
    }
  }

  const Program& program_;
  const MayMeet& may_meet_;
  std::vector<ValueId> written_;
  std::unordered_map<ValueId, Base> base_;
  std::unordered_map<ValueId, std::vector<ValueId>> joined_;  // results of branches and loops that are one of these
  std::unordered_set<ValueId> made_;
  std::vector<ValueId> made_in_order_;
};

}  // namespace

OuterWrites outer_writes(const Program& program, const Node& node, const MayMeet& may_meet) {
  return Collector(program, may_meet).of(node);
}

}  // namespace whence::lower
