#include "annotator/functions/shape_arithmetic.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <onnx/shape_inference/implementation.h>

#include "annotator/convert/weights.h"
#include "annotator/graph/graph.h"
#include "annotator/origin/confidence.h"
#include "annotator/simplify/evaluate/evaluate.h"
#include "schema/dtype.h"
#include "schema/element_count.h"

namespace whence::functions {
namespace {

using Ints = std::vector<std::int64_t>;

// Larger values are not sizes.
constexpr std::uint64_t max_value_bytes = 4096;

std::optional<Ints> sizes_of(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
  Ints sizes;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!dim.has_dim_value()) return std::nullopt;
    sizes.push_back(dim.dim_value());
  }
  return sizes;
}

template <class Number>
Bytes bytes_of(const auto& numbers) {
  const std::vector<Number> list(numbers.begin(), numbers.end());
  return Bytes::copy_of(list.data(), list.size() * sizeof(Number));
}

TensorData integers(const Ints& numbers, Ints shape) {
  return {DType::int64, std::move(shape), bytes_of<std::int64_t>(numbers)};
}

bool is_complete(const TensorData& data) {
  if (std::ranges::any_of(data.shape, [](std::int64_t size) { return size < 0; })) return false;
  return static_cast<std::uint64_t>(data.element_count()) == data.bytes.size() / size_of(data.dtype) &&
         data.bytes.size() % size_of(data.dtype) == 0;
}

// Returns a small tensor with its elements; nullopt if they are external, incomplete or of an unsupported dtype.
std::optional<TensorData> data_of(const onnx::TensorProto& tensor) {
  if (tensor.ByteSizeLong() > 2 * max_value_bytes) return std::nullopt;
  TensorData data{from_onnx(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}, {}};
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL || size_of(data.dtype) == 0) return std::nullopt;
  if (tensor.has_raw_data()) {
    data.bytes = Bytes::copy_of(tensor.raw_data().data(), tensor.raw_data().size());
  } else if (data.dtype == DType::int64) {
    data.bytes = bytes_of<std::int64_t>(tensor.int64_data());
  } else if (data.dtype == DType::int32) {
    data.bytes = bytes_of<std::int32_t>(tensor.int32_data());
  } else if (data.dtype == DType::boolean) {
    data.bytes = bytes_of<char>(tensor.int32_data());
  } else if (data.dtype == DType::float32) {
    data.bytes = bytes_of<float>(tensor.float_data());
  } else {
    return std::nullopt;
  }
  return is_complete(data) ? std::optional(std::move(data)) : std::nullopt;
}

onnx::TypeProto type_with(int data_type, const auto& sizes) {
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(data_type);
  onnx::TensorShapeProto& shape = *type.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t size : sizes) shape.add_dim()->set_dim_value(size);
  return type;
}

onnx::TensorProto message_of(const TensorData& data) {
  onnx::TensorProto tensor;
  tensor.set_data_type(to_onnx(data.dtype));
  for (const std::int64_t size : data.shape) tensor.add_dims(size);
  tensor.set_raw_data(std::string(as_text(data.bytes.in_memory().value())));
  return tensor;
}

// Returns the value of a Constant node.
std::optional<TensorData> constant_of(const onnx::NodeProto& node) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "value") return data_of(attribute.t());
    if (attribute.name() == "value_int") return integers({attribute.i()}, {});
    if (attribute.name() == "value_ints") {
      return integers({attribute.ints().begin(), attribute.ints().end()}, {attribute.ints_size()});
    }
    if (attribute.name() == "value_float") {
      return TensorData{DType::float32, {}, bytes_of<float>(std::vector<float>{attribute.f()})};
    }
    if (attribute.name() == "value_floats") {
      return TensorData{DType::float32, {attribute.floats_size()}, bytes_of<float>(attribute.floats())};
    }
  }
  return std::nullopt;
}

