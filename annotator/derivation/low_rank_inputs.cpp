#include "annotator/derivation/low_rank_inputs.h"

#include <algorithm>
#include <array>

#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/node_attributes.h"
#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/walk.h"
#include "annotator/onnx_file/wire_out.h"
#include "annotator/origin/confidence.h"
#include "annotator/origin/keys/origin.h"
#include "annotator/program/tensor_values.h"

namespace whence::derivation {

namespace keys = origin::keys;
namespace proto = onnx_file::proto;
using onnx_file::integer_attribute;
using onnx_file::OnnxNode;

namespace {

// Returns the float32 or 16-bit dtype in which a product with this tensor is computed.
DType product_dtype(const FileTensors& tensors, TensorNumber tensor) {
  const auto quantised = std::ranges::find(tensors.quantised(), tensor, &QuantisedWeight::integers);
  const TensorNumber real =
      quantised == tensors.quantised().end() || quantised->scales == no_tensor ? tensor : quantised->scales;
  const DType dtype = from_onnx(tensors[real].tensor->data_type);
  return is_floating(dtype) ? dtype : DType::float32;
}

// Returns the only node that reads a value, if it is one of these operators.
const OnnxNode* only_reader(const FileTensors& tensors, std::string_view value, std::string_view op_type) {
  const auto& readers = tensors.readers(value);
  return readers.size() == 1 && readers[0]->op_type == op_type ? readers[0] : nullptr;
}

// Returns true for a product that is multiplied by a number, as Gemm can state.
bool is_scaled(const OnnxNode& node) {
  return std::ranges::any_of(node.attributes, [](const onnx_file::OnnxAttribute& attribute) {
    onnx::AttributeProto message;
    return attribute.name == "alpha" &&
           (!message.ParseFromArray(attribute.message.data(), static_cast<int>(attribute.message.size())) ||
            message.f() != 1);
  });
}

}  // namespace

LowRankInputs::LowRankInputs(const onnx_file::OnnxSummary& model, const FileTensors& tensors)
    : model_(model), tensors_(tensors) {
  onnx_file::walk_values(model, [&](const onnx_file::OnnxValue& value) { values_.claim(std::string(value.name)); });
  onnx_file::walk_tensors(model, [&](const onnx_file::OnnxTensor& tensor) { values_.claim(std::string(tensor.name)); });
  onnx_file::walk_nodes(model, [&](const OnnxNode& node) {
    nodes_.claim(std::string(node.name));
    for (const std::string_view output : node.outputs) values_.claim(std::string(output));
  });
}

// Adds the product of an operator that reads the weight, or returns why nothing can be added to it.
std::string LowRankInputs::add_site(const OnnxNode& reader, std::size_t slot, std::vector<Site>& sites) const {
  const std::string_view op_type = reader.op_type;
  const auto refusal = [&](std::string_view why) {
    return "the node '" + std::string(reader.name.empty() ? op_type : reader.name) + "' (" + std::string(op_type) +
           ") " + std::string(why);
  };
  static constexpr std::array<std::string_view, 6> products = {
      "MatMul", "Gemm", "MatMulNBits", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"};
  if (std::ranges::find(products, op_type) == products.end()) return refusal("reads the weight");
  if (slot != 1) return refusal("has the weight on the left");
  if (integer_attribute(reader, "transA", 0) != 0 || is_scaled(reader)) return refusal("scales or transposes");
  const OnnxNode* result = &reader;
  std::string_view input = reader.inputs[0];
  if (op_type.starts_with("MatMulInteger")) {
    const OnnxNode* const quantiser = tensors_.producer(input);
    if (quantiser == nullptr || quantiser->op_type != "DynamicQuantizeLinear") return refusal("reads integers");
    input = quantiser->inputs[0];
  }
  if (op_type == "MatMulInteger") {
    const OnnxNode* const cast = only_reader(tensors_, reader.outputs[0], "Cast");
    result = cast == nullptr ? nullptr : only_reader(tensors_, cast->outputs[0], "Mul");
    if (result == nullptr) return refusal("returns integers that are not scaled once");
  }
  sites.push_back({result, input});
  return "";
}

std::string LowRankInputs::find_sites(TensorNumber tensor, std::vector<Site>& sites) const {
  if (tensors_[tensor].is_output) return "the weight is an output of the model";
  for (const Use& use : tensors_.final_uses(tensors_[tensor])) {
    // The table of an embedding that shares its weight with a product.
    if (use.node->op_type == "Gather" && use.slot == 0) continue;
    if (std::string refused = add_site(*use.node, use.slot, sites); !refused.empty()) return refused;
  }
  return sites.empty() ? "no matrix product reads the weight" : "";
}

void LowRankInputs::add_input(const std::string& name, const TensorData& data, bool is_scalar) {
  onnx::ValueInfoProto input;
  input.set_name(name);
  onnx::TypeProto_Tensor& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(to_onnx(data.dtype));
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  const std::size_t rank_axis = name.find(".lora_A") != std::string::npos ? 0 : 1;
  for (std::size_t axis = 0; !is_scalar && axis < data.shape.size(); ++axis) {
    onnx::TensorShapeProto_Dimension& dim = *shape.add_dim();
    if (axis != rank_axis) dim.set_dim_value(data.shape[axis]);  // another adapter may have another rank
  }
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(to_onnx(data.dtype));
  for (const std::int64_t size : data.shape) tensor.add_dims(size);
  const auto bytes = data.bytes.in_memory().value();
  tensor.set_raw_data(bytes.data(), bytes.size());
  onnx_file::wire::append_field(graph_fields_, proto::graph::input, input.SerializeAsString());
  onnx_file::wire::append_field(graph_fields_, proto::graph::initializer, tensor.SerializeAsString());
  inputs_.emplace(name, data.dtype);
}

void LowRankInputs::add_nodes(const Site& site, const std::string& module, const Names& names) {
  const OnnxNode& product = *site.node;
  const auto result = std::string(product.outputs[0]);
  const std::string base = values_.claim(result + "/without_lora");
  onnx_file::NodeEdit& edit = edits_[static_cast<std::uint64_t>(product.message.data() - model_.file->text().data())];
  edit.renamed_outputs.emplace(product.outputs[0], base);
  const auto add = [&](const std::string& suffix, const char* op_type, const std::vector<std::string>& inputs,
                       const std::string& output = "") {
    onnx::NodeProto node;
    node.set_name(nodes_.claim((product.name.empty() ? result : std::string(product.name)) + suffix));
    node.set_op_type(op_type);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output.empty() ? values_.claim(result + suffix) : output);
    const auto add_key = [&](std::string_view key, std::string_view value) {
      onnx::StringStringEntryProto& entry = *node.add_metadata_props();
      entry.set_key(std::string(key));
      entry.set_value(std::string(value));
    };
    add_key(keys::module, module);
    // The products belong to modules that PEFT adds within this one.
    add_key(keys::confidence, name_of(origin::Confidence::ancestor));
    edit.following.push_back(node.SerializeAsString());
    return node.output(0);
  };
  const std::string a = add("/lora_A/transpose", "Transpose", {names.a});
  const std::string first = add("/lora_A", "MatMul", {std::string(site.input), a});
  const std::string b = add("/lora_B/transpose", "Transpose", {names.b});
  const std::string second = add("/lora_B", "MatMul", {first, b});
  const std::string scaled = add("/lora_scaling", "Mul", {second, names.scaling});
  add("/lora_add", "Add", {base, scaled}, result);
  ++count_;
}

std::string LowRankInputs::add(const LowRank& product, const std::string& module, TensorNumber tensor) {
  if (product.a.shape.size() != 2 || product.b.shape.size() != 2) return "the adapter is that of a convolution";
  std::vector<Site> sites;
  if (std::string refused = find_sites(tensor, sites); !refused.empty()) return refused;
  for (const Site& site : sites) {
    const auto position = static_cast<std::uint64_t>(site.node->message.data() - model_.file->text().data());
    if (edits_.contains(position)) return "two parameters of the adapter have the same product";
  }
  const DType dtype = product_dtype(tensors_, tensor);
  const std::string stem = product.name_a.substr(0, product.name_a.rfind(".lora_A"));
  const Names names{product.name_a, product.name_b, stem + ".lora_scaling"};
  if (const auto known = inputs_.find(names.a); known != inputs_.end() && known->second != dtype) {
    return "its products have several dtypes";
  } else if (known == inputs_.end()) {
    for (const std::string& name : {names.a, names.b, names.scaling}) {
      if (values_.claim(name) != name) return "the file has a value with the name '" + name + "'";
    }
    add_input(names.a, program::cast_tensor(product.a, dtype).value(), false);
    add_input(names.b, program::cast_tensor(product.b, dtype).value(), false);
    add_input(names.scaling, program::number_scalar(product.scale, dtype), true);
  }
  for (const Site& site : sites) add_nodes(site, module, names);
  return "";
}

onnx_file::NodeEdit LowRankInputs::edit(const onnx_file::NodeView& node) {
  const auto found = edits_.find(node.offset);
  return found == edits_.end() ? onnx_file::NodeEdit{} : found->second;
}

}  // namespace whence::derivation
