// The order of simplification: the only list of rules, each line with the reason for its position.
#include "annotator/simplify/pipeline.h"

#include <set>

#include "annotator/simplify/rule.h"
#include "schema/sort_unique.h"

namespace whence::simplify {

using graph::Graph;

namespace {

// The rules are tried on each node in this order; the first one that changes something ends the node's turn.
constexpr Rule rules[] = {
    {"remove_no_op", remove_no_op},      // first: no-ops hide neighbours from every other rule
    {"fold_shape", fold_shape},          // sizes become constants, so that arithmetic on them can ...
    {"fold_layout", fold_layout, true},  // constants take their final layout before anything is fused into them
    {"fold_constants", fold_constants,
     true},                      // ... and nodes with only constant inputs; large casts are left to fold_layout
    {"cast_chain", cast_chain},  // before the chains below, which a Cast in between would interrupt
    {"transpose_chain", transpose_chain},  // chains: cheap, and they bring a Conv next to its BatchNormalization
    {"unsqueeze_chain", unsqueeze_chain},
    {"reshape_chain", reshape_chain},    // after unsqueeze_chain, whose result is
                                         // more readable
    {"matmul_reshape", matmul_reshape},  // after the chains, which leave one Reshape on each side
    {"gemm_transpose", gemm_transpose},  // after fold_layout, which transposes a weight that nothing else reads
    {"scalar_chain", scalar_chain},
    {"clip_chain", clip_chain},
    {"pad_conv", pad_conv},
    {"conv_batch_norm", conv_batch_norm,
     true},  // after the chains: it computes new weights, so it should run once per Conv
    // Operators of recent opsets come last: the nodes that they replace are in their shortest form by now.
    {"rms_normalization", rms_normalization},
    {"rotary_embedding", rotary_embedding},
    {"attention_inputs", attention_inputs},
    {"tensor_scatter", tensor_scatter},
    {"swish", swish},
    {"swiglu", swiglu},
};

// Every rule reduces the number of nodes or constants or the length of a chain, so the fixpoint terminates. The bound
// turns a defect in a rule into an unfinished simplification instead of an endless loop.
constexpr std::int64_t changes_per_node = 16;

class Simplifier {
 public:
  Simplifier(Graph& graph, const SimplifyOptions& options, SimplifyReport& report)
      : rewriter_(graph, options.opset, options.operators),
        scopes_(options.scopes),
        fold_(options.fold),
        budget_(changes_per_node * static_cast<std::int64_t>(graph.nodes.size()) + changes_per_node),
        report_(report) {}

  void run() {
    while (budget_ > 0) {
      count("share_constants", share_constants(rewriter_));  // equal constants lead to equal nodes
      rewriter_.queue_all();
      const bool rewrote = rewrite();
      const std::size_t shared = share_nodes(rewriter_, scopes_);  // last: rules may have produced equal nodes
      count("share_nodes", shared);
      if (!rewrote && shared == 0) break;
    }
  }

 private:
  bool rewrite() {
    bool any = false;
    while (budget_ > 0) {
      const auto node = rewriter_.next();
      if (!node) break;
      any |= apply_first(*node);
    }
    return any;
  }

  bool apply_first(std::int32_t node) {
    for (const Rule& rule : rules) {
      if (rule.changes_weights && !fold_) continue;
      Outcome outcome = rule.apply(rewriter_, node);
      if (outcome.kind == Outcome::Kind::refused) note_refusal(rule, node, std::move(outcome.why));
      if (outcome.kind != Outcome::Kind::changed) continue;
      count(rule.name, 1);
      // The queue skips nodes erased in this turn; a node that remains may match again.
      rewriter_.queue(node);
      return true;
    }
    return false;
  }

  void note_refusal(const Rule& rule, std::int32_t index, std::string why) {
    if (!noted_.emplace(rule.name, index).second) return;
    const graph::GraphNode& node = rewriter_.node(index);
    report_.refusals.push_back({rule.name, node.op_type, node.origin, std::move(why)});
  }

  void count(const char* rule, std::size_t changes) {
    if (changes == 0) return;
    report_.changes[rule] += static_cast<std::int64_t>(changes);
    budget_ -= static_cast<std::int64_t>(changes);
  }

  Rewriter rewriter_;
  const std::vector<ScopeId>& scopes_;
  bool fold_;
  std::int64_t budget_;
  SimplifyReport& report_;
  std::set<std::pair<std::string_view, std::int32_t>> noted_;
};

void simplify_graph(Graph& graph, const SimplifyOptions& options, SimplifyReport& report) {
  for (const graph::GraphNode& node : graph.nodes) {
    for_each_body(node, [&](Graph& body) {
      simplify_graph(body, options, report);
      graph.folded.insert(graph.folded.end(), body.folded.begin(), body.folded.end());
    });
  }
  if (const std::size_t scans = scans_of_loops(graph)) {
    report.changes["loop_scan"] += static_cast<std::int64_t>(scans);
    graph.compact();  // the trip count of the loop may be unused now
  }
  Simplifier(graph, options, report).run();
  sort_unique(graph.folded);
}

}  // namespace

SimplifyReport simplify(Graph& graph, const SimplifyOptions& options) {
  SimplifyReport report;
  graph.compact();
  simplify_graph(graph, options, report);
  graph.compact();
  return report;
}

}  // namespace whence::simplify
