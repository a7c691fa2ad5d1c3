// Annotate: turns the stamps that export left on a file's nodes into keys that everyone can read, and gives nodes the
// names of their modules. strip.h takes all of it back.
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
  origin::Counts nodes;  // nodes of bodies included, counted by the keys that they have now
  std::int64_t renamed = 0;
  bool changed = false;  // false: the file said all of this already
  match::ModelFit fit;   // for matched files; all zero for others
};

// Writes `input` with annotations to `output`, which may be the same file. The caller reads what the options have of
// paths (sidecar, from, functions, overwrite); here count keys, names, carry, allow_different_weights and value_pairs.
// Metadata that is there already stays: a key is never written twice. External data stays where it is, or is copied
// beside `output` (carried_data.h). Notes: the IR version was raised. Files that whence exported carry stamps; nodes
// without one, in files of whatever origin, are matched (../match). Errors: those of read_onnx_summary and match_model;
// usage for an unknown key; sidecar_mismatch when the file comes from another program; those of rewrite_file.
Result<AnnotateReport> annotate_file(const onnx_file::ModelSource& input, const Sidecar& sidecar,
                                     const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// The same for what a tool made of an annotated file: `before` is that file, and what it says of its nodes goes to
// those that took their place. Errors: as above, for both files; wrong_kind when `before` is not annotated.
Result<AnnotateReport> annotate_from_file(const onnx_file::ModelSource& input, const onnx_file::ModelSource& before,
                                          const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// The same with the parameters of a checkpoint instead of a recording, each with digests and sketch. `place`: the
// checkpoint. Errors: as above; sidecar_mismatch when the file holds none of them, or the names alone.
Result<AnnotateReport> annotate_by_weights(const onnx_file::ModelSource& input,
                                           const std::vector<Parameter>& parameters, const Place& place,
                                           const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// Throws Error(wrong_kind) for a model of which no node says which module it comes from; `file`: what messages call it.
void require_origins(const onnx_file::OnnxSummary& model, const std::string& file);

// With nothing but the file: what its own names and metadata say.
Result<AnnotateReport> annotate_alone(const onnx_file::ModelSource& input, const onnx_file::ModelOutput& output,
                                      const AnnotateOptions& options);

}  // namespace whence::annotation
