#include "annotator/match/likeness.h"

#include <algorithm>
#include <cmath>

#include "annotator/match/fused_sum.h"
#include "annotator/match/growth_limits.h"
#include "annotator/match/op_class.h"

namespace whence::match {
namespace {

constexpr double same_attributes = 0.2, same_constant = 0.4, different_constant = -0.4;
constexpr double similar_neighbours = 0.3, same_fx_name = 0.2;

}  // namespace

double Likeness::of(ForeignNode f, ReferenceNode r) const {
  const auto& f_node = f_.nodes[f];
  const auto& r_node = r_.nodes[r];
  double total = f_node.attributes == r_node.attributes ? same_attributes : 0;
  total += constant_likeness(f, r);
  if (has_fx_name_of(f, r)) total += same_fx_name;
  const auto f_inputs = f_.data_inputs(f);
  const auto r_inputs = r_.data_inputs(r);
  double alike = 0, compared = 0;
  for (std::size_t i = 0; i < f_inputs.size() && i < r_inputs.size(); ++i) {
    if (!f_inputs[i].exists() || !r_inputs[i].exists()) continue;
    compared += 1;
    alike += are_produced_alike(f_inputs[i], r_inputs[i]);
  }
  if (compared > 0) total += similar_neighbours * alike / compared;
  if (!f_node.outputs.empty() && !r_node.outputs.empty() && f_node.outputs[0].exists() && r_node.outputs[0].exists()) {
    total += similar_neighbours * common_reader_share(f_.loose(f_node.outputs[0]), r_.loose(r_node.outputs[0]));
  }
  return total;
}

bool Likeness::are_produced_alike(ForeignValue fv, ReferenceValue rv) const {
  const auto& f_makers = f_.makers(fv);
  const auto& r_makers = r_.makers(rv);
  if (f_makers.empty() || r_makers.empty()) return f_makers.empty() && r_makers.empty();
  for (const ForeignNode f : f_makers) {
    for (const ReferenceNode r : r_makers) {
      if (f_.nodes[f].op_class == r_.nodes[r].op_class) return true;
    }
  }
  return false;
}

double Likeness::common_reader_share(ForeignValue fv, ReferenceValue rv) const {
  const auto& f_uses = f_.heavy_uses(fv);
  const auto& r_uses = r_.heavy_uses(rv);
  double met = 0, all = 0;
  const auto look_for = [&](const StructureUse<Side::foreign>& reader) {
    all += 1;
    met += std::any_of(
        r_uses.begin(), r_uses.begin() + static_cast<std::ptrdiff_t>(std::min(r_uses.size(), max_readers)),
        [&](const auto& use) {
          return is_added(f_, reader) ? r_.nodes[use.node].op_type == "Add" : does_the_same(reader.node, use.node);
        });
  };
  for (std::size_t i = 0; i < f_uses.size() && i < max_readers; ++i) {
    // Exporters read sizes at different points, so a Shape is not counted.
    if (f_.nodes[f_uses[i].node].op_type != "Shape") look_for(f_uses[i]);
  }
  if (all == 0) return r_uses.empty() ? 1 : 0;
  return met / all;
}

double Likeness::constant_likeness(ForeignNode f, ReferenceNode r) const {
  const bool in_blocks = computes_in_blocks(f_.nodes[f].domain);
  double total = 0;
  for (const ForeignValue fv : f_.nodes[f].inputs) {
    if (!fv.exists() || !f_.values[fv].constant) continue;
    const ForeignTensor f_root = f_.root_tensor(fv);
    if (!f_root.exists()) continue;
    bool comparable = false, agrees = false;
    for (const ReferenceValue rv : r_.nodes[r].inputs) {
      if (!rv.exists() || !r_.values[rv].constant) continue;
      const ReferenceTensor r_root = r_.root_tensor(rv);
      if (!r_root.exists()) continue;
      const StructureTensor& f_tensor = f_.tensors[f_root];
      const StructureTensor& r_tensor = r_.tensors[r_root];
      comparable = true;
      if (f_tensor.single && r_tensor.single) {
        const double scale = std::max(std::abs(f_tensor.number), std::abs(r_tensor.number));
        agrees |= std::abs(f_tensor.number - r_tensor.number) <= 1e-3 * scale;
      } else if (!f_tensor.dims.empty()) {
        agrees |= sorted_sizes(f_tensor.dims) == sorted_sizes(r_tensor.dims) ||
                  (in_blocks && is_filled_up(r_tensor.dims, f_tensor.dims));
      }
    }
    if (comparable) total += agrees ? same_constant : different_constant;
  }
  return std::clamp(total, -0.8, 0.8);
}

// No tool changes the sizes of a convolution kernel, except to fill its channels up to a block. Matrices are packed,
// split and concatenated.
bool Likeness::kernels_differ(ForeignNode f, ReferenceNode r) const {
  const auto kernel = [](const auto& s, const auto& inputs) -> const StructureTensor* {
    constexpr std::size_t weight = 1;
    if (inputs.size() <= weight || !inputs[weight].exists() || !s.values[inputs[weight]].constant) return nullptr;
    const auto tensor = s.root_tensor(inputs[weight]);
    return tensor.exists() && s.tensors[tensor].dims.size() > 2 ? &s.tensors[tensor] : nullptr;
  };
  if (!is_product(f_.nodes[f].op_class)) return false;
  const StructureTensor *f_kernel = kernel(f_, f_.nodes[f].inputs), *r_kernel = kernel(r_, r_.nodes[r].inputs);
  if (f_kernel == nullptr || r_kernel == nullptr) return false;
  if (computes_in_blocks(f_.nodes[f].domain) && is_filled_up(r_kernel->dims, f_kernel->dims)) return false;
  return sorted_sizes(f_kernel->dims) != sorted_sizes(r_kernel->dims);
}

// These names number the operators in the order of another export: they make a pair likelier, never certain.
bool Likeness::has_fx_name_of(ForeignNode f, ReferenceNode r) const {
  return std::ranges::any_of(evidence_[f], [&](const Evidence& evidence) {
    const auto& units = reference_.units_of_node[r];
    return evidence.rule == MatchRule::fx_names && std::ranges::find(units, evidence.unit) != units.end();
  });
}

// A sum of two values differs from a sum of a value and a weight.
bool Likeness::does_the_same(ForeignNode f, ReferenceNode r) const {
  if (f_.nodes[f].op_class != r_.nodes[r].op_class) return false;
  const auto sums_values = [](const auto& s, auto node) {
    return std::ranges::none_of(s.nodes[node].inputs,
                                [&](auto input) { return input.exists() && s.values[input].constant; });
  };
  return !f_.nodes[f].commutative || sums_values(f_, f) == sums_values(r_, r);
}

}  // namespace whence::match
