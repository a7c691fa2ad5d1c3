// Lists whose length depends on data: a loop or branch that follows data appends to them, so the evaluator cannot hold
// their elements. Such a list is one value of the Program, a sequence. An operation that changes it is recorded as one
// that yields the changed list (aten::append with a result), and all who share the list see that result from then on.
#include <algorithm>
#include <limits>

#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

using List = c10::impl::GenericList;

// Where `index` points in a list of `size` elements; empty when out of range.
std::optional<std::size_t> place_in(std::int64_t index, std::size_t size) {
  if (index < 0) index += static_cast<std::int64_t>(size);
  if (index < 0 || index >= static_cast<std::int64_t>(size)) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<std::int64_t> number_in(const Term& index, int run) {
  const auto value = host(index, c10::IntType::get(), run);
  return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
}

constexpr const char* only_tensors =
    "a list whose length depends on data holds something other than tensors and numbers";
constexpr const char* keep_apart = "keep a list for each of its parts";

// ONNX wants the elements of a sequence to be of one dtype.
void check_dtypes(DType held, DType added, const Place& where) {
  if (held == DType::undefined || added == DType::undefined || held == added) return;
  throw Error(Code::unsupported_feature,
              "a list whose length depends on data holds elements of " + std::string(name_of(held)) + " and of " +
                  std::string(name_of(added)),
              "bring them to one dtype before they are put into the list", where);
}

// Sizes that all elements of all runs have in common stay; inside a loop later iterations may bring others.
void keep_common_sizes(Type& type, const PerRun<std::optional<c10::IValue>>& lists, bool in_loop) {
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

}  // namespace

void Evaluator::note_element(const Term& element) {
  c10::StorageImpl* memory = memory_of(element);
  if (memory == nullptr) return;
  in_sequences_.insert_or_assign(memory, element.seen[0]->toTensor().storage().getWeakStorageImpl());
}

// In PyTorch a list shares its tensors; an ONNX sequence holds copies, which such a write would not reach.
void Evaluator::refuse_write_into_list(const jit::Node& node, const Call& call, const std::vector<Term>& arguments) {
  if (in_sequences_.empty()) return;
  for (const Term* written : written_by(node, arguments)) {
    const auto held = in_sequences_.find(memory_of(*written));
    if (held == in_sequences_.end() || held->second.expired()) continue;
    refuse(node, call, "a tensor is written in place that is in a list whose length depends on data",
           "put a clone into the list");
  }
}

ValueId Evaluator::new_sequence(const PerRun<std::optional<c10::IValue>>& seen, DType dtype) {
  const ValueId id = new_value("list", ValueSource::node, none_id);
  const DType held = element_dtype(seen);
  program_.values[id].type = {ValueKind::sequence, held == DType::undefined ? dtype : held, std::nullopt};
  return id;
}

// Of the elements, as far as the list itself tells.
DType Evaluator::dtype_held(const Term& list) const {
  if (!list.items || list.items->empty()) return DType::undefined;
  const Term& last = list.items->back();
  const auto number = last.settled();
  if (last.is_value()) return program_.values[last.id].type.dtype;
  return number && number->isScalar() ? dtype_of_number(*number) : DType::undefined;
}

// The list as one value; `sink` gets what builds it. `dtype` is that of elements to come, for a list without any.
Term Evaluator::sequence_of(const Term& list, const c10::TypePtr& type, DType dtype, std::vector<Node>& sink,
                            const Origin& origin) {
  if (list.is_sequence()) return list.items->front();
  Node recorded;
  recorded.target = "prim::ListConstruct";
  recorded.origin = origin;
  ArgumentList elements;
  DType held = DType::undefined;
  for (const Term& item : *list.items) {
    const auto number = item.settled();
    if (!item.is_value() && !(number && number->isScalar())) {
      throw Error(Code::unsupported_feature, only_tensors, keep_apart, {.stage = "read", .op = recorded.target});
    }
    const DType added = item.is_value() ? program_.values[item.id].type.dtype : dtype_of_number(*number);
    check_dtypes(held, added, {.stage = "read", .op = recorded.target});
    if (added != DType::undefined) held = added;
    note_element(item);
    elements.push_back(argument(item, nullptr));
  }
  recorded.arguments.push_back({"elements", {std::move(elements)}});
  Term made;
  made.kind = Term::Kind::value;
  made.sequence = true;
  for (int run = 0; run < runs_; ++run) {
    if (active_[run] && alive_[run]) made.seen[run] = host(list, type, run);
  }
  made.id = new_sequence(made.seen, dtype);
  recorded.outputs.push_back(made.id);
  sink.push_back(std::move(recorded));
  return made;
}

// What Python's lists can, on one whose elements only the Program knows.
class Evaluator::SequenceMethod {
 public:
  SequenceMethod(Evaluator& evaluator, const jit::Node& node, Call& call, const Term& list)
      : evaluator_(evaluator), node_(node), call_(call), list_(list) {}

  // Carries out the node where it is a method of the list; else it is an operator that takes the list.
  bool carry_out();
  void read(const Term& index, const jit::Value& output);

 private:
  using Apply = std::function<bool(List&, int run)>;  // on what one run has in the list; false: not possible

  Term in(std::size_t i) const { return evaluator_.term(node_.inputs()[i], call_); }
  void give(Term result) {
    if (!node_.outputs().empty()) call_.env[node_.outputs()[0]] = std::move(result);
  }
  Term whole() const { return list_.items->front(); }
  bool runs(int run) const { return evaluator_.active_[run] && evaluator_.alive_[run] && whole().seen[run]; }
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const {
    evaluator_.refuse(node_, call_, why, remedy);
  }

  void out_of_range(int run, const std::string& why) const;
  Node operation(const std::string& target) const;
  void change(const std::string& target, std::vector<NamedArgument> arguments, const Apply& apply);
  void append(const Term& element);
  void insert(const Term& index, const Term& element);
  void replace(const Term& index, const Term& element);
  void erase(const Term& index);
  void length();
  void pop();
  void extend();
  Term with_elements(const Term& start, const Term& other, bool in_front);
  void reverse();
  void slice();
  Argument element(const Term& given) const;

  Evaluator& evaluator_;
  const jit::Node& node_;
  Call& call_;
  Term list_;
};

// A witness that the model does not accept drops out, as in any other operation.
void Evaluator::SequenceMethod::out_of_range(int run, const std::string& why) const {
  if (evaluator_.pretends_[run]) return;
  if (run <= 1) refuse(why, "check the model's inputs");
  evaluator_.alive_[run] = false;
}

Node Evaluator::SequenceMethod::operation(const std::string& target) const {
  Node recorded;
  recorded.target = target;
  recorded.overload = "t";
  recorded.arguments.push_back({"self", argument(list_, nullptr)});
  recorded.origin = evaluator_.origin_of(node_, call_);
  return recorded;
}

void Evaluator::SequenceMethod::change(const std::string& target, std::vector<NamedArgument> arguments,
                                       const Apply& apply) {
  Node recorded = operation(target);
  std::ranges::move(arguments, std::back_inserter(recorded.arguments));
  Term after;
  after.kind = Term::Kind::value;
  after.sequence = true;
  for (int run = 0; run < evaluator_.runs_; ++run) {
    if (!runs(run)) continue;
    List elements = whole().seen[run]->toList().copy();
    if (apply(elements, run)) {
      after.seen[run] = c10::IValue(std::move(elements));
    } else {
      out_of_range(run, "a list is changed at an index that it does not have");
    }
  }
  after.id = evaluator_.new_sequence(after.seen, evaluator_.program_.values[whole().id].type.dtype);
  recorded.outputs.push_back(after.id);
  evaluator_.sink_->push_back(std::move(recorded));
  list_.items->front() = std::move(after);
}

Argument Evaluator::SequenceMethod::element(const Term& given) const {
  const auto number = given.settled();
  if (!given.is_value() && !(number && number->isScalar())) refuse(only_tensors, keep_apart);
  const DType held = evaluator_.program_.values[whole().id].type.dtype;
  const DType added = given.is_value() ? evaluator_.program_.values[given.id].type.dtype : dtype_of_number(*number);
  check_dtypes(held, added, evaluator_.place(node_, call_));
  evaluator_.note_element(given);
  return argument(given, nullptr);
}

void Evaluator::SequenceMethod::append(const Term& given) {
  change("aten::append", {{"el", element(given)}}, [&](List& elements, int run) {
    auto value = host(given, elements.elementType(), run);
    if (value) elements.push_back(std::move(*value));
    return value.has_value();
  });
}

void Evaluator::SequenceMethod::insert(const Term& index, const Term& given) {
  change("aten::insert", {{"idx", argument(index, nullptr)}, {"el", element(given)}}, [&](List& elements, int run) {
    auto value = host(given, elements.elementType(), run);
    const auto number = number_in(index, run);
    if (!value || !number) return false;
    const bool behind = *number == static_cast<std::int64_t>(elements.size());
    const auto at = behind ? elements.size() : place_in(*number, elements.size());
    if (at) elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(*at), std::move(*value));
    return at.has_value();
  });
}

