// prim::Loop. A loop whose trip count and conditions are settled is followed; any other becomes a node whose body is a
// nested block.
#include <algorithm>

#include "recorder/evaluator.h"
#include "recorder/restore.h"
#include "recorder/watch.h"

namespace whence {

namespace jit = torch::jit;

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

// A loop whose length depends on data: its body is recorded once, on the first iteration, then the runs go on to the
// end without recording, so that what follows has its shapes.
class Evaluator::DataLoop {
 public:
  DataLoop(Evaluator& evaluator, const jit::Node& node, Call& call);
  void record();

 private:
  // How one variable of the loop, or a list that it changes, is carried from iteration to iteration.
  struct Form {
    enum class Kind : std::uint8_t { value, sequence, container, same };
    Kind kind = Kind::value;
    Term start, after;                 // what it is before the loop and after an iteration; in a container, of its part
    c10::TypePtr type;                 // as declared
    DType element = DType::undefined;  // of a sequence, when `start` does not say
    std::vector<Form> items;           // of a container
  };
  struct Carried {
    std::string name, name_after;
    Form form;
    std::optional<ChangedContainer> in_place;  // instead of a variable of the loop
  };

  Form form_of(const Term& before, const Term& then, const c10::TypePtr& declared) const;
  static std::pair<Term, Term> alike(const Term& start, const Term& after);
  void find_forms();
  void begin(const Form& form, const Carried& carried);
  Term with_leaves(const Form& form, std::vector<Term>::const_iterator& leaf, int depth) const;
  std::vector<Term> try_body(const std::vector<Term>& tried, std::vector<Term>& starts,
                             std::vector<c10::TypePtr>& types);
  Term stand_in(const Term& found, const c10::TypePtr& declared);
  Term unsettled(const Term& term);
  Term as_carried(const Form& form);
  static bool same_form(const Term& a, const Term& b);
  void leaves_in(const Form& form, const Term& found, std::vector<Term>& leaves);
  void set_variables();
  Term variable_after(std::size_t i);
  std::vector<ChangedContainer> run_body(std::int64_t trip, PerRun<bool> on_trial);
  bool is_carried(const ChangedContainer& container) const;
  bool take_over(const std::vector<Term>& results);
  std::vector<Term> iterate_once(std::int64_t trip, std::vector<Node>& nodes);
  void suppose(const std::vector<Term>& results);
  void iterate();
  void finish();
  void widen(const std::vector<Node>& recorded, const std::vector<Node>& later);

  std::optional<c10::IValue> host_at(const Term& term, int run) const {
    return term.is_value() ? term.seen[run] : term.settled();
  }
  bool goes(const Term& condition, int run) const {
    const auto value = host_at(condition, run);
    return value && value->isBool() && value->toBool();
  }
  std::int64_t bound(int run) const {
    const auto value = host_at(trips_, run);
    return value && value->isInt() ? value->toInt() : 0;
  }
  bool any_going() const {
    return std::ranges::any_of(going_, [](bool goes_on) { return goes_on; });
  }
  [[noreturn]] void refuse(const std::string& why, const std::string& remedy) const {
    evaluator_.refuse(node_, call_, why, remedy);
  }
  Type& type(const Term& leaf) { return evaluator_.program_.values[leaf.id].type; }

