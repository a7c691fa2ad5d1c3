#include "annotator/comparison/placing.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/operator_fit.h"
#include "annotator/comparison/parameter_places.h"
#include "annotator/comparison/stated_numbers.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/derivation/parameter_names.h"
#include "annotator/match/op_class.h"
#include "annotator/onnx_file/node_attributes.h"

namespace whence::comparison {

using derivation::bias_slot;
using derivation::is_arithmetic;
using derivation::is_movement;
using derivation::multiplies;
using derivation::no_tensor;
using derivation::parameter_name;
using derivation::ParameterStep;
using derivation::TensorNumber;

using onnx_file::OnnxNode;

Placement Placing::run(match::MatchReport& report, const std::vector<NodeVerdict>& sizes,
                       const onnx_file::OnnxGraph& graph, const WrittenOut& written) {
  take_matches(report, sizes, written);
  find_own_operations();
  ask_wiring(sizes, graph, written);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    place_by_parameter(i, sizes[i]);
    place_by_weight(i);
    add_folded(i);
    add_fused_activation(i);
    add_fused_factor(i);
    placed()[i].share = share_of(*nodes_[i], tensors_, derivations_);
    placed()[i].is_plain = is_plain(*nodes_[i], tensors_, derivations_);
  }
  return std::move(placement_);
}

bool Placing::fits(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  return misfit(node, operations, reference_).empty() || cuts_.fits(node, operations) ||
         repetitions_.fits(node, operations);
}

void Placing::take_matches(match::MatchReport& report, const std::vector<NodeVerdict>& sizes,
                           const WrittenOut& written) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Placed place{.is_size = sizes[i] == NodeVerdict::size};
    if (i < report.nodes.size()) {
      place_packed(*nodes_[i], report.nodes[i]);
      if (written.drafted.contains(i)) place_sum(*nodes_[i], report.nodes[i]);
      for (const match::UnitIndex unit : report.nodes[i].units) place.operations.push_back(unit.number());
      place.share = share_of(*nodes_[i], tensors_, derivations_);
      place.is_certain = report.nodes[i].confidence <= origin::Confidence::matched;
    }
    placed().push_back(std::move(place));
  }
}

void Placing::place_packed(const OnnxNode& node, match::NodeMatch& match) {
  auto operations =
      packed_operations(node, tensors_, derivations_, reference_,
                        [&](const OnnxNode& each, std::int32_t operation) { return fits(each, {operation}); });
  if (operations.empty()) return;
  match.units.clear();
  for (const std::int32_t operation : operations) match.units.push_back(match::UnitIndex(operation));
  match.confidence = origin::Confidence::matched;
  placement_.packed.emplace(&node, std::move(operations));
}

void Placing::place_sum(const OnnxNode& node, match::NodeMatch& match) const {
  if (node.op_type != "Add") return;
  std::vector<std::int32_t> readers;
  for (const std::string_view input : node.inputs) {
    if (readers.empty()) readers = readers_of_parameter(input, tensors_, derivations_, reference_);
  }
  const bool is_placed = std::ranges::any_of(
      match.units, [&](match::UnitIndex unit) { return std::ranges::find(readers, unit.number()) != readers.end(); });
  if (readers.empty() || is_placed || !fits(node, readers)) return;
  match.units.clear();
  for (const std::int32_t operation : readers) match.units.push_back(match::UnitIndex(operation));
  match.confidence = readers.size() == 1 ? origin::Confidence::matched : origin::Confidence::inferred;
}

void Placing::find_own_operations() {
  const auto covered = [&](std::size_t i) {
    return operations_.covered(placed()[i].operations, match::op_class(nodes_[i]->op_type));
  };
  std::set<std::int32_t> alone, standing;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool computes = is_arithmetic(nodes_[i]->op_type) && !is_rescaling(*nodes_[i], tensors_);
    if (!placed()[i].is_certain || placed()[i].is_size || !computes) continue;
    if (placed()[i].operations.size() == 1) alone.insert(placed()[i].operations[0]);
    const auto own = covered(i);
    standing.insert(own.begin(), own.end());
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Placed& place = placed()[i];
    const bool is_of_runtime = origin::is_of_runtime(nodes_[i]->domain);
    if (place.operations.size() < 2 || is_of_runtime || placement_.packed.contains(nodes_[i])) continue;
    auto own = covered(i);
    // What an attention leaves out, it does not do.
    if (nodes_[i]->op_type == "Attention" && !own.empty()) {
      place.operations = std::move(own);
      continue;
    }
    std::ranges::copy_if(place.operations, std::back_inserter(place.own), [&](std::int32_t operation) {
      const bool is_own = std::ranges::find(own, operation) != own.end();
      return !alone.contains(operation) && (is_own || !standing.contains(operation));
    });
  }
}

