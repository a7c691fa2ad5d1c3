#include "annotator/functions/flat_summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "annotator/functions/call_text.h"
#include "annotator/functions/inline_calls.h"
#include "annotator/functions/model_parts.h"
#include "annotator/onnx_file/summary_of_bytes.h"
#include "annotator/origin/keys.h"

namespace whence::functions {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

namespace {

// The model as bytes, without the weights that lie in its file.
std::string structure_of(const ModelParts& parts, const OnnxSummary& model) {
  std::unordered_set<std::string_view> in_file;
  for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) in_file.insert(tensor.name);
  onnx::ModelProto structure = parts.model;
  for (const StoredTensor& tensor : parts.initializers) {
    if (in_file.contains(tensor.header.name())) continue;  // a constant of a function: small
    *structure.mutable_graph()->add_initializer() = tensor.whole();
  }
  return structure.SerializeAsString();
}

OnnxSummary written_out(const OnnxSummary& model) {
  ModelParts parts = read_model_parts(model.file->path());
  inline_calls(parts, /*all=*/false);
  OnnxSummary flat = onnx_file::summary_of_bytes(model.file, structure_of(parts, model));
  std::vector<onnx_file::OnnxTensor>& initializers = flat.graph.initializers;
  initializers.insert(initializers.begin(), model.graph.initializers.begin(), model.graph.initializers.end());
  return flat;
}

}  // namespace

bool has_cut_functions(const OnnxSummary& model) {
  return std::ranges::any_of(model.functions, [](const OnnxFunction& function) {
    return find_property(function.metadata, keys::function).has_value();
  });
}

FunctionChoice cut_modules(const OnnxSummary& model) {
  std::map<std::pair<std::string_view, std::string_view>, const OnnxFunction*> functions;
  for (const OnnxFunction& each : model.functions) {
    if (find_property(each.metadata, keys::function)) functions[{each.domain, each.name}] = &each;
  }
  std::set<std::string> modules;
  FunctionChoice options;
  std::vector<std::pair<const OnnxNode*, std::string>> open;  // nodes, and the module of the call that they stand in
  for (const OnnxNode& node : model.graph.nodes) open.emplace_back(&node, "");
  std::set<std::pair<const OnnxNode*, std::string>> seen;
  while (!open.empty()) {
    const auto [node, outer] = open.back();
    open.pop_back();
    const auto function = functions.find({node->domain, node->op_type});
    if (function == functions.end() || !seen.emplace(node, outer).second) continue;
    const auto stated = find_property(node->metadata, keys::module);
    const std::string module = from_template(std::string(stated.value_or("")), outer);
    if (stated) modules.insert(module);
    for (const OnnxNode& inner : function->second->nodes) open.emplace_back(&inner, module);
  }
  options.modules.assign(modules.begin(), modules.end());
  return options;
}

Result<OnnxSummary> read_flat_summary(const std::string& path) {
  return guarded([&] {
    Result<OnnxSummary> model = onnx_file::read_onnx_summary(path);
    if (!model) throw Error(model.diagnostics());
    return has_cut_functions(*model) ? written_out(*model) : std::move(*model);
  });
}

}  // namespace whence::functions
