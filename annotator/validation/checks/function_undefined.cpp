// V105: calls of functions that the model does not define. A domain is checked if the model defines a function in it,
// or if it belongs to an exporter ("pkg.onnxscript.torch_lib"), because no runtime has kernels for it. A runtime may
// implement other custom domains (com.microsoft), so they are not checked.
#include <set>

#include "annotator/onnx_file/called_functions.h"
#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

struct Definitions {
  onnx_file::CalledFunctions functions;
  std::set<std::string_view> domains;

  bool lacks(const onnx_file::OnnxNode& node) const {
    const bool has_functions = domains.count(node.domain) > 0 || node.domain.starts_with("pkg.");
    return has_functions && functions.called_by(node) == nullptr;
  }
};

std::vector<FindingItem> find_function_undefined(const CheckContext& context) {
  Definitions defined;
  for (const onnx_file::OnnxFunction& function : context.model.functions) {
    defined.functions.add(function);
    // A function may override a standard operator, but ai.onnx remains a domain of operators.
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
     "A domain is checked if the model defines a function in it, or if it belongs to an exporter, because no runtime "
     "has kernels for it. Other custom domains are not checked: a runtime may implement them.",
     Severity::error},
    find_function_undefined};

}  // namespace whence::validation
