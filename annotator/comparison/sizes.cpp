#include "annotator/comparison/sizes.h"

#include <algorithm>
#include <set>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "schema/dtype.h"

namespace whence::comparison {

using derivation::Derivation;
using derivation::FileTensor;
using derivation::FileTensors;
using derivation::is_movement;
using derivation::Verdict;

using onnx_file::OnnxNode;

Sizes::Sizes(const FileTensors& tensors, const std::vector<Derivation>& derivations) {
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    const FileTensor& tensor = tensors.all()[i];
    const DType dtype = from_onnx(tensor.tensor->data_type);
    if (derivations[i].verdict == Verdict::calibrated) {
      ranges_.insert(tensor.name);
      continue;
    }
    const bool is_plain = derivations[i].verdict == Verdict::constant || is_integral(dtype) || dtype == DType::boolean;
    (is_plain ? sizes_ : parameters_).insert(tensor.name);
  }
}

NodeVerdict Sizes::add(const OnnxNode& node) {
  static const std::set<std::string_view> picks = {
      "Gather", "GatherBlockQuantized", "GatherElements", "GatherND", "Slice", "Concat"};
  if (!node.subgraphs.empty()) return NodeVerdict::unaccounted;
  const bool starts = node.op_type == "Shape" || node.op_type == "Size";
  if (node.inputs.empty() && node.op_type != "Constant") return NodeVerdict::unaccounted;
  if (node.op_type == "EyeLike" || node.op_type.starts_with("Random")) return NodeVerdict::unaccounted;
  const auto all_in = [&](const auto& is_known) {
    return std::ranges::all_of(node.inputs, [&](std::string_view input) { return input.empty() || is_known(input); });
  };
  const auto is_size = [&](std::string_view input) { return sizes_.contains(input) || ranges_.contains(input); };
  const bool computes_sizes = all_in(is_size) && std::ranges::any_of(node.inputs, [&](std::string_view input) {
                                return sizes_.contains(input);
                              });
  if (starts || node.op_type == "Constant" || computes_sizes) {
    sizes_.insert(node.outputs.begin(), node.outputs.end());
    return NodeVerdict::size;
  }
  const bool is_fixed = all_in([&](std::string_view input) { return is_size(input) || parameters_.contains(input); });
  if (!is_fixed || !(picks.contains(node.op_type) || is_movement(node.op_type))) return NodeVerdict::unaccounted;
  parameters_.insert(node.outputs.begin(), node.outputs.end());
  return NodeVerdict::movement;
}

}  // namespace whence::comparison
