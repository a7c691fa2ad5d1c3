// WrittenOut: a file whose fused operators are written as the nodes that they stand for, to compare them with a program
// one by one: the sum and the norm of SkipSimplifiedLayerNormalization, the rotations and the cache of
// GroupQueryAttention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// An input of the model that an attention extends, and the output with the result: the keys or values of all positions
// before.
struct CachePair {
  std::string_view past, present;
};

// A rotation by an operator of its own, as that states it.
struct Rotation {
  std::int64_t heads = 0;    // 0: not stated
  std::int64_t rotated = 0;  // elements of each head; 0: all
  std::int64_t columns = 0;  // of its table of angles, one for two elements; 0: unknown
};

struct WrittenOut {
  // Null if the file has no such operators. Its tensors are in the order of the file's.
  std::shared_ptr<const onnx_file::OnnxSummary> model = {};
  std::vector<std::size_t> nodes = {};  // by node of all_nodes(model->graph): its place in those of the file
  std::vector<CachePair> caches = {};
  std::set<std::size_t> drafted = {};                   // nodes that stand in the place of another
  std::set<std::size_t> unread = {};                    // nodes that stay although their operator is one of these
  std::map<std::string_view, Rotation> rotations = {};  // by their results
  std::set<std::string_view> angles = {};               // values that rotary embeddings read as cosines and sines
};

// Returns the file written out, without the nodes that only count the tokens of the attention mask. A fused node stays
// as it is where one of its inputs or attributes changes its meaning in a way that these nodes do not show. Throws
// Error(corrupt_file) for attributes that are none.
WrittenOut write_out(const onnx_file::OnnxSummary& model);

}  // namespace whence::comparison
