// What users are told of writes: those that cannot become values, and those to state that a file does not keep.
#pragma once

#include <string>

#include "annotator/lower/pass.h"

namespace whence {

class WriteReports {
 public:
  explicit WriteReports(Lowering& lowering) : lowering_(lowering) {}

  Diagnostic refusal(const Node& node, const std::string& why) const;
  void report(const Diagnostic& diagnostic);  // once for each place
  // A write to a parameter or buffer is followed within the run and told, for an ONNX file starts each run anew.
  void tell_of_state(const Node& node, ValueId memory);

 private:
  Lowering& lowering_;
};

}  // namespace whence
