#include "recorder/script/sequences.h"

#include <algorithm>
#include <limits>

#include "recorder/base/torch_error.h"
#include "recorder/script/sequence_loop.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

using List = c10::impl::GenericList;

// Returns the position of element `index`, which may be negative, in a list of `size` elements; empty when out of
// range.
std::optional<std::size_t> place_in(std::int64_t index, std::size_t size) {
  if (index < 0) index += static_cast<std::int64_t>(size);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<std::size_t>(index);
}

// Refuses an element of another dtype: an ONNX sequence has one dtype.
void check_dtypes(DType held, DType added) {
  if (held == DType::undefined || added == DType::undefined || held == added) return;
  refuse("a list whose length depends on data holds elements of " + std::string(name_of(held)) + " and of " +
             std::string(name_of(added)),
         "convert them to one dtype before they are put into the list");
}

// Keeps the sizes that all elements of all runs have in common. In a loop it keeps none: later iterations may add
// elements of other sizes.
void keep_common_sizes(Type& type, const RunValues& lists, bool in_loop) {
  if (!type.dims) return;
  for (const auto& seen : lists) {
    if (!seen) continue;
    for (const c10::IValue& element : seen->toListRef()) {
      if (!element.isTensor()) return;
      const auto sizes = element.toTensor().sizes();
      if (sizes.size() != type.dims->size()) return type.dims.reset();
      for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
        Dim& dim = (*type.dims)[axis];
        if (in_loop || (!dim.dynamic && sizes[axis] != dim.size)) dim = {dim.size, true, none_id};
      }
    }
  }
}

ValueId new_sequence(Recording& recording, const RunValues& seen, DType dtype) {
  const DType held = program::element_dtype(seen);
  return recording.values.add("list", ValueSource::node,
                              {ValueKind::sequence, held == DType::undefined ? dtype : held, std::nullopt});
}

// Returns the element as an argument of the operation that puts it into a sequence of `dtype`.
Argument element_argument(Recording& recording, const Term& element, DType dtype) {
  if (!element.is_value() && !element.is_settled_number()) {
    refuse("a list whose length depends on data holds something other than tensors and numbers",
           "keep a separate list for each part of an element");
  }
  check_dtypes(dtype, recording.values.dtype(element));
  if (element.is_value()) {
    if (const auto& dims = recording.values.type(element.id).dims) recording.sizes.note_list_element(*dims);
  }
  return program::argument(element, nullptr);
}

}  // namespace

DType element_dtype_of(const Recording& recording, const Term& list) {
  return list.items && !list.items->empty() ? recording.values.dtype(list.items->back()) : DType::undefined;
}

Term sequence_of(Recording& recording, const Term& list, const c10::TypePtr& type, DType dtype, std::vector<Node>& sink,
                 const Origin& origin) {
  if (list.is_sequence()) return list.items->front();
  Node node;
  node.target = "prim::ListConstruct";
  node.origin = origin;
  ArgumentList elements;
  DType held = DType::undefined;
  for (const Term& item : *list.items) {
    elements.push_back(element_argument(recording, item, held));
    const DType added = recording.values.dtype(item);
    if (added != DType::undefined) held = added;
  }
  node.arguments.push_back({"elements", {std::move(elements)}});
  const Lockstep& runs = recording.runs;
  RunValues seen = runs.each([&](int run) { return runs.takes_part(run) ? host(list, type, run) : std::nullopt; });
  const ValueId id = new_sequence(recording, seen, dtype);
  Term made = Term::of_value(id, std::move(seen));
  made.sequence = true;
  node.outputs.push_back(id);
  sink.push_back(std::move(node));
  return made;
}

namespace {

// The methods of Python's lists, for a list whose elements exist only in the Program.
class SequenceMethod {
 public:
  SequenceMethod(Recording& recording, const Step& step, const Term& list)
      : recording_(recording), step_(step), list_(list) {}

  // Carries out the node if it is a method of the list. Returns false if it is an operator that takes the list.
  bool carry_out();
  void unpack();

 private:
  using Apply = std::function<bool(List&, int run)>;  // changes the list of one run; false: not possible

  const Term& in(std::size_t i) const { return step_.in(i); }
  Term& all() const { return list_.items->front(); }
  DType dtype() const { return recording_.values.type(all().id).dtype; }
  bool runs(int run) const { return recording_.runs.takes_part(run) && all().seen[run]; }

