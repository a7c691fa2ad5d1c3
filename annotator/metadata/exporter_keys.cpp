#include "annotator/metadata/exporter_keys.h"

#include <algorithm>
#include <cctype>

#include "annotator/operators/onnx_operators.h"
#include "annotator/origin/common_module.h"
#include "annotator/origin/keys/torch.h"
#include "schema/module_path.h"
#include "schema/source_stack.h"

namespace whence::metadata {

namespace keys = origin::keys;
using origin::Confidence;

namespace {

// Returns true if a value may be a parameter by its name: the last segment is an attribute, or the number of an entry
// in a ParameterList. False for `const_1.0_f32`.
bool may_be_parameter(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos || dot + 1 == name.size() || name.find('/') != name.npos) return false;
  const std::string_view last = name.substr(dot + 1);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return !is_digit(static_cast<unsigned char>(last.front())) || std::ranges::all_of(last, is_digit);
}

// Returns the modules outside `module` whose parameters the node reads by qualified name. onnxscript's builder begins
// the names of computed values with "v_".
std::vector<std::string> other_owners(const onnx_file::OnnxNode& node, const std::string& module) {
  std::vector<std::string> owners;
  const bool by_builder = onnx_file::find_property(node.metadata, keys::onnxscript_name_scopes).has_value();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string_view input = node.inputs[i];
    if ((by_builder && input.starts_with("v_")) || node.is_model_input(i)) continue;
    if (!may_be_parameter(input)) continue;
    const std::string_view owner = module_around(input);
    if (!at_or_below(owner, module) && std::ranges::find(owners, owner) == owners.end()) owners.emplace_back(owner);
  }
  return owners;
}

bool is_product(std::string_view op_type) {
  const operators::OnnxOperator& row = operators::onnx_operator(op_type);
  return operators::has(row, operators::product) || operators::has(row.plain, operators::product);
}

// True for a convolution into which a norm was folded: it has the keys of the norm.
bool has_folded_norm(const onnx_file::OnnxNode& node, std::string_view operation) {
  return operation.find("batch_norm") != operation.npos && is_product(node.op_type);
}

std::string source_of(const onnx_file::OnnxProperties& metadata) {
  return source_place(read_python_trace(onnx_file::find_property(metadata, keys::stack_trace).value_or("")));
}

}  // namespace

std::optional<ExporterOrigin> origin_by_exporter(const onnx_file::OnnxNode& node,
                                                 const onnx_file::OnnxProperties& metadata) {
  const ExporterScopes scopes = exporter_scopes(node, metadata);
  if (scopes.modules.empty()) return std::nullopt;
  const std::string& module = scopes.modules.back().path;
  if (!scopes.certain) return ExporterOrigin{{module}, Confidence::ancestor, source_of(metadata), {}};
  ExporterOrigin result{{module}, Confidence::inferred, source_of(metadata), {}};
  std::vector<std::string> others = other_owners(node, module);
  const bool folded = has_folded_norm(node, scopes.operation);
  if (folded && !others.empty()) {
    result.primary = origin::common_module(others);
    others.push_back(module);
    result.modules = std::move(others);
  } else if (origin::is_of_runtime(node.domain) && !others.empty()) {
    // A fused operator absorbed operations of the other modules: the attention that reads the rotary embedding's
    // angles.
    result.primary = module;
    others.insert(others.begin(), module);
    result.modules = std::move(others);
  } else if (folded) {
    result = {{std::string(module_around(module))}, Confidence::ancestor, "", {}};
  } else if (!others.empty()) {
    others.push_back(module);
    result = {{origin::common_module(others)}, Confidence::ancestor, "", {}};
  }
  return result;
}

}  // namespace whence::metadata
