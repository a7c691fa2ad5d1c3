// Reports of writes to users: those that cannot become values, and those to state that a file does not keep.
#pragma once

#include <string>

#include "annotator/lower/pass.h"
#include "schema/lost_writes.h"

namespace whence::lower {

class WriteReports {
 public:
  explicit WriteReports(Lowering& lowering) : lowering_(lowering) {}

  Diagnostic refusal(const Node& node, const std::string& why) const;
  void report(const Diagnostic& diagnostic);  // once for each place
  // A write to what outlives the call (a parameter, a buffer, a constant of the archive, an input) is followed within
  // the run and warned of. `memory`: the owner of what is written.
  void warn_of_write(const Node& node, ValueId memory);
  // Drops the report on an input that the program returns as a whole: the caller gets the new value.
  void withdraw_write(ValueId returned);
  // Drops what was reported since.
  struct Mark {
    Diagnostics failures, notes;
  };
  Mark mark() const { return {lowering_.failures, lowering_.notes}; }
  void wind_back(Mark mark);
  // A write to memory that the operation reads as well, at another place.
  void warn_of_overlap(const Node& node);

 private:
  void warn(Diagnostic warning);  // once, with the number of writes

  Lowering& lowering_;
};

}  // namespace whence::lower
