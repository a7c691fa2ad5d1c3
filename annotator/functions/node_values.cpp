#include "annotator/functions/node_values.h"

#include <algorithm>
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

using Names = std::vector<std::string>;

// What `graph` reads that neither it nor a graph around it, up to the node, defines.
void collect_captured(const onnx::GraphProto& graph, std::set<std::string> own, Names& read);

void collect_reads(const onnx::NodeProto& node, const std::set<std::string>& own, Names& read) {
  for (const std::string& input : node.input()) {
    if (!input.empty() && !own.contains(input)) read.push_back(input);
  }
  for_each_body(node, [&](const onnx::GraphProto& body) { collect_captured(body, own, read); });
}

void collect_captured(const onnx::GraphProto& graph, std::set<std::string> own, Names& read) {
  own.merge(defined_in(graph));
  for (const onnx::NodeProto& node : graph.node()) collect_reads(node, own, read);
  for (const onnx::ValueInfoProto& output : graph.output()) {
    if (!own.contains(output.name())) read.push_back(output.name());
  }
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

// Everything in a body, whoever defines it.
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

std::vector<std::string> values_read(const onnx::NodeProto& node) {
  Names read;
  collect_reads(node, {}, read);
  if (read.size() < 2) return read;
  Names distinct;
  distinct.reserve(read.size());
  for (std::string& name : read) {
    if (std::ranges::find(distinct, name) == distinct.end()) distinct.push_back(std::move(name));
  }
  return distinct;
}

void rename_values(onnx::NodeProto& node, const Rename& rename) {
  const auto rename_one = [&](std::string& name) {
    if (!name.empty()) name = rename(name);
  };
  for (std::string& input : *node.mutable_input()) rename_one(input);
  for (std::string& output : *node.mutable_output()) rename_one(output);
  for_each_body(node, [&](onnx::GraphProto& body) { rename_captured(body, {}, rename); });
}

void for_each_inner_value(const onnx::NodeProto& node, const std::function<void(const std::string&)>& visit) {
  for_each_body(node, [&](const onnx::GraphProto& body) {
    for (const std::string& name : defined_in(body)) visit(name);
    for (const onnx::NodeProto& inner : body.node()) for_each_inner_value(inner, visit);
  });
}

void rename_inner_values(onnx::NodeProto& node, const Rename& rename) {
  std::set<std::string> inner;
  for_each_inner_value(node, [&](const std::string& name) { inner.insert(name); });
  for_each_body(node, [&](onnx::GraphProto& body) {
    rename_all(body, [&](const std::string& name) { return inner.contains(name) ? rename(name) : name; });
  });
}

}  // namespace whence::functions