// Returns the node in the form that simplify/ evaluates.
graph::GraphNode graph_node_of(const onnx::NodeProto& node) {
  graph::GraphNode result;
  result.op_type = node.op_type();
  result.outputs.resize(static_cast<std::size_t>(node.output_size()));
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    graph::Attribute converted{attribute.name(), {}};
    switch (attribute.type()) {
      case onnx::AttributeProto::INT:
        converted.value = attribute.i();
        break;
      case onnx::AttributeProto::FLOAT:
        converted.value = attribute.f();
        break;
      case onnx::AttributeProto::STRING:
        converted.value = attribute.s();
        break;
      case onnx::AttributeProto::INTS:
        converted.value = Ints(attribute.ints().begin(), attribute.ints().end());
        break;
      case onnx::AttributeProto::FLOATS:
        converted.value = std::vector<float>(attribute.floats().begin(), attribute.floats().end());
        break;
      case onnx::AttributeProto::TENSOR:
        if (auto data = data_of(attribute.t())) converted.value = std::move(*data);
        break;
      default:
        continue;
    }
    result.attributes.push_back(std::move(converted));
  }
  return result;
}

class ShapeArithmetic {
 public:
  explicit ShapeArithmetic(onnx::ModelProto& model) : model_(model) {
    for (const auto& import : model.opset_import()) {
      opsets_[import.domain() == "ai.onnx" ? "" : import.domain()] = static_cast<int>(import.version());
    }
  }

