#include "annotator/derivation/stated_rows.h"

#include <nlohmann/json.hpp>

#include "schema/json_text.h"
#include "schema/printable.h"

namespace whence::derivation {
namespace {

using Json = nlohmann::ordered_json;

// Compares texts, because a name that is not UTF-8 is written with replacements.
bool states(const Json& row, const Json& expected) {
  if (!row.is_object()) return false;
  for (const auto& [key, value] : expected.items()) {
    if (!row.contains(key) || json_text(row[key]) != json_text(value)) return false;
  }
  return true;
}

std::string other_row(const char* what, const std::string& name) {
  return std::string("the statement does not list the ") + what + " '" + printable(name) +
         "' of the file at its place, as it is";
}

std::optional<std::string> other_count(const Json& rows, std::size_t count) {
  if (rows.size() == count) return std::nullopt;
  return "the statement does not list each tensor and node of the file";
}

}  // namespace

std::string dtype_name(int onnx_type) {
  constexpr int uint4 = 21, int4 = 22;
  if (onnx_type == uint4) return "uint4";
  return onnx_type == int4 ? "int4" : std::string(name_of(from_onnx(onnx_type)));
}

std::string node_name(const onnx_file::OnnxNode& node) {
  return std::string(node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name);
}

std::optional<std::string> difference_in_tensors(const Json& rows, const FileTensors& tensors, Contents& contents) {
  if (auto difference = other_count(rows, tensors.all().size())) return difference;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const FileTensor& tensor = tensors.all()[i];
    const std::string name(tensor.name);
    const Json expected = {{"name", name},
                           {"dtype", dtype_name(tensor.tensor->data_type)},
                           {"dims", tensor.tensor->dims},
                           {"bytes", contents.of(tensor).size()}};
    if (!states(rows[i], expected)) return other_row("tensor", name);
  }
  return std::nullopt;
}

std::optional<std::string> difference_in_nodes(const Json& rows, const onnx_file::OnnxGraph& graph) {
  const auto nodes = onnx_file::all_nodes(graph);
  if (auto difference = other_count(rows, nodes.size())) return difference;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = node_name(*nodes[i]);
    if (!states(rows[i], {{"name", name}, {"op_type", std::string(nodes[i]->op_type)}})) return other_row("node", name);
  }
  return std::nullopt;
}

}  // namespace whence::derivation
