// Annotate: turns the stamps of export on a file's nodes into readable keys, and names nodes after their modules.
// strip.h reverses all of it.
#pragma once

#include <cstdint>

#include "annotator/match/match.h"
#include "annotator/onnx_file/carried_data.h"
#include "annotator/origin/counts.h"
#include "schema/result.h"
#include "schema/sidecar/sidecar.h"
#include "whence/annotate.h"

namespace whence::annotation {

struct AnnotateReport {
  origin::Counts nodes;  // including nodes of bodies; counted by their keys after the edit
  std::int64_t renamed = 0;
  bool changed = false;  // false if the file already had all entries
  match::ModelFit fit;   // for matched files; else all zero
};

// Writes `input` with annotations to `output`, which may be the same file. Uses the options keys, names, carry,
// allow_different_weights and value_pairs; the caller handles the others (sidecar, from, functions, overwrite).
// Existing metadata stays, and a key is never written twice. External data stays where it is, or is copied next to
// `output` (carried_data.h). Nodes with stamps of export are annotated from them; all other nodes are matched
// (../match). Notes: the IR version was raised. Errors: the errors of read_onnx_summary, match_model and rewrite_file;
// usage for an unknown key; sidecar_mismatch if the file comes from another program.
Result<AnnotateReport> annotate_file(const onnx_file::ModelSource& input, const Sidecar& sidecar,
                                     const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// Annotates the output of a tool from `before`, the tool's annotated input: entries of its nodes are passed to
// the nodes that replaced them. Errors: as annotate_file, for both files; wrong_kind if `before` is not annotated.
Result<AnnotateReport> annotate_from_file(const onnx_file::ModelSource& input, const onnx_file::ModelSource& before,
                                          const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// Annotates from the parameters of a checkpoint, each with digests and sketch. `place`: the checkpoint. Errors: as
// annotate_file; sidecar_mismatch if the file contains none of the parameters, or only their names.
Result<AnnotateReport> annotate_by_weights(const onnx_file::ModelSource& input,
                                           const std::vector<Parameter>& parameters, const Place& place,
                                           const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// Throws Error(wrong_kind) if no node of the model states its module. `file`: the model's name in messages.
void require_origins(const onnx_file::OnnxSummary& model, const std::string& file);

// Annotates only from the names and metadata in the file itself.
Result<AnnotateReport> annotate_alone(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                      const AnnotateOptions& options);

}  // namespace whence::annotation
