// A small program and an ONNX file that looks like its export, for tests that annotate, strip or view the file.
#pragma once

#include <string>

#include "schema/sidecar/sidecar.h"

namespace whence {

// Modules "", encoder, encoder.layer.0, encoder.layer.0.query, head. Operations:
//   0 aten::linear in encoder.layer.0.query    1 aten::add.Tensor in encoder.layer.0
//   2 aten::relu in head, first call           3 aten::relu in head, second call
//   4 aten::max in the root
Sidecar stamped_sidecar();

struct StampedFile {
  bool external_data = false;
  std::string program = program_digest(stamped_sidecar().program);  // the program named in the file's stamp
};

// Writes MatMul and Add (operation 0), a helper shared by 0 and 1, a node fused from 1 and 2, Relu (operation 3), and
// an If (operation 4) with one node in each branch. The nodes are named like those of an export.
void write_stamped_file(const std::string& path, const StampedFile& options = {});

}  // namespace whence
