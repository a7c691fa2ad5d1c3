// OperatorFacts: what PyTorch's operators do with memory, content and sizes, where their schemas do not say it: one row
// an operator, for the recorder and for the annotator. An operator without a row computes new content, and its schema
// says what it shares or writes.
//
// A fact holds for every overload of a name. What depends on the overload or on arguments as well is decided where the
// fact is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whence {

// The condition under which the result is equal to the first argument.
enum class Identity : std::uint8_t { never, always, not_training, same_dtype, same_shape };

// The memory that the results lie in.
enum class ResultMemory : std::uint8_t {
  declared,    // memory of their own, or as the schema's alias annotations say
  argument,    // the result is the first argument itself: when `identity` holds
  view,        // the first argument's
  by_strides,  // the first argument's or their own, depending on its strides
  elements,    // perhaps those of the elements of the list `tensors`, each result of one
};

// The elements that a view takes of its argument: view_places.cpp has the rule of each form, from which the sizes of
// most results follow too, annotator/lower/views.cpp says how a write to the view becomes a new value of the argument.
enum class ViewForm : std::uint8_t {
  none,  // no rule: what is written to such a view cannot be said of its argument
  select,
  unbind,
  slice,
  narrow,
  part,  // one result of a split or chunk
  part_of_rows,
  part_of_columns,
  part_of_depth,
  transpose,
  transpose_last,
  reverse_axes,
  move_axes,
  permute,
  unsqueeze,
  expand,
  diagonal,
  unfold,
  as_strided,
  reshape,     // the same elements in the same order
  contiguous,  // and none where the argument lies in that order already
  as_real,
  as_complex
};

struct OperatorFacts {
  std::string_view name;  // "aten::reshape"
  Identity identity = Identity::never;
  ResultMemory memory = ResultMemory::declared;
  ViewForm view = ViewForm::none;  // results in the argument's memory, always or by its strides
  bool sizes_of_content = false;   // results have a size that the content of arguments decides: nonzero
  std::int8_t shape_only = -1;     // the argument of which only type and shape matter
  bool parts = false;              // gives a list of parts, as many as fit into an axis
  bool repeats_elements = false;   // several elements of the view may have one place in memory
  bool reads_across = false;       // for one element of the result, reads others of the arguments
  bool keeps_content = false;      // writes to its argument, but not to what the tensor holds
  bool asks_type = false;          // the result follows from a tensor's type alone
  bool asks_strides = false;       // and from its strides
  bool recurrent = false;          // LSTM, GRU, RNN: takes an initial state
};

// Returns the facts on an operator, "aten::reshape"; those of an operator without a row if it has none.
const OperatorFacts& facts_of(std::string_view target);
const std::vector<OperatorFacts>& all_operator_facts();  // by name

// True if an operator's name says that it writes to its first argument: aten::relu_, aten::__iand__; not aten::__and__.
bool is_in_place_name(std::string_view name);

// Returns the view of which `target` is the copying form: aten::permute of aten::permute_copy; empty if it is none.
std::string view_of_copy(std::string_view target);

}  // namespace whence
