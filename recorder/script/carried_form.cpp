#include "recorder/script/carried_form.h"

#include <algorithm>

#include "recorder/base/torch_error.h"
#include "recorder/script/sequences.h"

namespace whence::recorder::script {

namespace {

using Kind = CarriedForm::Kind;

// Returns a container without values, in the form of `other`: a list, tuple, dict or Optional.
Term unset_like(const Term& other) {
  if (other.is_sequence()) return Term::container(Term::Kind::list, {});
  std::vector<Term> items;
  for (std::size_t i = 0; i < other.items->size(); ++i) {
    items.push_back(other.is_key(i) ? (*other.items)[i] : Term::unset());
  }
  return Term::container(other.kind, std::move(items));
}

// Returns both terms in one form: an unset one takes the form of the other; if one may be None, both become optional.
std::pair<Term, Term> in_one_form(const Term& start, const Term& after) {
  if (start.kind == Term::Kind::unset && after.items) return {unset_like(after), after};
  if (after.kind == Term::Kind::unset && start.items) return {start, unset_like(start)};
  const bool settled = start.kind == Term::Kind::unset || after.kind == Term::Kind::unset || start.kind == after.kind;
  if (settled || (!start.may_be_none() && !after.may_be_none())) return {start, after};
  return {start.as_optional(), after.as_optional()};
}

// True for variables that a loop cannot carry and must not change.
bool stays_same(const Term& start, const Term& after) {
  if (start.kind == Term::Kind::none || start.kind == Term::Kind::object) return true;
  if (start.kind == Term::Kind::unset) return !after.is_value() && !after.settled();
  const auto settled = start.settled();
  return settled && settled->isString();
}

}  // namespace

CarriedForm form_of(const Recording& recording, const Term& before, const Term& then, const c10::TypePtr& declared) {
  const auto [start, after] = in_one_form(before, then);
  CarriedForm form{Kind::value, start, after, declared, DType::undefined, {}};
  const bool lists = start.kind == Term::Kind::list && after.kind == Term::Kind::list;
  if (lists && (start.is_sequence() || after.is_sequence() || start.items->size() != after.items->size())) {
    form.kind = Kind::sequence;
    form.element = element_dtype_of(recording, after);
  } else if (start.is_container() && after.is_container() && start.items->size() == after.items->size()) {
    form.kind = Kind::container;
    if (start.kind == Term::Kind::dict) program::check_same_keys(start, after);
    for (std::size_t i = 0; i < start.items->size(); ++i) {
      form.items.push_back(form_of(recording, (*start.items)[i], (*after.items)[i], program::item_type(declared, i)));
      if (start.is_key(i)) form.items.back().kind = Kind::same;
    }
  } else if (stays_same(start, after)) {
    form.kind = Kind::same;
  } else if (start.is_container()) {
    refuse("a dict or tuple changes its keys or its length in a loop whose length depends on data",
           "set all keys before the loop");
  }
  return form;
}

bool same_form(const Term& a, const Term& b) {
  if (a.kind != b.kind || a.sequence != b.sequence || !a.items != !b.items) return false;
  return !a.items || std::ranges::equal(*a.items, *b.items, same_form);
}

Term with_leaves(const CarriedForm& form, std::vector<Term>::const_iterator& leaf, int depth) {
  if (form.kind == Kind::same) return form.start;
  if (form.kind == Kind::value) return *leaf++;
  std::vector<Term> items;
  if (form.kind == Kind::sequence) {
    items.push_back(*leaf++);
  } else {
    for (const CarriedForm& item : form.items) items.push_back(with_leaves(item, leaf, depth));
  }
  return Term::container(form.start.kind, std::move(items), depth);
}

void add_leaves(Recording& recording, const CarriedForm& form, const Term& found, const Origin& origin,
                std::vector<Term>& leaves) {
  const Term term = form.start.is_optional() ? found.as_optional() : found;
  const bool unset = term.kind == Term::Kind::unset;
  switch (form.kind) {
    case Kind::same:
      if (term.kind == Term::Kind::object && form.start.kind == term.kind && term.object != form.start.object) {
        refuse("a loop whose length depends on data replaces one object with another",
               "set the attributes of one object, or keep its tensors in variables");
      }
      if (term.kind != form.start.kind ||
          (term.kind == Term::Kind::literal && !program::same_literal(*term.seen[0], *form.start.seen[0]))) {
        refuse("a loop whose length depends on data changes a variable that is no tensor or number before the loop",
               "assign a tensor to the variable before the loop");
      }
      return;
    case Kind::value:
      if (!term.is_value() && !term.is_settled_number() && !unset) break;
      leaves.push_back(term);
      return;
    case Kind::sequence:
      if (term.kind != Term::Kind::list && !unset) break;
      leaves.push_back(sequence_of(recording, term.items ? term : Term::container(Term::Kind::list, {}), form.type,
                                   form.element, *recording.writer.sink, origin));
      return;
    case Kind::container:
      if (!unset && (!term.is_container() || term.items->size() != form.items.size())) break;
      for (std::size_t i = 0; i < form.items.size(); ++i) {
        add_leaves(recording, form.items[i], unset ? term : (*term.items)[i], origin, leaves);
      }
      return;
  }
  refuse("a loop whose length depends on data changes the form of a variable",
         "carry tensors, or tuples and lists that keep their length, or a list that only grows");
}

}  // namespace whence::recorder::script
