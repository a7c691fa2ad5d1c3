#include "recorder/script/data_loop.h"

#include <algorithm>

#include "recorder/base/torch_error.h"
#include "recorder/script/restore.h"
#include "recorder/script/sequences.h"

namespace whence::recorder::script {

namespace {

// Returns true if both arguments are equal, apart from the values to which they refer.
bool same_literals(const Argument& a, const Argument& b) {
  if (a.as<ValueRef>() && b.as<ValueRef>()) return true;
  const auto *list = a.as<ArgumentList>(), *other = b.as<ArgumentList>();
  return list && other ? std::ranges::equal(*list, *other, same_literals) : a == b;
}

// Makes sizes that differ dynamic, and ranks that differ unknown.
void keep_common_dims(std::optional<std::vector<Dim>>& dims, const std::optional<std::vector<Dim>>& others) {
  if (!dims || !others) return;
  if (dims->size() != others->size()) return dims.reset();
  for (std::size_t axis = 0; axis < dims->size(); ++axis) {
    Dim& dim = (*dims)[axis];
    if (!same_length(dim, (*others)[axis])) dim = {dim.size, true, none_id};
  }
}

}  // namespace

void DataLoop::record() {
  node_.target = "prim::Loop";
  node_.arguments.push_back({"max_trip_count", program::argument(body_.trips, nullptr)});
  node_.arguments.push_back({"condition", program::argument(body_.condition, nullptr)});
  node_.arguments.push_back({"initial", {ArgumentList()}});
  node_.origin = body_.origin;
  node_.blocks.resize(1);
  node_.blocks[0].inputs.push_back(body_.index.id);
  for (const LoopVariables::Variable& variable : variables_.all()) begin(variable.form, variable);
  iterate();
  finish();
  recording_.writer.write(std::move(node_));
}

// Adds a variable's initial values, and the values that represent it in the body.
void DataLoop::begin(const CarriedForm& form, const LoopVariables::Variable& variable) {
  if (form.kind == CarriedForm::Kind::container) {
    for (const CarriedForm& item : form.items) begin(item, variable);
    return;
  }
  if (form.kind == CarriedForm::Kind::same) return;
  Values& values = recording_.values;
  const bool sequence = form.kind == CarriedForm::Kind::sequence;
  const Term start =
      sequence ? sequence_of(recording_, form.start, form.type, form.element, *recording_.writer.sink, node_.origin)
               : form.start;
  std::get<ArgumentList>(node_.arguments.back().value.data).push_back(program::argument(start, nullptr));
  const bool unset = start.kind == Term::Kind::unset;
  RunValues seen = recording_.runs.each([&](int run) { return (unset ? form.after : start).at(run); });
  Type type = values.type_of(seen, form.type);
  if (start.is_value())
    keep_common_dims(type.dims, values.type(start.id).dims);  // adds dynamic sizes that no run shows
  if (unset && form.after.is_value()) type = values.type(form.after.id);
  if (sequence) type = values.type(start.id);
  const ValueId id = values.add(variable.name, ValueSource::block_input, std::move(type));
  node_.blocks[0].inputs.push_back(id);
  Term term = Term::of_value(id, std::move(seen));
  term.sequence = sequence;
  leaves_.push_back({std::move(term), start, variable.name_after, {}});
}

std::vector<Term> DataLoop::terms() const {
  std::vector<Term> terms;
  for (const Leaf& leaf : leaves_) terms.push_back(leaf.term);
  return terms;
}

void DataLoop::iterate() {
  Restore sink(recording_.writer.sink);
  Block& body = node_.blocks[0];
  bool again = true;  // until an iteration changes no size
  for (std::int64_t trip = 0; again || body_.any_in_loop(); ++trip) {
    std::vector<Node> later;
    const std::vector<Term> results = iterate_once(trip, trip == 0 ? body.nodes : later);
    if (trip == 0) {
      record_outputs(results);
    } else {
      // If a size has changed since the recording, facts derived from it are not true in every iteration.
      if (again && !same_operations(body.nodes, later)) {
        std::swap(body.nodes, later);
        record_outputs(results);
      }
      widen(body.nodes, later);
      for (std::size_t i = 0; i < actual_values_.size(); ++i) leaves_[i].term.seen = actual_values_[i];
      actual_values_.clear();
    }
    again = take_over(results);
    if (again && !body_.any_in_loop()) assume_values(results);
    body_.end_iteration(trip);
  }
}

// Evaluates one iteration and returns the carried values at its end.
std::vector<Term> DataLoop::iterate_once(std::int64_t trip, std::vector<Node>& nodes) {
  recording_.writer.sink = &nodes;
  variables_.set(terms());
  for (const ChangedContainer& container : body_.run(trip, {})) {
    if (container.changed() && !variables_.is_carried(container)) {
      refuse("a list is changed in only some iterations of a loop", "change it in each iteration, or before the loop");
    }
  }
  std::vector<Term> results;
  variables_.add_leaves_after(node_.origin, results);
  return results;
}

void DataLoop::record_outputs(const std::vector<Term>& results) {
  std::vector<Argument>& outputs = node_.blocks[0].outputs;
  outputs.assign(1, program::argument(body_.next_condition(), nullptr));
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(program::argument(results[i], nullptr));
    leaves_[i].left = results[i];
  }
}

