// Tracks which tensors share memory, and the content of each after the writes so far.
//
// Each tensor that is not a view owns its memory and counts the writes to it; a view has a base. A write gives a new
// value to the written tensor and, from base to base, to everything that it is a view of. Other views of the same
// memory become stale and are recomputed from their base when they are next read.
//
// The result of a branch or loop may be one of several tensors, selected by a condition: a choice. A write to the
// choice updates each of these tensors under its condition, and a write to one of them updates the choice under that
// condition.
//
// A write that cannot be expressed is reported only if a stale value is read later. Models often write to the result of
// a reshape(), which may or may not be a copy, and never read its base again. Such a result counts as memory of its
// own, and a write to either memory makes the content of the other unknown.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "annotator/lower/pass.h"
#include "annotator/lower/views.h"
#include "annotator/lower/write_reports.h"
#include "schema/place.h"

namespace whence::lower {

class Memory {
 public:
  struct View {
    ValueId base = none_id;
    ViewKind kind = ViewKind::same;
    Node node;               // the view operation, its arguments resolved; unused for ViewKind::same
    std::size_t output = 0;  // number of the result
    std::string argument;    // name of the viewed argument
  };
  struct Guard {
    Argument condition;  // a value or a literal
    bool holds = true;   // false: the guard is the negated condition
  };
  struct Alternative {
    Guard guard;  // applies if no earlier guard holds; the last one has no guard
    ValueId tensor = none_id;
  };
  // The tensor that a name denotes, selected at run time.
  struct Choice {
    std::vector<Alternative> of;
    ValueId own = none_id;  // the alternative that no other name reaches, if there is one
    // The last value read, and the number of writes to each alternative that it includes.
    ValueId value = none_id;
    std::vector<int> writes = {};
  };

 private:
  // Two memories that may be the same.
  struct Doubt {
    ValueId result = none_id, argument = none_id;  // a reshape and its base, or two results of a branch or loop
    Failure why;
  };
  // The current value of a name, and the number of writes to its memory that this value includes.
  struct Version {
    ValueId value = none_id;
    int writes = 0;
  };

 public:
  // Everything that control flow must be able to restore.
  struct State {
    std::unordered_map<ValueId, View> views;
    std::unordered_map<ValueId, Choice> choices;
    std::unordered_map<ValueId, Version> versions;
    std::unordered_map<ValueId, int> writes;    // indexed by owner of the memory
    std::unordered_map<ValueId, Failure> lost;  // indexed by owner: why its newest value cannot be expressed
    std::vector<Doubt> doubts;
    std::unordered_map<ValueId, Failure> repeating;  // memory in which elements may overlap: expanded axes
    std::unordered_map<ValueId, ValueId> renamed;    // unsqueeze_(x): x denotes another view from there on
  };
  Memory(Program& program, WriteReports& reports) : program_(program), reports_(reports) {}

  std::vector<Node>* sink = nullptr;  // receives the nodes of the current block and recomputed values
  Origin origin;                      // origin of nodes that a read or write adds

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

  // ---- blocks
  int depth() const { return depth_; }
  void define(ValueId id) { depth_of_[id] = depth_; }
  bool is_defined_outside(ValueId id, int depth) const;  // defined in a block at most this deep
  // Evaluates `inside` one block deeper, with its nodes added to `nodes`.
  void in_block(std::vector<Node>& nodes, const std::function<void()>& inside);
  // Evaluates both sides of a branch, each into its block and from the same state. The content of memory that either
  // side writes to, if it was allocated before the branch, becomes a result of the node.
  void fork(Node& branch, const std::function<void(std::size_t side)>& evaluate);
  std::size_t write_count() const { return log_.size(); }
  // Returns the memory of this block and of enclosing blocks that was written after the first `count` writes, in order.
  std::vector<ValueId> written_since(std::size_t count) const;

