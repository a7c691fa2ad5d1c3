// A rule is a function that checks whether a pattern ends or starts at one node, and rewrites the pattern to an
// equivalent smaller one. Rules are listed only in pipeline.cpp.
#pragma once

#include <string>
#include <string_view>

#include "annotator/operators/onnx_operators.h"
#include "annotator/simplify/rewriter.h"

namespace whence::simplify {

struct Outcome {
  enum class Kind : std::uint8_t { no_match, changed, refused };
  Kind kind = Kind::no_match;
  std::string why;  // for a refusal: why the rule did not rewrite its own pattern
};

inline Outcome no_match() { return {}; }
inline Outcome changed() { return {Outcome::Kind::changed, {}}; }
inline Outcome refused(std::string why) { return {Outcome::Kind::refused, std::move(why)}; }

struct Rule {
  const char* name;
  Outcome (*apply)(Rewriter& rewriter, std::int32_t node);
  bool changes_weights = false;  // computes constants from constants; skipped if folding is off
};

inline bool is(const graph::GraphNode& node, std::string_view op_type) {
  return node.domain.empty() && node.op_type == op_type;
}
inline bool is(const graph::GraphNode& node, operators::Fact fact) {
  return node.domain.empty() && operators::has(node.op_type, fact);
}

inline graph::GraphNode make_node(std::string op_type, std::vector<graph::GraphValueId> inputs,
                                  origin::NodeOrigin origin) {
  graph::GraphNode node;
  node.op_type = std::move(op_type);
  node.inputs = std::move(inputs);
  node.origin = std::move(origin);
  return node;
}

// Returns the origin of a node that replaces two. If both belong to the same operation, nothing changes; otherwise it
// belongs to both, and stays a shared helper only if both were.
inline origin::NodeOrigin joined(const origin::NodeOrigin& a, const origin::NodeOrigin& b) {
  if (a.kind == b.kind && a.ops == b.ops) return a;
  const bool helpers = a.kind == origin::OriginKind::shared && b.kind == origin::OriginKind::shared;
  origin::NodeOrigin both =
      origin::merge_origins(a, b, helpers ? origin::OriginKind::shared : origin::OriginKind::fused);
  if (both.ops.size() == 1) both.kind = origin::OriginKind::own;
  return both;
}

// The rules, each documented in its file of the same name under rules/; scans_of_loops is in loop_scan.cpp.
Outcome remove_no_op(Rewriter&, std::int32_t);
Outcome cast_chain(Rewriter&, std::int32_t);
Outcome transpose_chain(Rewriter&, std::int32_t);
Outcome reshape_chain(Rewriter&, std::int32_t);
Outcome unsqueeze_chain(Rewriter&, std::int32_t);
Outcome matmul_reshape(Rewriter&, std::int32_t);
Outcome scalar_chain(Rewriter&, std::int32_t);
Outcome clip_chain(Rewriter&, std::int32_t);
Outcome gemm_transpose(Rewriter&, std::int32_t);
Outcome fold_shape(Rewriter&, std::int32_t);
Outcome fold_constants(Rewriter&, std::int32_t);
Outcome fold_layout(Rewriter&, std::int32_t);
Outcome pad_conv(Rewriter&, std::int32_t);
Outcome conv_batch_norm(Rewriter&, std::int32_t);
Outcome swish(Rewriter&, std::int32_t);
Outcome swiglu(Rewriter&, std::int32_t);
Outcome rms_normalization(Rewriter&, std::int32_t);
Outcome rotary_embedding(Rewriter&, std::int32_t);
Outcome attention_inputs(Rewriter&, std::int32_t);
Outcome tensor_scatter(Rewriter&, std::int32_t);

// Runs before the rules, which then see the remaining body. Returns the number of changed loops.
std::size_t scans_of_loops(graph::Graph&);
// Passes over the whole graph. Both return the number of removed nodes or constants.
std::size_t share_constants(Rewriter&);
std::size_t share_nodes(Rewriter&, const std::vector<ScopeId>& scopes);  // `scopes`: see SimplifyOptions

}  // namespace whence::simplify
