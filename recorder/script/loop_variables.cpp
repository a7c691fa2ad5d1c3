// How the variables of a loop on data, and the lists and attributes that it changes, are carried from iteration to
// iteration: by their parts, as a sequence, as a flag and a content, or not at all.
#include "recorder/script/data_loop.h"
#include "recorder/script/restore.h"

namespace whence::recorder {

// What the variable is before the loop and after an iteration decides how it is carried: containers that keep their
// size by their parts, lists that grow as a sequence.
Evaluator::DataLoop::Form Evaluator::DataLoop::form_of(const Term& before, const Term& then,
                                                       const c10::TypePtr& declared) const {
  const auto [start, after] = alike(before, then);
  Form form{Form::Kind::value, start, after, declared, DType::undefined, {}};
  const bool lists = start.kind == Term::Kind::list && after.kind == Term::Kind::list;
  if (lists && (start.is_sequence() || after.is_sequence() || start.items->size() != after.items->size())) {
    form.kind = Form::Kind::sequence;
    form.element = evaluator_.dtype_held(after);
  } else if (start.is_container() && after.is_container() && start.items->size() == after.items->size()) {
    form.kind = Form::Kind::container;
    if (start.kind == Term::Kind::dict) check_same_keys(start, after);
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
        refuse("a loop whose length depends on data changes a variable that is not a tensor or number before it",
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

}  // namespace whence::recorder
