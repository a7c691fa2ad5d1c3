// Sizes: the sizes of tensors and the integers of a program as expressions. They are derived from operation to
// operation (schema/shape_functions.h); the runs check them, and determine them only if no rule does. A data-dependent
// size is a separate symbol, introduced at one operation.
#pragma once

#include <map>

#include "recorder/script/known_values.h"
#include "schema/shape_functions.h"

namespace whence::recorder::script {

class Sizes {
 public:
  Sizes(Program& program, Values& values, const KnownValues& known, const inputs::ExampleInputs& inputs,
        const Lockstep& runs);

  // Derives the sizes of `results`, which the operation `recorded` computes from `arguments`.
  void derive(const std::vector<Term>& arguments, const Node& recorded, const std::vector<Term>& results);
  // Forgets the integers in tensors that share memory with `written`.
  void forget_numbers(const std::vector<const Term*>& written);

  // Makes symbols of the program for sizes derived from those of axes, such as 2*batch + 1. Skips control flow: in a
  // loop a size may belong to one iteration.
  void name_derived();

  // Until leave_side(), the value of `condition` is `holds`.
  void enter_side(const Term& condition, bool holds);
  void leave_side() { side_conditions_.pop_back(); }

  // Notes that `result` is `first` if the condition is true, else `second`: `a and b` is b if a is true, else False.
  void note_choice(const Term& result, const Term& condition, const Term& first, const Term& second);

  // Returns the lengths that an axis may have under the conditions around the current node: 0 and 1 for the first axis
  // of x[:1], and for that of x if `x.size(0) > 1` is false.
  SizeRange range_here(ValueId tensor, std::int64_t axis);

  // Returns true if `recorded` cuts a tensor into parts whose number is not fixed.
  bool has_dynamic_part_count(const Node& recorded);
  // Note the sizes of tensors that are put into lists of data-dependent length, and make the sizes of an element
  // dynamic if they are not fixed and equal for all elements.
  void note_list_element(const std::vector<Dim>& dims);
  void open_element_sizes(Type& type) const;
  void note_list_parts(const Node& recorded, const RunValues& parts);

 private:
  using Numbers = PerRun<std::optional<std::int64_t>>;
  // A symbol that is not an axis of an input.
  struct LocalSymbol {
    bool of_data = true;  // false: depends only on sizes, but has no expression
    Numbers seen = {};    // by run; empty for a symbol that changes in a loop
  };
  // The lengths of a tensor's axes. A fixed or named length in the type takes precedence until it becomes dynamic.
  struct Lengths {
    Shape sizes;
    std::vector<bool> of_type;
  };
  // The comparisons of sizes that are true if a condition is false, and if it is true.
  struct Implications {
    std::vector<Comparison> if_false, if_true;
  };
  // A summary of an operation's arguments.
  struct Arguments {
    bool settled = true;  // all depend only on sizes and constants
    std::unordered_set<ValueId> settled_values;
    bool dynamic = false;  // some size or integer is not constant
    bool of_data = false;  // and depends on data
  };

  const Shape* shape(ValueId id);
  Size number(ValueId id);
  Size new_symbol(bool of_data, const Numbers& seen = {});
  const LocalSymbol* local_symbol(SymbolId id) const;  // null for a symbol of the inputs
  bool depends_on_data(const Size& size) const;
  bool depends_on_axes_only(const Size& size) const;
  std::optional<std::int64_t> value_in_run(const Size& size, int run) const;
  bool differs_in_a_run(const Size& size, const Numbers& seen) const;
  bool is_contradicted(const Size& size, const Numbers& seen, const Node& node) const;
  Size resolve(const Size& size, const Numbers& seen);
  Size resolve(const SizeAtom& atom, const Numbers& seen);
  static bool is_extreme(const Size& size, SizeAtom::Kind kind, const std::vector<Size>& sizes);
  void assume(const Size& chosen, SizeAtom::Kind kind, const std::vector<Size>& operands);
  ShapeFacts facts();

  Arguments summarize(const std::vector<Term>& arguments);
  bool content_decides_size(const Node& node, const Arguments& arguments) const;
  std::vector<Comparison> comparisons_if(const Term& condition, bool holds) const;
  void note_comparison(const Node& node, const Term& result);
  void set_number(const Node& node, const Term& result, Size derived, bool of_data);
  void set_shape(const Node& node, const Term& result, const Shape* derived, bool of_data);

  Program& program_;
  Values& values_;
  const KnownValues& known_;
  const inputs::ExampleInputs& inputs_;
  const Lockstep& runs_;
  std::vector<LocalSymbol> local_symbols_;
  std::unordered_map<ValueId, Lengths> shapes_;
  std::unordered_map<ValueId, Size> numbers_;
  std::unordered_set<ValueId> from_sizes_;  // their contents depend only on sizes and constants
  std::unordered_map<const c10::StorageImpl*, std::vector<ValueId>> numbers_in_;
  std::unordered_map<ValueId, Implications> conditions_;
  std::vector<std::vector<Comparison>> side_conditions_;    // true comparisons, by branch around the current node
  std::map<std::size_t, std::vector<bool>> open_in_lists_;  // by rank
};

}  // namespace whence::recorder::script