  void out_of_range(int run, const std::string& why) const;
  Node operation(const std::string& target) const;
  Argument element(const Term& term) const { return element_argument(recording_, term, dtype()); }
  void change(const std::string& target, std::vector<NamedArgument> arguments, const Apply& apply);
  void append(const Term& term);
  void insert();
  void replace();
  void erase(const Term& index);
  void read(const Term& index, const jit::Value& output);
  void length();
  void pop();
  void extend();
  void join(const Term& start, const Term& other, bool in_front);
  void reverse();
  void slice();
  void copy() { list_ = Term::container(Term::Kind::list, *list_.items, recording_.runs.depth); }

  // The output that carry_out() sets: none (there is none, or the method sets it), the list, or a copy of the list,
  // which the method changes.
  enum class Yields : std::uint8_t { nothing, list, copy };
  struct Row {
    void (*carry_out)(SequenceMethod&);
    Yields yields;
  };
  static const std::unordered_map<std::string, Row>& rows();

  Recording& recording_;
  const Step& step_;
  Term list_;
};

// Returns the methods by the operator's name.
const std::unordered_map<std::string, SequenceMethod::Row>& SequenceMethod::rows() {
  using Method = SequenceMethod;
  static const std::unordered_map<std::string, Row> table = {
      {"len", {[](Method& m) { m.length(); }, Yields::nothing}},
      {"__getitem__", {[](Method& m) { m.read(Term(m.in(1)), *m.step_.node.output()); }, Yields::nothing}},
      {"insert", {[](Method& m) { m.insert(); }, Yields::nothing}},
      {"Delete", {[](Method& m) { m.erase(m.in(1)); }, Yields::nothing}},
      {"pop", {[](Method& m) { m.pop(); }, Yields::nothing}},
      {"append", {[](Method& m) { m.append(m.in(1)); }, Yields::list}},
      {"_set_item", {[](Method& m) { m.replace(); }, Yields::list}},
      {"clear", {[](Method& m) { m.list_.items->clear(); }, Yields::list}},
      {"reverse", {[](Method& m) { m.reverse(); }, Yields::list}},
      {"extend", {[](Method& m) { m.extend(); }, Yields::list}},
      {"add_", {[](Method& m) { m.extend(); }, Yields::list}},
      {"add", {[](Method& m) { m.extend(); }, Yields::copy}},
      {"list", {[](Method&) {}, Yields::copy}},
      {"copy", {[](Method&) {}, Yields::copy}},
      {"slice", {[](Method& m) { m.slice(); }, Yields::copy}},
  };
  return table;
}

bool SequenceMethod::carry_out() {
  const std::string name = step_.name();
  const bool changes = program::changes_first_argument(step_.node);
  if (changes) recording_.note_change(list_, step_);
  const auto row = rows().find(name);
  if (row == rows().end()) {
    const bool yields_list =
        !step_.node.outputs().empty() && step_.node.output()->type()->kind() == c10::TypeKind::ListType;
    if (!changes && !yields_list) return false;
    refuse("'" + name + "' is not supported on a list whose length depends on data",
           "make it one tensor first, with torch.stack or torch.cat");
  }
  if (row->second.yields == Yields::copy) copy();
  row->second.carry_out(*this);
  if (row->second.yields != Yields::nothing) step_.set_output(list_);
  return true;
}

void SequenceMethod::unpack() {
  for (std::size_t i = 0; i < step_.node.outputs().size(); ++i) {
    read(Term::literal(static_cast<std::int64_t>(i)), *step_.node.outputs()[i]);
  }
}

// Refuses an index that is out of range, unless only a check run has it: that run is dropped, as in any other
// operation.
void SequenceMethod::out_of_range(int run, const std::string& why) const {
  if (recording_.runs.off_path[run]) return;
  if (run <= 1) refuse(why, "check the model's inputs");
  recording_.runs.alive[run] = false;
}

Node SequenceMethod::operation(const std::string& target) const {
  Node recorded;
  recorded.target = target;
  recorded.overload = "t";
  recorded.arguments.push_back({"self", program::argument(list_, nullptr)});
  recorded.origin = recording_.writer.origin_of(step_);
  return recorded;
}

void SequenceMethod::change(const std::string& target, std::vector<NamedArgument> arguments, const Apply& apply) {
  Node node = operation(target);
  std::ranges::move(arguments, std::back_inserter(node.arguments));
  RunValues seen = recording_.runs.each([&](int run) -> std::optional<c10::IValue> {
    if (!runs(run)) return std::nullopt;
    List elements = all().seen[run]->toList().copy();
    if (apply(elements, run)) return c10::IValue(std::move(elements));
    out_of_range(run, "a list is changed at an index that is out of range");
    return std::nullopt;
  });
  const ValueId id = new_sequence(recording_, seen, dtype());
  node.outputs.push_back(id);
  recording_.writer.write(std::move(node));
  all() = Term::of_value(id, std::move(seen));
  all().sequence = true;
}

void SequenceMethod::append(const Term& term) {
  change("aten::append", {{"el", element(term)}}, [&](List& elements, int run) {
    auto value = host(term, elements.elementType(), run);
    if (value) elements.push_back(std::move(*value));
    return value.has_value();
  });
}

void SequenceMethod::insert() {
  const Term index = in(1), term = in(2);
  change("aten::insert", {{"idx", program::argument(index, nullptr)}, {"el", element(term)}},
         [&](List& elements, int run) {
           auto value = host(term, elements.elementType(), run);
           const auto number = index.integer_at(run);
           if (!value || !number) return false;
           const bool at_end = *number == static_cast<std::int64_t>(elements.size());
           const auto at = at_end ? elements.size() : place_in(*number, elements.size());
           if (at) elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(*at), std::move(*value));
           return at.has_value();
         });
}

