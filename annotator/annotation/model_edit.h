// The entries and names that annotating adds to the model itself, for files of any exporter.
#pragma once

#include <cstdint>

#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "whence/diagnostics.h"

namespace whence::annotation {

inline constexpr std::int64_t oldest_ir_with_node_metadata = 10;

// The entries that say that annotate ran, and the IR version that node metadata needs.
onnx_file::ModelEdit annotation_of_model(const onnx_file::OnnxSummary& model);
// The IR version alone, and the entry by which strip puts it back.
void raise_ir_version(const onnx_file::OnnxSummary& model, onnx_file::ModelEdit& edit);
Diagnostic raised_ir_version(std::int64_t before, const Place& place);
// `told_by`: what the file was to be annotated with, "the sidecar".
Diagnostic nothing_left_to_annotate(const std::string& told_by, const Place& place);

}  // namespace whence::annotation
