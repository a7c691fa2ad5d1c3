// `whence dot`: writes the modules and nodes of a file as nested clusters, for Graphviz.
#include "tools/whence/drawing_command.h"

namespace whence {

using view::write_dot;

namespace {

ExitCode run(int argc, char** argv) {
  return write_drawing(
      argc, argv,
      {"dot", "model.dot",
       "Writes the graph for Graphviz: a cluster for each module, inside the cluster of its parent module; nodes\n"
       "coloured by confidence. `dot -Tsvg` draws it.",
       write_dot});
}

}  // namespace

const Command dot_command = {"dot", "write the graph in nested clusters, for Graphviz", run};

}  // namespace whence
