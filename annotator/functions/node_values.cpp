#include "annotator/functions/node_values.h"

#include <set>

namespace whence::functions {
namespace {

std::set<std::string> defined_in(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) names.insert(tensor.values().name());
  for (const auto& node : graph.node()) names.insert(node.output().begin(), node.output().end());
  return names;
}

void rename_captured(onnx::GraphProto& graph, std::set<std::string> own, const Rename& rename) {
  own.merge(defined_in(graph));
  const auto rename_one = [&](std::string& name) {
    if (!name.empty() && !own.contains(name)) name = rename(name);
  };
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) rename_one(input);
    for_each_body(node, [&](onnx::GraphProto& body) { rename_captured(body, own, rename); });
  }
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) rename_one(*output.mutable_name());
}

void collect_defined(const onnx::NodeProto& node, std::set<std::string>& names) {
  for_each_body(node, [&](const onnx::GraphProto& body) {
    names.merge(defined_in(body));
    for (const onnx::NodeProto& inner : body.node()) collect_defined(inner, names);
  });
}

// Renames all values in a body, whether the body or an outer graph defines them.
void rename_all(onnx::GraphProto& graph, const Rename& rename) {
  const auto rename_one = [&](std::string& name) {
    if (!name.empty()) name = rename(name);
  };
  for (auto& input : *graph.mutable_input()) rename_one(*input.mutable_name());
  for (auto& output : *graph.mutable_output()) rename_one(*output.mutable_name());
  for (auto& value : *graph.mutable_value_info()) rename_one(*value.mutable_name());
  for (auto& tensor : *graph.mutable_initializer()) rename_one(*tensor.mutable_name());
  for (auto& tensor : *graph.mutable_sparse_initializer()) rename_one(*tensor.mutable_values()->mutable_name());
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) rename_one(input);
    for (std::string& output : *node.mutable_output()) rename_one(output);
    for_each_body(node, [&](onnx::GraphProto& body) { rename_all(body, rename); });
  }
}

}  // namespace

void rename_values(onnx::NodeProto& node, const Rename& rename) {
  const auto rename_one = [&](std::string& name) {
    if (!name.empty()) name = rename(name);
  };
  for (std::string& input : *node.mutable_input()) rename_one(input);
  for (std::string& output : *node.mutable_output()) rename_one(output);
  for_each_body(node, [&](onnx::GraphProto& body) { rename_captured(body, {}, rename); });
}

void rename_inner_values(onnx::NodeProto& node, const Rename& rename) {
  std::set<std::string> inner;
  collect_defined(node, inner);
  for_each_body(node, [&](onnx::GraphProto& body) {
    rename_all(body, [&](const std::string& name) { return inner.contains(name) ? rename(name) : name; });
  });
}

}  // namespace whence::functions
