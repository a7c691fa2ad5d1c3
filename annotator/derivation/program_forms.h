// ProgramForms: a recorded program as whence exports it, in several forms, with noise for its parameters. Another
// exporter's file is compared with all of them, because each exporter writes some operations in a way of its own.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "annotator/derivation/weights.h"
#include "annotator/graph/graph.h"
#include "schema/program.h"

namespace whence::derivation {

struct ProgramForm {
  int opset = graph::default_opset;
  std::shared_ptr<const graph::Graph> graph;  // forms with equal graphs share one
};

// Returns the forms. Parameters are noise: a constant that depends on one belongs to a checkpoint and not to the
// program. Those that are zeros or ones throughout in the checkpoint have these numbers in one more form: tools drop
// what adds nothing.
std::vector<ProgramForm> forms_of(const Program& program, const Weights& weights);

// Returns the program with nodes for all that it computes, also from constants alone; nullopt if it cannot be exported.
std::optional<graph::Graph> written_out(const Program& program);

}  // namespace whence::derivation
