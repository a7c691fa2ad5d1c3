// Writes the ignored scope of OpenVINO's NNCF. For an ONNX model, NNCF finds nodes by their names. For a model that
// OpenVINO has read, names are OpenVINO's: a node that produces an output of the model has the output's name. If a
// Conv or Gemm has a bias, its product is "<name>/WithoutBiases", and only the addition has the node's name: NNCF would
// accept the plain name, and still quantise the product. Other operators lose their name in the part that NNCF
// quantises: the normalisation of a LayerNormalization is "MVN_123". These parts can only be ignored all together, by
// type. Observed in NNCF 3.4 with OpenVINO 2026.4.
//
// OpenVINO removes folded nodes, so a missing name must not be an error ("validate": false).
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

// Returns the output of the model that the node produces; empty if there is none.
std::string_view output_of(const view::SelectedNode& node, const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxValue& output : model.graph.outputs) {
    if (std::ranges::find(node.outputs, output.name) != node.outputs.end()) return output.name;
  }
  return {};
}

// Types of OpenVINO nodes with generated names, and the ONNX operators that are converted to them.
struct UnnamedPart {
  std::vector<std::string_view> types, operators;
};
const UnnamedPart unnamed_parts[] = {
    {{"MVN"}, {"LayerNormalization", "GroupNormalization", "InstanceNormalization"}},
    {{"ConvolutionBackpropData", "GroupConvolutionBackpropData"}, {"ConvTranspose"}},
    {{"LSTMSequence"}, {"LSTM"}},
};

// Returns the entry for the node's operator; null if the node keeps its name, as a ConvTranspose without bias does.
const UnnamedPart* unnamed_part_of(const view::SelectedNode& node) {
  const auto* found = std::ranges::find_if(unnamed_parts, [&](const UnnamedPart& part) {
    return std::ranges::find(part.operators, node.op_type) != part.operators.end();
  });
  const bool keeps_name = node.op_type == "ConvTranspose" && node.inputs < 3;
  return found == std::end(unnamed_parts) || keeps_name ? nullptr : found;
}

std::string openvino_refusal(const view::SelectedNode& node, const Choice& choice) {
  if (node.outputs.size() > 1 && !output_of(node, choice.model).empty())
    return "has several outputs and produces an output of the model, so its name in OpenVINO is unknown";
  const UnnamedPart* part = unnamed_part_of(node);
  const auto is_left = [&](std::string_view op_type) { return choice.other_operators.contains(op_type); };
  if (part == nullptr || std::ranges::none_of(part->operators, is_left)) return "";
  return "becomes an OpenVINO node with a generated name (" + std::string(part->types.front()) +
         "), which can be ignored only together with all nodes of its type";
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
