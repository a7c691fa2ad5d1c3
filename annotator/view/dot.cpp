// Writes DOT (graphviz.org/doc/info/lang.html). In a quoted string only '"' and '\' are special characters.
#include "annotator/view/drawing_files.h"
#include "annotator/view/tree_text.h"
#include "schema/module_path.h"
#include "schema/printable.h"

namespace whence::view {

namespace {

// Quotes an attribute value or label. Doubles backslashes, because Graphviz expands "\n" and "\N" in labels.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

class DotWriter {
 public:
  DotWriter(const NodeGraph& graph, const PutText& put) : graph_(graph), nodes_of_(graph.nodes_by_row()), put_(put) {}

  void write() {
    put_(
        "digraph whence {\n  compound=true;\n  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\"];\n"
        "  graph [fontname=\"Helvetica\", style=rounded];\n");
    cluster(0, 1);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].row) node(i, 1);
    }
    for (const auto& edge : graph_.index.edges()) {
      put_("  n" + std::to_string(edge.from) + " -> n" + std::to_string(edge.to) +
           " [tooltip=" + in_quotes(edge.value) + "];\n");
    }
    put_("}\n");
  }

 private:
  void cluster(std::size_t row, std::size_t level) {
    const ModuleRow& module = graph_.tree.rows[row];
    if (module.total == 0 && row != 0) return;
    const std::string indent(level * 2, ' ');
    const std::string type = last_segment(module.type);
    const std::string segment = shown_path(module.path.substr(module.path.rfind('.') + 1));
    put_(indent + "subgraph cluster_" + std::to_string(row) + " {\n" + indent +
         "  label=" + in_quotes(segment + (type.empty() ? "" : " : " + type)) + ";\n" + indent +
         "  module=" + in_quotes(module.path) + ";\n");
    for (const std::size_t child : module.children) cluster(child, level + 1);
    for (const std::size_t i : nodes_of_[row]) node(i, level + 1);
    put_(indent + "}\n");
  }

  void node(std::size_t index, std::size_t level) {
    const PlacedNode& placed = graph_.nodes[index];
    const metadata::Attribution attribution = graph_.attribution_of(placed);
    put_(std::string(level * 2, ' '));
    put_("n" + std::to_string(index) + " [label=" + in_quotes(placed.node->op_type) +
         ", tooltip=" + in_quotes(placed.node->name) + ", nodename=" + in_quotes(placed.node->name) +
         ", confidence=" + std::string(origin::name_of(attribution.confidence)) + ", fillcolor=\"" +
         std::string(colour_of(attribution.confidence)) + "\"");
    if (placed.row) put_(", module=" + in_quotes(attribution.primary));
    if (!attribution.source.empty()) put_(", source=" + in_quotes(attribution.source));
    put_("];\n");
  }

  const NodeGraph& graph_;
  std::vector<std::vector<std::size_t>> nodes_of_;
  const PutText& put_;
};

}  // namespace

void write_dot(const NodeGraph& graph, const PutText& put) { DotWriter(graph, put).write(); }

}  // namespace whence::view
