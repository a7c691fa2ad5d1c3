// V113: names that are not valid UTF-8 or contain control characters.
#include <set>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"
#include "schema/printable.h"

namespace whence::validation {

namespace {

class UnreadableNames {
 public:
  void add(std::string_view name, const char* kind) {
    const std::string shown = printable(name);
    if (shown != name && seen_.insert(name).second) items.push_back({shown, kind});
  }

  std::vector<FindingItem> items;

 private:
  std::set<std::string_view> seen_;
};

void add_node(const onnx_file::OnnxNode& node, UnreadableNames& names) {
  names.add(node.name, "node");
  names.add(node.op_type, "operator");
  names.add(node.domain, "domain");
  for (const std::string_view output : node.outputs) names.add(output, "value");
  for (const onnx_file::OnnxAttribute& attribute : node.attributes) names.add(attribute.name, "attribute");
  for (const onnx_file::OnnxProperty& entry : node.metadata.list()) names.add(entry.key, "metadata key");
}

std::vector<FindingItem> find_name_unreadable(const CheckContext& context) {
  UnreadableNames names;
  walk_values(context.model, [&](const onnx_file::OnnxValue& value) { names.add(value.name, "value"); });
  walk_tensors(context.model, [&](const onnx_file::OnnxTensor& tensor) { names.add(tensor.name, "tensor"); });
  walk_nodes(context.model, [&](const onnx_file::OnnxNode& node) { add_node(node, names); });
  for (const onnx_file::OnnxFunction& function : context.model.functions) {
    names.add(function.name, "function");
    for (const std::string_view input : function.inputs) names.add(input, "value");
  }
  for (const onnx_file::OnnxProperty& entry : context.model.metadata) names.add(entry.key, "metadata key");
  return std::move(names.items);
}

}  // namespace

const Check name_unreadable_check = {
    {"V113", "name_unreadable", "names that are not UTF-8 or contain control characters",
     "rename them: `whence annotate` gives nodes readable names",
     "protobuf requires UTF-8, and readers in other languages fail without it; "
     "control characters garble reports and terminals.",
     Severity::error},
    find_name_unreadable};

}  // namespace whence::validation
