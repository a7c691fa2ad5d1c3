// LoopVariables: the variables of a data-dependent loop, and the lists, dicts and attributes that it changes, each with
// the form in which it is carried.
#pragma once

#include "recorder/script/carried_form.h"
#include "recorder/script/loop_body.h"
#include "recorder/script/shared_containers.h"

namespace whence::recorder::script {

class LoopVariables {
 public:
  struct Variable {
    std::string name, name_after;
    CarriedForm form;
    c10::TypePtr type;                         // as declared
    std::optional<ChangedContainer> in_place;  // set if this is a changed container, not a variable of the loop
  };

  // Evaluates the body on trial until the forms no longer change. Throws Error unsupported_feature.
  LoopVariables(Recording& recording, LoopBody& body);

  const std::vector<Variable>& all() const { return variables_; }
  bool is_carried(const ChangedContainer& container) const;
  // Sets the variables at the start of an iteration.
  void set(const std::vector<Term>& leaves);
  // Adds the carried values at the end of an iteration, and restores the containers that the body changed.
  void add_leaves_after(const Origin& origin, std::vector<Term>& leaves);
  // Sets the variables and containers to the loop's results.
  void finish(const std::vector<Term>& results);

 private:
  void find_forms();
  bool forms_known_before_loop() const;
  std::vector<Term> try_body(const std::vector<Term>& tried);
  Term placeholder(const Term& found, const c10::TypePtr& declared);
  Term with_placeholders(const Term& term);
  Term as_carried(const CarriedForm& form);
  // The lists and dicts in the variables, by the number of the variable and the path in it.
  using Containers = std::map<Path, Items>;
  void add_containers(std::size_t i, const Term& variable, Containers& found) const;
  void set_variable(std::size_t i, const Term& variable);
  Replacements replacements(const Containers& found) const;
  void mark_shared(const Containers& found, std::set<Items> reachable);

  Recording& recording_;
  LoopBody& body_;
  std::vector<Variable> variables_;
  std::vector<Term> starts_;  // their values before the loop
  Containers before_, left_;  // before the loop, and after the last trial
  std::set<Path> ambiguous_;  // containers that may be the same object as another
};

}  // namespace whence::recorder::script
