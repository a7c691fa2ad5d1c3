// V107: calls of functions of the model with more inputs or outputs than the function has, or without an input that the
// function needs.
#include "annotator/onnx_file/called_functions.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;

namespace {

// Returns true if the function needs the input: it is the first input of a node. Other node inputs may be optional.
bool is_required(const OnnxFunction& function, std::string_view input) {
  bool required = false;
  walk_nodes(function.nodes,
             [&](const OnnxNode& node) { required |= !node.inputs.empty() && node.inputs.front() == input; });
  return required;
}

std::string counted(std::size_t passed, std::size_t declared, const char* what) {
  return std::to_string(passed) + " " + what + ", but the function has " + std::to_string(declared);
}

std::string problem_of(const OnnxNode& call, const OnnxFunction& function) {
  if (call.inputs.size() > function.inputs.size()) {
    return counted(call.inputs.size(), function.inputs.size(), "inputs");
  }
  if (call.outputs.size() > function.outputs.size()) {
    return counted(call.outputs.size(), function.outputs.size(), "outputs");
  }
  for (std::size_t i = call.inputs.size(); i < function.inputs.size(); ++i) {
    if (is_required(function, function.inputs[i])) return "input '" + std::string(function.inputs[i]) + "' is missing";
  }
  return "";
}

std::vector<FindingItem> find_function_arity(const CheckContext& context) {
  const onnx_file::CalledFunctions functions(context.model.functions);
  std::vector<FindingItem> items;
  walk_nodes(context.model, [&](const OnnxNode& node) {
    const OnnxFunction* called = functions.called_by(node);
    if (called == nullptr) return;
    if (std::string problem = problem_of(node, *called); !problem.empty()) {
      items.push_back({shown_node(node), std::move(problem)});
    }
  });
  return items;
}

}  // namespace

const Check function_arity_check = {
    {"V107", "function_arity", "calls that do not fit the called function",
     "export again: function and call were written separately",
     "onnx's checker examines only operators of its own domains; runtimes refuse the model or read missing inputs.",
     Severity::error},
    find_function_arity};

}  // namespace whence::validation
