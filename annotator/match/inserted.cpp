// Nodes that a tool put in: what quantises, casts or lays out an input belongs to the operators it was put there for,
// its readers, and to the module around them when these are of several; what rescales or casts a result back belongs to
// the operator whose result that is.
//
//   x -> DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul(scale)      all: the module of the MatMulInteger
//   x -> QuantizeLinear -> DequantizeLinear -> Conv                        both: that of the Conv
//   x -> Cast -> Resize -> Cast                                            both: that of the Resize
#include <algorithm>
#include <array>
#include <string_view>

#include "annotator/match/op_class.h"
#include "annotator/match/placement.h"

namespace whence::match {

namespace {

bool is_among(const auto& names, std::string_view op) { return std::ranges::find(names, op) != names.end(); }

bool computes_in_integers(std::string_view op) { return op.starts_with("QLinear") || op.ends_with("Integer"); }

class Inserted {
 public:
  explicit Inserted(Placement& placement) : placement_(placement), f_(placement.foreign), seen_(f_.nodes.size()) {
    for (std::size_t i = 0; i < f_.nodes.size(); ++i) seen_[i] = may_be_inserted(static_cast<std::int32_t>(i));
    const auto& forms = placement.reference.classes_of_unit;
    vanished_.assign(forms.size() + 1, 0);
    for (std::size_t i = 0; i < forms.size(); ++i) vanished_[i + 1] = vanished_[i] + (forms[i].empty() ? 1 : 0);
    for (std::size_t i = 0; i < f_.nodes.size(); ++i) {
      const auto node = static_cast<std::int32_t>(i);
      if (seen_[i] && is_among(where_the_program_has_none, f_.nodes[i].op_type)) seen_[i] = !may_be_recorded(node);
    }
  }

  void place() {
    const auto& order = f_.order;
    for (const std::int32_t node : order) {
      if (seen_[node] && brings_back(node)) place_with({source(node)}, node);
    }
    // Readers of inserted nodes may be inserted themselves.
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (seen_[*node] && !placement_.placed(*node)) place_with(placement_.readers(*node), *node);
    }
  }

 private:
  static constexpr std::array<std::string_view, 2> where_the_program_has_none = {"Cast", "Transpose"};

  // Between the operations before and behind it the program has one that no form of the reference writes, such as a
  // conversion to the type that the value has already.
  bool may_be_recorded(std::int32_t node) const {
    std::int32_t from = 0, to = static_cast<std::int32_t>(vanished_.size()) - 1;
    if (const std::int32_t maker = source(node); maker >= 0) {
      if (computes_in_integers(f_.nodes[maker].op_type)) return false;
      for (const std::int32_t unit : placement_.matches[maker].units) from = std::max(from, unit);
    }
    for (const std::int32_t reader : placement_.readers(node)) {
      for (const std::int32_t unit : placement_.matches[reader].units) to = std::min(to, unit);
    }
    return from < to && vanished_[to] > vanished_[from];
  }

  bool may_be_inserted(std::int32_t node) const {
    static constexpr std::array<std::string_view, 5> always = {
        "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ReorderInput", "ReorderOutput"};
    const StructureNode& entry = f_.nodes[node];
    if (placement_.placed(node) || entry.computes_sizes) return false;
    if (is_among(always, entry.op_type)) return true;
    if (!entry.outputs.empty() && f_.is_run_time_scale(entry.outputs[0])) return true;
    if (rescales(node)) return true;
    return entry.kind == NodeKind::transparent && is_among(where_the_program_has_none, entry.op_type);
  }

  // Brings the result of an integer product back to its scale.
  bool rescales(std::int32_t node) const {
    return f_.nodes[node].op_type == "Mul" && f_.nodes[node].kind == NodeKind::transparent;
  }

  // The node whose result this one has, through other inserted ones; -1 for an input of the graph.
  std::int32_t source(std::int32_t node) const {
    for (int steps = 0; steps < 8; ++steps) {
      const auto before = placement_.sources(node);
      if (before.empty()) return -1;
      node = before.front();
      if (!seen_[node]) return node;
    }
    return -1;
  }

  bool brings_back(std::int32_t node) const {
    const std::int32_t maker = source(node);
    if (maker < 0) return false;
    const std::string_view op = f_.nodes[node].op_type;
    if (op == "ReorderOutput" || rescales(node) || placement_.readers(node).empty()) return true;
    if (op == "Cast" || op == "DequantizeLinear") {
      if (computes_in_integers(f_.nodes[maker].op_type)) return straight(node, maker);
    }
    return (op == "Cast" || op == "Transpose") && straight(node, maker) && reads_inserted(maker, f_.nodes[node]);
  }

  bool straight(std::int32_t node, std::int32_t maker) const {
    const auto before = placement_.sources(node);
    return !before.empty() && before.front() == maker;
  }

  // The operator's inputs come from inserted nodes that do the opposite: another type, another order.
  bool reads_inserted(std::int32_t node, const StructureNode& back) const {
    const auto before = placement_.sources(node);
    return std::ranges::any_of(before, [&](std::int32_t other) {
      const StructureNode& entry = f_.nodes[other];
      return seen_[other] && entry.op_type == back.op_type && entry.attributes != back.attributes;
    });
  }

  void place_with(const std::vector<std::int32_t>& served, std::int32_t node) {
    constexpr std::size_t most_units = 64;
    NodeMatch together;
    bool one_answer = true;
    for (const std::int32_t other : served) {
      const NodeMatch& match = placement_.matches[other];
      if (!placement_.placed(other)) continue;
      if (together.scope < 0) {
        together = match;
        continue;
      }
      one_answer &= match.scope == together.scope;
      together.scope = placement_.reference.common_scope(together.scope, match.scope);
      together.confidence = std::max(together.confidence, match.confidence);
      if (match.units != together.units && together.units.size() < most_units) {
        together.units.insert(together.units.end(), match.units.begin(), match.units.end());
        together.shared = true;
      }
    }
    if (together.scope < 0) return;
    std::ranges::sort(together.units);
    together.units.erase(std::unique(together.units.begin(), together.units.end()), together.units.end());
    together.confidence =
        std::max(together.confidence, one_answer ? origin::Confidence::matched : origin::Confidence::ancestor);
    together.rule = MatchRule::inserted;
    placement_.matches[node] = std::move(together);
  }

  Placement& placement_;
  const Structure& f_;
  std::vector<bool> seen_;              // inserted nodes
  std::vector<std::int32_t> vanished_;  // by unit: operations before it that no form of the reference writes
};

}  // namespace

void place_inserted(Placement& placement) { Inserted(placement).place(); }

}  // namespace whence::match
