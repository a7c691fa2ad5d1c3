// The ignored scope of OpenVINO's NNCF. With the ONNX file itself, NNCF knows nodes by their names. With the model as
// OpenVINO reads it, names are OpenVINO's: a node that makes an output of the model is called like the output, and the
// product of a Conv or Gemm with a bias is "<name>/WithoutBiases" beside the addition, which alone has the node's name.
// There a list of names would be accepted, and the product quantised. Of other operators the part that NNCF quantises
// has no name of the file's at all: the normalisation of a LayerNormalization is "MVN_123". They can be ignored by
// their type, all that the model has, and not one by one. Seen in NNCF 3.4 with OpenVINO 2026.4.
//
// OpenVINO drops nodes that it folds, so names that are not there are no error (validate).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "annotator/dialect/dialect.h"
#include "annotator/dialect/regex_escape.h"
#include "schema/json_text.h"

namespace whence::dialect {

namespace {

std::string write_names(const Choice& choice) {
  return json_text(nlohmann::ordered_json{{"names", names_of(choice)}}, 2) + "\n";
}

// The output of the model that the node makes; empty when it makes none.
std::string_view output_of(const view::SelectedNode& node, const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxValue& output : model.graph.outputs) {
    if (std::ranges::find(node.outputs, output.name) != node.outputs.end()) return output.name;
  }
  return {};
}

// The types of OpenVINO's nodes that stand for a part of the operator under names of OpenVINO's own, and the operators
// that become such nodes.
struct UnnamedPart {
  std::vector<std::string_view> types, operators;
};
const UnnamedPart unnamed_parts[] = {
    {{"MVN"}, {"LayerNormalization", "GroupNormalization", "InstanceNormalization"}},
    {{"ConvolutionBackpropData", "GroupConvolutionBackpropData"}, {"ConvTranspose"}},
    {{"LSTMSequence"}, {"LSTM"}},
};

// A ConvTranspose without bias keeps its name.
const UnnamedPart* unnamed_part_of(const view::SelectedNode& node) {
  const auto* found = std::ranges::find_if(unnamed_parts, [&](const UnnamedPart& part) {
    return std::ranges::find(part.operators, node.op_type) != part.operators.end();
  });
  const bool keeps_name = node.op_type == "ConvTranspose" && node.inputs < 3;
  return found == std::end(unnamed_parts) || keeps_name ? nullptr : found;
}

std::string openvino_refusal(const view::SelectedNode& node, const Choice& choice) {
  if (node.outputs.size() > 1 && !output_of(node, choice.model).empty())
    return "has several outputs and makes one of the model's, for which OpenVINO's name is not known";
  const UnnamedPart* part = unnamed_part_of(node);
  const auto is_left = [&](std::string_view op_type) { return choice.other_operators.contains(op_type); };
  if (part == nullptr || std::ranges::none_of(part->operators, is_left)) return "";
  return "becomes a node of OpenVINO's without a name (" + std::string(part->types.front()) +
         "), which can be ignored only with all others of its type";
}

std::string write_openvino_patterns(const Choice& choice) {
  std::vector<std::string> patterns;
  std::set<std::string_view> types;
  for (const view::SelectedNode& node : choice.nodes) {
    const std::string_view output = output_of(node, choice.model);
    const std::string name = regex_escaped(node.name);
    std::string pattern = output.empty() ? name + "(/WithoutBiases)?\\Z"
                                         : "(" + regex_escaped(output) + "|" + name + "/WithoutBiases)\\Z";
    if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(std::move(pattern));
    if (const UnnamedPart* part = unnamed_part_of(node)) types.insert(part->types.begin(), part->types.end());
  }
  nlohmann::ordered_json scope = {{"patterns", patterns}};
  if (!types.empty()) scope["types"] = types;
  scope["validate"] = false;
  return json_text(scope, 2) + "\n";
}

}  // namespace

const Dialect nncf_dialect = {"nncf",     "nncf.IgnoredScope for an ONNX model, JSON", Bodies::unseen, {}, nullptr,
                              write_names};
const Dialect nncf_openvino_dialect = {"nncf-openvino",  "nncf.IgnoredScope for OpenVINO's model, JSON",
                                       Bodies::unseen,   {},
                                       openvino_refusal, write_openvino_patterns};

}  // namespace whence::dialect
