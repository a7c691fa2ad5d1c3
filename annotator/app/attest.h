// Attests an ONNX file: where each of its tensors comes from, proved against a checkpoint, and which of its nodes
// compute what the program computes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "annotator/app/derived_file.h"
#include "annotator/comparison/node_verdicts.h"
#include "annotator/derivation/statement.h"
#include "whence/diagnostics.h"

namespace whence::app {

struct AttestOptions {
  std::string weights;         // the checkpoint
  std::string sidecar = {};    // the program; without it, nodes and constants are unaccounted
  std::string statement = {};  // the file to write: a statement in in-toto's form
  std::string bom = {};        // the file to write: a bill of materials in CycloneDX's form
};

struct AttestedTensor {
  std::string name, dtype;
  std::vector<std::int64_t> dims;
  derivation::Derivation derivation;
  std::vector<std::string> modules;  // of the nodes that read it
};

struct AttestedNode {
  std::string name, op_type;  // a node without a name has that of its first result
  comparison::NodeVerdict verdict = comparison::NodeVerdict::unaccounted;
  std::vector<std::string> modules;
  std::string remark;  // why a node that stands for operations is unaccounted; mostly empty
};

struct AttestReport {
  std::vector<derivation::FileDigest> model;    // the file, then its data files
  std::vector<derivation::FileDigest> sources;  // the checkpoint's files, then the sidecar
  std::vector<AttestedTensor> tensors;
  std::vector<AttestedNode> nodes;
  std::vector<AbsentParameter> absent;
  std::string prefix;  // of the program's parameters in the checkpoint; their names here are without it
  std::vector<std::string> differences;  // between the results of the file and of the program
  Diagnostics notes;

  struct Count {
    std::int64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  Count count(derivation::Verdict verdict) const;
  std::int64_t count(comparison::NodeVerdict verdict) const;
  bool all_accounted() const;
};

// Errors: as reading the model, the checkpoint and the sidecar; cannot_write.
AttestReport attest(const std::string& model, const AttestOptions& options);

// Returns a statement in the form of in-toto (https://in-toto.io/Statement/v1), as JSON.
std::string statement_of(const AttestReport& report);
// Returns a bill of materials in the form of CycloneDX 1.6, as JSON.
std::string bill_of_materials_of(const AttestReport& report);

}  // namespace whence::app
