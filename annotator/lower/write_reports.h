// Reports of writes to users: those that cannot become values, and those to state that a file does not keep.
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
  void report(const Failure& failure);  // once for each place
  // A write to what outlives the call (a parameter, a buffer, a constant of the archive, an input) is followed within
  // the run and warned of. `memory`: the owner of what is written.
  void warn_of_write(const Node& node, ValueId memory);
  // Drops the warning of writes to an input that the program returns as a whole: the caller gets the new value.
  void withdraw_write(ValueId returned);
  // A write to memory that the operation reads as well, at another place.
  void warn_of_overlap(const Node& node);
  // Adds the warnings to the notes on the program.
  void finish();

  // Drops what was reported since.
  struct Warning {
    ValueId memory = none_id;  // that is written; none for an overlap
    Diagnostic diagnostic;
  };
  struct Mark {
    Failures failures;
    std::vector<Warning> warnings;
  };
  Mark mark() const { return {lowering_.failures, warnings_}; }
  void wind_back(Mark mark);

 private:
  void warn(ValueId memory, Diagnostic diagnostic);  // once for each text, with the number of writes

  Lowering& lowering_;
  std::vector<Warning> warnings_;
};

}  // namespace whence::lower