  void run() {
    onnx::GraphProto& graph = *model_.mutable_graph();
    for (auto* values : {graph.mutable_value_info(), graph.mutable_output()}) {
      for (onnx::ValueInfoProto& value : *values) stated_types_[value.name()] = value.mutable_type();
    }
    for (const onnx::ValueInfoProto& input : graph.input()) {
      if (!sizes_of(input.type()) && input.type().has_tensor_type()) return;
      set_type(input.name(), input.type());
    }
    follow(graph);
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) write_type(graph, output);
    }
  }

 private:
  void follow(onnx::GraphProto& graph) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      set_type(tensor.name(), type_with(tensor.data_type(), tensor.dims()));
      if (auto data = data_of(tensor)) set_value(tensor.name(), std::move(*data));
    }
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      if (node.op_type() == "If" && is_standard(node) && follow_branch(node)) continue;
      // Evaluates only nodes that inference accepted, because it has checked axes and ranks.
      if (infer(node)) compute(node);
    }
  }

  static bool is_standard(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

  // Follows the branch that a known condition selects. Returns false if there is none.
  bool follow_branch(onnx::NodeProto& node) {
    const TensorData* condition = value(node, 0);
    if (condition == nullptr || condition->dtype != DType::boolean || condition->bytes.size() != 1) return false;
    const char* const selected = as_text(*condition->bytes.in_memory())[0] != 0 ? "then_branch" : "else_branch";
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() != selected || attribute.g().output_size() != node.output_size()) continue;
      onnx::GraphProto& branch = *attribute.mutable_g();
      follow(branch);
      for (int i = 0; i < node.output_size(); ++i) {
        const std::string& result = branch.output(i).name();
        if (const auto found = types_.find(result); found != types_.end()) set_type(node.output(i), *found->second);
        if (const auto found = values_.find(result); found != values_.end()) set_value(node.output(i), found->second);
      }
      return true;
    }
    return false;
  }

  // Sets the types of the results: as ONNX's inference finds them, else as the file states them. Returns true if
  // inference found all sizes.
  bool infer(onnx::NodeProto& node) {
    const std::vector<onnx::TypeProto> found = is_standard(node) || !origin::is_of_runtime(node.domain())
                                                   ? infer_types(node, is_standard(node) ? "" : node.domain())
                                                   : infer_runtime_operator(node);
    for (int i = 0; i < node.output_size(); ++i) {
      const onnx::TypeProto& type = found[static_cast<std::size_t>(i)];
      const auto stated = stated_types_.find(node.output(i));
      const bool is_stated = stated != stated_types_.end();
      if (sizes_of(type) || (!is_stated && type.has_tensor_type())) {
        set_type(node.output(i), type);
      } else if (is_stated) {
        set_type(node.output(i), *stated->second);
      }
    }
    return std::ranges::all_of(found, [](const onnx::TypeProto& type) { return sizes_of(type).has_value(); });
  }

  std::vector<onnx::TypeProto> infer_types(onnx::NodeProto& node, const std::string& domain) const {
    std::vector<onnx::TypeProto> unknown_types(static_cast<std::size_t>(node.output_size()));
    const auto opset = opsets_.find(domain);
    const onnx::OpSchema* schema =
        opset == opsets_.end() ? nullptr : onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, domain);
    if (schema == nullptr || !schema->has_type_and_shape_inference_function()) return unknown_types;
    static const std::unordered_map<std::string, const onnx::SparseTensorProto*> no_sparse;
    try {
      onnx::shape_inference::InferenceContextImpl context(node, types_, tensors_, no_sparse,
                                                          onnx::ShapeInferenceOptions());
      schema->GetTypeAndShapeInferenceFunction()(context);
      return {context.allOutputTypes_.begin(), context.allOutputTypes_.end()};
    } catch (const std::exception&) {  // the node is refused, or has bodies
      return unknown_types;
    }
  }

  // Infers types of ONNX Runtime's operators whose results have the sizes of one of ONNX's operators. The operands may
  // be transposed first.
  std::vector<onnx::TypeProto> infer_runtime_operator(const onnx::NodeProto& node) {
    static const std::unordered_map<std::string_view, const char*> equivalents{
        {"DynamicQuantizeMatMul", "MatMul"},
        {"FusedConv", "Conv"},
        {"FusedGemm", "Gemm"},
        {"FusedMatMul", "MatMul"},
        {"FusedMatMulActivation", "MatMul"},
        {"MatMulIntegerToFloat", "MatMul"},
    };
    const auto found = equivalents.find(node.op_type());
    if (found == equivalents.end()) return std::vector<onnx::TypeProto>(static_cast<std::size_t>(node.output_size()));
    onnx::NodeProto plain = node;
    plain.set_op_type(found->second);
    plain.clear_domain();
    if (found->second != std::string_view("MatMul")) return infer_types(plain, "");
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name().starts_with("transBatch") && attribute.i() != 0) plain.clear_input();
      const int operand = attribute.name() == "transA" ? 0 : 1;
      if ((attribute.name() == "transA" || attribute.name() == "transB") && attribute.i() != 0 &&
          operand < plain.input_size()) {
        *plain.mutable_input(operand) = with_last_axes_swapped(plain.input(operand));
      }
    }
    return infer_types(plain, "");
  }

  // Stores the type of `name` with its last two axes swapped, under the name that is returned.
  std::string with_last_axes_swapped(const std::string& name) {
    onnx::TypeProto type = type_of(name);
    auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
    if (dims.size() > 1) dims.SwapElements(dims.size() - 1, dims.size() - 2);
    const std::string swapped = name + "\nswapped";  // no value of a file has this name
    set_type(swapped, type);
    return swapped;
  }

  // Computes the values of the results, if the values of all inputs are known.
  void compute(const onnx::NodeProto& node) {
    if (!is_standard(node) || node.output_size() == 0) return;
    if (node.op_type() == "Split") return split(node);
    auto result = computed(node);
    if (result && result->shape == sizes_of(type_of(node.output(0))) && result->bytes.size() <= max_value_bytes) {
      set_value(node.output(0), std::move(*result));
    }
  }

  std::optional<TensorData> computed(const onnx::NodeProto& node) {
    const std::string& op = node.op_type();
    if (op == "Constant") return constant_of(node);
    if (op == "Shape") return shape(node);
    const TensorData* first = value(node, 0);
    if (op == "Size") {
      const auto sizes = sizes_of(type_of(node.input(0)));
      return sizes && element_count(*sizes) < max_elements ? std::optional(integers({element_count(*sizes)}, {}))
                                                           : std::nullopt;
    }
    if (first == nullptr) return std::nullopt;
    const auto same_elements = {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"};
    if (std::ranges::find(same_elements, op) != same_elements.end()) {
      const auto sizes = sizes_of(type_of(node.output(0)));
      return sizes && element_count(*sizes) == first->element_count() ? std::optional(convert::reshaped(*first, *sizes))
                                                                      : std::nullopt;
    }
    if (op == "Transpose") return transposed(node, *first);
    simplify::Constants inputs;
    for (int i = 0; i < node.input_size(); ++i) {
      inputs.push_back(node.input(i).empty() ? nullptr : value(node, i));
      if (!node.input(i).empty() && inputs.back() == nullptr) return std::nullopt;
    }
    const graph::GraphNode converted = graph_node_of(node);
    return simplify::can_evaluate(converted) ? simplify::evaluate(converted, inputs, max_value_bytes) : std::nullopt;
  }

  // Returns the result of Shape. Only the sizes from `start` to `end` must be known.
  std::optional<TensorData> shape(const onnx::NodeProto& node) {
    const onnx::TypeProto& type = type_of(node.input(0));
    if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return std::nullopt;
    const auto& dims = type.tensor_type().shape().dim();
    std::int64_t start = 0, end = dims.size();
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      std::int64_t at = attribute.i() < 0 ? attribute.i() + dims.size() : attribute.i();
      at = std::clamp<std::int64_t>(at, 0, dims.size());
      if (attribute.name() == "start") start = at;
      if (attribute.name() == "end") end = at;
    }
    Ints sizes;
    for (std::int64_t i = start; i < end; ++i) {
      if (!dims[static_cast<int>(i)].has_dim_value()) return std::nullopt;
      sizes.push_back(dims[static_cast<int>(i)].dim_value());
    }
    const auto count = static_cast<std::int64_t>(sizes.size());
    return integers(sizes, {count});
  }

  std::optional<TensorData> transposed(const onnx::NodeProto& node, const TensorData& data) {
    Ints order;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == "perm") order.assign(attribute.ints().begin(), attribute.ints().end());
    }
    for (std::size_t i = data.shape.size(); order.size() < data.shape.size() && i > 0; --i) {
      order.push_back(static_cast<std::int64_t>(i) - 1);
    }
    Ints sorted = order;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i)) return std::nullopt;
    }
    if (order.size() != data.shape.size()) return std::nullopt;
    return convert::permuted(data, order);
  }

  // Splits a list of sizes.
  void split(const onnx::NodeProto& node) {
    const TensorData* data = value(node, 0);
    if (data == nullptr || data->shape.size() != 1) return;
    std::int64_t from = 0;
    for (const std::string& output : node.output()) {
      const auto sizes = sizes_of(type_of(output));
      if (!sizes || sizes->size() != 1 || sizes->front() > data->shape.front() - from) return;
      set_value(output, convert::rows(*data, from, from + sizes->front()));
      from += sizes->front();
    }
  }

  // ---- known types and values ---------------------------------------------------------------------------------------

  const TensorData* value(const onnx::NodeProto& node, int input) const {
    const auto found = input < node.input_size() ? values_.find(node.input(input)) : values_.end();
    return found == values_.end() ? nullptr : &found->second;
  }

  const onnx::TypeProto& type_of(const std::string& name) const {
    const auto found = types_.find(name);
    return found == types_.end() ? onnx::TypeProto::default_instance() : *found->second;
  }

  void set_type(const std::string& name, const onnx::TypeProto& type) {
    if (!name.empty()) types_[name] = &type_storage_.emplace_back(type);
  }

  void set_value(const std::string& name, TensorData data) {
    if (name.empty()) return;
    set_type(name, type_with(to_onnx(data.dtype), data.shape));
    tensors_[name] = &tensor_storage_.emplace_back(message_of(data));
    values_.insert_or_assign(name, std::move(data));
  }

  void write_type(onnx::GraphProto& graph, const std::string& name) {
    const onnx::TypeProto& type = type_of(name);
    if (!sizes_of(type)) return;
    if (const auto stated = stated_types_.find(name); stated != stated_types_.end()) {
      *stated->second = type;
    } else if (!name.empty()) {
      onnx::ValueInfoProto& value = *graph.add_value_info();
      value.set_name(name);
      *value.mutable_type() = type;
    }
  }

  onnx::ModelProto& model_;
  std::unordered_map<std::string, int> opsets_;
  std::unordered_map<std::string, onnx::TypeProto*> stated_types_, types_;
  std::unordered_map<std::string, const onnx::TensorProto*> tensors_;
  std::unordered_map<std::string, TensorData> values_;
  std::deque<onnx::TypeProto> type_storage_;
  std::deque<onnx::TensorProto> tensor_storage_;
};

}  // namespace

void follow_sizes(onnx::ModelProto& model) { ShapeArithmetic(model).run(); }

}  // namespace whence::functions
