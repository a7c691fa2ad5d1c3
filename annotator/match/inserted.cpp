// Places nodes that a tool inserted. A node that quantises, casts or changes the layout of an input belongs to the
// operators that read it, or to the module around them if they are of several modules. A node that rescales or casts a
// result back belongs to the operator that computed the result. A Transpose, and one that took in a Transpose of the
// model, as the ReorderOutput to channels last does, is of the module around both sides.
//
//   x -> DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul(scale)      all: the module of the MatMulInteger
//   x -> QuantizeLinear -> DequantizeLinear -> Conv                        both: that of the Conv
//   x -> Cast -> Resize -> Cast                                            both: that of the Resize
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
      : placement_(placement), f_(placement.foreign), seen_(f_.nodes.size()) {
    for (const ForeignNode i : f_.nodes.keys()) {
      seen_[i] = may_be_inserted(i) && (!quantizers_only || operators::has(f_.nodes[i].op_type, operators::quantizes));
    }
    for (const ForeignNode i : f_.nodes.keys()) {
      if (seen_[i] && is_among(where_the_program_has_none, f_.nodes[i].op_type)) seen_[i] = !may_be_recorded(i);
    }
  }

  void place() {
    const auto& order = f_.order;
    for (const ForeignNode node : order) {
      if (seen_[node] && brings_back(node)) place_with({source(node)}, node);
    }
    // Readers of inserted nodes may be inserted themselves.
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (!seen_[*node] || placement_.settled(*node)) continue;
      std::vector<ForeignNode> served = placement_.readers(*node);
      if (const ForeignNode maker = source(*node); may_have_moved(*node) && maker.exists()) {
        if (!placement_.placed(maker)) continue;  // its readers alone do not say whose it is
        served.push_back(maker);
        // One behind a sum may be those of its operands.
        if (const auto operands = placement_.sources(maker); operands.size() > 1) {
          served.insert(served.end(), operands.begin(), operands.end());
        }
      }
      place_with(served, *node);
    }
  }

 private:
  static constexpr std::array<std::string_view, 2> where_the_program_has_none = {"Cast", "Transpose"};

  // Returns true if the node may stand for an operation of the program that no form of the reference writes.
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
    return entry.kind == NodeKind::transparent && is_among(where_the_program_has_none, entry.op_type);
  }

  // Brings the result of an integer product back to its scale.
  bool rescales(ForeignNode node) const {
    return f_.nodes[node].op_type == "Mul" && f_.nodes[node].kind == NodeKind::transparent;
  }

  // The node whose result this one has, through other inserted ones; none for an input of the graph.
  ForeignNode source(ForeignNode node) const {
    for (int steps = 0; steps < 8; ++steps) {
      const auto before = placement_.sources(node);
      if (before.empty()) return {};
      node = before.front();
      if (!seen_[node]) return node;
    }
    return {};
  }

  bool brings_back(ForeignNode node) const {
    const ForeignNode maker = source(node);
    if (!maker.exists() || f_.nodes[node].transposes) return false;
    const std::string_view op = f_.nodes[node].op_type;
    if (op == "ReorderOutput" || rescales(node) || placement_.readers(node).empty()) return true;
    // Also behind a Gather from a table of integers: what was not quantized at run time is a result.
    if (op == "DequantizeLinear" && straight(node, maker)) return true;
    if (op == "Cast" && computes_in_integers(f_.nodes[maker].op_type)) return straight(node, maker);
    return (op == "Cast" || op == "Transpose") && straight(node, maker) && reads_inserted(maker, f_.nodes[node]);
  }

  // Tools move the model's own Transposes, too: past what works element by element, and into what lays out anew.
  bool may_have_moved(ForeignNode node) const {
    return f_.nodes[node].transposes || f_.nodes[node].op_type == "Transpose";
  }

  bool straight(ForeignNode node, ForeignNode maker) const {
    const auto before = placement_.sources(node);
    return !before.empty() && before.front() == maker;
  }

  // The operator's inputs come from inserted nodes that do the opposite: another type, another order.
  bool reads_inserted(ForeignNode node, const StructureNode<Side::foreign>& back) const {
    const auto before = placement_.sources(node);
    return std::ranges::any_of(before, [&](ForeignNode other) {
      const auto& entry = f_.nodes[other];
      return seen_[other] && entry.op_type == back.op_type && entry.attributes != back.attributes;
    });
  }

  void place_with(const std::vector<ForeignNode>& served, ForeignNode node) {
    constexpr std::size_t max_units = 64;
    NodeMatch together;
    bool one_answer = true;
    for (const ForeignNode other : served) {
      const NodeMatch& match = placement_.matches[other];
      if (!placement_.placed(other)) continue;
      if (!together.scope.exists()) {
        together = match;
        continue;
      }
      one_answer &= match.scope == together.scope;
      together.scope = placement_.reference.scopes.common(together.scope, match.scope);
      together.confidence = std::max(together.confidence, match.confidence);
      if (match.units != together.units && together.units.size() < max_units) {
        together.units.insert(together.units.end(), match.units.begin(), match.units.end());
        together.shared = true;
      }
    }
    if (!together.scope.exists()) return;
    sort_unique(together.units);
    together.confidence =
        std::max(together.confidence, one_answer ? origin::Confidence::matched : origin::Confidence::ancestor);
    together.rule = MatchRule::inserted;
    placement_.matches[node] = std::move(together);
  }

  Placement& placement_;
  const ForeignStructure& f_;
  IndexedVector<ForeignNode, bool> seen_;  // inserted nodes
};

}  // namespace

void place_inserted(Placement& placement, bool quantizers_only) { Inserted(placement, quantizers_only).place(); }

}  // namespace whence::match