void SequenceMethod::replace() {
  const Term index = in(1), term = in(2);
  change("aten::_set_item", {{"idx", program::argument(index, nullptr)}, {"el", element(term)}},
         [&](List& elements, int run) {
           auto value = host(term, elements.elementType(), run);
           const auto number = index.integer_at(run);
           const auto at = value && number ? place_in(*number, elements.size()) : std::nullopt;
           if (at) elements.set(*at, std::move(*value));
           return at.has_value();
         });
}

void SequenceMethod::erase(const Term& index) {
  change("aten::Delete", {{"idx", program::argument(index, nullptr)}}, [&](List& elements, int run) {
    const auto number = index.integer_at(run);
    const auto at = number ? place_in(*number, elements.size()) : std::nullopt;
    if (at) elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(*at));
    return at.has_value();
  });
}

void SequenceMethod::read(const Term& index, const jit::Value& output) {
  PartView view;
  const Cut* cut = recording_.parts.of(all().id);
  if (cut != nullptr) {
    view = view_of_part(recording_, *cut, index, recording_.writer.origin_of(step_));
  } else {
    view.operation = operation("aten::__getitem__");
    view.operation.arguments.push_back({"idx", program::argument(index, nullptr)});
  }
  RunValues seen = recording_.runs.each([&](int run) -> std::optional<c10::IValue> {
    const auto number = index.integer_at(run);
    if (!runs(run) || !number) return std::nullopt;
    const c10::IValue elements = *all().seen[run];
    const auto at = place_in(*number, elements.toListRef().size());
    if (at) return elements.toListRef()[*at];
    out_of_range(run, "list index " + std::to_string(*number) + " is out of range");
    return std::nullopt;
  });
  Term element = recording_.result(output, std::move(seen), false, view.operation);
  if (cut != nullptr) {
    recording_.sizes.derive(view.arguments, view.operation, {element});
    recording_.places.note_result(element, view.arguments);
  } else if (element.is_value()) {
    keep_common_sizes(recording_.values.type(element.id), all().seen, recording_.runs.depth > 0);
    recording_.sizes.open_element_sizes(recording_.values.type(element.id));
  }
  step_.call.env[&output] = std::move(element);
  recording_.writer.write(std::move(view.operation));
}

void SequenceMethod::length() {
  const Cut* cut = recording_.parts.of(all().id);
  if (auto number = cut ? number_of_parts(recording_, *cut, recording_.writer.origin_of(step_)) : std::nullopt) {
    return step_.set_output(std::move(*number));
  }
  Node node = operation("aten::len");
  RunValues seen = recording_.runs.each([&](int run) -> std::optional<c10::IValue> {
    if (!runs(run)) return std::nullopt;
    return c10::IValue(static_cast<std::int64_t>(all().seen[run]->toListRef().size()));
  });
  step_.set_output(recording_.result(*step_.node.output(), std::move(seen), false, node));
  recording_.writer.write(std::move(node));
}