  Evaluator& evaluator_;
  const jit::Node& node_;
  Call& call_;
  const jit::Block& body_;
  Term trips_, condition_, index_;
  std::vector<Carried> carried_;
  std::vector<Term> starts_;              // what is carried into the first iteration
  std::vector<Term> leaves_;              // the values that are carried, as the body sees them
  std::vector<std::string> names_after_;  // of what the loop makes of them
  std::vector<bool> kept_;                // an iteration leaves the tensor that it found
  std::vector<Term> supposed_;            // what they really are, while another iteration is supposed
  PerRun<bool> going_{};
  Node recorded_;
};

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

// ---- what is carried --------------------------------------------------------------------------------------------

// What the variable is before the loop and after an iteration decides how it is carried: containers that keep their
// size by their parts, lists that grow as a sequence.
Evaluator::DataLoop::Form Evaluator::DataLoop::form_of(const Term& before, const Term& then,
                                                       const c10::TypePtr& declared) const {
  const auto [start, after] = alike(before, then);
  Form form{Form::Kind::value, start, after, declared, DType::undefined, {}};
  const bool lists = start.kind == Term::Kind::list && after.kind == Term::Kind::list;
  if (lists && (start.is_sequence() || after.is_sequence() || start.items->size() != after.items->size())) {
    form.kind = Form::Kind::sequence;
    for (const Term& item : *after.items) {
      if (item.is_value()) form.element = evaluator_.program_.values[item.id].type.dtype;
    }
  } else if (start.is_container() && after.is_container() && start.items->size() == after.items->size()) {
    form.kind = Form::Kind::container;
    for (std::size_t i = 0; i < start.items->size(); ++i) {
      form.items.push_back(form_of((*start.items)[i], (*after.items)[i], item_type(declared, i)));
      const bool key = start.kind == Term::Kind::dict && i % 2 == 0;
      if (key) form.items.back().kind = Form::Kind::same;
    }
  } else if (start.kind == Term::Kind::none || start.kind == Term::Kind::object ||
             (start.kind == Term::Kind::unset && !after.is_value() && !after.settled()) ||
             (start.settled() && start.settled()->isString())) {
    form.kind = Form::Kind::same;
  } else if (start.is_container()) {
    refuse("a dict or tuple changes its keys or its length in a loop whose length depends on data",
           "set all keys before the loop");
  }
  return form;
}

// Where one of the two is None, or nothing yet, both in the form of the other.
std::pair<Term, Term> Evaluator::DataLoop::alike(const Term& start, const Term& after) {
  const auto may_be_none = [](const Term& term) { return term.kind == Term::Kind::none || term.is_optional(); };
  if (start.kind == Term::Kind::unset && after.items) {
    if (after.is_sequence()) return {Term::container(Term::Kind::list, {}), after};
    return {Term::container(after.kind, std::vector<Term>(after.items->size(), start)), after};
  }
  const bool settled = start.kind == Term::Kind::unset || after.kind == Term::Kind::unset || start.kind == after.kind;
  if (settled || (!may_be_none(start) && !may_be_none(after))) return {start, after};
  return {start.as_optional(), after.as_optional()};
}

// Whether a container grows, or a variable becomes None, shows only when the body was evaluated, and what is carried in
// another form may change what the body does: it is tried until the forms stay.
void Evaluator::DataLoop::find_forms() {
  std::vector<Term> starts;
  std::vector<c10::TypePtr> types;
  bool told = !may_change_containers(body_);  // what the variables are before the loop tells how they are carried
  for (std::size_t i = 2; i < node_.inputs().size(); ++i) {
    const jit::Value &input = *node_.inputs()[i], &output = *node_.outputs()[i - 2];
    starts.push_back(evaluator_.term(&input, call_));
    types.push_back(output.type());
    carried_.push_back({input.debugName(), output.debugName(), {}, {}});
    told &= types.back()->kind() != c10::TypeKind::OptionalType && starts.back().items == nullptr &&
            starts.back().kind != Term::Kind::unset;
  }
  if (told) {
    for (std::size_t i = 0; i < starts.size(); ++i) carried_[i].form = form_of(starts[i], starts[i], types[i]);
    return;
  }
  std::vector<Term> tried;
  for (const Term& start : starts) tried.push_back(unsettled(start));
  for (bool stable = false; !stable;) {
    const std::vector<Term> after = try_body(tried, starts, types);
    stable = after.size() == tried.size();
    std::vector<Term> next;
    for (std::size_t i = 0; i < starts.size(); ++i) {
      carried_[i].form = form_of(starts[i], after[i], types[i]);
      next.push_back(as_carried(carried_[i].form));
      stable = stable && same_form(next[i], tried[i]);
    }
    tried = std::move(next);
  }
}

// What an iteration that is not recorded leaves of `tried`, the variables and changed containers as it finds them.
// Lists, dicts and attributes that it is the first to change are added, to `starts` and `types` as well.
std::vector<Term> Evaluator::DataLoop::try_body(const std::vector<Term>& tried, std::vector<Term>& starts,
                                                std::vector<c10::TypePtr>& types) {
  const auto scopes = evaluator_.program_.scopes.size();
  const auto calls = evaluator_.calls_;
  std::vector<Node> discarded;
  Restore sink(evaluator_.sink_);
  evaluator_.sink_ = &discarded;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (carried_[i].in_place) {
      *carried_[i].in_place->items = *tried[i].items;
      continue;
    }
    const Term variable = call_.env[body_.inputs()[i + 1]] = tried[i].copied();
    // What changes it would change the one of before as well, which is still of use.
    if (variable.is_container() && !evaluator_.last_used_by(node_, *node_.inputs()[i + 2])) {
      evaluator_.in_doubt_.insert(variable.items);
    }
  }
  PerRun<bool> on_trial;
  on_trial.fill(true);
  std::vector<ChangedContainer> changed = run_body(0, on_trial);
  std::vector<Term> after;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const auto& in_place = carried_[i].in_place;
    after.push_back(in_place ? Term::container(in_place->kind, *in_place->items).copied()
                             : evaluator_.term(body_.outputs()[i + 1], call_).copied());
    if (in_place) *in_place->items = in_place->before;
  }
  for (ChangedContainer& container : changed) {
    if (is_carried(container)) continue;
    starts.push_back(Term::container(container.kind, container.before));
    types.push_back(container.type);
    after.push_back(container.take_back().copied());
    carried_.push_back({"list", "list", {}, std::move(container)});
  }
  evaluator_.program_.scopes.resize(scopes);
  evaluator_.calls_ = calls;
  return after;
}

