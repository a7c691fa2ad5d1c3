// RowFit: compares the rows that a file and a program choose from a table, such as one of learned positions, by
// evaluating both for the sizes of the recording.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "annotator/comparison/written_out.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_forms.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

class RowFit {
 public:
  // All must outlive this object.
  RowFit(const onnx_file::OnnxGraph& graph, const WrittenOut& written, const derivation::FileTensors& tensors,
         derivation::Contents& contents, const std::vector<derivation::ProgramForm>& forms)
      : graph_(graph), written_(written), tensors_(tensors), contents_(contents), forms_(forms) {}

  // Returns whether a Gather chooses the rows that a Gather of these operations chooses, in any form; nullopt if there
  // is none, or if they cannot be evaluated.
  std::optional<bool> same_rows(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations) const;

 private:
  std::optional<bool> compare(std::string_view rows, const graph::Graph& program, graph::GraphValueId ours) const;

  const onnx_file::OnnxGraph& graph_;
  const WrittenOut& written_;
  const derivation::FileTensors& tensors_;
  derivation::Contents& contents_;
  const std::vector<derivation::ProgramForm>& forms_;
};

}  // namespace whence::comparison
