#include "annotator/comparison/drafted_nodes.h"

#include <utility>

#include <onnx/onnx_pb.h>

namespace whence::comparison {
namespace {

onnx::NodeProto& last(onnx::ModelProto& model) {
  return *model.mutable_graph()->mutable_node(model.graph().node_size() - 1);
}

}  // namespace

DraftedNodes::DraftedNodes(std::function<bool(std::string_view)> is_taken)
    : is_taken_(std::move(is_taken)), model_(std::make_unique<onnx::ModelProto>()) {}

DraftedNodes::~DraftedNodes() = default;

std::size_t DraftedNodes::size() const { return static_cast<std::size_t>(model_->graph().node_size()); }

void DraftedNodes::add_output(const std::string& output) { last(*model_).add_output(output); }

std::string DraftedNodes::add(std::string_view op_type, const std::vector<std::string>& inputs, std::string output,
                              std::string_view name) {
  onnx::NodeProto& node = *model_->mutable_graph()->add_node();
  node.set_op_type(std::string(op_type));
  node.set_name(std::string(name));
  for (const std::string& input : inputs) node.add_input(input);
  if (output.empty()) output = new_name();
  node.add_output(output);
  return output;
}

std::string DraftedNodes::new_name() {
  std::string name;
  do {
    name = "written out " + std::to_string(++names_);
  } while (is_taken_(name));
  return name;
}

void DraftedNodes::set(std::string_view name, std::int64_t number) {
  onnx::AttributeProto& attribute = *last(*model_).add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(number);
}

void DraftedNodes::set(std::string_view name, float number) {
  onnx::AttributeProto& attribute = *last(*model_).add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(number);
}

void DraftedNodes::copy_attribute(const onnx_file::OnnxNode& from, std::string_view name, std::string_view as) {
  for (const onnx_file::OnnxAttribute& attribute : from.attributes) {
    if (attribute.name != name) continue;
    onnx::AttributeProto& copy = *last(*model_).add_attribute();
    copy.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size()));
    copy.set_name(std::string(as));
  }
}

std::string DraftedNodes::turn_pairs(const std::string& value, bool turns_neighbours) {
  if (turns_neighbours) {
    const std::string even = add("Slice", {value}), odd = add("Slice", {value});
    return add("Concat", {add("Neg", {odd}), even});
  }
  const std::string first = add("Split", {value}), second = new_name();
  add_output(second);
  return add("Concat", {add("Neg", {second}), first});
}

std::string DraftedNodes::rotate(const std::string& value, const std::string& cosine, const std::string& sine,
                                 bool turns_neighbours, const std::string& result) {
  const std::string turned = turn_pairs(value, turns_neighbours);
  return add("Add", {add("Mul", {value, cosine}), add("Mul", {turned, sine})}, result);
}

std::string DraftedNodes::bytes(std::int64_t ir_version) {
  model_->set_ir_version(ir_version);
  model_->mutable_graph()->set_name("written out");
  return model_->SerializeAsString();
}

}  // namespace whence::comparison
