#include "annotator/view/model_explorer.h"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "annotator/origin/counts.h"
#include "annotator/view/attribute_text.h"
#include "annotator/view/viewer_layers.h"
#include "schema/flat_map.h"
#include "schema/json_text.h"

namespace whence::view {

namespace {

using Json = nlohmann::ordered_json;
using onnx_file::GraphIndex;
using onnx_file::OnnxNode;

// Writes nodes as text, not as JSON values: a million nodes would hold thirty million small objects.
std::string key_value(std::string_view key, std::string_view value) {
  return R"({"key":)" + quoted_json(key) + R"(,"value":)" + quoted_json(value) + "}";
}

// Appends an element to a comma-separated list.
void push(std::string& list, std::string_view element) {
  if (!list.empty()) list += ',';
  list += element;
}

void add(std::string& attributes, std::string_view key, std::string_view value) {
  if (!value.empty()) push(attributes, key_value(key, value));
}

std::string numbered(std::size_t number, std::string_view attributes) {
  return R"({"id":")" + std::to_string(number) + R"(","attrs":[)" + std::string(attributes) + "]}";
}

std::string operator_text(const OnnxNode& node) {
  return (node.domain.empty() ? "" : std::string(node.domain) + "::") + std::string(node.op_type);
}

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// The node counts of a layer and all nested layers.
struct LayerFigures {
  std::optional<std::size_t> row;
  origin::Counts nodes;
};

class ModelExplorerWriter {
 public:
  ModelExplorerWriter(const onnx_file::OnnxSummary& model, const NodeGraph& graph, const functions::ValueShapes& shapes,
                      const PutText& put)
      : model_(model), graph_(graph), shapes_(shapes), put_(put), ids_(viewer_ids(graph)) {
    used_ids_.insert(ids_.begin(), ids_.end());
    for (std::int32_t node = 0; std::cmp_less(node, graph.nodes.size()); ++node) {
      const auto writes = graph.index.writes(node);
      for (std::size_t output = 0; output < writes.size(); ++output) {
        if (writes[output] != onnx_file::no_value) output_of_[writes[output]] = output;
      }
    }
    for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) weights_.insert(tensor.name);
  }

  void write() {
    put_(R"({"label":)" + json_text(Json(viewer_graph_id(model_))) + R"(,"graphs":[{"id":)" +
         json_text(Json(viewer_graph_id(model_))) + R"(,"nodes":[)");
    inputs();
    const ViewerLayers viewer_layers(graph_);
    const std::vector<GraphIndex::Read>& reads = graph_.index.reads();
    std::vector<std::vector<GraphIndex::Read>> by_node(graph_.nodes.size());
    for (const GraphIndex::Read& read : reads) by_node[static_cast<std::size_t>(read.node)].push_back(read);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::vector<ViewerLayer> layers = viewer_layers.of(graph_.nodes[i]);
      node(i, layers.empty() ? "" : layers.back().path, by_node[i]);
      const auto confidence = graph_.nodes[i].confidence;
      all_.add(confidence);
      for (const ViewerLayer& layer : layers) {
        LayerFigures& figures = layers_[layer.path];
        figures.row = layer.row;
        figures.nodes.add(confidence);
      }
    }
    outputs();
    put_("],\"groupNodeAttributes\":");
    groups();
    put_("}]}\n");
  }

 private:
  // `more_fields`: further JSON fields, with a leading comma.
  void put_node(std::string_view id, std::string_view label, std::string_view layer, std::string_view more_fields) {
    std::string text = first_ ? "" : ",\n";
    text += R"({"id":)" + quoted_json(id) + R"(,"label":)" + quoted_json(label) + R"(,"namespace":)";
    text += quoted_json(layer);
    text += more_fields;
    text += '}';
    put_(text);
    first_ = false;
  }

  std::string free_id(std::string id) {
    while (!used_ids_.insert(id).second) id += "'";
    return id;
  }

  std::string shape(std::string_view value) const {
    const auto known = shapes_.find(value);
    return known == shapes_.end() ? "" : known->second->text;
  }

  // Model Explorer labels edges with tensor_shape, and finds nodes by tensor_name.
  std::string output_entry(std::size_t number, std::string_view value) const {
    std::string attributes = key_value("tensor_name", value);
    add(attributes, "tensor_shape", shape(value));
    return numbered(number, attributes);
  }

