// Sizes: the sizes of tensors and the integers of a program as expressions. They are derived from operation to
// operation (schema/shape_functions.h); the runs check them, and decide only where nothing is derived. A size that data
// decide is a symbol of its own, born at one operation.
#pragma once

#include <map>

#include "recorder/script/known_values.h"
#include "schema/shape_functions.h"

namespace whence::recorder::script {

class Sizes {
 public:
  Sizes(Program& program, Values& values, const KnownValues& known, const inputs::ExampleInputs& inputs,
        const Lockstep& runs);

  // Sets the sizes of `results`, those of `recorded`, an operation on `arguments`.
  void follow(const std::vector<Term>& arguments, const Node& recorded, const std::vector<Term>& results);
  // The integers in tensors that share memory with these are not known from here on.
  void forget_numbers(const std::vector<const Term*>& written);

  // Makes sizes that follow from those of axes, 2*batch + 1, symbols of the program, outside of control flow: in a loop
  // they are those of one iteration.
  void name_derived();

  // From here on the value `condition` is this, until leave_side().
  void enter_side(const Term& condition, bool holds);
  void leave_side() { around_.pop_back(); }

  // `result` is `first` where the condition holds, else `second`: `a and b` is b where a holds, else False.
  void note_choice(const Term& result, const Term& condition, const Term& first, const Term& second);

  // The lengths that an axis may have under the conditions around the current node: 0 and 1 for the first axis of
  // x[:1], and for that of x where `if x.size(0) > 1` does not hold.
  SizeRange range_here(ValueId tensor, std::int64_t axis);

  // True if data decide how many results `recorded` has, an operation that cuts a tensor into parts.
  bool decides_length(const Node& recorded);
  // Notes a tensor that is put into a list whose length depends on data; opens the sizes of one that is taken out of
  // one, where those that were put in differ or depend on anything.
  void put_into_list(const std::vector<Dim>& dims);
  void taken_from_list(Type& type) const;
  void put_parts_into_list(const Node& recorded, const Seen& parts);

 private:
  using Numbers = PerRun<std::optional<std::int64_t>>;
  // A symbol that no axis of an input has.
  struct Born {
    bool of_data = true;  // else of sizes, in a way that has no form
    Numbers seen = {};    // by run; none for one that changes in a loop
  };
  // The lengths of a tensor's axes. The type decides where it calls one fixed or named, until it is opened.
  struct Lengths {
    Shape sizes;
    std::vector<bool> of_type;
  };
  // The comparisons of sizes that hold where a condition does not hold, and where it does.
  struct Known {
    std::vector<Comparison> if_false, if_true;
  };
  // An operation's arguments together.
  struct Arguments {
    bool settled = true;  // they follow from sizes and constants
    std::unordered_set<ValueId> settled_values;
    bool dynamic = false;  // some size or integer is no constant
    bool of_data = false;  // and depends on data
  };

  const Shape* shape(ValueId id);
  Size number(ValueId id);
  Size born(bool of_data, const Numbers& seen = {});
  const Born* born_as(SymbolId id) const;  // nullptr for one of the inputs
  bool depends_on_data(const Size& size) const;
  bool of_axes(const Size& size) const;
  std::optional<std::int64_t> in_run(const Size& size, int run) const;
  bool contradicts(const Size& size, const Numbers& seen) const;
  bool contradicted(const Size& size, const Numbers& seen, const Node& node) const;
  Size resolved(const Size& size, const Numbers& seen);
  Size resolved(const SizeAtom& atom, const Numbers& seen);
  static bool is_extreme(const Size& size, SizeAtom::Kind kind, const std::vector<Size>& sizes);
  void assume(const Size& chosen, SizeAtom::Kind kind, const std::vector<Size>& operands);
  ShapeFacts facts();

  Arguments look_at(const std::vector<Term>& arguments);
  bool decided_by_content(const Node& node, const Arguments& arguments) const;
  std::vector<Comparison> known_if(const Term& condition, bool holds) const;
  void note_comparison(const Node& node, const Term& result);
  void set_number(const Node& node, const Term& result, Size derived, bool of_data);
  void set_shape(const Node& node, const Term& result, const Shape* derived, bool of_data);

  Program& program_;
  Values& values_;
  const KnownValues& known_;
  const inputs::ExampleInputs& inputs_;
  const Lockstep& runs_;
  std::vector<Born> born_;
  std::unordered_map<ValueId, Lengths> shapes_;
  std::unordered_map<ValueId, Size> numbers_;
  std::unordered_set<ValueId> from_sizes_;  // the content follows from sizes and constants
  std::unordered_map<const c10::StorageImpl*, std::vector<ValueId>> numbers_in_;
  std::unordered_map<ValueId, Known> conditions_;
  std::vector<std::vector<Comparison>> around_;             // known to hold, by branch around the current node
  std::map<std::size_t, std::vector<bool>> open_in_lists_;  // by rank
};

}  // namespace whence::recorder::script
