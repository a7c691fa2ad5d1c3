// Writes GraphML (graphml.graphdrawing.org/primer). Ids are numbers, so that names cannot clash or make them invalid.
#include "annotator/view/drawing_files.h"
#include "schema/printable.h"

namespace whence::view {

namespace {

constexpr std::string_view head = R"(<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
  <key id="kind" for="node" attr.name="kind" attr.type="string"/>
  <key id="name" for="node" attr.name="name" attr.type="string"/>
  <key id="op" for="node" attr.name="op" attr.type="string"/>
  <key id="module" for="node" attr.name="module" attr.type="string"/>
  <key id="type" for="node" attr.name="type" attr.type="string"/>
  <key id="confidence" for="node" attr.name="confidence" attr.type="string"/>
  <key id="call" for="node" attr.name="call" attr.type="string"/>
  <key id="source" for="node" attr.name="source" attr.type="string"/>
  <key id="value" for="edge" attr.name="value" attr.type="string"/>
  <graph id="model" edgedefault="directed">
)";

class GraphmlWriter {
 public:
  GraphmlWriter(const NodeGraph& graph, const PutText& put)
      : graph_(graph), nodes_of_(graph.nodes_by_row()), put_(put) {}

  void write() {
    put_(head);
    module(0, 2);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].row) node(i, 2);
    }
    std::size_t number = 0;
    for (const auto& edge : graph_.index.edges()) {
      put_("    <edge id=\"e" + std::to_string(number++) + "\" source=\"n" + std::to_string(edge.from) +
           "\" target=\"n" + std::to_string(edge.to) + "\"><data key=\"value\">" + escape_xml(edge.value) +
           "</data></edge>\n");
    }
    put_("  </graph>\n</graphml>\n");
  }

 private:
  void data(std::string_view key, std::string_view value) {
    if (value.empty() && key != "module") return;
    put_("<data key=\"" + std::string(key) + "\">" + escape_xml(value) + "</data>");
  }

  void module(std::size_t row, std::size_t level) {
    const ModuleRow& module_row = graph_.tree.rows[row];
    if (module_row.total == 0 && row != 0) return;
    const std::string indent(level * 2, ' '), id = "m" + std::to_string(row);
    put_(indent + "<node id=\"" + id + "\">");
    data("kind", "module");
    data("name", module_row.path.substr(module_row.path.rfind('.') + 1));
    data("module", module_row.path);
    data("type", module_row.type);
    put_("\n" + indent + "  <graph id=\"" + id + ":\" edgedefault=\"directed\">\n");
    for (const std::size_t child : module_row.children) module(child, level + 2);
    for (const std::size_t i : nodes_of_[row]) node(i, level + 2);
    put_(indent + "  </graph>\n" + indent + "</node>\n");
  }

  void node(std::size_t index, std::size_t level) {
    const PlacedNode& placed = graph_.nodes[index];
    const metadata::Attribution attribution = graph_.attribution_of(placed);
    put_(std::string(level * 2, ' '));
    put_("<node id=\"n" + std::to_string(index) + "\">");
    data("kind", "node");
    data("name", placed.node->name);
    data("op", placed.node->op_type);
    if (placed.row) data("module", attribution.primary);
    data("confidence", origin::name_of(attribution.confidence));
    data("call", attribution.call);
    data("source", attribution.source);
    put_("</node>\n");
  }

  const NodeGraph& graph_;
  std::vector<std::vector<std::size_t>> nodes_of_;
  const PutText& put_;
};

}  // namespace

void write_graphml(const NodeGraph& graph, const PutText& put) { GraphmlWriter(graph, put).write(); }

}  // namespace whence::view
