// One module call as a model of its own.
#include <algorithm>
#include <set>

#include "annotator/functions/functions.h"
#include "annotator/functions/inline_calls.h"
#include "annotator/functions/modules_in_bodies.h"
#include "annotator/functions/region.h"
#include "annotator/functions/value_types.h"
#include "annotator/view/nearest_names.h"
#include "schema/dtype.h"

namespace whence {
namespace {

InstanceId find_call(const WorkGraph& graph, const std::string& module, int call) {
  const Instances& instances = graph.instances();
  std::set<std::string> paths;
  std::set<int> calls;
  for (std::size_t id = 0; id < instances.size(); ++id) {
    const Instance& instance = instances[static_cast<InstanceId>(id)];
    paths.insert(instance.path);
    if (instance.path != module) continue;
    if (instance.call == call) return static_cast<InstanceId>(id);
    calls.insert(instance.call);
  }
  const Place place{.file = graph.parts().path, .stage = "extract"};
  if (!calls.empty()) {
    throw Error(Code::usage, module + " was not called " + std::to_string(call + 1) + " times in the file",
                "its calls are 0 to " + std::to_string(*calls.rbegin()), place);
  }
  const auto in_bodies = modules_in_bodies(graph);
  if (const auto body = in_bodies.find(module); body != in_bodies.end()) {
    throw Error(Code::converter_refused,
                "the nodes of " + module + " stand in the body of " + body->second.holder + ", which is not cut open",
                "extract the module around it", place);
  }
  throw Error(Code::usage, "no node of the file is in the module '" + module + "'",
              nearest_remedy(module, {paths.begin(), paths.end()}, "`whence annotate` the file first"), place);
}

class Extractor {
 public:
  Extractor(ModelParts& parts, const std::string& module, int call)
      : parts_(parts), types_(value_types(parts)), graph_(parts), place_{.file = parts.path, .stage = "extract"} {
    place_.module = module;
    place_.has_module = true;
    region_ = whole_region(graph_, find_call(graph_, module, call));
    if (region_.refusal.empty()) return;
    throw Error(Code::converter_refused, "the module is no single part of the graph: " + region_.refusal,
                "extract the module around it", place_);
  }

  ExtractReport run() {
    find_known();
    take_known_along();
    const std::set<std::int32_t> inside(region_.nodes.begin(), region_.nodes.end());
    onnx::GraphProto graph;
    graph.set_name(place_.module.empty() ? "root" : place_.module);
    std::set<std::string> weights, inputs;
    for (const std::int32_t index : region_.nodes) {
      const WorkNode& node = graph_.nodes()[index];
      for (const WorkValueId id : node.reads) {
        const WorkValue& value = graph_.value(id);
        if (value.initializer >= 0) {
          weights.insert(value.name);
        } else if (!inside.contains(value.producer) && inputs.insert(value.name).second) {
          *graph.add_input() = typed(value.name, "input");
        }
      }
      *graph.add_node() = node.node;
    }
    add_outputs(inside, /*known=*/false, graph);
    if (graph.output_size() == 0) add_outputs(inside, /*known=*/true, graph);
    keep_weights(weights, graph);
    parts_.model.mutable_graph()->Swap(&graph);
    return report();
  }

 private:
  // What others read of the region. What is known whatever the module is given is a weight that others share, and no
  // result, unless there is no other.
  void add_outputs(const std::set<std::int32_t>& inside, bool known, onnx::GraphProto& graph) const {
    const auto within = [&](std::int32_t reader) { return inside.contains(reader); };
    for (const std::int32_t index : region_.nodes) {
      if (!known && known_[index] != 0) continue;
      for (const WorkValueId id : graph_.nodes()[index].writes) {
        if (id >= 0 && graph_.needed_outside(id, within)) *graph.add_output() = typed(graph_.value(id).name, "output");
      }
    }
  }

  void find_known() {
    known_.assign(graph_.nodes().size(), 0);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      known_[i] = std::ranges::all_of(graph_.nodes()[i].reads, [&](WorkValueId id) {
        const WorkValue& value = graph_.value(id);
        return !value.input && (value.initializer >= 0 || (value.producer >= 0 && known_[value.producer] != 0));
      });
    }
  }

  // What is made of constants alone is known whatever the module is given: it is no input.
  void take_known_along() {
    std::set<std::int32_t> inside(region_.nodes.begin(), region_.nodes.end());
    std::vector<std::int32_t> open = region_.nodes;
    while (!open.empty()) {
      const std::int32_t next = open.back();
      open.pop_back();
      for (const WorkValueId id : graph_.nodes()[next].reads) {
        const std::int32_t producer = graph_.value(id).producer;
        if (producer < 0 || known_[producer] == 0 || !inside.insert(producer).second) continue;
        open.push_back(producer);
        ++region_.taken_along;
      }
    }
    region_.nodes.assign(inside.begin(), inside.end());
  }

  onnx::ValueInfoProto typed(const std::string& name, const char* what) const {
    const auto type = types_.find(name);
    if (type == types_.end()) {
      throw Error(Code::converter_refused, std::string("the type of its ") + what + " '" + name + "' is not known",
                  "state it in the file's value_info (onnx.shape_inference may know it)", place_);
    }
    onnx::ValueInfoProto value;
    value.set_name(name);
    *value.mutable_type() = type->second;
    return value;
  }

  void keep_weights(const std::set<std::string>& weights, onnx::GraphProto& graph) {
    std::erase_if(parts_.initializers,
                  [&](const StoredTensor& tensor) { return !weights.contains(tensor.header.name()); });
    for (const onnx::ValueInfoProto& value : parts_.model.graph().value_info()) {
      if (weights.contains(value.name())) *graph.add_value_info() = value;
    }
  }

  ExtractReport report() const {
    ExtractReport report;
    const onnx::GraphProto& graph = parts_.model.graph();
    for (const onnx::ValueInfoProto& value : graph.input()) report.inputs.push_back(described(value));
    for (const onnx::ValueInfoProto& value : graph.output()) report.outputs.push_back(described(value));
    report.nodes = graph.node_size();
    report.weights = static_cast<std::int64_t>(parts_.initializers.size());
    report.taken_along = region_.taken_along;
    return report;
  }

  static std::string described(const onnx::ValueInfoProto& value) {
    const onnx::TypeProto::Tensor& type = value.type().tensor_type();
    std::string text = value.name() + " " + std::string(name_of(from_onnx(type.elem_type())));
    if (!type.has_shape()) return text;
    std::string sizes;
    for (const auto& dim : type.shape().dim()) {
      sizes += sizes.empty() ? "" : ",";
      sizes += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.has_dim_param() ? dim.dim_param() : "?";
    }
    return text + "[" + sizes + "]";
  }

  ModelParts& parts_;
  const std::map<std::string, onnx::TypeProto> types_;
  WorkGraph graph_;
  Place place_;
  Region region_;
  std::vector<char> known_;  // by node: made of constants alone
};

}  // namespace

Result<ExtractReport> extract_file(const std::string& input, const std::string& output, const std::string& module,
                                   int call) {
  return guarded([&] {
    ModelParts parts = read_model_parts(input);
    inline_calls(parts, /*all=*/false);
    const ExtractReport report = Extractor(parts, module, call).run();
    write_model_parts(parts, output);
    return report;
  });
}

}  // namespace whence