void Placing::ask_wiring(const std::vector<NodeVerdict>& sizes, const onnx_file::OnnxGraph& graph,
                         const WrittenOut& written) {
  const std::vector<Placed> matched = placed();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool is_asked = sizes[i] != NodeVerdict::size && !placed()[i].operations.empty() &&
                          (!is_movement(nodes_[i]->op_type) || truncates(*nodes_[i])) &&
                          !fits(*nodes_[i], placed()[i].operations);
    if (is_asked) placed()[i] = {.is_size = placed()[i].is_size};
  }
  FileWiring file(nodes_, graph, written, wiring_, tensors_, placed());
  file.place_remaining([&](const OnnxNode& node, std::int32_t operation) { return fits(node, {operation}); });
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!placed()[i].operations.empty()) continue;
    const auto readers = nodes_[i]->op_type.ends_with("Mul") ? file.operations_after(i) : std::vector<std::int32_t>();
    placed()[i] = !readers.empty() && fits(*nodes_[i], readers) ? Placed{.operations = readers} : matched[i];
  }
}

// Returns true for a choice from a table that other operations read than these.
bool Placing::reads_another_table(const OnnxNode& node, const std::vector<std::int32_t>& operations) const {
  if (node.op_type != "Gather" || node.inputs.size() != 2) return false;
  const auto readers = readers_of_parameter(node.inputs[0], tensors_, derivations_, reference_);
  return !readers.empty() && fits(node, readers) && std::ranges::none_of(readers, [&](std::int32_t reader) {
    return std::ranges::find(operations, reader) != operations.end();
  });
}

void Placing::place_by_parameter(std::size_t number, NodeVerdict size_verdict) {
  const OnnxNode& node = *nodes_[number];
  Placed& place = placed()[number];
  const bool chooses = size_verdict == NodeVerdict::movement && !is_movement(node.op_type);
  const bool is_placed = !place.operations.empty() && (!chooses || fits(node, place.operations)) &&
                         !reads_another_table(node, place.operations);
  const bool is_table = node.op_type == "Gather";
  if (is_placed || (!chooses && !is_table && !multiplies(node.op_type))) return;
  for (const std::string_view input : node.inputs) {
    const auto readers = readers_of_parameter(input, tensors_, derivations_, reference_);
    const bool is_found = !readers.empty() && fits(node, readers);
    if (is_found) place = {.operations = readers, .is_certain = !chooses && readers.size() == 1};
    // A choice reads its rows first, then their numbers.
    if (is_found || chooses) return;
  }
}

void Placing::place_by_weight(std::size_t number) {
  const OnnxNode& node = *nodes_[number];
  const std::uint16_t op_class = match::op_class(node.op_type);
  if (!match::is_product(op_class) || placement_.packed.contains(&node)) return;
  std::vector<std::int32_t> readers;
  for (const std::string_view input : node.inputs) {
    if (readers.empty()) readers = readers_of_parameter(input, tensors_, derivations_, reference_);
    std::erase_if(readers, [&](std::int32_t each) { return !operations_.has(each, op_class); });
  }
  if (readers.empty() || !fits(node, readers)) return;
  const auto reads = [&](std::int32_t each) { return std::ranges::find(readers, each) != readers.end(); };
  Placed& place = placed()[number];
  if (std::ranges::any_of(place.operations, reads)) {
    const auto is_other = [&](std::int32_t each) { return operations_.has(each, op_class) && !reads(each); };
    std::erase_if(place.operations, is_other);
    std::erase_if(place.own, is_other);
  } else if (!place.is_certain) {
    place = {.operations = readers, .is_certain = readers.size() == 1, .is_size = place.is_size};
  }
}

