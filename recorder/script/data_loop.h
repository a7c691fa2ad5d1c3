// prim::Loop whose length depends on data. `evaluate_loop.cpp` goes through its iterations; `loop_variables.cpp`
// decides how each variable is carried from one to the next.
#pragma once

#include <algorithm>

#include "recorder/script/evaluator.h"

namespace whence::recorder {

namespace jit = torch::jit;

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

}  // namespace whence::recorder
