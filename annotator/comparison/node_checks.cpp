#include "annotator/comparison/node_checks.h"

#include <algorithm>

#include "annotator/comparison/attribute_fit.h"
#include "annotator/comparison/kept_axes.h"
#include "annotator/comparison/operator_fit.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/parameter_places.h"
#include "annotator/comparison/stated_integers.h"
#include "annotator/comparison/stated_numbers.h"

namespace whence::comparison {

using onnx_file::OnnxNode;

int opset_of(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return static_cast<int>(opset.version);
  }
  return 0;
}

namespace {

std::vector<std::pair<double, double>> all_bounds(const OperationForms& operations) {
  std::set<std::pair<double, double>> all;
  for (const std::int32_t operation : operations.computing()) {
    if (const auto bounds = bounds_of(operations, operation)) all.insert(*bounds);
  }
  return {all.begin(), all.end()};
}

}  // namespace

NodeChecks::NodeChecks(const PlacedFile& file)
    : file_(file),
      attentions_(file.forms),
      masks_(file.model.graph, file.written, file.tensors, file.contents),
      saturation_(file.tensors, file.contents),
      meanings_(file.tensors, file.contents),
      layouts_(file.nodes, file.model.graph, file.tensors, file.derivations),
      order_(file.operations, file.wiring, file.tensors),
      parts_(file.operations, file.tensors, file.placement.packed, file.contents),
      contradictions_(file.operations, file.tensors, file.derivations, file.contents),
      rows_(file.model.graph, file.written, file.tensors, file.contents, file.forms),
      products_(product_chains(file.forms), file.tensors, file.derivations, file.contents, file.weights),
      surplus_(file.nodes, file.placement.placed, file.operations, file.tensors),
      wholes_(file.nodes, file.placement.placed, file.operations, file.tensors, file.derivations),
      recurrent_(file.nodes, file.placement.placed, file.tensors, file.derivations, file.contents, file.forms),
      bounds_(all_bounds(file.operations)),
      trial_({file.model.graph, file.written, file.nodes, file.tensors, file.contents, file.derivations, file.placement,
              file.wires, file.wiring, file.program, file.weights,
              [this](const OnnxNode& quantiser, double least, double largest) {
                return may_cut(quantiser, least, largest);
              }}) {
  operands_.products = [this](std::string_view value) {
    return products_before(value, file_.tensors, file_.placement.packed,
                           [this](const OnnxNode& node) { return file_.wires.certain_operations_of(node); });
  };
  operands_.first_rows = [this](std::string_view value) {
    return first_rows_before(value, file_.tensors, file_.derivations);
  };
}

// The order decides which of several remarks a node gets: what it is comes before what it reads.
const std::vector<NodeChecks::Check>& NodeChecks::checks() {
  static const std::vector<Check> all = {
      &NodeChecks::other_repetition, &NodeChecks::other_operator,  &NodeChecks::other_cut,
      &NodeChecks::contradiction,    &NodeChecks::other_attention, &NodeChecks::other_attribute,
      &NodeChecks::other_order,      &NodeChecks::other_parts,     &NodeChecks::other_number,
      &NodeChecks::other_integer,    &NodeChecks::other_rows,      &NodeChecks::result_added_twice,
      &NodeChecks::other_source,     &NodeChecks::other_product,   &NodeChecks::one_too_many,
      &NodeChecks::part_of_operator, &NodeChecks::other_layer,
  };
  return all;
}

std::string NodeChecks::difference(std::size_t node) {
  for (const Check check : checks()) {
    if (std::string remark = (this->*check)(node); !remark.empty()) return remark;
  }
  return "";
}

std::string NodeChecks::other_repetition(std::size_t node) {
  const std::string_view op_type = node_of(node).op_type;
  if (op_type != "Expand" && op_type != "Tile") return "";
  // A movement is not placed at an operation of its own, so that those before its reader count as well.
  std::vector<std::int32_t> near = own(node);
  const auto sources = file_.wiring.sources_of(file_.wires.operations_reading(node));
  near.insert(near.end(), sources.begin(), sources.end());
  return file_.repetitions.difference(node_of(node), near);
}

