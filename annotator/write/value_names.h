// The names that values have in the file. ONNX wants them unique over a graph and all bodies nested in it, so the whole
// tree of graphs is named at once. Inputs and outputs come first and so keep the names they were given.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/text/unique_names.h"

namespace whence {

class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);

  // Empty for no_value: an optional input that is left out. `graph` is the one given, or one nested in it.
  const std::string& of(const Graph& graph, GraphValueId value) const;

 private:
  void name_graph(const Graph& graph, const Graph* outer);
  void claim(std::vector<std::string>& names, const Graph& graph, GraphValueId value, const std::string& otherwise);

  UniqueNames unique_;
  std::unordered_map<const Graph*, std::vector<std::string>> names_;
};

// The graphs that a node holds as attributes, in order.
std::vector<const Graph*> bodies(const GraphNode& node);

}  // namespace whence
