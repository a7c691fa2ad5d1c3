// Attests an ONNX file: where each of its tensors comes from, proved against a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "annotator/derivation/derive.h"
#include "annotator/derivation/node_verdicts.h"
#include "whence/diagnostics.h"

namespace whence::app {

struct AttestOptions {
  std::string weights;       // the checkpoint
  std::string sidecar = {};  // the program, whose constants are not in the checkpoint
};

struct AttestedTensor {
  std::string name, dtype;
  std::vector<std::int64_t> dims;
  derivation::Derivation derivation;
  std::vector<std::string> modules;  // of the nodes that read it
};

struct AttestedNode {
  std::string name, op_type;  // a node without a name has that of its first result
  derivation::NodeVerdict verdict = derivation::NodeVerdict::unaccounted;
  std::vector<std::string> modules;
};

struct AttestReport {
  std::vector<AttestedTensor> tensors;
  std::vector<AttestedNode> nodes;  // empty without a sidecar
  Diagnostics notes;
};

// Errors: as reading the model, the checkpoint and the sidecar.
AttestReport attest(const std::string& model, const AttestOptions& options);

}  // namespace whence::app
