// Names of nodes that stood in functions, in a profile: ONNX Runtime inlines every call before it runs a model, and
// calls the nodes `_inlfunc_BertLayer_<name>` for the first call of the function BertLayer, then
// `_inlfunc_BertLayer_token_7_<name>`, with numbers that rise from call to call. Calls in functions come after all
// those around them (ONNX Runtime 1.31, onnxruntime/core/graph/graph.cc).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/profile/runtime_profile.h"

namespace whence::profile {

class InlinedNames {
 public:
  // `model`: as stored, with its functions.
  InlinedNames(const onnx_file::OnnxSummary& model, const RuntimeProfile& profile);

  // The name that `whence inline` gives the node; `name` itself when it is of no function, or when the profile does not
  // have all calls of the function, so that nothing says which are missing.
  std::string before(const std::string& name) const;

 private:
  struct Inlined {
    std::string function;
    long number = -1;  // after "token_"; the first call has none
    std::string_view rest;
  };
  bool split(std::string_view name, Inlined& into) const;

  std::map<std::string, std::vector<std::string>> calls_;         // by function: names of its calls, in ORT's order
  std::map<std::string, std::map<long, std::string>> by_number_;  // by function and number: the name of the call
};

}  // namespace whence::profile
