// Tensors that share memory, and what each of them holds after the writes so far.
//
// Each tensor that is not a view owns its memory and counts the writes to it; a view knows what it is a view of. A
// write gives the written tensor a new value and, going up, everything it is a view of; other views of the same memory
// are stale from then on and are made anew from their base when they are next read.
//
// A write that cannot be expressed is reported only if it matters, that is, when a stale value is read: models often
// write to the result of a reshape(), of which it is not known whether it copied, and never look at its base again.
// Such a result counts as memory of its own, and a write to either memory makes what the other holds unknown.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "annotator/lower/memory_layout.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/views.h"
#include "annotator/lower/write_reports.h"

namespace whence::lower {

class Memory {
  struct View {
    ValueId base = none_id;
    ViewKind kind = ViewKind::same;
    Node node;               // the view operation, its arguments resolved; unused for ViewKind::same
    std::size_t output = 0;  // which of its results
    std::string argument;    // the one that is viewed
  };
  // Two memories that may be one.
  struct Doubt {
    ValueId result = none_id, argument = none_id;  // a reshape and its base, or a loop's variable and another value
    Diagnostic why;
    ValueId loop = none_id;  // in some iterations of this one alone
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
    std::unordered_map<ValueId, Version> versions;
    std::unordered_map<ValueId, int> writes;       // by owner of the memory
    std::unordered_map<ValueId, Diagnostic> lost;  // by owner: why its newest value cannot be expressed
    std::vector<Doubt> doubts;
    std::unordered_map<ValueId, ValueId> renamed;  // unsqueeze_(x): x means another view from there on
  };

  Memory(Program& program, WriteReports& reports) : program_(program), reports_(reports) {}

  std::vector<Node>* sink = nullptr;  // receives the nodes of the block at hand, and what is made anew

  const State& state() const { return state_; }
  void wind_back(const State& state) { state_ = state; }

  // ---- reading: of a name as the program has it, the view or memory that it stands for now
  ValueId renamed(ValueId id) const;
  ValueId owner(ValueId id) const;
  std::vector<ValueId> owners(const std::vector<ValueId>& values) const;  // each once
  // Other memory that may be the value's, which of its values may be in it, and why that is not known.
  struct Suspect {
    ValueId memory = none_id, through = none_id;
    Diagnostic why;
    std::vector<ValueId> loops;  // in some iterations of these alone
  };
  std::vector<Suspect> perhaps_the_same(ValueId value) const;
  bool same_place(ValueId one, ValueId other) const;
  bool may_meet(ValueId one, ValueId other) const;  // true if a write to one may change the other
  ValueId current(ValueId id);                      // its newest value; views that a write has passed by are made anew
  void resolve(Argument& argument);                 // every value in it becomes the newest
  void resolve_shape(Argument& argument);           // reads shape and dtype alone, which no write changes
  // The places of a value's elements in the memory of its owner; nullopt if they are not known.
  std::optional<MemoryLayout> layout(ValueId id) const;
  // The newest value of each, and why some cannot be expressed.
  std::vector<ValueId> newest(const std::vector<ValueId>& memory, std::unordered_map<ValueId, Diagnostic>& lost) const;

  // ---- names and views
  // The results of a node whose arguments are resolved, each a view of its base.
  void add_views(const Node& node, const std::vector<ValueId>& bases, const ViewInfo& view);
  // `loop`: its number of the iteration, where they are one in some of its iterations alone.
  void doubt(ValueId result, ValueId argument, const Diagnostic& why, ValueId loop = none_id) {
    state_.doubts.push_back({result, argument, why, loop});
  }
  void alias(ValueId result, ValueId self);              // result, where there is one, is self
  void stand_for(ValueId name, ValueId other);           // from here on the name means the other one
  void rename(ValueId self, ValueId result, Node view);  // both mean this view of what self was

  // ---- writing
  void put(ValueId self, ValueId written);  // gives it, and with it all that it is a view of, another value
  void now_holds(ValueId memory, ValueId value);
  void lose(ValueId value, const Diagnostic& why);  // and what shares its memory
  void recover(ValueId memory) { state_.lost.erase(memory); }
  ValueId fresh_like(ValueId like);

 private:
  int writes_to(ValueId memory) const;
  int count_write(ValueId written);
  void forget_suspects(ValueId written);
  bool holds_all_writes(ValueId id) const;
  void keep_other_parts(ValueId value);
  void forget(ValueId value);
  bool disjoint(ValueId one, ValueId other) const;
  ValueId made_anew(ValueId id, int writes);
  std::optional<ValueId> written_base(const View& view, ValueId value);
  bool repeats_elements(ValueId id) const;

  Program& program_;
  WriteReports& reports_;
  State state_;
};

}  // namespace whence::lower