// A value of the program that stands for what an iteration finds, while it is not recorded.
Term Evaluator::DataLoop::stand_in(const Term& found, const c10::TypePtr& declared) {
  Term term;
  term.kind = Term::Kind::value;
  term.id = evaluator_.new_value("tried", ValueSource::block_input, none_id);
  for (int run = 0; run < evaluator_.runs_; ++run) {
    if (evaluator_.active_[run] && evaluator_.alive_[run]) term.seen[run] = host(found, declared, run);
  }
  type(term) = evaluator_.type_of(term.seen, declared);
  return term;
}

// The term as an iteration finds it, which cannot count on its numbers.
Term Evaluator::DataLoop::unsettled(const Term& term) {
  const auto number = term.settled();
  if (number && number->isScalar()) return stand_in(term, number->type());
  if (!term.items) return term;
  std::vector<Term> items;
  for (std::size_t i = 0; i < term.items->size(); ++i) {
    const bool key = term.kind == Term::Kind::dict && i % 2 == 0;
    items.push_back(key ? (*term.items)[i] : unsettled((*term.items)[i]));
  }
  return Term::container(term.kind, std::move(items), evaluator_.depth_ + 1);
}

Term Evaluator::DataLoop::as_carried(const Form& form) {
  switch (form.kind) {
    case Form::Kind::same:
      return form.start;
    case Form::Kind::value:
      return unsettled(form.start.kind == Term::Kind::unset ? form.after : form.start);
    case Form::Kind::sequence: {
      if (form.after.is_sequence()) return unsettled(form.after);
      Term whole = stand_in(form.after, form.type);
      whole.sequence = true;
      type(whole) = {ValueKind::sequence, form.element, std::nullopt};
      return Term::container(Term::Kind::list, {std::move(whole)}, evaluator_.depth_ + 1);
    }
    case Form::Kind::container:
      break;
  }
  std::vector<Term> items;
  for (const Form& item : form.items) items.push_back(as_carried(item));
  return Term::container(form.start.kind, std::move(items), evaluator_.depth_ + 1);
}

bool Evaluator::DataLoop::same_form(const Term& a, const Term& b) {
  if (a.kind != b.kind || a.sequence != b.sequence || !a.items != !b.items) return false;
  return !a.items || std::ranges::equal(*a.items, *b.items, same_form);
}

