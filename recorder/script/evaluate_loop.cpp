// prim::Loop. A loop whose trip count and conditions are settled is followed; any other becomes a node whose body is a
// nested block.
#include <algorithm>

#include "recorder/script/data_loop.h"
#include "recorder/script/restore.h"
#include "recorder/script/watch.h"

namespace whence::recorder {

namespace {

// Sizes on which the two do not agree are dynamic; ranks on which they do not agree are unknown.
void keep_common_dims(std::optional<std::vector<Dim>>& dims, const std::optional<std::vector<Dim>>& others) {
  if (!dims || !others) return;
  if (dims->size() != others->size()) return dims.reset();
  for (std::size_t axis = 0; axis < dims->size(); ++axis) {
    Dim& dim = (*dims)[axis];
    const Dim& other = (*others)[axis];
    if (dim.size != other.size || (other.dynamic && !dim.dynamic)) dim = {dim.size, true, none_id};
  }
}

}  // namespace

void Evaluator::loop(const jit::Node& node, Call& call) {
  if (!unroll(node, call)) DataLoop(*this, node, call).record();
}

// Follows a loop whose trip count and conditions are settled. Gives up, taking back what it recorded, when a condition
// turns out to depend on data. Values stay, for parameters and constants may have been met for the first time; those
// that nothing mentions go in the end (finish.cpp).
bool Evaluator::unroll(const jit::Node& node, Call& call) {
  const auto trips = term(node.inputs()[0], call).settled();
  auto condition = term(node.inputs()[1], call).settled();
  if (!trips || !condition) return false;
  const jit::Block& body = *node.blocks()[0];
  const std::size_t recorded = sink_->size(), scopes = program_.scopes.size();
  const auto calls = calls_;
  // Only a condition that the body computes can turn out to depend on data.
  PerRun<bool> on_trial;
  on_trial.fill(body.outputs()[0]->node()->kind() != c10::prim::Constant);
  Watch watch(*this, std::numeric_limits<int>::max(), on_trial);

  std::vector<Term> carried;
  for (std::size_t i = 2; i < node.inputs().size(); ++i) carried.push_back(term(node.inputs()[i], call));
  for (std::int64_t trip = 0; trip < trips->toInt() && condition->toBool(); ++trip) {
    call.env[body.inputs()[0]] = Term::literal(trip);
    for (std::size_t i = 0; i < carried.size(); ++i) call.env[body.inputs()[i + 1]] = carried[i];
    run_block(body, call);
    condition = term(body.outputs()[0], call).settled();
    if (!condition) {
      sink_->resize(recorded);
      program_.scopes.resize(scopes);
      calls_ = calls;
      watch.take_back_all();
      return false;
    }
    for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = term(body.outputs()[i + 1], call);
  }
  watch.keep_writes();
  forget(body, call);
  for (std::size_t i = 0; i < carried.size(); ++i) call.env[node.outputs()[i]] = carried[i];
  return true;
}

Evaluator::DataLoop::DataLoop(Evaluator& evaluator, const jit::Node& node, Call& call)
    : evaluator_(evaluator),
      node_(node),
      call_(call),
      body_(*node.blocks()[0]),
      trips_(evaluator.term(node.inputs()[0], call)),
      condition_(evaluator.term(node.inputs()[1], call)) {
  for (int run = 0; run < evaluator_.runs_; ++run) {
    going_[run] = evaluator_.active_[run] && bound(run) > 0 && goes(condition_, run);
  }
}

void Evaluator::DataLoop::record() {
  recorded_.target = "prim::Loop";
  recorded_.arguments.push_back({"max_trip_count", argument(trips_, nullptr)});
  recorded_.arguments.push_back({"condition", argument(condition_, nullptr)});
  recorded_.origin.scope = call_.scope;
  recorded_.origin.stack = evaluator_.frames_.stack_of(node_, call_.function, call_.callers);
  recorded_.blocks.resize(1);
  index_.kind = Term::Kind::value;
  index_.id = evaluator_.new_value("iteration", ValueSource::block_input, none_id);
  type(index_) = {ValueKind::integer, DType::int64, std::nullopt};

  find_forms();
  recorded_.blocks[0].inputs.push_back(index_.id);
  recorded_.arguments.push_back({"initial", {ArgumentList()}});
  for (const Carried& carried : carried_) begin(carried.form, carried);
  iterate();
  finish();
  evaluator_.sink_->push_back(std::move(recorded_));
}

// ---- iterations -------------------------------------------------------------------------------------------------

void Evaluator::DataLoop::set_variables() {
  std::vector<Term>::const_iterator leaf = leaves_.begin();
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    const Term variable = with_leaves(carried_[i].form, leaf, evaluator_.depth_ + 1);
    if (carried_[i].in_place) {
      *carried_[i].in_place->items = *variable.items;
    } else {
      call_.env[body_.inputs()[i + 1]] = variable;
    }
  }
}

// One evaluation of the body, by the runs that are still in the loop; by none of them, for the record, when none
// enters.
std::vector<Evaluator::ChangedContainer> Evaluator::DataLoop::run_body(std::int64_t trip, PerRun<bool> on_trial) {
  Restore depth(evaluator_.depth_);
  Restore active(evaluator_.active_);
  Restore pretends(evaluator_.pretends_);
  ++evaluator_.depth_;
  if (any_going()) {
    evaluator_.active_ = going_;
  } else {
    evaluator_.pretends_.fill(true);
    on_trial.fill(true);
  }
  for (int run = 0; run < evaluator_.runs_; ++run) index_.seen[run] = c10::IValue(trip);
  call_.env[body_.inputs()[0]] = index_;
  Watch watch(evaluator_, evaluator_.depth_, on_trial);
  evaluator_.run_block(body_, call_);
  return std::move(watch.changed);
}

