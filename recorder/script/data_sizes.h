// DataSizes: which sizes depend on the contents of an input. Runs on inputs with similar contents may not show them, so
// they are followed from operation to operation.
#pragma once

#include <functional>
#include <set>

#include "recorder/script/known_values.h"

namespace whence::recorder::script {

// True for a size that is neither fixed nor named.
inline bool depends_on_data(const Dim& dim) { return dim.dynamic && dim.symbol == none_id; }

// For each tensor of an operation's results, which of its sizes change with those of its arguments that depend on data.
using ChangedSizes = std::vector<std::vector<bool>>;
using SizeProbe = std::function<std::optional<ChangedSizes>()>;

class DataSizes {
 public:
  DataSizes(Values& values, const KnownValues& known) : values_(values), known_(known) {}

  // Marks the sizes of the results of `recorded`, an operation on `arguments`. `probe` finds out which change; where it
  // cannot, a size is taken for fixed that an argument has for certain or that the call holds.
  void follow(const std::vector<Term>& arguments, const Node& recorded, const SizeProbe& probe);
  // Notes that the value's sizes without a name depend on data, and so do equal sizes of values computed from it.
  void mark(ValueId id);
  // The same for an element of a list whose length depends on data: its sizes may be those of other elements.
  void mark_element(ValueId id);
  // Notes the sizes of the parts, where data decides how many there are.
  void note_parts(const Node& recorded, const Seen& parts);
  // True if data decides how many results `recorded` has, an operation that cuts a tensor into parts.
  bool decides_length(const Node& recorded) const;
  // Notes a size that depends on data because data decides which of several values has it.
  void note(std::int64_t size) { sizes_.insert(size); }

 private:
  struct Facts {
    bool from_sizes = false;   // computed from sizes and constants alone
    bool data_shaped = false;  // some size depends on the contents of an input
  };
  // Facts about an operation's arguments from which facts about its result follow.
  struct Arguments {
    std::vector<const Term*> values;
    bool settled = true;       // all of them follow from sizes and constants
    bool data_shaped = false;  // one of them has a size that depends on data
    bool data_number = false;  // one of them is a number that depends on data
  };
  bool sizes_decide(const Node& recorded) const;
  Arguments look_at(const std::vector<Term>& arguments);
  std::optional<std::int64_t> axis_of_mask(const Node& node) const;
  const std::vector<Dim>* sizes_of_first(const Node& recorded) const;
  const std::vector<Dim>* cut_sizes(const Node& recorded) const;
  std::set<std::int64_t> fixed_sizes(const std::vector<const Term*>& values, const Node& recorded) const;

  Values& values_;
  const KnownValues& known_;
  std::unordered_map<ValueId, Facts> facts_;
  std::set<std::int64_t> sizes_;  // the sizes that depend on data, as numbers
};

}  // namespace whence::recorder::script