// Lists that the body changes are as they were before again.
Term Evaluator::DataLoop::variable_after(std::size_t i) {
  return carried_[i].in_place ? carried_[i].in_place->take_back() : evaluator_.term(body_.outputs()[i + 1], call_);
}

// The initial values, and the values that stand for them in the body.
void Evaluator::DataLoop::begin(const Form& form, const Carried& carried) {
  if (form.kind == Form::Kind::container) {
    for (const Form& item : form.items) begin(item, carried);
    return;
  }
  if (form.kind == Form::Kind::same) return;
  const bool sequence = form.kind == Form::Kind::sequence;
  const Term start =
      sequence ? evaluator_.sequence_of(form.start, form.type, form.element, *evaluator_.sink_, recorded_.origin)
               : form.start;
  std::get<ArgumentList>(recorded_.arguments.back().value.data).push_back(argument(start, nullptr));
  Term leaf;
  leaf.kind = Term::Kind::value;
  leaf.sequence = sequence;
  leaf.id = evaluator_.new_value(carried.name, ValueSource::block_input, none_id);
  const bool unset = start.kind == Term::Kind::unset;
  for (int run = 0; run < evaluator_.runs_; ++run) leaf.seen[run] = host_at(unset ? form.after : start, run);
  type(leaf) = evaluator_.type_of(leaf.seen, form.type);
  if (unset && form.after.is_value()) type(leaf) = evaluator_.program_.values[form.after.id].type;
  if (sequence) type(leaf) = evaluator_.program_.values[start.id].type;
  recorded_.blocks[0].inputs.push_back(leaf.id);
  starts_.push_back(start);
  leaves_.push_back(std::move(leaf));
  names_after_.push_back(carried.name_after);
}

// The variable with the carried values, one after the other, in their places.
Term Evaluator::DataLoop::with_leaves(const Form& form, std::vector<Term>::const_iterator& leaf, int depth) const {
  if (form.kind == Form::Kind::same) return form.start;
  if (form.kind == Form::Kind::value) return *leaf++;
  std::vector<Term> items;
  if (form.kind == Form::Kind::sequence) {
    items.push_back(*leaf++);
  } else {
    for (const Form& item : form.items) items.push_back(with_leaves(item, leaf, depth));
  }
  return Term::container(form.start.kind, std::move(items), depth);
}

// The values in a variable as an iteration leaves it.
void Evaluator::DataLoop::leaves_in(const Form& form, const Term& found, std::vector<Term>& leaves) {
  const Term term = form.start.is_optional() ? found.as_optional() : found;
  const auto number = term.settled();
  switch (form.kind) {
    case Form::Kind::same:
      if (term.kind != form.start.kind ||
          (term.kind == Term::Kind::literal && !same_literal(*term.seen[0], *form.start.seen[0]))) {
        refuse("a loop whose length depends on data changes a variable that is no tensor or number before it",
               "give the variable a tensor before the loop");
      }
      return;
    case Form::Kind::value:
      if (!term.is_value() && !(number && number->isScalar()) && term.kind != Term::Kind::unset) break;
      leaves.push_back(term);
      return;
    case Form::Kind::sequence:
      if (term.kind != Term::Kind::list && term.kind != Term::Kind::unset) break;
      leaves.push_back(evaluator_.sequence_of(term.items ? term : Term::container(Term::Kind::list, {}), form.type,
                                              form.element, *evaluator_.sink_, recorded_.origin));
      return;
    case Form::Kind::container:
      if (term.kind == Term::Kind::unset) {
        for (const Form& item : form.items) leaves_in(item, term, leaves);
        return;
      }
      if (!term.is_container() || term.items->size() != form.items.size()) break;
      for (std::size_t i = 0; i < form.items.size(); ++i) leaves_in(form.items[i], (*term.items)[i], leaves);
      return;
  }
  refuse("a loop whose length depends on data leaves a variable in another form than it found it",
         "carry tensors, or tuples and lists that keep their length, or a list that only grows");
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

}  // namespace whence
