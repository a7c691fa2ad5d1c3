// Scores a pair of nodes: by evidence, by neighbours that correspond, by likeness.
#include <algorithm>

#include "annotator/match/correspondence.h"
#include "annotator/match/correspondence_weights.h"
#include "annotator/match/op_class.h"

namespace whence::match {
namespace {

constexpr double input_agrees = 1.0, output_agrees = 1.4;
constexpr double input_disagrees = -0.8, output_disagrees = -1.2, input_half_known = -0.25, output_half_known = -0.5;
constexpr double attributes_agree = 0.2, constant_agrees = 0.4, constant_disagrees = -0.4;
constexpr double weights_disagree = -2;
constexpr double clear_weight = 1.8;  // strength of evidence that has one candidate, of a parameter with one reader
constexpr double neighbours_alike = 0.3, fx_name_agrees = 0.2;

std::vector<std::int64_t> sorted_sizes(const StructureTensor& tensor) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : tensor.dims) {
    if (size != 1) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}
}  // namespace

double Correspondence::evidence_for(ForeignNode f, ReferenceNode r) const {
  double best = 0, sum = 0;
  for (const Evidence& evidence : evidence_[f]) {
    if (evidence.rule == MatchRule::fx_names) continue;  // likeness
    for (const UnitIndex unit : reference_.units_of_node[r]) {
      const bool agrees =
          evidence.unit.exists() ? evidence.unit == unit : evidence.scope == reference_.units[unit].scope;
      if (!agrees) continue;
      best = std::max(best, evidence.strength);
      sum += 0.25 * evidence.strength;
      break;
    }
  }
  return best + std::min(sum, 0.5);
}

// Returns true if a weight that the foreign node reads is clearly another module's, and none is of the reference's. The
// operation that reads it may be one that only rearranges it.
bool Correspondence::reads_weights_of_others(ForeignNode f, ReferenceNode r) const {
  bool of_others = false;
  for (const Evidence& evidence : evidence_[f]) {
    if (!is_of_content(evidence.rule) || !evidence.unit.exists()) continue;
    const ScopeIndex owner = reference_.units[evidence.unit].scope;
    const bool own = std::ranges::any_of(reference_.units_of_node[r],
                                         [&](UnitIndex unit) { return reference_.units[unit].scope == owner; });
    if (own) return false;
    of_others = of_others || evidence.strength >= clear_weight;
  }
  return of_others;
}

double Correspondence::support(ForeignNode f, ReferenceNode r, Trust trust) const {
  const auto& f_node = f_.nodes[f];
  const auto& r_node = r_.nodes[r];
  const auto trusted = [&](ForeignValue fv) { return trust == Trust::all || value_certain_[fv]; };
  const auto partner = [&](ForeignValue fv) { return trusted(fv) ? value_of_[fv] : ReferenceValue(); };
  const auto taken = [&](ReferenceValue rv) { return foreign_of_[rv].exists() && trusted(foreign_of_[rv]); };
  double total = evidence_for(f, r) + (reads_weights_of_others(f, r) ? weights_disagree : 0);
  const auto a = f_.data_inputs(f);
  const auto b = r_.data_inputs(r);
  if (f_node.commutative || a.size() != b.size()) {
    // The inputs are compared as sets: values that correspond count wherever they stand.
    for (const ForeignValue value : a) {
      if (!value.exists() || !partner(value).exists()) continue;
      total += std::find(b.begin(), b.end(), partner(value)) != b.end() ? input_agrees : input_half_known;
    }
  } else {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!a[i].exists() || !b[i].exists()) continue;
      if (partner(a[i]) == b[i]) {
        total += input_agrees;
      } else if (partner(a[i]).exists() && taken(b[i])) {
        total += input_disagrees;
      } else if (partner(a[i]).exists()) {
        total += input_half_known;
      }
    }
  }
  for (std::size_t i = 0; i < f_node.outputs.size() && i < r_node.outputs.size(); ++i) {
    const ForeignValue x = f_.loose(f_node.outputs[i]);
    const ReferenceValue y = r_.loose(r_node.outputs[i]);
    if (!x.exists() || !y.exists()) continue;
    if (partner(x) == y) {
      total += output_agrees;
    } else if (partner(x).exists() && taken(y)) {
      total += output_disagrees;
    } else if (taken(y)) {
      total += output_half_known;
    }
  }
  const auto found = trust == Trust::all ? bonus_.find(pair_key(f, r)) : bonus_.end();
  return found == bonus_.end() ? total : total + found->second;
}

double Correspondence::constants_alike(ForeignNode f, ReferenceNode r) const {
  const bool in_blocks = computes_in_blocks(f_.nodes[f].domain);
  double total = 0;
  for (const ForeignValue x : f_.nodes[f].inputs) {
    if (!x.exists() || !f_.values[x].constant) continue;
    const ForeignTensor a = f_.root_tensor(x);
    if (!a.exists()) continue;
    bool comparable = false, agrees = false;
    for (const ReferenceValue y : r_.nodes[r].inputs) {
      if (!y.exists() || !r_.values[y].constant) continue;
      const ReferenceTensor b = r_.root_tensor(y);
      if (!b.exists()) continue;
      const StructureTensor& f_tensor = f_.tensors[a];
      const StructureTensor& r_tensor = r_.tensors[b];
      comparable = true;
      if (f_tensor.single && r_tensor.single) {
        const double scale = std::max(std::abs(f_tensor.number), std::abs(r_tensor.number));
        agrees |= std::abs(f_tensor.number - r_tensor.number) <= 1e-3 * scale;
      } else if (!f_tensor.dims.empty()) {
        agrees |= sorted_sizes(f_tensor) == sorted_sizes(r_tensor) ||
                  (in_blocks && is_filled_up(r_tensor.dims, f_tensor.dims));
      }
    }
    if (comparable) total += agrees ? constant_agrees : constant_disagrees;
  }
  return std::clamp(total, -0.8, 0.8);
}

