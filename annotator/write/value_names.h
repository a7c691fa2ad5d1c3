// Assigns the names of values in the file. ONNX requires them to be unique over a graph and all nested bodies, so the
// whole tree of graphs is named at once. Inputs and outputs are named first and so keep their preferred names.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/text/unique_names.h"

namespace whence::write {

class ValueNames {
 public:
  explicit ValueNames(const graph::Graph& graph);

  // Returns an empty name for no_value, an absent optional input. `graph` is the outermost graph or one nested in it.
  const std::string& of(const graph::Graph& graph, graph::GraphValueId value) const;

 private:
  void name_graph(const graph::Graph& graph, const graph::Graph* outer);
  void claim(std::vector<std::string>& names, const graph::Graph& graph, graph::GraphValueId value,
             const std::string& otherwise);

  text::UniqueNames unique_;
  std::unordered_map<const graph::Graph*, std::vector<std::string>> names_;
};

}  // namespace whence::write
