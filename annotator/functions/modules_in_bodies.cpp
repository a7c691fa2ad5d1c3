#include "annotator/functions/modules_in_bodies.h"

#include "annotator/functions/call_text.h"
#include "annotator/functions/node_values.h"

namespace whence::functions {

std::map<std::string, ModuleInBody> modules_in_bodies(const WorkGraph& graph) {
  std::map<std::string, ModuleInBody> found;
  for (const WorkNode& node : graph.nodes()) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> inner;
    for_each_node(node.node, [&](const onnx::NodeProto& each) {
      if (&each != &node.node) *inner.Add() = each;
    });
    if (inner.empty()) continue;
    const std::string holder = node.node.op_type() + " '" + node.node.name() + "'";
    const Instances instances(inner);
    for (std::size_t id = 0; id < instances.size(); ++id) {
      const Instance& instance = instances[static_cast<InstanceId>(id)];
      if (!graph.instances().is_module(instance.path)) found.try_emplace(instance.path, instance.type, holder);
    }
  }
  return found;
}

}  // namespace whence::functions