  // ---- reading; renamed() maps a name of the program to the view or memory that it denotes now
  ValueId renamed(ValueId id) const;
  ValueId owner(ValueId id) const;  // the memory or choice itself, or the one it is a view of
  const View* view(ValueId id) const;
  const Choice* choice(ValueId id) const;
  std::vector<ValueId> memories(ValueId id) const;  // all memory that it may be in
  // Another memory that may be that of a value, the value through which they may be the same, and why that is unknown.
  struct Suspect {
    ValueId memory = none_id, through = none_id;
    Failure why;
  };
  std::vector<Suspect> possible_aliases(ValueId value) const;
  bool same_place(ValueId one, ValueId other) const;
  bool disjoint(ValueId one, ValueId other) const;  // parts of one tensor without common elements
  ValueId current(ValueId id);                      // its newest value; recomputes stale views
  void resolve(Argument& argument);                 // replaces every value with its newest one
  void resolve_shape(Argument& argument);           // for readers of shape and dtype only, which no write changes
  // Returns its offset, sizes and strides among the elements of its owner in row-major order; nullopt if unknown.
  std::optional<MemoryPlace> layout(ValueId id) const;
  // Returns its offset, sizes and strides in actual memory.
  std::optional<MemoryPlace> place(ValueId id) const;
  // Returns why the newest value of a memory cannot be expressed; nullptr if it can.
  const Failure* lost(ValueId value) const;
  ValueId newest(ValueId memory) const;  // its content, unless lost

  // ---- names and views
  // Adds the results of a node with resolved arguments, each a view of its base.
  void add_views(const Node& node, const std::vector<ValueId>& bases, const ViewInfo& view);
  void add_view(ValueId name, View view) { state_.views.insert_or_assign(name, std::move(view)); }
  // From here on `name` is one of these tensors; `value` is its current content.
  void choose(ValueId name, Choice choice, ValueId value);
  void doubt(ValueId result, ValueId argument, const Failure& why) { state_.doubts.push_back({result, argument, why}); }
  // `memory`, which has no name in the recorded program, is laid out as `tensor` would be if it were not a view.
  void place_like(ValueId memory, ValueId tensor) { placed_like_[memory] = tensor; }
  // From here on the result of the view `node` shares the memory of `base` if `guard` holds.
  void add_possible_view(const Node& node, ValueId base, const std::string& argument, const Guard& guard);
  // Elements of the memory may overlap: it is unknown what else a write to it changes.
  bool is_repeating(ValueId memory) const { return state_.repeating.contains(memory); }
  void repeat(ValueId memory, const Failure& why) { state_.repeating.insert_or_assign(memory, why); }
  void alias(ValueId result, ValueId self);    // makes `result` another name for `self`; no effect for none_id
  void redirect(ValueId name, ValueId other);  // from here on `name` denotes `other`
  void rename(ValueId self, ValueId result, Node view);  // both names denote this view of the former `self`

  // ---- writing
  void put(ValueId self, ValueId written);  // sets a new value for `self` and for everything that it is a view of
  void set_content(ValueId memory, ValueId value);
  void allocate(ValueId memory, ValueId value);  // new memory with this content
  void lose(ValueId value, const Failure& why);  // also loses everything that shares its memory
  void recover(ValueId memory) { state_.lost.erase(memory); }
  ValueId fresh_like(ValueId like);
  ValueId fresh(const std::string& name, Type type);
  // Returns `guard` ? `first` : `second`, and adds a node if necessary.
  Argument select(const Guard& guard, const Argument& first, const Argument& second);

 private:
  int writes_to(ValueId id) const;
  void count_write(ValueId written);
  void forget_suspects(ValueId written);
  bool holds_all_writes(ValueId id) const;
  void keep_other_parts(ValueId value);
  void forget(ValueId value);
  bool meets(ValueId value, const Suspect& other) const;
  ValueId last_value(ValueId id) const;
  ValueId recompute_view(ValueId id);
  ValueId current_choice(ValueId id);
  ValueId select_from(ValueId id, const Choice& choice, const std::vector<bool>& stale, std::size_t first);
  bool put_choice(ValueId id, ValueId written);
  void put_from(const Choice& choice, std::size_t first, ValueId written);
  std::optional<ValueId> written_base(const View& view, ValueId value);
  bool repeats_elements(ValueId id) const;
  std::optional<MemoryPlace> place_of_choice(ValueId id, const Choice& choice) const;
  std::vector<ValueId> untouched_by(ValueId written) const;
  void keep(const std::vector<ValueId>& untouched);
  Node branch_on(const Guard& guard) const;

  Program& program_;
  WriteReports& reports_;
  State state_;
  std::vector<ValueId> log_;  // the written memory, in order of the writes
  std::unordered_map<ValueId, ValueId> placed_like_;
  std::unordered_set<ValueId> unplaced_;  // possible views: either in the layout of their base or in row-major order
  std::unordered_map<ValueId, int> depth_of_;  // block depth of values defined in nested blocks
  int depth_ = 0;
};

}  // namespace whence::lower
