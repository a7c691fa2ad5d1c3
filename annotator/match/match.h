// Match: finds where the nodes of an ONNX file from another tool come from by comparing the file with a reference: a
// recorded program or an annotated file of the same model. The one entry of this folder; annotate calls it, and explain
// repeats it.
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
  // Found by bytes, else by name, else by a sketch, else by shape: each once.
  std::int64_t by_bytes = 0, by_name = 0, by_sketch = 0, by_shape = 0;
  // Found by name or shape, whether or not their bytes are equal: they show whether the file is of this model. Found by
  // bytes or a sketch, whether or not they have their names: they show whether it has these weights.
  std::int64_t all_by_name = 0, all_by_shape = 0, all_by_content = 0;
};

// Matrices of the file that have the sizes of a parameter whose elements are known, and those of them that hold the
// elements of a parameter, whatever a tool did to their bytes. Vectors do not count: new models have the same scales
// and biases.
struct WeightCounts {
  std::int64_t compared = 0, recognised = 0;
  // Matrices of the reference whose elements are known, and those of them that the file holds.
  std::int64_t known = 0, held = 0;

  bool are_others() const;  // almost none is recognised
  bool none_recognised() const { return compared > 0 && recognised == 0; }
};

struct ModelFit {
  ParameterCounts parameters;
  WeightCounts weights;
  std::int64_t distinct = 0;  // parameters found by bytes; of equal ones a tensor is one, of one number throughout none
  std::int64_t sketched = 0;  // parameters found by a sketch that none but its equals fit as well
  // Nodes of the foreign graph that read matrices, and those of them matched to a parameter of the same size.
  std::int64_t nodes = 0, placed = 0;
  // Nodes of the foreign graph that compute, and those of them that correspond to a node of the reference.
  std::int64_t computing = 0, corresponding = 0;
  // Weights of corresponding nodes that should have the parameter's very bytes (same dtype and shape, nothing folded
  // in, bytes that no other parameter has), and those that do.
  std::int64_t comparable = 0, same = 0;

  bool of_another_model() const;
  bool with_other_weights() const;
};

struct MatchReport {
  std::vector<NodeMatch> nodes;       // by node of nodes_with_functions()
  std::vector<std::string> evidence;  // likewise: findings of the rules for `whence explain`; may be empty
  std::vector<bool> stale;            // likewise, as they were given; may be empty: none
  ModelFit fit;
};

// Throws Error: corrupt_file for cycles and recursive functions, over_limit, missing_file and outside_folder for
// external data.
// `stale`: nodes whose metadata a tool left there although it changed them; by node of nodes_with_functions(), or
// empty. What they say is a hint like PyTorch's own metadata.
MatchReport match_model(const onnx_file::OnnxSummary& model, const Reference& reference, std::vector<bool> stale = {});

}  // namespace whence::match
