// `whence graphml`: writes the modules and nodes of a file as nested groups, for programs that draw graphs.
#include "tools/whence/drawing_command.h"

namespace whence {

using view::write_graphml;

namespace {

ExitCode run(int argc, char** argv) {
  return write_drawing(
      argc, argv,
      {"graphml", "model.graphml",
       "Writes the graph as GraphML: each module is a node with a graph inside, nested like the modules. yEd,\n"
       "Gephi and other programs read it.",
       write_graphml});
}

}  // namespace

const Command graphml_command = {"graphml", "write the graph in nested groups, for yEd, Gephi, NetworkX", run};

}  // namespace whence
