// V107: calls that pass more inputs to a function of the model, or take more outputs, than it has, and calls that leave
// out an input that its nodes read first of all.
#include <map>
#include <tuple>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;

namespace {

using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

// An omitted input may feed an optional one within; as the first input of a node it is missed.
bool is_missed(const OnnxFunction& function, std::string_view input) {
  bool missed = false;
  walk_nodes(function.nodes,
             [&](const OnnxNode& node) { missed |= !node.inputs.empty() && node.inputs.front() == input; });
  return missed;
}

std::string counted(std::size_t given, std::size_t declared, const char* what) {
  return std::to_string(given) + " " + what + " where the function has " + std::to_string(declared);
}

std::string problem_of(const OnnxNode& call, const OnnxFunction& function) {
  if (call.inputs.size() > function.inputs.size()) {
    return counted(call.inputs.size(), function.inputs.size(), "inputs");
  }
  if (call.outputs.size() > function.outputs.size()) {
    return counted(call.outputs.size(), function.outputs.size(), "outputs");
  }
  for (std::size_t i = call.inputs.size(); i < function.inputs.size(); ++i) {
    if (is_missed(function, function.inputs[i])) return "input '" + std::string(function.inputs[i]) + "' is left out";
  }
  return "";
}

std::vector<FindingItem> find_function_arity(const CheckContext& context) {
  std::map<Key, const OnnxFunction*> functions;
  for (const OnnxFunction& function : context.model.functions) {
    functions[{function.domain, function.name, function.overload}] = &function;
  }
  std::vector<FindingItem> items;
  walk_nodes(context.model, [&](const OnnxNode& node) {
    const auto called = functions.find({node.domain, node.op_type, node.overload});
    if (called == functions.end()) return;
    if (std::string problem = problem_of(node, *called->second); !problem.empty()) {
      items.push_back({shown_node(node), std::move(problem)});
    }
  });
  return items;
}

}  // namespace

const Check function_arity_check = {
    {"V107", "function_arity", "calls that do not fit the function that they call",
     "export again: function and call were made apart",
     "onnx's checker looks at operators of its own domains only; runtimes refuse the model, or read what is not there.",
     Severity::error},
    find_function_arity};

}  // namespace whence::validation