// No tool changes a convolution kernel's sizes, but for channels that fill a block; matrices are packed, split and put
// side by side.
bool Correspondence::kernels_differ(ForeignNode f, ReferenceNode r) const {
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
  return sorted_sizes(*f_kernel) != sorted_sizes(*r_kernel);
}

bool Correspondence::producers_alike(ForeignValue fv, ReferenceValue rv) const {
  const auto& x = f_.makers(fv);
  const auto& y = r_.makers(rv);
  if (x.empty() || y.empty()) return x.empty() && y.empty();
  for (const ForeignNode a : x) {
    for (const ReferenceNode b : y) {
      if (f_.nodes[a].op_class == r_.nodes[b].op_class) return true;
    }
  }
  return false;
}

// A sum of two values is another thing than one with weights.
bool Correspondence::does_the_same(ForeignNode f, ReferenceNode r) const {
  if (f_.nodes[f].op_class != r_.nodes[r].op_class) return false;
  const auto sums_values = [](const auto& s, auto node) {
    return std::ranges::none_of(s.nodes[node].inputs,
                                [&](auto input) { return input.exists() && s.values[input].constant; });
  };
  return !f_.nodes[f].commutative || sums_values(f_, f) == sums_values(r_, r);
}

// Returns which share of the foreign value's readers have a reader of the reference value that does the same, 0 to 1.
double Correspondence::consumers_alike(ForeignValue fv, ReferenceValue rv) const {
  const auto& f_uses = f_.heavy_uses(fv);
  const auto& r_uses = r_.heavy_uses(rv);
  double met = 0, all = 0;
  const auto look_for = [&](const StructureUse<Side::foreign>& reader) {
    all += 1;
    met +=
        std::any_of(r_uses.begin(), r_uses.begin() + static_cast<std::ptrdiff_t>(std::min(r_uses.size(), max_readers)),
                    [&](const auto& use) {
                      return adds(reader) ? r_.nodes[use.node].op_type == "Add" : does_the_same(reader.node, use.node);
                    });
  };
  for (std::size_t i = 0; i < f_uses.size() && i < max_readers; ++i) {
    // Exporters differ in where they read sizes, so a Shape says nothing.
    if (f_.nodes[f_uses[i].node].op_type != "Shape") look_for(f_uses[i]);
  }
  if (all == 0) return r_uses.empty() ? 1 : 0;
  return met / all;
}

// These names number the operators in the order of another export, so they make a pair likelier and never certain.
bool Correspondence::fx_name_agrees_with(ForeignNode f, ReferenceNode r) const {
  return std::ranges::any_of(evidence_[f], [&](const Evidence& evidence) {
    const auto& units = reference_.units_of_node[r];
    return evidence.rule == MatchRule::fx_names && std::ranges::find(units, evidence.unit) != units.end();
  });
}

double Correspondence::likeness(ForeignNode f, ReferenceNode r) const {
  const auto& f_node = f_.nodes[f];
  const auto& r_node = r_.nodes[r];
  double total = f_node.attributes == r_node.attributes ? attributes_agree : 0;
  total += constants_alike(f, r);
  if (fx_name_agrees_with(f, r)) total += fx_name_agrees;
  const auto a = f_.data_inputs(f);
  const auto b = r_.data_inputs(r);
  double alike = 0, compared = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!a[i].exists() || !b[i].exists()) continue;
    compared += 1;
    alike += producers_alike(a[i], b[i]);
  }
  if (compared > 0) total += neighbours_alike * alike / compared;
  if (!f_node.outputs.empty() && !r_node.outputs.empty() && f_node.outputs[0].exists() && r_node.outputs[0].exists()) {
    total += neighbours_alike * consumers_alike(f_.loose(f_node.outputs[0]), r_.loose(r_node.outputs[0]));
  }
  return total;
}

double Correspondence::score(ForeignNode f, ReferenceNode r, Trust trust) const {
  return support(f, r, trust) + likeness(f, r);
}

bool Correspondence::same_units(ReferenceNode a, ReferenceNode b) const {
  return reference_.units_of_node[a] == reference_.units_of_node[b];
}

double Correspondence::best_rival(ForeignNode f, ReferenceNode r, Trust trust) const {
  double best = 0;
  see_rivals(f, r, trust, [&](ForeignNode a, ReferenceNode b) { best = std::max(best, score(a, b, trust)); });
  return best;
}

bool Correspondence::leads_by_support(ForeignNode f, ReferenceNode r, Trust trust) const {
  const double own = score(f, r, trust), supported = support(f, r, trust);
  bool leads = true;
  see_rivals(f, r, trust, [&](ForeignNode a, ReferenceNode b) {
    const bool behind = own - score(a, b, trust) >= clear_gap || supported - support(a, b, trust) >= small_gap;
    leads = leads && behind;
  });
  return leads;
}

}  // namespace whence::match
