// Tensors that share memory, and what each of them holds after the writes so far.
//
// Each tensor that is not a view owns its memory and counts the writes to it; a view knows what it is a view of. A
// write gives the written tensor a new value and, going up, everything it is a view of; other views of the same memory
// are stale from then on and are made anew from their base when they are next read.
//
// The result of a branch or loop may be one of several tensors, and a condition says which: a choice. A write to it
// goes to each of them under its condition, and a write to one of them reaches the choice under it.
//
// A write that cannot be expressed is reported only if it matters, that is, when a stale value is read: models often
// write to the result of a reshape(), of which it is not known whether it copied, and never look at its base again.
// Such a result counts as memory of its own, and a write to either memory makes what the other holds unknown.
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
    std::size_t output = 0;  // which of its results
    std::string argument;    // the one that is viewed
  };
  struct Guard {
    Argument condition;  // a value or a literal
    bool holds = true;   // false: the guard is the opposite of the condition
  };
  struct Alternative {
    Guard guard;  // counts where those before do not hold; the last has none
    ValueId tensor = none_id;
  };
  // The tensor that a name stands for, decided at run time.
  struct Choice {
    std::vector<Alternative> of;
    ValueId own = none_id;  // the alternative that no other name reaches, if there is one
    // The value read last, and the number of writes to each alternative that it includes.
    ValueId value = none_id;
    std::vector<int> writes = {};
  };

 private:
  // Two memories that may be one.
  struct Doubt {
    ValueId result = none_id, argument = none_id;  // a reshape and its base, or two results of a branch or loop
    Failure why;
  };
  // The current name of an original value, and how many writes to its memory that name takes account of.
  struct Version {
    ValueId value = none_id;
    int writes = 0;
  };

 public:
  // Everything that control flow must be able to wind back.
  struct State {
    std::unordered_map<ValueId, View> views;
    std::unordered_map<ValueId, Choice> choices;
    std::unordered_map<ValueId, Version> versions;
    std::unordered_map<ValueId, int> writes;    // by owner of the memory
    std::unordered_map<ValueId, Failure> lost;  // by owner: why its newest value cannot be expressed
    std::vector<Doubt> doubts;
    std::unordered_map<ValueId, Failure> repeating;  // memory in which several elements may be one: expanded axes
    std::unordered_map<ValueId, ValueId> renamed;    // unsqueeze_(x): x means another view from there on
  };
  Memory(Program& program, WriteReports& reports) : program_(program), reports_(reports) {}

  std::vector<Node>* sink = nullptr;  // receives the nodes of the block at hand, and what is made anew
  Origin origin;                      // stamped on nodes that a read or write adds

  const State& state() const { return state_; }
  void wind_back(const State& state) { state_ = state; }

  // ---- blocks
  int depth() const { return depth_; }
  void define(ValueId id) { depth_of_[id] = depth_; }
  bool is_from_before(ValueId id, int depth) const;  // defined in a block that is not deeper
  // Evaluates `inside` one block deeper, with its nodes added to `nodes`.
  void in_block(std::vector<Node>& nodes, const std::function<void()>& inside);
  // Evaluates both sides of a branch, each into its block and from the same state. What either leaves in memory from
  // before becomes a result of the node.
  void fork(Node& branch, const std::function<void(std::size_t side)>& evaluate);
  std::size_t write_count() const { return log_.size(); }
  // Memory that the block at hand or those around it made and that was written after the first `count` writes, in
  // order.
  std::vector<ValueId> written_since(std::size_t count) const;

  // ---- reading: of a name as the program has it, the view or memory that it stands for now
  ValueId renamed(ValueId id) const;
  ValueId owner(ValueId id) const;  // the memory, or the choice, that it is or is a view of
  const View* view(ValueId id) const;
  const Choice* choice(ValueId id) const;
  std::vector<ValueId> memories(ValueId id) const;  // all that it may lie in
  // Other memory that may be the value's, which of its values may be in it, and why that is not known.
  struct Suspect {
    ValueId memory = none_id, through = none_id;
    Failure why;
  };
  std::vector<Suspect> perhaps_the_same(ValueId value) const;
  bool same_place(ValueId one, ValueId other) const;
  bool disjoint(ValueId one, ValueId other) const;  // parts of one tensor that do not meet
  ValueId current(ValueId id);                      // its newest value; views that a write has passed by are made anew
  void resolve(Argument& argument);                 // every value in it becomes the newest
  void resolve_shape(Argument& argument);           // reads shape and dtype alone, which no write changes
  // Its place among the elements of its owner, counted row after row; nullopt if that is not known.
  std::optional<MemoryPlace> layout(ValueId id) const;
  // Its place in memory, by real strides.
  std::optional<MemoryPlace> place(ValueId id) const;
  // Why the newest value of a memory cannot be expressed.
  const Failure* lost(ValueId value) const;
  ValueId newest(ValueId memory) const;  // its content, unless that is lost

  // ---- names and views
  // The results of a node whose arguments are resolved, each a view of its base.
  void add_views(const Node& node, const std::vector<ValueId>& bases, const ViewInfo& view);
  void add_view(ValueId name, View view) { state_.views.insert_or_assign(name, std::move(view)); }
  // From here on the name is one of these; `value`: what it holds now.
  void choose(ValueId name, Choice choice, ValueId value);
  void doubt(ValueId result, ValueId argument, const Failure& why) { state_.doubts.push_back({result, argument, why}); }
  // The memory, which has no name in the program as recorded, lies as `tensor` would if it were no view.
  void lie_as(ValueId memory, ValueId tensor) { lies_as_[memory] = tensor; }
  // From here on `name`, the result of the view `node`, shares the base's memory where `guard` holds.
  void perhaps_view(const Node& node, ValueId base, const std::string& argument, const Guard& guard);
  // Several elements of the memory may be one: what else a write to it changes is unknown.
  bool is_repeating(ValueId memory) const { return state_.repeating.contains(memory); }
  void repeat(ValueId memory, const Failure& why) { state_.repeating.insert_or_assign(memory, why); }
  void alias(ValueId result, ValueId self);              // result, where there is one, is self
  void stand_for(ValueId name, ValueId other);           // from here on the name means the other one
  void rename(ValueId self, ValueId result, Node view);  // both mean this view of what self was

  // ---- writing
  void put(ValueId self, ValueId written);  // gives it, and with it all that it is a view of, another value
  void now_holds(ValueId memory, ValueId value);
  void begin(ValueId memory, ValueId value);     // new memory, which holds the value
  void lose(ValueId value, const Failure& why);  // and what shares its memory
  void recover(ValueId memory) { state_.lost.erase(memory); }
  ValueId fresh_like(ValueId like);
  ValueId fresh(const std::string& name, Type type);
  // Returns `guard` ? `first` : `second`, by a node if it takes one.
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
  ValueId made_anew(ValueId id);
  ValueId chosen(ValueId id);
  ValueId chosen_from(ValueId id, const Choice& choice, const std::vector<bool>& stale, std::size_t first);
  bool put_chosen(ValueId id, ValueId written);
  void put_from(const Choice& choice, std::size_t first, ValueId written);
  std::optional<ValueId> written_base(const View& view, ValueId value);
  bool repeats_elements(ValueId id) const;
  std::optional<MemoryPlace> place_of_chosen(ValueId id, const Choice& choice) const;
  std::vector<ValueId> untouched_by(ValueId written) const;
  void keep(const std::vector<ValueId>& untouched);
  Node branch_on(const Guard& guard) const;

  Program& program_;
  WriteReports& reports_;
  State state_;
  std::vector<ValueId> log_;  // the memory of each write so far
  std::unordered_map<ValueId, ValueId> lies_as_;
  std::unordered_set<ValueId> unplaced_;       // perhaps views: as their base lies, or in rows
  std::unordered_map<ValueId, int> depth_of_;  // the depth of values defined in nested blocks
  int depth_ = 0;
};

}  // namespace whence::lower
