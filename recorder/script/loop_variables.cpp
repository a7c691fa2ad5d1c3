#include "recorder/script/loop_variables.h"

#include "recorder/script/restore.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

LoopVariables::LoopVariables(Recording& recording, LoopBody& body) : recording_(recording), body_(body) {
  const Step& loop = body.step;
  for (std::size_t i = 2; i < loop.count(); ++i) {
    const jit::Value &input = *loop.node.input(i), &output = *loop.node.outputs()[i - 2];
    starts_.push_back(loop.in(i));
    variables_.push_back({input.debugName(), output.debugName(), {}, output.type(), {}});
  }
  if (!forms_known_before_loop()) {
    find_forms();
    return;
  }
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    variables_[i].form = form_of(recording, starts_[i], starts_[i], variables_[i].type);
  }
}

// Returns true if the variables before the loop determine how they are carried.
bool LoopVariables::forms_known_before_loop() const {
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    if (variables_[i].type->kind() == c10::TypeKind::OptionalType) return false;
    if (starts_[i].items || starts_[i].kind == Term::Kind::unset) return false;
  }
  return !may_change_containers(body_.block);
}

// Finds the forms by evaluating the body: only this shows that a container grows or a variable becomes None. A variable
// in another form may change what the body does, so the body is evaluated until no form changes.
void LoopVariables::find_forms() {
  std::vector<Term> tried;
  for (const Term& start : starts_) tried.push_back(with_placeholders(start));
  for (bool stable = false; !stable;) {
    const std::size_t ambiguous_before = ambiguous_.size();
    const std::vector<Term> after = try_body(tried);
    stable = after.size() == tried.size() && ambiguous_.size() == ambiguous_before;
    std::vector<Term> next;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      variables_[i].form = form_of(recording_, starts_[i], after[i], variables_[i].type);
      next.push_back(as_carried(variables_[i].form));
      stable = stable && same_form(next[i], tried[i]);
    }
    tried = std::move(next);
  }
}

// Evaluates an iteration without recording it. `tried`: the variables and changed containers at its start. Returns them
// at its end, followed by the lists, dicts and attributes that it is the first to change.
std::vector<Term> LoopVariables::try_body(const std::vector<Term>& tried) {
  std::vector<Node> discarded;
  Restore sink(recording_.writer.sink);
  recording_.writer.sink = &discarded;
  const NodeWriter::Mark mark = recording_.writer.mark();
  Containers found;
  before_.clear();
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const Term variable = tried[i].copied();
    add_containers(i, starts_[i], before_);
    add_containers(i, variable, found);
    set_variable(i, variable);
  }
  std::set<Items> reachable = reachable_containers(recording_, body_.step, Reach::in_body);
  PerRun<bool> on_trial;
  on_trial.fill(true);
  std::vector<ChangedContainer> changed = body_.run(0, on_trial);
  std::vector<Term> after;
  left_.clear();
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const auto& in_place = variables_[i].in_place;
    const Term left = in_place ? Term::container(in_place->kind, *in_place->items) : body_.variable_after(i);
    add_containers(i, left, left_);
    after.push_back(left.copied());
  }
  for (const Variable& variable : variables_) {
    if (variable.in_place) *variable.in_place->items = variable.in_place->before;
  }
  mark_shared(found, std::move(reachable));
  for (ChangedContainer& container : changed) {
    if (is_carried(container)) continue;
    starts_.push_back(Term::container(container.kind, container.before));
    after.push_back(container.take_back().copied());
    const c10::TypePtr type = container.type;
    variables_.push_back({"list", "list", {}, type, std::move(container)});
  }
  recording_.writer.take_back(mark);
  return after;
}

// Adds the lists and dicts in the i-th variable, except a container that is changed in place: it remains the same
// object.
void LoopVariables::add_containers(std::size_t i, const Term& variable, Containers& found) const {
  each_container(variable, {i}, [&](const Path& path, const Items& items) {
    if (path.size() > 1 || !variables_[i].in_place) found.emplace(path, items);
  });
}

// Sets the i-th variable at the start of an iteration.
void LoopVariables::set_variable(std::size_t i, const Term& variable) {
  Containers found;
  add_containers(i, variable, found);
  for (const auto& [path, items] : found) {
    if (ambiguous_.contains(path)) recording_.changes.mark_ambiguous(items);
  }
  if (variables_[i].in_place) {
    *variables_[i].in_place->items = *variable.items;
  } else {
    body_.variable(i) = variable;
  }
}

