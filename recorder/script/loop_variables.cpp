#include "recorder/script/loop_variables.h"

#include "recorder/script/restore.h"

namespace whence::recorder {

namespace jit = torch::jit;

LoopVariables::LoopVariables(Recording& recording, BlockRunner& blocks, LoopBody& body)
    : recording_(recording), blocks_(blocks), body_(body) {
  const Step& loop = body.step;
  for (std::size_t i = 2; i < loop.count(); ++i) {
    const jit::Value &input = *loop.node.input(i), &output = *loop.node.outputs()[i - 2];
    starts_.push_back(loop.in(i));
    variables_.push_back({input.debugName(), output.debugName(), {}, output.type(), {}});
  }
  if (!certain_before_loop()) {
    find_forms();
    return;
  }
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    variables_[i].form = form_of(recording, starts_[i], starts_[i], variables_[i].type);
  }
}

// True where the variables as they are before the loop decide how they are carried.
bool LoopVariables::certain_before_loop() const {
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    if (variables_[i].type->kind() == c10::TypeKind::OptionalType) return false;
    if (starts_[i].items || starts_[i].kind == Term::Kind::unset) return false;
  }
  return !may_change_containers(body_.block);
}

// Whether a container grows, or a variable becomes None, shows only when the body was evaluated, and what is carried in
// another form may change what the body does: it is tried until the forms stay.
void LoopVariables::find_forms() {
  std::vector<Term> tried;
  for (const Term& start : starts_) tried.push_back(unsettled(start));
  for (bool stable = false; !stable;) {
    const std::vector<Term> after = try_body(tried);
    stable = after.size() == tried.size();
    std::vector<Term> next;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      variables_[i].form = form_of(recording_, starts_[i], after[i], variables_[i].type);
      next.push_back(as_carried(variables_[i].form));
      stable = stable && same_form(next[i], tried[i]);
    }
    tried = std::move(next);
  }
}

// What an iteration that is not recorded leaves of `tried`, the variables and changed containers as it finds them.
// Lists, dicts and attributes that it is the first to change are added.
std::vector<Term> LoopVariables::try_body(const std::vector<Term>& tried) {
  std::vector<Node> discarded;
  Restore sink(recording_.writer.sink);
  recording_.writer.sink = &discarded;
  const NodeWriter::Mark mark = recording_.writer.mark();
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (variables_[i].in_place) {
      *variables_[i].in_place->items = *tried[i].items;
      continue;
    }
    const Term variable = body_.variable(i) = tried[i].copied();
    // A change of it would change the one of before as well, which is still of use.
    const Step& loop = body_.step;
    if (variable.is_container() && !blocks_.is_last_use(loop.node, *loop.node.input(i + 2))) {
      recording_.changes.doubt(variable.items);
    }
  }
  PerRun<bool> on_trial;
  on_trial.fill(true);
  std::vector<ChangedContainer> changed = body_.run(0, on_trial);
  std::vector<Term> after;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const auto& in_place = variables_[i].in_place;
    after.push_back(in_place ? Term::container(in_place->kind, *in_place->items).copied()
                             : body_.variable_after(i).copied());
    if (in_place) *in_place->items = in_place->before;
  }
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

// A value of the program that stands for what an iteration finds, while it is not recorded.
Term LoopVariables::stand_in(const Term& found, const c10::TypePtr& declared) {
  const Lockstep& runs = recording_.runs;
  Seen seen = runs.each([&](int run) { return runs.takes_part(run) ? host(found, declared, run) : std::nullopt; });
  Type type = recording_.values.type_of(seen, declared);
  return Term::of_value(recording_.values.add("tried", ValueSource::block_input, std::move(type)), std::move(seen));
}

// The term as an iteration finds it, which cannot count on its numbers.
Term LoopVariables::unsettled(const Term& term) {
  if (term.is_settled_number()) return stand_in(term, term.settled()->type());
  if (!term.items) return term;
  std::vector<Term> items;
  for (std::size_t i = 0; i < term.items->size(); ++i) {
    const Term& item = (*term.items)[i];
    items.push_back(term.is_key(i) ? item : unsettled(item));
  }
  return Term::container(term.kind, std::move(items), recording_.runs.depth + 1);
}

// The variable as an iteration finds it in this form.
Term LoopVariables::as_carried(const CarriedForm& form) {
  using Kind = CarriedForm::Kind;
  const int depth = recording_.runs.depth + 1;
  if (form.kind == Kind::same) return form.start;
  if (form.kind == Kind::value) return unsettled(form.start.kind == Term::Kind::unset ? form.after : form.start);
  if (form.kind == Kind::sequence) {
    if (form.after.is_sequence()) return unsettled(form.after);
    Term sequence = stand_in(form.after, form.type);
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
    const Term variable = with_leaves(variables_[i].form, leaf, recording_.runs.depth + 1);
    if (variables_[i].in_place) {
      *variables_[i].in_place->items = *variable.items;
    } else {
      body_.variable(i) = variable;
    }
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
  BlockRunner::forget(body_.block, body_.step.call);
  std::vector<Term>::const_iterator leaf = results.begin();
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    Term variable = with_leaves(variables_[i].form, leaf, recording_.runs.depth);
    if (variables_[i].in_place) {
      *variables_[i].in_place->items = *variable.items;
    } else {
      body_.step.call.env[body_.step.node.outputs()[i]] = std::move(variable);
    }
  }
}

}  // namespace whence::recorder
