// CalledFunctions: the function of the file that a node calls. Functions of one domain may share a name; then the
// overload distinguishes them.
#pragma once

#include <map>
#include <string_view>
#include <tuple>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::onnx_file {

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;  // domain, name, overload

inline FunctionKey key_of(const OnnxFunction& function) { return {function.domain, function.name, function.overload}; }
inline FunctionKey key_of_called(const OnnxNode& node) { return {node.domain, node.op_type, node.overload}; }

class CalledFunctions {
 public:
  CalledFunctions() = default;
  explicit CalledFunctions(const std::vector<OnnxFunction>& functions) {
    for (const OnnxFunction& function : functions) add(function);
  }

  void add(const OnnxFunction& function) { by_key_.emplace(key_of(function), &function); }

  // Returns null for an operator that is none of the functions.
  const OnnxFunction* called_by(const OnnxNode& node) const {
    if (by_key_.empty()) return nullptr;
    const auto found = by_key_.find(key_of_called(node));
    return found == by_key_.end() ? nullptr : found->second;
  }

 private:
  std::map<FunctionKey, const OnnxFunction*> by_key_;
};

}  // namespace whence::onnx_file
