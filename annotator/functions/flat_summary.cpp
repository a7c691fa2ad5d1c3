#include "annotator/functions/flat_summary.h"

#include <algorithm>
#include <set>

#include "annotator/functions/call_metadata.h"
#include "annotator/functions/inline_calls.h"
#include "annotator/functions/model_parts.h"
#include "annotator/onnx_file/called_functions.h"
#include "annotator/origin/keys/functions.h"
#include "annotator/origin/keys/origin.h"

namespace whence::functions {

namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::OnnxFunction;
using onnx_file::OnnxNode;
using onnx_file::OnnxSummary;

namespace {

OnnxSummary with_calls_inlined(OnnxSummary model) {
  // The initializers of the file, sparse ones included; constants of functions follow.
  std::vector<onnx_file::OnnxTensor> initializers = model.graph.initializers;
  ModelParts parts = parts_of(std::move(model));
  const auto file_count = static_cast<std::ptrdiff_t>(parts.graph.initializers.size());
  inline_calls(parts, /*all=*/false);
  initializers.insert(initializers.end(), parts.graph.initializers.begin() + file_count,
                      parts.graph.initializers.end());
  OnnxSummary flat = summary_of(std::move(parts));
  flat.graph.initializers = std::move(initializers);
  return flat;
}

}  // namespace

bool has_cut_functions(const OnnxSummary& model) {
  return std::ranges::any_of(model.functions, [](const OnnxFunction& function) {
    return find_property(function.metadata, keys::function).has_value();
  });
}

FunctionChoice cut_modules(const OnnxSummary& model) {
  onnx_file::CalledFunctions functions;
  for (const OnnxFunction& each : model.functions) {
    if (find_property(each.metadata, keys::function)) functions.add(each);
  }
  std::set<std::string> modules;
  FunctionChoice options;
  std::vector<std::pair<const OnnxNode*, std::string>> pending;  // nodes, each with the module of the enclosing call
  for (const OnnxNode& node : model.graph.nodes) pending.emplace_back(&node, "");
  std::set<std::pair<const OnnxNode*, std::string>> seen;
  while (!pending.empty()) {
    const auto [node, outer] = pending.back();
    pending.pop_back();
    const OnnxFunction* function = functions.called_by(*node);
    if (function == nullptr || !seen.emplace(node, outer).second) continue;
    const auto stated_module = find_property(node->metadata, keys::module);
    const std::string module = from_template(stated_module.value_or(""), outer);
    if (stated_module) modules.insert(module);
    for (const OnnxNode& inner : function->nodes) pending.emplace_back(&inner, module);
  }
  options.modules.assign(modules.begin(), modules.end());
  return options;
}

Result<OnnxSummary> read_flat_summary(const std::string& path) {
  return guarded([&] {
    OnnxSummary model = value_of(onnx_file::read_onnx_summary(path));
    return has_cut_functions(model) ? with_calls_inlined(std::move(model)) : std::move(model);
  });
}

}  // namespace whence::functions
