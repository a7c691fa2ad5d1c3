#include "annotator/functions/modules_in_bodies.h"

#include "annotator/onnx_file/walk.h"

namespace whence::functions {

std::map<std::string, ModuleInBody> modules_in_bodies(const WorkGraph& graph) {
  std::map<std::string, ModuleInBody> found;
  for (const WorkNode& node : graph.nodes()) {
    if (node.node->subgraphs.empty()) continue;
    std::vector<const onnx_file::OnnxNode*> inner;
    for (const onnx_file::OnnxGraph& body : node.node->subgraphs) {
      onnx_file::walk_nodes(body.nodes, [&](const onnx_file::OnnxNode& each) { inner.push_back(&each); });
    }
    const std::string holder = std::string(node.node->op_type) + " '" + std::string(node.node->name) + "'";
    for (const ModuleCall& instance : Instances(inner)) {
      if (!graph.instances().is_module(instance.path)) found.try_emplace(instance.path, instance.type, holder);
    }
  }
  return found;
}

}  // namespace whence::functions
