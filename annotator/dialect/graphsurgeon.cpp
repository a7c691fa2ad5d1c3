// Writes a Python function for onnx-graphsurgeon, which has no lists of names. The function fails if a node is missing.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

std::string write_python(const Choice& choice) {
  std::string text = "NAMES = [\n";
  // A JSON string is also a Python string.
  for (const std::string& name : names_of(choice)) text += "    " + json_text(nlohmann::ordered_json(name)) + ",\n";
  return text +
         "]\n\n\n"
         "def selected(graph):\n"
         "    \"\"\"Returns the selected nodes of an onnx_graphsurgeon.Graph; raises KeyError if one is "
         "missing.\"\"\"\n"
         "    graphs = [graph, *graph.subgraphs(recursive=True)]\n"
         "    nodes = {node.name: node for each in graphs for node in each.nodes}\n"
         "    return [nodes[name] for name in NAMES]\n";
}

}  // namespace

const Dialect graphsurgeon_dialect = {
    "graphsurgeon", "a Python function that finds the nodes", Bodies::seen, {}, nullptr, write_python};

}  // namespace whence::dialect