bool Evaluator::DataLoop::is_carried(const ChangedContainer& container) const {
  return std::ranges::any_of(
      carried_, [&](const Carried& carried) { return carried.in_place && carried.in_place->items == container.items; });
}

// True when a size changed.
bool Evaluator::DataLoop::take_over(const std::vector<Term>& results) {
  bool changed = false;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Term& leaf = leaves_[i];
    for (int run = 0; run < evaluator_.runs_; ++run) {
      if (going_[run]) leaf.seen[run] = host_at(results[i], run);
    }
    if (leaf.sequence) {
      DType& dtype = type(leaf).dtype;
      if (dtype == DType::undefined) dtype = type(results[i]).dtype;
      continue;
    }
    const auto before = type(leaf).dims;
    keep_common_dims(type(leaf).dims, evaluator_.type_of(leaf.seen, nullptr).dims);
    if (!results[i].is_value()) continue;
    const Type& after = type(results[i]);
    keep_common_dims(type(leaf).dims, after.dims);  // also where no run enters the loop
    const DType dtype = type(leaf).dtype;
    if (dtype != DType::undefined && after.dtype != DType::undefined && after.dtype != dtype) {
      refuse("a loop whose length depends on data turns a variable from " + std::string(name_of(dtype)) + " into " +
                 std::string(name_of(after.dtype)),
             "convert it to one dtype before the loop");
    }
    changed |= before != type(leaf).dims;
  }
  return changed;
}

// One iteration; the values that it leaves.
std::vector<Term> Evaluator::DataLoop::iterate_once(std::int64_t trip, std::vector<Node>& nodes) {
  evaluator_.sink_ = &nodes;
  set_variables();
  for (const ChangedContainer& container : run_body(trip, {})) {
    if (container.changed() && !is_carried(container)) {
      refuse("a list is changed in some iterations of a loop only", "change it in each, or before the loop");
    }
  }
  std::vector<Term> results;
  for (std::size_t i = 0; i < carried_.size(); ++i) leaves_in(carried_[i].form, variable_after(i), results);
  return results;
}

// As if the runs had gone through an iteration, to see what another one would change.
void Evaluator::DataLoop::suppose(const std::vector<Term>& results) {
  supposed_ = leaves_;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    for (int run = 0; run < evaluator_.runs_; ++run) {
      if (auto value = host_at(results[i], run)) leaves_[i].seen[run] = std::move(value);
    }
  }
}

void Evaluator::DataLoop::iterate() {
  Block& block = recorded_.blocks[0];
  Restore sink(evaluator_.sink_);
  bool again = true;  // one more for the sizes, when they changed in the only one
  for (std::int64_t trip = 0; again || any_going(); ++trip) {
    std::vector<Node> later;
    const std::vector<Term> results = iterate_once(trip, trip == 0 ? block.nodes : later);
    const Term next = evaluator_.term(body_.outputs()[0], call_);
    if (trip == 0) {
      block.outputs.push_back(argument(next, nullptr));
      for (std::size_t i = 0; i < results.size(); ++i) {
        block.outputs.push_back(argument(results[i], nullptr));
        kept_.push_back(evaluator_.first_name(results[i]) == leaves_[i].id);
      }
    } else {
      widen(block.nodes, later);
      for (std::size_t i = 0; i < supposed_.size(); ++i) leaves_[i].seen = supposed_[i].seen;
      supposed_.clear();
    }
    again = take_over(results) && trip == 0;
    if (again && !any_going()) suppose(results);
    for (int run = 0; run < evaluator_.runs_; ++run) {
      going_[run] = going_[run] && trip + 1 < bound(run) && goes(next, run);
    }
  }
}

// A size that changes from iteration to iteration is dynamic wherever it shows in the body.
void Evaluator::DataLoop::widen(const std::vector<Node>& recorded, const std::vector<Node>& later) {
  if (recorded.size() != later.size()) return;
  auto& values = evaluator_.program_.values;
  for (std::size_t n = 0; n < recorded.size(); ++n) {
    const Node &first = recorded[n], &again = later[n];
    if (first.target != again.target || first.outputs.size() != again.outputs.size()) return;
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      keep_common_dims(values[first.outputs[i]].type.dims, values[again.outputs[i]].type.dims);
    }
    for (std::size_t b = 0; b < std::min(first.blocks.size(), again.blocks.size()); ++b) {
      widen(first.blocks[b].nodes, again.blocks[b].nodes);
    }
  }
}

// What the loop leaves behind, as results of its node.
void Evaluator::DataLoop::finish() {
  std::vector<Term> results;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    Term result = leaves_[i];
    result.id = evaluator_.new_value(names_after_[i], ValueSource::node, none_id);
    type(result) = type(leaves_[i]);
    evaluator_.mark_data_shaped(result.id);
    if (kept_[i] && starts_[i].is_value()) {
      evaluator_.same_as_[result.id] = starts_[i].id;
    } else {
      evaluator_.note_passage(result.id, {&starts_[i], &leaves_[i]});
    }
    recorded_.outputs.push_back(result.id);
    results.push_back(std::move(result));
  }
  evaluator_.forget(body_, call_);
  std::vector<Term>::const_iterator leaf = results.begin();
  for (std::size_t i = 0; i < carried_.size(); ++i) {
    Term variable = with_leaves(carried_[i].form, leaf, evaluator_.depth_);
    if (carried_[i].in_place) {
      *carried_[i].in_place->items = *variable.items;
    } else {
      call_.env[node_.outputs()[i]] = std::move(variable);
    }
  }
}

}  // namespace whence::recorder
