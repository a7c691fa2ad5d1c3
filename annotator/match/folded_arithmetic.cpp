#include "annotator/match/folded_arithmetic.h"

#include <algorithm>

#include "annotator/match/fused_sum.h"
#include "annotator/match/op_class.h"
#include "annotator/match/value_steps.h"

namespace whence::match {
namespace {

template <Side S>
bool scales_by_weights(const Structure<S>& s, NodeIndex<S> node) {
  return may_be_folded(s.nodes[node].op_class) && s.reads_weights(node);
}

}  // namespace

ReferenceValue FoldedArithmetic::after_scalings(ForeignValue fv, ReferenceValue rv) const {
  ReferenceValue value = rv;
  for (int step = 0; may_have_scaled(fv) && step < max_steps; ++step) {
    const auto& uses = r_.heavy_uses(value);
    const bool is_scaled = !uses.empty() && std::ranges::all_of(uses, [&](const auto& use) {
      if (!use.node.exists() || !is_own_scaling(use.node) || !reference_.same_units(use.node, uses.front().node))
        return false;
      return r_.count_data_inputs(use.node) == 1;
    });
    const auto scales_alike = [&](const auto& use) {
      return f_.nodes[use.node].op_class == r_.nodes[uses.front().node].op_class;
    };
    if (!is_scaled || std::ranges::any_of(f_.heavy_uses(fv), scales_alike)) break;
    const ReferenceValue result = open_result(uses.front().node);
    if (!result.exists()) break;
    value = result;
  }
  return value;
}

ReferenceValue FoldedArithmetic::after_weighted(ForeignValue fv, ReferenceValue rv) const {
  const bool may_have_absorbed = may_have_absorbed_weights(fv);
  ReferenceValue value = rv;
  for (int step = 0; may_have_absorbed && step < max_steps; ++step) {
    const auto& uses = r_.heavy_uses(value);
    const auto is_scaling = [&](const auto& use) {
      return use.node.exists() && scales_by_weights(r_, use.node) && reference_.same_units(use.node, uses.front().node);
    };
    if (uses.empty() || !std::ranges::all_of(uses, is_scaling)) break;
    const ReferenceValue result = open_result(uses.front().node);
    if (!result.exists()) break;
    value = result;
  }
  return value;
}

bool FoldedArithmetic::is_absorbed_by_product(ReferenceValue value) const {
  const auto& makers = r_.makers(value);
  return std::any_of(makers.begin(), makers.end(), [&](ReferenceNode maker) {
    return is_activation(r_.nodes[maker].op_class) || !may_be_stepped_over(r_, maker);
  });
}

// Returns true if the reader cannot have absorbed a scaling of the value: a plain operator, or a sum.
bool FoldedArithmetic::reads_unscaled(const StructureUse<Side::foreign>& use) const {
  return f_.nodes[use.node].domain.empty() || is_added(f_, use);
}

// Returns true if only the product that computes `fv` can have absorbed a scaling: either the product has a scale
// attribute, or it has weights and none of its readers (fused operators, products with weights) could have absorbed the
// scaling.
bool FoldedArithmetic::may_have_scaled(ForeignValue fv) const {
  const auto is_weighted = [&](ForeignNode node) { return f_.is_product_with_weights(node); };
  const auto& makers = f_.makers(fv);
  if (std::ranges::any_of(makers, [&](ForeignNode node) { return f_.nodes[node].scales; })) return true;
  return std::ranges::any_of(makers, is_weighted) && std::ranges::all_of(f_.heavy_uses(fv), [&](const auto& use) {
           return reads_unscaled(use) && (is_added(f_, use) || !is_weighted(use.node));
         });
}

// Returns true if only products with weights compute `fv`, and all its readers are plain operators: these cannot have
// absorbed arithmetic with weights. Returns false if a reader is such arithmetic itself.
bool FoldedArithmetic::may_have_absorbed_weights(ForeignValue fv) const {
  const auto& products = f_.makers(fv);
  const bool has_weights = !products.empty() && std::ranges::all_of(products, [&](ForeignNode maker) {
    return f_.is_product_with_weights(maker);
  });
  const auto& uses = f_.heavy_uses(fv);
  return has_weights && !uses.empty() && std::ranges::none_of(uses, [&](const auto& use) {
           return !use.node.exists() || !reads_unscaled(use) || scales_by_weights(f_, use.node);
         });
}

// Returns true if the node scales or shifts and is an operation of its own, not part of the decomposition of another
// operation.
bool FoldedArithmetic::is_own_scaling(ReferenceNode r) const {
  const auto& units = reference_.units_of_node[r];
  if (units.size() != 1 || !may_be_folded(r_.nodes[r].op_class)) return false;
  const auto& nodes = reference_.nodes_of_unit[units.front()];
  return std::ranges::all_of(nodes, [&](ReferenceNode node) {
    return reference_.units_of_node[node].size() > 1 || may_be_folded(r_.nodes[node].op_class);
  });
}

// Returns the node's first result; none if it has none or if the result has a partner.
ReferenceValue FoldedArithmetic::open_result(ReferenceNode r) const {
  const auto& outputs = r_.nodes[r].outputs;
  if (outputs.empty() || !outputs[0].exists()) return {};
  const ReferenceValue result = r_.loose(outputs[0]);
  return pairs_.partner(result).exists() ? ReferenceValue() : result;
}

}  // namespace whence::match
