// A rule is a function that looks at one node and, when the node begins its pattern, rewrites it to something smaller
// that computes the same. Rules are listed in pipeline.cpp, and only there.
#pragma once

#include <string>
#include <string_view>

#include "annotator/operators/onnx_operators.h"
#include "annotator/simplify/rewriter.h"

namespace whence::simplify {

struct Outcome {
  enum class Kind : std::uint8_t { not_mine, changed, refused };
  Kind kind = Kind::not_mine;
  std::string why;  // for a refusal: what kept the rule from applying to its own pattern
};

inline Outcome not_mine() { return {}; }
inline Outcome changed() { return {Outcome::Kind::changed, {}}; }
inline Outcome refused(std::string why) { return {Outcome::Kind::refused, std::move(why)}; }

struct Rule {
  const char* name;
  Outcome (*apply)(Rewriter& rewriter, std::int32_t node);
  bool changes_weights = false;  // makes constants of others; left out where nothing is folded
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

// The origin of one node that does what two did. Within one operation nothing changes; across operations it belongs to
// both, and stays a shared helper only when both were.
inline origin::NodeOrigin joined(const origin::NodeOrigin& a, const origin::NodeOrigin& b) {
  if (a.kind == b.kind && a.ops == b.ops) return a;
  const bool helpers = a.kind == origin::OriginKind::shared && b.kind == origin::OriginKind::shared;
  origin::NodeOrigin both =
      origin::merge_origins(a, b, helpers ? origin::OriginKind::shared : origin::OriginKind::fused);
  if (both.ops.size() == 1) both.kind = origin::OriginKind::own;
  return both;
}

// Each stands in the file of its name under rules/, which says what it does; scans_of_loops in loop_scan.cpp.
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

// Before the rules, which then see what is left of a body. The number of loops that changed.
std::size_t scans_of_loops(graph::Graph&);
// Passes over the whole graph; the number of nodes or constants that went.
std::size_t share_constants(Rewriter&);
std::size_t share_nodes(Rewriter&, const std::vector<ScopeId>& scopes);  // `scopes`: see SimplifyOptions

}  // namespace whence::simplify
