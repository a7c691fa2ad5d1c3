// V108: attributes that refer to an attribute of the enclosing function that the function does not declare, or that are
// not in a function.
#include <algorithm>

#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

void add_references(const std::vector<onnx_file::OnnxNode>& nodes, const std::vector<std::string_view>& declared,
                    std::vector<FindingItem>& items) {
  walk_nodes(nodes, [&](const onnx_file::OnnxNode& node) {
    for (const onnx_file::OnnxAttribute& attribute : node.attributes) {
      if (attribute.reference.empty() || std::ranges::find(declared, attribute.reference) != declared.end()) continue;
      items.push_back({shown_node(node), std::string(attribute.name) + " = @" + std::string(attribute.reference)});
    }
  });
}

std::vector<FindingItem> find_attribute_undeclared(const CheckContext& context) {
  std::vector<FindingItem> items;
  add_references(context.model.graph.nodes, {}, items);
  for (const onnx_file::OnnxFunction& function : context.model.functions) {
    add_references(function.nodes, function.attributes, items);
  }
  return items;
}

}  // namespace

const Check attribute_undeclared_check = {
    {"V108", "attribute_undeclared", "references to attributes that no enclosing function declares",
     "declare the attribute in the function, or write the value itself",
     "The call of the enclosing function supplies the value; an attribute that the function does not declare has none.",
     Severity::error},
    find_attribute_undeclared};

}  // namespace whence::validation