// Returns the objects that lists and dicts in the variables replace, in the first iteration and in later ones.
Replacements LoopVariables::replacements(const Containers& found) const {
  const auto at = [](const Containers& containers, const Path& path) {
    const auto there = containers.find(path);
    return there == containers.end() ? nullptr : there->second;
  };
  Replacements replacements;
  for (const auto& [path, items] : found) replacements.note(items, {at(before_, path), at(left_, path)});
  return replacements;
}

// Marks the containers at the start of iterations as ambiguous if they may be the same object as another.
void LoopVariables::mark_shared(const Containers& found, std::set<Items> reachable) {
  for (const auto& [path, items] : found) reachable.insert(items);
  replacements(found).refuse_changes(recording_.changes, reachable);
  for (const auto& [path, items] : found) {
    if (recording_.changes.is_ambiguous(items)) ambiguous_.insert(path);
  }
}

// Returns a placeholder value for a term at the start of an iteration that is not recorded.
Term LoopVariables::placeholder(const Term& found, const c10::TypePtr& declared) {
  const Lockstep& runs = recording_.runs;
  RunValues seen = runs.each([&](int run) { return runs.takes_part(run) ? host(found, declared, run) : std::nullopt; });
  Type type = recording_.values.type_of(seen, declared);
  return Term::of_value(recording_.values.add("tried", ValueSource::block_input, std::move(type)), std::move(seen));
}

// Returns the term with placeholders for its numbers: an iteration cannot assume their values.
Term LoopVariables::with_placeholders(const Term& term) {
  if (term.is_settled_number()) return placeholder(term, term.settled()->type());
  if (!term.items) return term;
  std::vector<Term> items;
  for (std::size_t i = 0; i < term.items->size(); ++i) {
    const Term& item = (*term.items)[i];
    items.push_back(term.is_key(i) ? item : with_placeholders(item));
  }
  return Term::container(term.kind, std::move(items), recording_.runs.depth + 1);
}

// Returns the variable at the start of an iteration, in this form.
Term LoopVariables::as_carried(const CarriedForm& form) {
  using Kind = CarriedForm::Kind;
  const int depth = recording_.runs.depth + 1;
  if (form.kind == Kind::same) return form.start;
  if (form.kind == Kind::value)
    return with_placeholders(form.start.kind == Term::Kind::unset ? form.after : form.start);
  if (form.kind == Kind::sequence) {
    if (form.after.is_sequence()) return with_placeholders(form.after);
    Term sequence = placeholder(form.after, form.type);
    recording_.values.type(sequence.id) = {ValueKind::sequence, form.element, std::nullopt};
    return Term::of_sequence(std::move(sequence), depth);
  }
  std::vector<Term> items;
  for (const CarriedForm& item : form.items) items.push_back(as_carried(item));
  return Term::container(form.start.kind, std::move(items), depth);
}

bool LoopVariables::is_carried(const ChangedContainer& container) const {
  return std::ranges::any_of(variables_, [&](const Variable& variable) {
    return variable.in_place && variable.in_place->items == container.items;
  });
}

void LoopVariables::set(const std::vector<Term>& leaves) {
  std::vector<Term>::const_iterator leaf = leaves.begin();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    set_variable(i, with_leaves(variables_[i].form, leaf, recording_.runs.depth + 1));
  }
}

void LoopVariables::add_leaves_after(const Origin& origin, std::vector<Term>& leaves) {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    auto& in_place = variables_[i].in_place;
    add_leaves(recording_, variables_[i].form, in_place ? in_place->take_back() : body_.variable_after(i), origin,
               leaves);
  }
}

void LoopVariables::finish(const std::vector<Term>& results) {
  BlockRunner::release(body_.block, body_.step.call);
  std::vector<Term>::const_iterator leaf = results.begin();
  Containers made;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    Term variable = with_leaves(variables_[i].form, leaf, recording_.runs.depth);
    add_containers(i, variable, made);
    if (variables_[i].in_place) {
      *variables_[i].in_place->items = *variable.items;
    } else {
      body_.step.call.env[body_.step.node.outputs()[i]] = std::move(variable);
    }
  }
  if (made.empty()) return;
  replacements(made).refuse_changes(recording_.changes, reachable_containers(recording_, body_.step, Reach::after));
}

}  // namespace whence::recorder::script
