// A model with the derivation of each of its tensors: found with a checkpoint, or read from a statement.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotator/derivation/derive.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::app {

// A parameter of the checkpoint that no tensor of the file holds.
struct AbsentParameter {
  std::string name;
  DType dtype = DType::undefined;
  std::vector<std::int64_t> dims = {};
  // The number that all its elements are: exporters leave out biases of zeros and scales of ones.
  std::optional<double> number = {};
  bool has_effect = false;  // the recorded program reads it, and it is neither zeros nor ones
};

struct DerivedFile {
  std::unique_ptr<const onnx_file::OnnxSummary> model;
  std::unique_ptr<const derivation::FileTensors> tensors;
  std::unique_ptr<derivation::Contents> contents;
  std::vector<derivation::Derivation> derivations;  // in the order of `tensors`
  std::vector<AbsentParameter> absent;
  std::string prefix;  // of the checkpoint, removed from the names of the program's parameters
  std::unique_ptr<const derivation::Weights>
      weights;                                 // the checkpoint; null for a file that is read with its statement
  std::optional<Program> program;              // of the sidecar, if there is one
  std::vector<derivation::ProgramForm> forms;  // of the program

  // `scales`: kept between evaluations with the same weights; null to compute them each time.
  derivation::Sources sources(const derivation::Weights& weights,
                              std::shared_ptr<derivation::KnownScales> scales = {}) const;
};

// Returns true if all elements of a tensor are this number.
bool has_all(const TensorData& data, double number);

struct CheckpointAndProgram {
  std::string weights;       // the checkpoint
  std::string sidecar = {};  // the program; empty: none
};

// Throws as reading the model, the checkpoint and the sidecar.
DerivedFile derive_file(const std::string& model, const CheckpointAndProgram& from, Diagnostics& notes);

// Reads the derivations from a statement of `whence attest`. Throws as reading the model, and Error: corrupt_file;
// sidecar_mismatch if the statement is of another file.
DerivedFile read_statement(const std::string& model, const std::string& statement, Diagnostics& notes);

// Derives the file with the checkpoint, or reads the statement. Throws as these, and Error(usage) unless one of both is
// given.
DerivedFile derived_file(const std::string& model, const CheckpointAndProgram& from, const std::string& statement,
                         Diagnostics& notes);

}  // namespace whence::app