  void inputs() {
    for (const onnx_file::OnnxValue& input : model_.graph.inputs) {
      if (weights_.contains(input.name)) continue;
      const std::string id = free_id("input " + std::string(input.name));
      input_ids_.emplace(input.name, id);
      put_node(id, "input " + std::string(input.name), "",
               R"(,"outputsMetadata":[)" + output_entry(0, input.name) + "]");
    }
  }

  void outputs() {
    for (const onnx_file::OnnxValue& output : model_.graph.outputs) {
      std::string edges;
      const auto value = graph_.index.find(output.name);
      if (value != onnx_file::no_value) add_edge(edges, value, 0);
      put_node(free_id("output " + std::string(output.name)), "output " + std::string(output.name), "",
               R"(,"incomingEdges":[)" + edges + R"(],"inputsMetadata":[)" +
                   numbered(0, key_value("__tensor_tag", output.name)) + "]");
    }
  }

  void add_edge(std::string& edges, onnx_file::ValueId value, std::size_t input) const {
    const auto push_edge = [&](std::string_view node, std::size_t output) {
      push(edges, R"({"sourceNodeId":)" + quoted_json(node) + R"(,"sourceNodeOutputId":")" + std::to_string(output) +
                      R"(","targetNodeInputId":")" + std::to_string(input) + R"("})");
    };
    const GraphIndex::Value& from = graph_.index.values()[static_cast<std::size_t>(value)];
    if (from.producer >= 0) {
      const auto output = output_of_.find(value);
      push_edge(ids_[static_cast<std::size_t>(from.producer)], output == output_of_.end() ? 0 : output->second);
    } else if (const auto id = input_ids_.find(from.name); from.input && id != input_ids_.end()) {
      push_edge(id->second, 0);
    }
  }

  // `reads`: the node's inputs in order, without omitted inputs, then the results of its bodies.
  void node(std::size_t number, const std::string& layer, const std::vector<GraphIndex::Read>& reads) {
    const OnnxNode& node = *graph_.nodes[number].node;
    std::string edges, inputs, outputs;
    std::size_t read = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].empty() || read == reads.size()) continue;
      const onnx_file::ValueId value = reads[read++].value;
      add_edge(edges, value, i);
      push(inputs, input_entry(i, node.inputs[i], value));
    }
    for (std::size_t i = node.inputs.size(); read < reads.size(); ++read, ++i) {
      const onnx_file::ValueId value = reads[read].value;
      add_edge(edges, value, i);
      push(inputs, input_entry(i, graph_.index.values()[static_cast<std::size_t>(value)].name, value));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) push(outputs, output_entry(i, node.outputs[i]));
    }
    put_node(ids_[number], operator_text(node), layer,
             R"(,"attrs":[)" + attributes(number) + R"(],"incomingEdges":[)" + edges + R"(],"inputsMetadata":[)" +
                 inputs + R"(],"outputsMetadata":[)" + outputs + "]");
  }

  std::string input_entry(std::size_t number, std::string_view name, onnx_file::ValueId value) const {
    std::string attributes = key_value("__tensor_tag", name);
    if (graph_.index.values()[static_cast<std::size_t>(value)].initializer >= 0) {
      add(attributes, "weight", name);
      add(attributes, "weight_shape", shape(name));
    }
    return numbered(number, attributes);
  }

  std::string attributes(std::size_t number) const {
    const PlacedNode& placed = graph_.nodes[number];
    const metadata::Attribution origin = graph_.attribution_of(placed);
    std::string attributes = key_value("confidence", origin::name_of(origin.confidence));
    if (placed.row) {
      push(attributes, key_value("module", origin.primary.empty() ? "(root)" : origin.primary));
      add(attributes, "module type", graph_.tree.rows[*placed.row].type);
      if (origin.modules.size() > 1) add(attributes, "modules", list_text(origin.modules));
    }
    add(attributes, "call", origin.call);
    add(attributes, "source", origin.source);
    add(attributes, "rule", origin.rule);
    add(attributes, "identity", origin.id);
    add(attributes, "node name", placed.node->name);
    const std::int32_t holder = graph_.index.holder(static_cast<std::int32_t>(number));
    if (holder >= 0) {
      push(attributes, R"({"key":"in a body of","value":{"type":"node_ids","nodeIds":[)" +
                           quoted_json(ids_[static_cast<std::size_t>(holder)]) + "]}}");
    }
    const Place place{.file = model_.file ? model_.file->path() : "", .stage = "model-explorer"};
    for (const onnx_file::OnnxAttribute& each : placed.node->attributes) {
      add(attributes, each.name, attribute_text(each, place));
    }
    return attributes;
  }

  static void add_counts(Json& figures, const origin::Counts& counts) {
    figures["nodes"] = std::to_string(counts.total());
    for (std::size_t i = 0; i < origin::confidence_count; ++i) {
      if (counts.by[i] == 0) continue;
      figures[std::string(origin::name_of(static_cast<origin::Confidence>(i)))] = std::to_string(counts.by[i]);
    }
  }

  void groups() {
    Json model = Json::object();
    add_counts(model, all_);
    if (!model_.producer.empty()) {
      model["producer"] = std::string(model_.producer) + " " + std::string(model_.producer_version);
    }
    if (const std::string& type = graph_.tree.rows[0].type; !type.empty()) model["module type"] = type;
    put_("{\"\":" + json_text(model));
    for (const auto& [path, figures] : layers_) {
      Json group = Json::object();
      if (figures.row) {
        const ModuleRow& module = graph_.tree.rows[*figures.row];
        group["module"] = module.path;
        if (!module.type.empty()) group["module type"] = module.type;
        group["parameters"] = std::to_string(module.parameters);
      }
      add_counts(group, figures.nodes);
      put_(",\n" + json_text(Json(path)) + ":" + json_text(group));
    }
    put_("}");
  }

  const onnx_file::OnnxSummary& model_;
  const NodeGraph& graph_;
  const functions::ValueShapes& shapes_;
  const PutText& put_;
  std::vector<std::string> ids_;
  std::unordered_set<std::string> used_ids_;
  std::unordered_map<onnx_file::ValueId, std::size_t> output_of_;
  std::unordered_set<std::string_view> weights_;
  std::unordered_map<std::string_view, std::string> input_ids_;
  std::map<std::string, LayerFigures> layers_;
  origin::Counts all_;
  bool first_ = true;
};

}  // namespace

