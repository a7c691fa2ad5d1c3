// DataLoop: records a loop whose length depends on data. The body is recorded in the first iteration, or, if iterations
// change sizes, in the first one that does not assume them fixed. The runs then continue to the end without recording,
// so that shapes after the loop are known.
#pragma once

#include "recorder/script/loop_variables.h"

namespace whence::recorder::script {

class DataLoop {
 public:
  DataLoop(Recording& recording, BlockRunner& blocks, const Step& step)
      : recording_(recording), body_(recording, blocks, step), variables_(recording, body_) {}

  void record();

 private:
  // A carried value in the body.
  struct Leaf {
    Term term;
    Term start;              // its value before the first iteration
    std::string name_after;  // name of its value after the loop
    Term left;               // its value at the end of the recorded iteration
  };

  void begin(const CarriedForm& form, const LoopVariables::Variable& variable);
  void iterate();
  std::vector<Term> iterate_once(std::int64_t trip, std::vector<Node>& nodes);
  void record_outputs(const std::vector<Term>& results);
  bool take_over(const std::vector<Term>& results);
  bool take_over_type(const Term& leaf, const Term& result);
  void assume_values(const std::vector<Term>& results);
  bool same_operations(const std::vector<Node>& nodes, const std::vector<Node>& others) const;
  void widen(const std::vector<Node>& recorded, const std::vector<Node>& later);
  void finish();
  std::vector<Term> terms() const;
  bool keeps(const Leaf& leaf) const;
  std::vector<const Term*> may_be(const Leaf& leaf) const;

  Recording& recording_;
  LoopBody body_;
  LoopVariables variables_;
  std::vector<Leaf> leaves_;
  std::vector<RunValues> actual_values_;  // actual values of the leaves, while assumed values replace them
  Node node_;
};

}  // namespace whence::recorder::script
