// The ignored scope of OpenVINO's NNCF. With the ONNX file itself, NNCF knows nodes by their names. With the model as
// OpenVINO reads it, names are OpenVINO's: a node that makes an output of the model is called like the output, and the
// product of a Conv or Gemm with a bias is "<name>/WithoutBiases" beside the addition, which alone has the node's name.
// There a list of names would be accepted, and the product quantised.
#include <algorithm>
#include <nlohmann/json.hpp>

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

std::string openvino_refusal(const view::SelectedNode& node, const onnx_file::OnnxSummary& model) {
  if (node.outputs.size() < 2 || output_of(node, model).empty()) return "";
  return "has several outputs and makes one of the model's, for which OpenVINO's name is not known";
}

std::string write_openvino_patterns(const Choice& choice) {
  std::vector<std::string> patterns;
  for (const view::SelectedNode& node : choice.nodes) {
    const std::string_view output = output_of(node, choice.model);
    const std::string name = regex_escaped(node.name);
    std::string pattern = output.empty() ? name + "(/WithoutBiases)?\\Z"
                                         : "(" + regex_escaped(output) + "|" + name + "/WithoutBiases)\\Z";
    if (std::ranges::find(patterns, pattern) == patterns.end()) patterns.push_back(std::move(pattern));
  }
  return json_text(nlohmann::ordered_json{{"patterns", patterns}}, 2) + "\n";
}

}  // namespace

const Dialect nncf_dialect = {"nncf",     "nncf.IgnoredScope for an ONNX model, JSON", Bodies::unseen, {}, nullptr,
                              write_names};
const Dialect nncf_openvino_dialect = {"nncf-openvino",  "nncf.IgnoredScope for OpenVINO's model, JSON",
                                       Bodies::unseen,   {},
                                       openvino_refusal, write_openvino_patterns};

}  // namespace whence::dialect