void Evaluator::SequenceMethod::replace(const Term& index, const Term& given) {
  change("aten::_set_item", {{"idx", argument(index, nullptr)}, {"el", element(given)}}, [&](List& elements, int run) {
    auto value = host(given, elements.elementType(), run);
    const auto number = number_in(index, run);
    const auto at = value && number ? place_in(*number, elements.size()) : std::nullopt;
    if (at) elements.set(*at, std::move(*value));
    return at.has_value();
  });
}

void Evaluator::SequenceMethod::erase(const Term& index) {
  change("aten::Delete", {{"idx", argument(index, nullptr)}}, [&](List& elements, int run) {
    const auto number = number_in(index, run);
    const auto at = number ? place_in(*number, elements.size()) : std::nullopt;
    if (at) elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(*at));
    return at.has_value();
  });
}

void Evaluator::SequenceMethod::read(const Term& index, const jit::Value& output) {
  Node recorded = operation("aten::__getitem__");
  recorded.arguments.push_back({"idx", argument(index, nullptr)});
  PerRun<std::optional<c10::IValue>> seen;
  for (int run = 0; run < evaluator_.runs_; ++run) {
    const auto wanted = number_in(index, run);
    if (!runs(run) || !wanted) continue;
    const c10::IValue elements = *whole().seen[run];
    const auto at = place_in(*wanted, elements.toListRef().size());
    if (at) {
      seen[run] = elements.toListRef()[*at];
    } else {
      out_of_range(run, "list index " + std::to_string(*wanted) + " is out of range");
    }
  }
  Term read = evaluator_.result(output, std::move(seen), false, recorded);
  if (read.is_value()) {
    keep_common_sizes(evaluator_.program_.values[read.id].type, whole().seen, evaluator_.depth_ > 0);
    evaluator_.mark_data_shaped(read.id);
  }
  call_.env[&output] = std::move(read);
  evaluator_.sink_->push_back(std::move(recorded));
}