// Carries the results into the next iteration. Returns true if a size changed.
bool DataLoop::take_over(const std::vector<Term>& results) {
  bool changed = false;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Term& leaf = leaves_[i].term;
    for (int run = 0; run < recording_.runs.count; ++run) {
      if (body_.is_in_loop(run)) leaf.seen[run] = results[i].at(run);
    }
    changed |= take_over_type(leaf, results[i]);
  }
  return changed;
}

bool DataLoop::take_over_type(const Term& leaf, const Term& result) {
  Type& type = recording_.values.type(leaf.id);
  if (leaf.sequence) {
    if (type.dtype == DType::undefined) type.dtype = recording_.values.dtype(result);
    return false;
  }
  const auto before = type.dims;
  keep_common_dims(type.dims, recording_.values.type_of(leaf.seen, nullptr).dims);
  if (!result.is_value()) return false;
  const Type& after = recording_.values.type(result.id);
  keep_common_dims(type.dims, after.dims);  // needed if no run enters the loop
  if (type.dtype != DType::undefined && after.dtype != DType::undefined && after.dtype != type.dtype) {
    refuse("a loop whose length depends on data turns a variable from " + std::string(name_of(type.dtype)) + " into " +
               std::string(name_of(after.dtype)),
           "convert it to one dtype before the loop");
  }
  return before != type.dims;
}

// Sets the leaves to the results of the iteration although no run continues, to find out what another iteration would
// change.
void DataLoop::assume_values(const std::vector<Term>& results) {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    RunValues& seen = leaves_[i].term.seen;
    actual_values_.push_back(seen);
    for (int run = 0; run < recording_.runs.count; ++run) {
      if (auto value = results[i].at(run)) seen[run] = std::move(value);
    }
  }
}

// Returns true if two iterations recorded the same operations with the same known results.
bool DataLoop::same_operations(const std::vector<Node>& nodes, const std::vector<Node>& others) const {
  const auto same_values = [&](ValueId a, ValueId b) {
    return recording_.known.contains(a) == recording_.known.contains(b);
  };
  const auto same_arguments = [](const NamedArgument& a, const NamedArgument& b) {
    return a.name == b.name && same_literals(a.value, b.value);
  };
  const auto same_blocks = [&](const Block& a, const Block& b) {
    return same_operations(a.nodes, b.nodes) && std::ranges::equal(a.outputs, b.outputs, same_literals);
  };
  return std::ranges::equal(nodes, others, [&](const Node& a, const Node& b) {
    return a.target == b.target && a.overload == b.overload && a.list_output == b.list_output &&
           std::ranges::equal(a.arguments, b.arguments, same_arguments) &&
           std::ranges::equal(a.outputs, b.outputs, same_values) && std::ranges::equal(a.blocks, b.blocks, same_blocks);
  });
}

// Makes sizes that change from iteration to iteration dynamic everywhere in the body.
void DataLoop::widen(const std::vector<Node>& recorded, const std::vector<Node>& later) {
  if (recorded.size() != later.size()) return;
  for (std::size_t n = 0; n < recorded.size(); ++n) {
    const Node &first = recorded[n], &again = later[n];
    if (first.target != again.target || first.outputs.size() != again.outputs.size()) return;
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      keep_common_dims(recording_.values.type(first.outputs[i]).dims, recording_.values.type(again.outputs[i]).dims);
    }
    for (std::size_t b = 0; b < std::min(first.blocks.size(), again.blocks.size()); ++b) {
      const std::vector<ValueId>&inputs = first.blocks[b].inputs, &others = again.blocks[b].inputs;
      for (std::size_t i = 0; i < std::min(inputs.size(), others.size()); ++i) {
        keep_common_dims(recording_.values.type(inputs[i]).dims, recording_.values.type(others[i]).dims);
      }
      widen(first.blocks[b].nodes, again.blocks[b].nodes);
    }
  }
}

// Returns true if an iteration does not replace the tensor.
bool DataLoop::keeps(const Leaf& leaf) const { return recording_.aliases.first_name(leaf.left) == leaf.term.id; }

// Returns the terms that may be the value after the loop: an iteration may move the value of one variable to another.
std::vector<const Term*> DataLoop::may_be(const Leaf& leaf) const {
  std::vector<const Term*> terms;
  std::set<const Leaf*> seen;
  for (const Leaf* each = &leaf; each != nullptr && seen.insert(each).second;) {
    terms.insert(terms.end(), {&each->start, &each->term, &each->left});
    const ValueId left = recording_.aliases.first_name(each->left);
    const auto same = std::ranges::find_if(leaves_, [&](const Leaf& other) { return other.term.id == left; });
    each = same == leaves_.end() ? nullptr : &*same;
  }
  return terms;
}

// Makes the carried values results of the loop's node.
void DataLoop::finish() {
  std::vector<Term> results;
  for (const Leaf& leaf : leaves_) {
    Term result = leaf.term;
    const Type type = recording_.values.type(leaf.term.id);
    result.id = recording_.values.add(leaf.name_after, ValueSource::node, type);
    if (keeps(leaf) && leaf.start.is_value()) {
      recording_.aliases.note_same_tensor(result.id, leaf.start.id);
    } else {
      recording_.aliases.note_possible_alias(result.id, may_be(leaf));
    }
    node_.outputs.push_back(result.id);
    results.push_back(std::move(result));
  }
  variables_.finish(results);
}

}  // namespace whence::recorder::script