std::string NodeChecks::other_operator(std::size_t node) {
  const bool is_other_form =
      file_.cuts.fits(node_of(node), own(node)) || file_.repetitions.fits(node_of(node), own(node));
  return is_other_form ? "" : misfit(node_of(node), own(node), file_.reference);
}

std::string NodeChecks::other_cut(std::size_t node) { return file_.cuts.difference(node_of(node), own(node)); }

std::string NodeChecks::contradiction(std::size_t node) {
  return contradictions_.of(node_of(node), own(node), is_drafted(node));
}

std::string NodeChecks::other_attention(std::size_t node) {
  return attentions_.difference(node_of(node), own(node), file_.tensors, operands_, is_drafted(node), masks_,
                                file_.written);
}

std::string NodeChecks::other_attribute(std::size_t node) {
  const auto same_axes = [&](bool keeps, const OperationForms::FormNode& form) {
    return same_axes_after(node_of(node), keeps, form, file_.model.graph, file_.tensors);
  };
  std::string found =
      attribute_difference(node_of(node), own(node), file_.operations, opset_of(file_.model), same_axes);
  return found.starts_with("axis is ") && trial_.confirms_axis(node) ? "" : found;
}

std::string NodeChecks::other_order(std::size_t node) {
  return order_.difference(node_of(node), own(node),
                           [this](std::string_view value) { return file_.wires.certain_makers_of(value); });
}

std::string NodeChecks::other_parts(std::size_t node) { return parts_.difference(node_of(node), own(node)); }

std::string NodeChecks::other_number(std::size_t node) {
  return unstated_number(node_of(node), own(node), file_.operations, file_.tensors, file_.derivations, file_.contents);
}

std::string NodeChecks::other_integer(std::size_t node) {
  return other_integers(node_of(node), own(node), file_.operations, file_.tensors, file_.contents);
}

std::string NodeChecks::other_rows(std::size_t node) {
  const auto same = rows_.same_rows(node_of(node), own(node));
  if (same && !*same) return "chooses other rows than the program";
  return same && file_.wires.rows_of(node_of(node)) == "position_ids" ? "" : file_.wires.other_rows(node);
}

std::string NodeChecks::result_added_twice(std::size_t node) {
  const bool reads_twice = node_of(node).op_type == "Add" && file_.wires.reads_one_of_several(node);
  return reads_twice ? "adds two results of one operation, unlike the program" : "";
}

std::string NodeChecks::other_source(std::size_t node) {
  return file_.wires.difference(
      node, [this](const OnnxNode& quantiser, std::int32_t operation) { return is_saturated(quantiser, operation); });
}

std::string NodeChecks::other_product(std::size_t node) { return products_.difference(node_of(node)); }

std::string NodeChecks::one_too_many(std::size_t node) { return surplus_.of(node); }

std::string NodeChecks::part_of_operator(std::size_t node) { return wholes_.difference(node); }

std::string NodeChecks::other_layer(std::size_t node) { return recurrent_.difference(node); }

bool NodeChecks::is_saturated(const OnnxNode& quantiser, std::int32_t operation) const {
  const auto bounds = bounds_of(file_.operations, operation);
  return bounds && saturation_.is_within(quantiser, *bounds);
}

bool NodeChecks::may_cut(const OnnxNode& quantiser, double least, double largest) const {
  return std::ranges::any_of(bounds_, [&](const std::pair<double, double>& bounds) {
    const bool cuts = least < bounds.first || largest > bounds.second;
    return cuts && saturation_.is_within(quantiser, bounds);
  });
}

std::set<std::size_t> NodeChecks::nodes_of_equal_masks() {
  std::set<const OnnxNode*> equal;
  for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
    if (attentions_.mask_difference(node_of(i), own(i), is_drafted(i), masks_) == "") equal.insert(file_.nodes[i]);
  }
  return nodes_of_masks(file_.nodes, equal, file_.model.graph, file_.tensors);
}

}  // namespace whence::comparison