void Evaluator::SequenceMethod::length() {
  Node recorded = operation("aten::len");
  PerRun<std::optional<c10::IValue>> seen;
  for (int run = 0; run < evaluator_.runs_; ++run) {
    if (runs(run)) seen[run] = static_cast<std::int64_t>(whole().seen[run]->toListRef().size());
  }
  give(evaluator_.result(*node_.output(), std::move(seen), false, recorded));
  evaluator_.sink_->push_back(std::move(recorded));
}

void Evaluator::SequenceMethod::pop() {
  const Term index = node_.inputs().size() > 1 ? in(1) : Term::literal(-1);
  read(index, *node_.output());
  erase(index);
}

void Evaluator::SequenceMethod::extend() {
  const Term other = in(1);
  if (other.is_sequence()) {
    list_.items->front() = with_elements(whole(), other.items->front(), false);
    return;
  }
  const std::vector<Term> more = *other.items;
  for (const Term& given : more) append(given);
}

// A loop over another list that appends each of its elements to `start`, or puts each in front: ONNX has no operator
// that joins sequences, or turns one round.
Term Evaluator::SequenceMethod::with_elements(const Term& start, const Term& other, bool in_front) {
  auto& values = evaluator_.program_.values;
  const DType dtype =
      values[other.id].type.dtype == DType::undefined ? values[start.id].type.dtype : values[other.id].type.dtype;
  const auto made = [&](const char* name, ValueSource source, const Type& type) {
    const ValueId id = evaluator_.new_value(name, source, none_id);
    values[id].type = type;
    return id;
  };
  const auto node = [&](const char* target, const char* overload, std::vector<NamedArgument> arguments,
                        ValueId output) {
    Node recorded = operation(target);
    recorded.overload = overload;
    recorded.arguments = std::move(arguments);
    recorded.outputs = {output};
    return recorded;
  };
  const Type integer{ValueKind::integer, DType::int64, std::nullopt}, list{ValueKind::sequence, dtype, std::nullopt};
  Type element = evaluator_.type_of({}, item_type(node_.input(0)->type(), 0));
  element.dtype = dtype;
  const Argument source{ValueRef{other.id}};
  const ValueId length = made("length", ValueSource::node, integer);
  evaluator_.sink_->push_back(node("aten::len", "t", {{"self", source}}, length));

  Term result;
  result.kind = Term::Kind::value;
  result.sequence = true;
  for (int run = 0; run < evaluator_.runs_; ++run) {
    if (!start.seen[run] || !other.seen[run]) continue;
    List elements = start.seen[run]->toList().copy();
    for (const c10::IValue& each : other.seen[run]->toListRef()) {
      elements.insert(in_front ? elements.begin() : elements.end(), each);
    }
    result.seen[run] = c10::IValue(std::move(elements));
  }
  result.id = made("list", ValueSource::node, list);
  Node loop = node("prim::Loop", "",
                   {{"max_trip_count", {ValueRef{length}}},
                    {"condition", {true}},
                    {"initial", {ArgumentList{{ValueRef{start.id}}}}}},
                   result.id);
  Block& block = loop.blocks.emplace_back();
  block.inputs = {made("iteration", ValueSource::block_input, integer), made("list", ValueSource::block_input, list)};
  const ValueId read = made("element", ValueSource::node, element), next = made("list", ValueSource::node, list);
  block.nodes.push_back(node("aten::__getitem__", "t", {{"self", source}, {"idx", {ValueRef{block.inputs[0]}}}}, read));
  std::vector<NamedArgument> put{{"self", {ValueRef{block.inputs[1]}}}};
  if (in_front) put.push_back({"idx", {std::int64_t{0}}});
  put.push_back({"el", {ValueRef{read}}});
  block.nodes.push_back(node(in_front ? "aten::insert" : "aten::append", "t", std::move(put), next));
  block.outputs = {{true}, {ValueRef{next}}};
  evaluator_.sink_->push_back(std::move(loop));
  return result;
}

