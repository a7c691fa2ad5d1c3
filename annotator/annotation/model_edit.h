// The changes that annotating makes to the model itself, for files of any exporter.
#pragma once

#include <cstdint>

#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "whence/diagnostics.h"

namespace whence::annotation {

inline constexpr std::int64_t oldest_ir_with_node_metadata = 10;

// Returns an edit that records that annotate ran and raises the IR version to one that has node metadata.
onnx_file::ModelEdit annotation_of_model(const onnx_file::OnnxSummary& model);
// Raises the IR version to one that has node metadata, and records the old one so that strip can restore it.
void raise_ir_version(const onnx_file::OnnxSummary& model, onnx_file::ModelEdit& edit);
Diagnostic raised_ir_version(std::int64_t before, const Place& place);
// `source_name`: the source of the annotations, such as "the sidecar".
Diagnostic nothing_left_to_annotate(const std::string& source_name, const Place& place);

}  // namespace whence::annotation
