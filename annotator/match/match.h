// Match: finds the modules of the nodes in an ONNX file from another tool by comparing the file with a reference: a
// recorded program or an annotated file of the same model. annotate and explain call it.
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

// Parameters of the reference that operations read.
struct ParameterCounts {
  std::int64_t all = 0;
  // Found by bytes, else by name, else by a sketch, else by shape: each is counted once.
  std::int64_t by_bytes = 0, by_name = 0, by_sketch = 0, by_shape = 0;
  // Found by name or shape, with any bytes: they show whether the file is of this model. Found by bytes or a sketch,
  // with any name: they show whether it has these weights.
  std::int64_t all_by_name = 0, all_by_shape = 0, all_by_content = 0;
};

// Counts of matrices. Vectors do not count: all new models have the same scales and biases.
struct WeightCounts {
  // Matrices of the file with the sizes of a parameter whose elements are known, and those of them with the elements of
  // a parameter, even if a tool changed their bytes.
  std::int64_t compared = 0, recognised = 0;
  // Matrices of the reference whose elements are known, and those of them that are in the file.
  std::int64_t known = 0, held = 0;

  bool are_others() const;  // almost none is recognised
  bool none_recognised() const { return compared > 0 && recognised == 0; }
};

struct ModelFit {
  ParameterCounts parameters;
  WeightCounts weights;
  std::int64_t distinct = 0;  // parameters found by bytes: one for each tensor, none for tensors of equal elements
  std::int64_t sketched = 0;  // parameters found by a sketch that only their equals fit as well
  // Nodes of the foreign graph that read matrices, and those of them matched to a parameter of the same size.
  std::int64_t nodes = 0, placed = 0;
  // Nodes of the foreign graph that compute, and those of them that correspond to a node of the reference.
  std::int64_t computing = 0, corresponding = 0;
  // Weights of corresponding nodes that should have the parameter's exact bytes (same dtype and shape, nothing folded
  // in, bytes that no other parameter has), and those of them that have these bytes.
  std::int64_t comparable = 0, same = 0;

  bool of_another_model() const;
  bool with_other_weights() const;
};

struct MatchReport {
  std::vector<NodeMatch> nodes;       // by node of nodes_with_functions()
  std::vector<std::string> evidence;  // by node as well: findings of the rules for `whence explain`; may be empty
  std::vector<bool> stale;            // by node as well: the argument of match_model(); may be empty
  ModelFit fit;
};

// Throws Error: corrupt_file for cycles and recursive functions, over_limit, missing_file and outside_folder for
// external data.
// `stale`: by node of nodes_with_functions(), or empty; true if a tool changed the node and left its metadata, which is
// then weak evidence like PyTorch's own metadata.
MatchReport match_model(const onnx_file::OnnxSummary& model, const Reference& reference, std::vector<bool> stale = {});

}  // namespace whence::match