std::vector<std::string> viewer_ids(const NodeGraph& graph) {
  FlatSet<std::string_view> names, used;
  for (const PlacedNode& placed : graph.nodes) names.insert(placed.node->name);
  std::unordered_map<std::string, std::size_t> numbers;  // the last suffix of each repeated id
  std::vector<std::string> ids;
  ids.reserve(graph.nodes.size());
  for (const PlacedNode& placed : graph.nodes) {
    const OnnxNode& node = *placed.node;
    std::string id(node.name);
    if (id.empty()) id = std::string(node.op_type) + (node.outputs.empty() ? "" : " " + std::string(node.outputs[0]));
    const bool is_other_name = node.name.empty() && names.contains(id);
    if (is_other_name || used.contains(id)) {
      std::size_t& number = numbers.try_emplace(id, 1).first->second;
      std::string other;
      do {
        other = id + " #" + std::to_string(++number);
      } while (names.contains(other) || used.contains(other));
      id = std::move(other);
    }
    used.insert(ids.emplace_back(std::move(id)));  // the view stays valid: `ids` has reserved its capacity
  }
  return ids;
}

std::string viewer_graph_id(const onnx_file::OnnxSummary& model) {
  return model.graph.name.empty() ? "main_graph" : std::string(model.graph.name);
}

void write_model_explorer(const onnx_file::OnnxSummary& model, const NodeGraph& graph,
                          const functions::ValueShapes& shapes, const PutText& put) {
  ModelExplorerWriter(model, graph, shapes, put).write();
}

void write_confidence_data(const onnx_file::OnnxSummary& model, const NodeGraph& graph, const PutText& put) {
  const std::vector<std::string> ids = viewer_ids(graph);
  put("{" + json_text(Json(viewer_graph_id(model))) + R"(:{"name":"confidence","results":{)");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto confidence = graph.nodes[i].confidence;
    const Json result = {{"value", origin::name_of(confidence)}, {"bgColor", colour_of(confidence)}};
    put((i == 0 ? "" : ",\n") + json_text(Json(ids[i])) + ":" + json_text(result));
  }
  put(R"(},"hideInAggregatedStatsTable":true,"showExpandedSummaryOnGroupNode":true,"showLabelCountColumnsInChildrenStatsTable":true}})"
      "\n");
}

}  // namespace whence::view
