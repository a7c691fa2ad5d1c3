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

// Values larger than this are no sizes.
constexpr std::uint64_t most_bytes = 4096;

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

bool is_whole(const TensorData& data) {
  if (std::ranges::any_of(data.shape, [](std::int64_t size) { return size < 0; })) return false;
  return static_cast<std::uint64_t>(data.element_count()) == data.bytes.size() / size_of(data.dtype) &&
         data.bytes.size() % size_of(data.dtype) == 0;
}

// Returns the numbers of a small tensor that the message holds itself, whole.
std::optional<TensorData> data_of(const onnx::TensorProto& tensor) {
  if (tensor.ByteSizeLong() > 2 * most_bytes) return std::nullopt;
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
  return is_whole(data) ? std::optional(std::move(data)) : std::nullopt;
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

// Returns what a node of type Constant holds.
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

// The node as simplify/ evaluates it.
graph::GraphNode graph_node_of(const onnx::NodeProto& node) {
  graph::GraphNode made;
  made.op_type = node.op_type();
  made.outputs.resize(static_cast<std::size_t>(node.output_size()));
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    graph::Attribute taken{attribute.name(), {}};
    switch (attribute.type()) {
      case onnx::AttributeProto::INT:
        taken.value = attribute.i();
        break;
      case onnx::AttributeProto::FLOAT:
        taken.value = attribute.f();
        break;
      case onnx::AttributeProto::STRING:
        taken.value = attribute.s();
        break;
      case onnx::AttributeProto::INTS:
        taken.value = Ints(attribute.ints().begin(), attribute.ints().end());
        break;
      case onnx::AttributeProto::FLOATS:
        taken.value = std::vector<float>(attribute.floats().begin(), attribute.floats().end());
        break;
      case onnx::AttributeProto::TENSOR:
        if (auto data = data_of(attribute.t())) taken.value = std::move(*data);
        break;
      default:
        continue;
    }
    made.attributes.push_back(std::move(taken));
  }
  return made;
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
      for (onnx::ValueInfoProto& value : *values) stated_[value.name()] = value.mutable_type();
    }
    for (const onnx::ValueInfoProto& input : graph.input()) {
      if (!sizes_of(input.type()) && input.type().has_tensor_type()) return;
      set_type(input.name(), input.type());
    }
    follow(graph);
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) state(graph, output);
    }
  }

 private:
  void follow(onnx::GraphProto& graph) {
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      set_type(tensor.name(), type_with(tensor.data_type(), tensor.dims()));
      if (auto data = data_of(tensor)) hold(tensor.name(), std::move(*data));
    }
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      if (node.op_type() == "If" && is_standard(node) && follow_branch(node)) continue;
      // Only what inference accepted is computed: it has checked axes and ranks.
      if (infer(node)) compute(node);
    }
  }

  static bool is_standard(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

  // The branch that a known condition takes.
  bool follow_branch(onnx::NodeProto& node) {
    const TensorData* condition = value(node, 0);
    if (condition == nullptr || condition->dtype != DType::boolean || condition->bytes.size() != 1) return false;
    const char* const taken = as_text(*condition->bytes.in_memory())[0] != 0 ? "then_branch" : "else_branch";
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() != taken || attribute.g().output_size() != node.output_size()) continue;
      onnx::GraphProto& branch = *attribute.mutable_g();
      follow(branch);
      for (int i = 0; i < node.output_size(); ++i) {
        const std::string& result = branch.output(i).name();
        if (const auto found = types_.find(result); found != types_.end()) set_type(node.output(i), *found->second);
        if (const auto found = values_.find(result); found != values_.end()) hold(node.output(i), found->second);
      }
      return true;
    }
    return false;
  }

  // Types of the results by ONNX's inference for this operator; as stated where it says nothing. Returns true if it
  // found all sizes.
  bool infer(onnx::NodeProto& node) {
    const std::vector<onnx::TypeProto> found = is_standard(node) || !origin::is_of_runtime(node.domain())
                                                   ? inferred(node, is_standard(node) ? "" : node.domain())
                                                   : of_runtime(node);
    for (int i = 0; i < node.output_size(); ++i) {
      const onnx::TypeProto& type = found[static_cast<std::size_t>(i)];
      const auto stated = stated_.find(node.output(i));
      const bool is_stated = stated != stated_.end();
      if (sizes_of(type) || (!is_stated && type.has_tensor_type())) {
        set_type(node.output(i), type);
      } else if (is_stated) {
        set_type(node.output(i), *stated->second);
      }
    }
    return std::ranges::all_of(found, [](const onnx::TypeProto& type) { return sizes_of(type).has_value(); });
  }

  std::vector<onnx::TypeProto> inferred(onnx::NodeProto& node, const std::string& domain) const {
    std::vector<onnx::TypeProto> nothing(static_cast<std::size_t>(node.output_size()));
    const auto opset = opsets_.find(domain);
    const onnx::OpSchema* schema =
        opset == opsets_.end() ? nullptr : onnx::OpSchemaRegistry::Schema(node.op_type(), opset->second, domain);
    if (schema == nullptr || !schema->has_type_and_shape_inference_function()) return nothing;
    static const std::unordered_map<std::string, const onnx::SparseTensorProto*> no_sparse;
    try {
      onnx::shape_inference::InferenceContextImpl context(node, types_, tensors_, no_sparse,
                                                          onnx::ShapeInferenceOptions());
      schema->GetTypeAndShapeInferenceFunction()(context);
      return {context.allOutputTypes_.begin(), context.allOutputTypes_.end()};
    } catch (const std::exception&) {  // refused, or with bodies
      return nothing;
    }
  }

  // ONNX Runtime's operators that have the sizes of ONNX's own, of operands that may be transposed first.
  std::vector<onnx::TypeProto> of_runtime(const onnx::NodeProto& node) {
    static const std::unordered_map<std::string_view, const char*> alike{
        {"DynamicQuantizeMatMul", "MatMul"},
        {"FusedConv", "Conv"},
        {"FusedGemm", "Gemm"},
        {"FusedMatMul", "MatMul"},
        {"FusedMatMulActivation", "MatMul"},
        {"MatMulIntegerToFloat", "MatMul"},
    };
    const auto found = alike.find(node.op_type());
    if (found == alike.end()) return std::vector<onnx::TypeProto>(static_cast<std::size_t>(node.output_size()));
    onnx::NodeProto plain = node;
    plain.set_op_type(found->second);
    plain.clear_domain();
    if (found->second != std::string_view("MatMul")) return inferred(plain, "");
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name().starts_with("transBatch") && attribute.i() != 0) plain.clear_input();
      const int operand = attribute.name() == "transA" ? 0 : 1;
      if ((attribute.name() == "transA" || attribute.name() == "transB") && attribute.i() != 0 &&
          operand < plain.input_size()) {
        *plain.mutable_input(operand) = with_last_axes_swapped(plain.input(operand));
      }
    }
    return inferred(plain, "");
  }

  // The name of a type like that of `name`, [.., n, m] for [.., m, n].
  std::string with_last_axes_swapped(const std::string& name) {
    onnx::TypeProto type = type_of(name);
    auto& dims = *type.mutable_tensor_type()->mutable_shape()->mutable_dim();
    if (dims.size() > 1) dims.SwapElements(dims.size() - 1, dims.size() - 2);
    const std::string swapped = name + "\nswapped";  // as no value of a file is called
    set_type(swapped, type);
    return swapped;
  }

  // The values of the results, if those of all inputs are known.
  void compute(const onnx::NodeProto& node) {
    if (!is_standard(node) || node.output_size() == 0) return;
    if (node.op_type() == "Split") return split(node);
    auto made = computed(node);
    if (made && made->shape == sizes_of(type_of(node.output(0))) && made->bytes.size() <= most_bytes) {
      hold(node.output(0), std::move(*made));
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
    const graph::GraphNode made = graph_node_of(node);
    return simplify::can_evaluate(made) ? simplify::evaluate(made, inputs, most_bytes) : std::nullopt;
  }

  // Also where only the sizes from `start` to `end` are known.
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

  // A list of sizes in parts.
  void split(const onnx::NodeProto& node) {
    const TensorData* data = value(node, 0);
    if (data == nullptr || data->shape.size() != 1) return;
    std::int64_t from = 0;
    for (const std::string& output : node.output()) {
      const auto sizes = sizes_of(type_of(output));
      if (!sizes || sizes->size() != 1 || sizes->front() > data->shape.front() - from) return;
      hold(output, convert::rows(*data, from, from + sizes->front()));
      from += sizes->front();
    }
  }

  // ---- what is known ------------------------------------------------------------------------------------------------

  const TensorData* value(const onnx::NodeProto& node, int input) const {
    const auto found = input < node.input_size() ? values_.find(node.input(input)) : values_.end();
    return found == values_.end() ? nullptr : &found->second;
  }

  const onnx::TypeProto& type_of(const std::string& name) const {
    const auto found = types_.find(name);
    return found == types_.end() ? onnx::TypeProto::default_instance() : *found->second;
  }

  void set_type(const std::string& name, const onnx::TypeProto& type) {
    if (!name.empty()) types_[name] = &made_types_.emplace_back(type);
  }

  void hold(const std::string& name, TensorData data) {
    if (name.empty()) return;
    set_type(name, type_with(to_onnx(data.dtype), data.shape));
    tensors_[name] = &made_tensors_.emplace_back(message_of(data));
    values_.insert_or_assign(name, std::move(data));
  }

  void state(onnx::GraphProto& graph, const std::string& name) {
    const onnx::TypeProto& type = type_of(name);
    if (!sizes_of(type)) return;
    if (const auto stated = stated_.find(name); stated != stated_.end()) {
      *stated->second = type;
    } else if (!name.empty()) {
      onnx::ValueInfoProto& value = *graph.add_value_info();
      value.set_name(name);
      *value.mutable_type() = type;
    }
  }

  onnx::ModelProto& model_;
  std::unordered_map<std::string, int> opsets_;
  std::unordered_map<std::string, onnx::TypeProto*> stated_, types_;
  std::unordered_map<std::string, const onnx::TensorProto*> tensors_;
  std::unordered_map<std::string, TensorData> values_;
  std::deque<onnx::TypeProto> made_types_;
  std::deque<onnx::TensorProto> made_tensors_;
};

}  // namespace

void follow_sizes(onnx::ModelProto& model) { ShapeArithmetic(model).run(); }

}  // namespace whence::functions
