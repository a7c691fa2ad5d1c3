// OperatorFacts: effects of PyTorch's operators on memory, content and sizes that their schemas do not state. One row
// for each operator, for the recorder and the annotator. An operator without a row computes new content; its schema
// states which memory it shares or writes.
//
// A fact applies to all overloads of a name. Code that uses a fact also checks the overload and the arguments if
// needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whence {

// The condition for a result equal to the first argument.
enum class Identity : std::uint8_t { never, always, not_training, same_dtype, same_shape };

// The memory of the results.
enum class ResultMemory : std::uint8_t {
  declared,    // new memory, or the memory in the schema's alias annotations
  argument,    // the result is the first argument itself, if `identity` holds
  view,        // the memory of the first argument
  by_strides,  // the memory of the first argument or new memory, depending on the argument's strides
  elements,    // possibly the memory of an element of the list `tensors`, one element for each result
};

// How a view selects elements of its argument. view_places.cpp has a rule for the layout of each form, which also gives
// the sizes of most results. annotator/lower/views.cpp turns writes to a view into a new value of the argument.
enum class ViewForm : std::uint8_t {
  none,  // no rule, so a write to the view cannot be expressed as a new value of the argument
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
  reshape,     // all elements in the same order
  contiguous,  // the argument itself if it is already contiguous, otherwise a copy
  as_real,
  as_complex
};

struct OperatorFacts {
  std::string_view name;  // "aten::reshape"
  Identity identity = Identity::never;
  ResultMemory memory = ResultMemory::declared;
  ViewForm view = ViewForm::none;     // for results in the argument's memory, always or depending on strides
  bool data_dependent_sizes = false;  // result sizes depend on the content of arguments: nonzero
  std::int8_t shape_only = -1;        // index of the argument whose content does not matter, only its type and shape
  bool parts = false;                 // returns a list of parts whose number depends on the length of an axis
  bool repeats_elements = false;      // several elements of the view may share a memory location
  bool reads_across = false;          // an element of the result depends on elements of arguments at other indices
  bool keeps_content = false;         // changes the argument in place, but not its elements
  bool depends_on_type_only = false;  // the result depends only on a tensor's type
  bool depends_on_strides = false;    // the result also depends on the tensor's strides
  bool recurrent = false;             // LSTM, GRU, RNN: takes an initial state
};

// Returns the row of an operator ("aten::reshape"), or default facts if it has no row.
const OperatorFacts& facts_of(std::string_view target);
const std::vector<OperatorFacts>& all_operator_facts();  // sorted by name

// Returns true if the name marks an in-place operator: aten::relu_, aten::__iand__; not aten::__and__.
bool is_in_place_name(std::string_view name);

// Returns the view operator that `target` copies: aten::permute for aten::permute_copy. Empty for other operators.
std::string view_of_copy(std::string_view target);

}  // namespace whence
