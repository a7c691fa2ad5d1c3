#include "annotator/comparison/ambiguities.h"

#include <set>
#include <string_view>

#include "annotator/derivation/stated_rows.h"
#include "annotator/onnx_file/walk.h"

namespace whence::comparison {

std::vector<std::string> ambiguities(const onnx_file::OnnxSummary& model) {
  std::vector<std::string> found;
  std::set<std::string_view> domains;
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    const std::string_view domain = opset.domain.empty() ? std::string_view("ai.onnx") : opset.domain;
    if (!domains.insert(domain).second)
      found.push_back("the file imports the operator set '" + std::string(domain) + "' twice");
  }
  for (const onnx_file::OnnxNode* node : onnx_file::all_nodes(model.graph)) {
    std::set<std::string_view> names;
    for (const onnx_file::OnnxAttribute& attribute : node->attributes) {
      if (names.insert(attribute.name).second) continue;
      found.push_back("the node " + derivation::node_name(*node) + " states its attribute " +
                      std::string(attribute.name) + " twice");
    }
  }
  return found;
}

}  // namespace whence::comparison