// Returns true for an operation that adds a parameter, which a value of the file is.
bool Placing::adds_parameter(std::int32_t operation, std::string_view value) const {
  const TensorNumber constant = constant_of(value, tensors_);
  const auto* const held =
      constant == no_tensor ? nullptr : &derivations_[static_cast<std::size_t>(constant)].expression;
  std::set<std::string> names;
  if (held != nullptr && *held) {
    for_each_parameter(**held, [&](const ParameterStep& step) {
      for_each_name(step, [&](const std::string& name) { names.insert(name); });
    });
  }
  bool adds = false;
  operations_.for_each_node({operation}, [&](const OperationForms::FormNode& form) {
    for (const graph::GraphValueId input : form.node->inputs) {
      const graph::Initializer* const constant_input = form.graph->initializer(input);
      adds = adds || (form.node->op_type == "Add" && constant_input != nullptr &&
                      names.contains(parameter_name(*form.graph, *constant_input)));
    }
  });
  return adds;
}

void Placing::add_folded(std::size_t number) {
  Placed& place = placed()[number];
  if (place.operations.empty() || !match::is_product(match::op_class(nodes_[number]->op_type))) return;
  std::set<std::int32_t> folded;
  for (const std::string_view input : nodes_[number]->inputs) {
    const TensorNumber constant = constant_of(input, tensors_);
    if (constant == no_tensor || !derivations_[static_cast<std::size_t>(constant)].expression) continue;
    folded.merge(readers_of_folded(*derivations_[static_cast<std::size_t>(constant)].expression, reference_));
  }
  if (const auto bias = bias_slot(nodes_[number]->op_type); bias && nodes_[number]->inputs.size() > *bias) {
    for (const std::int32_t operation : wiring_.readers_of(place.operations)) {
      if (adds_parameter(operation, nodes_[number]->inputs[*bias])) folded.insert(operation);
    }
  }
  // Each of them reads the result of the one before.
  for (bool is_complete = folded.empty(); !is_complete;) {
    is_complete = true;
    for (const std::int32_t operation : wiring_.readers_of(place.operations)) {
      if (folded.erase(operation) == 0) continue;
      is_complete = false;
      const auto add_to = [&](std::vector<std::int32_t>& operations) {
        if (std::ranges::find(operations, operation) == operations.end()) operations.push_back(operation);
      };
      add_to(place.operations);
      add_to(place.folded);
      if (!place.own.empty()) add_to(place.own);
    }
  }
}

void Placing::add_fused_activation(std::size_t number) {
  const std::string_view activation = onnx_file::text_attribute(*nodes_[number], "activation");
  const std::vector<std::int32_t> own = placed()[number].operations;
  if (activation.empty() || nodes_[number]->domain.empty() || own.empty()) return;
  for (const std::int32_t operation : wiring_.readers_of(own)) {
    const bool is_new = std::ranges::find(own, operation) == own.end();
    if (is_new && operations_.has(operation, match::op_class(activation)))
      placed()[number].operations.push_back(operation);
  }
}

void Placing::add_fused_factor(std::size_t number) {
  const double alpha = onnx_file::number_attribute(*nodes_[number], "alpha").value_or(1);
  const std::vector<std::int32_t> own = placed()[number].operations;
  if (nodes_[number]->op_type != "FusedMatMul" || alpha == 1 || own.empty()) return;
  const auto scales = [&](std::int32_t operation) {
    const bool multiplies =
        operations_.has(operation, match::op_class("Mul")) || operations_.has(operation, match::op_class("Div"));
    return multiplies && std::ranges::find(own, operation) == own.end();
  };
  const auto is_factor = [&](const std::vector<std::int32_t>& operations) {
    constexpr double rounding = 1e-5;
    return std::ranges::any_of(factors_of(operations_, operations), [&](double factor) {
      return factor != 1 && std::abs(alpha - factor) <= rounding * std::abs(factor);
    });
  };
  std::set<std::int32_t> others = wiring_.readers_of(own);
  others.merge(wiring_.sources_of(own));
  std::erase_if(others, [&](std::int32_t operation) { return !scales(operation); });
  for (const std::int32_t operation : others) {
    if (is_factor({operation})) placed()[number].operations.push_back(operation);
  }
  if (placed()[number].operations.size() > own.size()) return;
  // One factor after another became one number.
  for (const std::int32_t operation : others) {
    for (const std::int32_t next : wiring_.readers_of({operation})) {
      if (next == operation || !scales(next) || !is_factor({operation, next})) continue;
      placed()[number].operations.insert(placed()[number].operations.end(), {operation, next});
      return;
    }
  }
}

}  // namespace whence::comparison
