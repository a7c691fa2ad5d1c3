// onnx-graphsurgeon has no list of names; nodes are found in Python. The lines fail where a node is not there.
#include <nlohmann/json.hpp>

#include "annotator/dialect/dialect.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

std::string write_python(const Choice& choice) {
  std::string text = "NAMES = [\n";
  // A string of JSON is one of Python, too.
  for (const std::string& name : names_of(choice)) text += "    " + json_text(nlohmann::ordered_json(name)) + ",\n";
  return text +
         "]\n\n\n"
         "def selected(graph):\n"
         "    \"\"\"The nodes of an onnx_graphsurgeon.Graph that were selected; KeyError for one that is not "
         "there.\"\"\"\n"
         "    graphs = [graph, *graph.subgraphs(recursive=True)]\n"
         "    nodes = {node.name: node for each in graphs for node in each.nodes}\n"
         "    return [nodes[name] for name in NAMES]\n";
}

}  // namespace

const Dialect graphsurgeon_dialect = {
    "graphsurgeon", "a function in Python that finds the nodes", Bodies::seen, {}, nullptr, write_python};

}  // namespace whence::dialect
