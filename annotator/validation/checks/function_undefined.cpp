// V105: calls of functions that the model does not define. A domain holds functions when the model defines one of it,
// or when it is one of the exporters' own ("pkg.onnxscript.torch_lib"), which no runtime has kernels for. Other custom
// domains (com.microsoft) may well be known to a runtime, so nothing is said of them.
#include <set>
#include <tuple>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

struct Definitions {
  std::set<Key> functions;
  std::set<std::string_view> domains;

  bool lacks(const onnx_file::OnnxNode& node) const {
    const bool holds_functions = domains.count(node.domain) > 0 || node.domain.starts_with("pkg.");
    return holds_functions && functions.count({node.domain, node.op_type, node.overload}) == 0;
  }
};

std::vector<FindingItem> find_function_undefined(const CheckContext& context) {
  Definitions defined;
  for (const onnx_file::OnnxFunction& function : context.model.functions) {
    defined.functions.insert({function.domain, function.name, function.overload});
    // A function may overlay a standard operator; that makes no function domain of ai.onnx.
    if (!function.domain.empty() && !function.domain.starts_with("ai.onnx")) defined.domains.insert(function.domain);
  }
  std::vector<FindingItem> items;
  walk_nodes(context.model, [&](const onnx_file::OnnxNode& node) {
    if (!defined.lacks(node)) return;
    items.push_back({shown_node(node), "calls " + std::string(node.domain) + "::" + std::string(node.op_type)});
  });
  return items;
}

}  // namespace

const Check function_undefined_check = {
    {"V105", "function_undefined", "calls of functions that the model does not define",
     "export again with the functions included",
     "A domain holds functions when the model defines one of it, or when it is one of the exporters' own, which no "
     "runtime has kernels for. Of other custom domains nothing is said: a runtime may know them.",
     Severity::error},
    find_function_undefined};

}  // namespace whence::validation