void Evaluator::SequenceMethod::reverse() {
  const DType dtype = evaluator_.program_.values[whole().id].type.dtype;
  const Term empty = evaluator_.sequence_of(Term::container(Term::Kind::list, {}), node_.input(0)->type(), dtype,
                                            *evaluator_.sink_, evaluator_.origin_of(node_, call_));
  list_.items->front() = with_elements(empty, whole(), true);
}

// list[1:], list[:-1]: a copy without its first or last elements, of which there have to be as many.
void Evaluator::SequenceMethod::slice() {
  const auto bound = [&](std::size_t i, std::int64_t otherwise) -> std::optional<std::int64_t> {
    const auto settled = in(i).settled();
    if (!settled || settled->isNone() || !settled->isInt()) return settled ? std::optional(otherwise) : std::nullopt;
    return settled->toInt() == std::numeric_limits<std::int64_t>::max() ? otherwise : settled->toInt();
  };
  const auto begin = bound(1, 0), end = bound(2, 0), step = bound(3, 1);
  if (begin < 0 || !begin || !end || *end > 0 || step != 1) {
    refuse("a list whose length depends on data is cut at a place that is not counted from its ends",
           "leave out elements in the loop that fills it");
  }
  for (std::int64_t i = 0; i < *begin; ++i) erase(Term::literal(0));
  for (std::int64_t i = 0; i > *end; --i) erase(Term::literal(-1));
}

