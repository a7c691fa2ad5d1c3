// Match: where the nodes of an ONNX file from another tool come from, found by comparing it with what is known of
// its model. The one entry of this folder; annotate calls it, explain repeats it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/match/evidence.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/result.h"

namespace whence::match {

struct ModelFit {
  std::int64_t parameters = 0;                           // of the reference, those that operations read
  std::int64_t by_bytes = 0, by_name = 0, by_shape = 0;  // each once: by its bytes, else by name, else by shape
  std::int64_t all_by_name = 0, all_by_shape = 0;        // whatever their bytes
  std::int64_t distinct = 0;                             // by bytes that no other parameter has
  std::int64_t nodes = 0, placed = 0;  // of the foreign graph that read matrices; those matched to one of that size
  // Weights of corresponding nodes that should have the parameter's very bytes (same dtype and shape, nothing folded
  // in, bytes that no other parameter has), and those that do.
  std::int64_t comparable = 0, same = 0;

  bool of_another_model() const;
  bool with_other_weights() const;
};

struct MatchReport {
  std::vector<NodeMatch> nodes;       // by node of nodes_with_functions()
  std::vector<std::string> evidence;  // likewise: what the rules said of it, for `whence explain`; may be empty
  ModelFit fit;
};

// Throws Error: corrupt_file for cycles and recursive functions, over_limit, missing_file and outside_folder for
// external data.
MatchReport match_model(const onnx_file::OnnxSummary& model, const Reference& reference);

}  // namespace whence::match
