// The names that values have in the file. ONNX wants them unique over a graph and all bodies nested in it, so the whole
// tree of graphs is named at once. Inputs and outputs come first and so keep the names they were given.
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

  // Empty for no_value: an optional input that is left out. `graph` is the one given, or one nested in it.
  const std::string& of(const graph::Graph& graph, graph::GraphValueId value) const;

 private:
  void name_graph(const graph::Graph& graph, const graph::Graph* outer);
  void claim(std::vector<std::string>& names, const graph::Graph& graph, graph::GraphValueId value,
             const std::string& otherwise);

  text::UniqueNames unique_;
  std::unordered_map<const graph::Graph*, std::vector<std::string>> names_;
};

}  // namespace whence::write