bool Evaluator::SequenceMethod::carry_out() {
  const std::string name = node_.kind().toUnqualString();
  const bool changes = changes_first_argument(node_);
  if (changes) evaluator_.note_change(node_, call_, list_, node_.input(0)->type());
  if (name == "len") return length(), true;
  if (name == "__getitem__") return read(in(1), *node_.output()), true;
  if (name == "insert") return insert(in(1), in(2)), true;
  if (name == "Delete") return erase(in(1)), true;
  if (name == "pop") return pop(), true;
  const bool joins = name == "add" || name == "add_" || name == "extend";
  if (name == "append") {
    append(in(1));
  } else if (name == "_set_item") {
    replace(in(1), in(2));
  } else if (name == "clear") {
    list_.items->clear();
  } else if (name == "reverse") {
    reverse();
  } else if (name == "list" || name == "copy" || name == "add" || name == "slice") {
    list_ = Term::container(Term::Kind::list, *list_.items, evaluator_.depth_);
    if (joins) extend();
    if (name == "slice") slice();
  } else if (joins) {
    extend();
  } else if (changes || (!node_.outputs().empty() && node_.output()->type()->kind() == c10::TypeKind::ListType)) {
    refuse("'" + name + "' is asked of a list whose length depends on data",
           "make it one tensor first, with torch.stack or torch.cat");
  } else {
    return false;
  }
  give(list_);
  return true;
}

bool Evaluator::call_sequence_method(const jit::Node& node, Call& call, const Term& list) {
  return SequenceMethod(*this, node, call, list).carry_out();
}

// A list that the evaluator holds, joined with one that it does not: both are sequences then.
bool Evaluator::joined_with_sequence(const jit::Node& node, Call& call, const Term& list) {
  const std::string name = node.kind().toUnqualString();
  if (name != "add" && name != "add_" && name != "extend") return false;
  const Term other = term(node.inputs()[1], call).items->front();
  Term whole =
      sequence_of(list, node.input(0)->type(), program_.values[other.id].type.dtype, *sink_, origin_of(node, call));
  if (name == "add") {
    return call_sequence_method(node, call, Term::container(Term::Kind::list, {std::move(whole)}, depth_));
  }
  *list.items = {std::move(whole)};
  return call_sequence_method(node, call, list);
}

// A list that the evaluator holds, at a place that depends on data: a sequence for that.
bool Evaluator::indexed_by_data(const jit::Node& node, Call& call, const Term& list) {
  static const std::unordered_set<std::string> changing{"_set_item", "insert", "pop", "Delete"};
  const std::string name = node.kind().toUnqualString();
  if ((name != "__getitem__" && !changing.contains(name)) || node.inputs().size() < 2) return false;
  const bool apart = std::ranges::all_of(
      *list.items, [](const Term& item) { return item.is_value() || (item.settled() && item.settled()->isScalar()); });
  if (list.kind != Term::Kind::list || !apart || term(node.inputs()[1], call).settled()) return false;
  Term whole = sequence_of(list, node.input(0)->type(), DType::undefined, *sink_, origin_of(node, call));
  if (changing.contains(name)) {
    note_change(node, call, list, node.input(0)->type());
    *list.items = {std::move(whole)};
    return call_sequence_method(node, call, list);
  }
  return call_sequence_method(node, call, Term::container(Term::Kind::list, {std::move(whole)}, depth_));
}

void Evaluator::unpack_sequence(const jit::Node& node, Call& call, const Term& list) {
  SequenceMethod method(*this, node, call, list);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    method.read(Term::literal(static_cast<std::int64_t>(i)), *node.outputs()[i]);
  }
}

}  // namespace whence::recorder
