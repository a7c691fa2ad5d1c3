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
  // A write to a parameter, a buffer or an input is followed within the run and told: an ONNX file starts each run
  // anew, and leaves what it is given.
  void tell_of_write(const Node& node, ValueId memory);

 private:
  void tell(const Node& node, const std::string& what, const std::string& remedy);  // once, and how often

  Lowering& lowering_;
};

}  // namespace whence