void SequenceMethod::pop() {
  const Term index = step_.count() > 1 ? in(1) : Term::literal(-1);
  read(index, *step_.node.output());
  erase(index);
}

void SequenceMethod::extend() {
  const Term other = in(1);
  if (other.is_sequence()) {
    join(all(), other.items->front(), false);
    return;
  }
  const std::vector<Term> more = *other.items;
  for (const Term& term : more) append(term);
}

// Replaces the list with the elements of two sequences.
void SequenceMethod::join(const Term& start, const Term& other, bool in_front) {
  all() = with_elements(recording_, start, other, program::item_type(step_.type(0), 0), in_front,
                        recording_.writer.origin_of(step_));
  all().sequence = true;
}

void SequenceMethod::reverse() {
  const Term empty = sequence_of(recording_, Term::container(Term::Kind::list, {}), step_.type(0), dtype(),
                                 *recording_.writer.sink, recording_.writer.origin_of(step_));
  join(empty, Term(all()), true);
}

// Evaluates list[1:] or list[:-1]: removes the first or last elements, which must exist.
void SequenceMethod::slice() {
  const auto bound = [&](std::size_t i, std::int64_t otherwise) -> std::optional<std::int64_t> {
    const auto settled = in(i).settled();
    if (!settled || settled->isNone() || !settled->isInt()) return settled ? std::optional(otherwise) : std::nullopt;
    return settled->toInt() == std::numeric_limits<std::int64_t>::max() ? otherwise : settled->toInt();
  };
  const auto begin = bound(1, 0), end = bound(2, 0), step = bound(3, 1);
  if (begin < 0 || !begin || !end || *end > 0 || step != 1) {
    refuse("a slice of a list whose length depends on data may only leave out elements at its ends",
           "leave out elements in the loop that fills it");
  }
  for (std::int64_t i = 0; i < *begin; ++i) erase(Term::literal(0));
  for (std::int64_t i = 0; i > *end; --i) erase(Term::literal(-1));
}

// True for operations that join two lists. Both become sequences if one of them is.
bool joins_lists(const std::string& name) { return name == "add" || name == "add_" || name == "extend"; }

// Returns true if the step indexes a list of known elements by a number that depends on data: the list must become a
// sequence.
bool indexes_by_data(const Step& step, const Term& list) {
  static const std::unordered_set<std::string> indexing{"__getitem__", "_set_item", "insert", "pop", "Delete"};
  if (!indexing.contains(step.name()) || step.count() < 2) return false;
  const bool plain =
      std::ranges::all_of(*list.items, [](const Term& item) { return item.is_value() || item.is_settled_number(); });
  return list.kind == Term::Kind::list && plain && !step.in(1).settled();
}

}  // namespace

bool carry_out_on_sequence(Recording& recording, const Step& step) {
  const Term list = step.in(0);
  const std::string name = step.name();
  if (list.is_sequence()) {
    SequenceMethod method(recording, step, list);
    const bool unpacks = step.node.kind() == c10::prim::ListUnpack || step.node.kind() == c10::prim::TupleUnpack;
    return unpacks ? (method.unpack(), true) : method.carry_out();
  }
  if (!list.is_container()) return false;
  DType dtype = DType::undefined;
  if (list.kind == Term::Kind::list && step.count() == 2 && joins_lists(name) && step.in(1).is_sequence()) {
    dtype = recording.values.type(step.in(1).items->front().id).dtype;
  } else if (!indexes_by_data(step, list)) {
    return false;
  }
  Term sequence =
      sequence_of(recording, list, step.type(0), dtype, *recording.writer.sink, recording.writer.origin_of(step));
  if (!program::changes_first_argument(step.node)) {
    return SequenceMethod(recording, step, Term::of_sequence(std::move(sequence), recording.runs.depth)).carry_out();
  }
  recording.note_change(list, step);
  sequence.sequence = true;
  *list.items = {std::move(sequence)};
  return SequenceMethod(recording, step, list).carry_out();
}

}  // namespace whence::recorder::script
