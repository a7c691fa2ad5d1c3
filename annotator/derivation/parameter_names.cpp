#include "annotator/derivation/parameter_names.h"

#include <string_view>

namespace whence::derivation {

std::string parameter_name(const graph::Graph& graph, const graph::Initializer& initializer) {
  std::string name = graph.values[static_cast<std::size_t>(initializer.value)].name;
  if (!initializer.rearranged) return initializer.parameter ? name : "";
  // whence names such constants after the parameter: simplify/rules/fold_layout.cpp.
  for (bool ends = true; ends;) {
    ends = false;
    for (const std::string_view suffix : {".T", ".reshaped", ".rows"}) {
      if (!name.ends_with(suffix)) continue;
      name = name.substr(0, name.size() - suffix.size());
      ends = true;
    }
  }
  return name;
}

}  // namespace whence::derivation
