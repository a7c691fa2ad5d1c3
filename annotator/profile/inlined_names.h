// InlinedNames: maps a profile's names of inlined nodes back. ONNX Runtime inlines every function call before it runs a
// model, and names the nodes `_inlfunc_BertLayer_<name>` for the first call of the function BertLayer, then
// `_inlfunc_BertLayer_token_7_<name>`, with numbers that increase from call to call. Nested calls are inlined after
// all calls of the enclosing level (ONNX Runtime 1.31, onnxruntime/core/graph/graph.cc).
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
  // `model` is the model as stored, with its functions.
  InlinedNames(const onnx_file::OnnxSummary& model, const RuntimeProfile& profile);

  // Returns the name that `whence inline` gives the node. Returns `name` if the node is not from a function, or if the
  // profile lacks some calls of the function: it is then unknown which calls are missing.
  std::string name_by_whence(const std::string& name) const;

 private:
  struct Inlined {
    std::string function;
    long number = -1;  // after "token_"; the first call has none
    std::string_view rest;
  };
  bool split(std::string_view name, Inlined& into) const;

  std::map<std::string, std::vector<std::string>> calls_;         // names of calls by function, in ORT's order
  std::map<std::string, std::map<long, std::string>> by_number_;  // name of a call by function and number
};

}  // namespace whence::profile
