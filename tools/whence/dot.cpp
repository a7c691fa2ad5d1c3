// `whence dot`: the modules and nodes of a file as nested groups, for programs that draw graphs.
#include "tools/whence/drawing_command.h"

namespace whence {

using view::write_dot;

namespace {

ExitCode run(int argc, char** argv) {
  return write_drawing(
      argc, argv,
      {"dot", "model.dot",
       "Writes the graph for Graphviz: a cluster for each module, within that of the module around it; nodes\n"
       "coloured by confidence. `dot -Tsvg` draws it.",
       write_dot});
}

}  // namespace

const Command dot_command = {"dot", "the graph in nested clusters, for Graphviz", run};

}  // namespace whence
