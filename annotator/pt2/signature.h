// Reads the graph signature of an exported program, in torch.export's terms (torch/export/graph_signature.py).
#pragma once

#include "annotator/pt2/part.h"
#include "schema/program.h"

namespace whence::pt2 {

// `signature`: the archive's {"input_specs": [...], "output_specs": [...]}, with the archive's own names.
Signature read_signature(const Part& signature);

}  // namespace whence::pt2
