// Reports on writes: errors for writes that cannot become values, warnings for writes to state that a file does not
// keep.
#pragma once

#include <string>
#include <vector>

#include "annotator/lower/pass.h"
#include "schema/lost_writes.h"

namespace whence::lower {

class WriteReports {
 public:
  explicit WriteReports(Lowering& lowering) : lowering_(lowering) {}

  Failure refusal(const Node& node, const std::string& why) const;
  void report(const Failure& failure);  // once per location
  // Warns of a write to state that outlives the call (a parameter, a buffer, a constant of the archive, an input): the
  // new value is used only within the run. `memory`: the owner of the written tensor.
  void warn_of_write(const Node& node, ValueId memory);
  // Drops the warning about writes to an input that the program returns as a whole: the caller gets the new value.
  void withdraw_write(ValueId returned);
  // Warns of a write to memory that the operation also reads, at another offset.
  void warn_of_overlap(const Node& node);
  // Adds the warnings to the notes on the program.
  void finish();

  // The reports at one time, for restore().
  struct Warning {
    ValueId memory = none_id;  // the written memory; none for an overlap
    Diagnostic diagnostic;
  };
  struct Mark {
    Failures failures;
    std::vector<Warning> warnings;
  };
  Mark mark() const { return {lowering_.failures, warnings_}; }
  void restore(Mark mark);

 private:
  void warn(ValueId memory, Diagnostic diagnostic);  // once per text, with the number of writes

  Lowering& lowering_;
  std::vector<Warning> warnings_;
};

}  // namespace whence::lower
