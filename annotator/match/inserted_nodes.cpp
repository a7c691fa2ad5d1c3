// Places nodes that a tool inserted. A node that quantises, casts or changes the layout of an input belongs to the
// operators that read it, or to the module around them if they belong to several modules. A node that rescales or casts
// a result back belongs to the operator that computed the result. A Transpose belongs to the module around both sides,
// and so does a node that absorbed a Transpose of the model, for instance a ReorderOutput to channels last.
//
//   x -> DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul(scale)      all: the module of the MatMulInteger
//   x -> QuantizeLinear -> DequantizeLinear -> Conv                        both: the module of the Conv
//   x -> Cast -> Resize -> Cast                                            both: the module of the Resize
#include <algorithm>
#include <array>
#include <string_view>

#include "annotator/match/placement.h"
#include "annotator/operators/onnx_operators.h"
#include "schema/sort_unique.h"

namespace whence::match {

namespace {

bool is_among(const auto& names, std::string_view op) { return std::ranges::find(names, op) != names.end(); }

bool computes_in_integers(std::string_view op_type) {
  const auto& row = operators::onnx_operator(op_type);
  return has(row, operators::quantized_result) || has(row, operators::integer_result);
}

class Inserted {
 public:
  Inserted(Placement& placement, bool quantizers_only)
      : placement_(placement), f_(placement.foreign), inserted_(f_.nodes.size()) {
    for (const ForeignNode i : f_.nodes.keys()) {
      inserted_[i] =
          may_be_inserted(i) && (!quantizers_only || operators::has(f_.nodes[i].op_type, operators::quantizes));
    }
    for (const ForeignNode i : f_.nodes.keys()) {
      if (inserted_[i] && is_among(ambiguous_operators, f_.nodes[i].op_type)) inserted_[i] = !may_be_recorded(i);
    }
  }

  void place() {
    const auto& order = f_.order;
    for (const ForeignNode node : order) {
      if (inserted_[node] && restores_result(node)) place_with({source(node)}, node);
    }
    // Readers of inserted nodes may be inserted themselves.
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (!inserted_[*node] || placement_.settled(*node)) continue;
      std::vector<ForeignNode> served = placement_.readers(*node);
      if (const ForeignNode maker = source(*node); may_be_moved(*node) && maker.exists()) {
        if (!placement_.placed(maker)) continue;  // the readers are not enough to place it
        served.push_back(maker);
        // After a sum, the node may have been moved from the operands.
        if (const auto operands = placement_.sources(maker); operands.size() > 1) {
          served.insert(served.end(), operands.begin(), operands.end());
        }
      }
      place_with(served, *node);
    }
  }

 private:
  // Inserted unless the node may represent an operation of the program.
  static constexpr std::array<std::string_view, 2> ambiguous_operators = {"Cast", "Transpose"};

  // Returns true if the node may represent an operation of the program that no form of the reference contains.
  bool may_be_recorded(ForeignNode node) const {
    std::vector<ForeignNode> before;
    if (const ForeignNode maker = source(node); maker.exists()) {
      if (computes_in_integers(f_.nodes[maker].op_type)) return false;
      before.push_back(maker);
    }
    return !placement_.vanished_between(before, placement_.readers(node)).empty();
  }

  bool may_be_inserted(ForeignNode node) const {
    const auto& entry = f_.nodes[node];
    if (placement_.settled(node) || entry.computes_sizes) return false;
    const auto& row = operators::onnx_operator(entry.op_type);
    if (has(row, operators::quantizes) || has(row, operators::reorders)) return true;
    if (!entry.outputs.empty() && f_.is_run_time_scale(entry.outputs[0])) return true;
    if (rescales(node)) return true;
    return entry.kind == NodeKind::transparent && is_among(ambiguous_operators, entry.op_type);
  }

  // Returns true for a node that scales the result of an integer product back.
  bool rescales(ForeignNode node) const {
    return f_.nodes[node].op_type == "Mul" && f_.nodes[node].kind == NodeKind::transparent;
  }

  // Returns the nearest node before this one that was not inserted; none for an input of the graph.
  ForeignNode source(ForeignNode node) const {
    for (int steps = 0; steps < 8; ++steps) {
      const auto before = placement_.sources(node);
      if (before.empty()) return {};
      node = before.front();
      if (!inserted_[node]) return node;
    }
    return {};
  }

  // Returns true for a node that changes a result back to the operator's own type, scale or layout.
  bool restores_result(ForeignNode node) const {
    const ForeignNode maker = source(node);
    if (!maker.exists() || f_.nodes[node].transposes) return false;
    const std::string_view op = f_.nodes[node].op_type;
    if (op == "ReorderOutput" || rescales(node) || placement_.readers(node).empty()) return true;
    // Also true after a Gather from a table of integers: an input would be quantized at run time.
    if (op == "DequantizeLinear" && reads_directly(node, maker)) return true;
    if (op == "Cast" && computes_in_integers(f_.nodes[maker].op_type)) return reads_directly(node, maker);
    return (op == "Cast" || op == "Transpose") && reads_directly(node, maker) && reads_inserted(maker, f_.nodes[node]);
  }

  // Returns true for a Transpose that may be the model's own: tools move these past elementwise operators, and into
  // nodes that reorder.
  bool may_be_moved(ForeignNode node) const {
    return f_.nodes[node].transposes || f_.nodes[node].op_type == "Transpose";
  }

  bool reads_directly(ForeignNode node, ForeignNode maker) const {
    const auto before = placement_.sources(node);
    return !before.empty() && before.front() == maker;
  }

  // Returns true if an inserted node before the operator does the opposite: to another type, or to another order.
  bool reads_inserted(ForeignNode node, const StructureNode<Side::foreign>& back) const {
    const auto before = placement_.sources(node);
    return std::ranges::any_of(before, [&](ForeignNode other) {
      const auto& entry = f_.nodes[other];
      return inserted_[other] && entry.op_type == back.op_type && entry.attributes != back.attributes;
    });
  }

  void place_with(const std::vector<ForeignNode>& served, ForeignNode node) {
    constexpr std::size_t max_units = 64;
    NodeMatch joined;
    bool same_scope = true;
    for (const ForeignNode other : served) {
      const NodeMatch& match = placement_.matches[other];
      if (!placement_.placed(other)) continue;
      if (!joined.scope.exists()) {
        joined = match;
        continue;
      }
      same_scope &= match.scope == joined.scope;
      joined.scope = placement_.reference.scopes.common(joined.scope, match.scope);
      joined.confidence = std::max(joined.confidence, match.confidence);
      if (match.units != joined.units && joined.units.size() < max_units) {
        joined.units.insert(joined.units.end(), match.units.begin(), match.units.end());
        joined.shared = true;
      }
    }
    if (!joined.scope.exists()) return;
    sort_unique(joined.units);
    joined.confidence =
        std::max(joined.confidence, same_scope ? origin::Confidence::matched : origin::Confidence::ancestor);
    joined.rule = MatchRule::inserted;
    placement_.matches[node] = std::move(joined);
  }

  Placement& placement_;
  const ForeignStructure& f_;
  IndexedVector<ForeignNode, bool> inserted_;
};

}  // namespace

void place_inserted(Placement& placement, bool quantizers_only) { Inserted(placement, quantizers_only).place(); }

}  // namespace whence::match
