#include "annotator/functions/value_shapes.h"

#include <set>

#include "annotator/functions/inline_calls.h"
#include "annotator/functions/value_types.h"

namespace whence::functions {
namespace {

std::string dtype_text(int dtype) {
  std::string name = onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(dtype));
  if (name == "FLOAT") return "float32";
  if (name == "DOUBLE") return "float64";
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return name;
}

using SizeNames = std::set<std::string>;

// Dynamic sizes of the inputs; "" stands for those without a name.
SizeNames input_sizes(const onnx::GraphProto& graph) {
  SizeNames names;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.has_dim_value()) names.insert(dim.dim_param());
    }
  }
  return names;
}

// Inference numbers the sizes that it does not know, `unk__13`: such a name says nothing, unless it is an input's.
std::string size_text(const std::string& name, const SizeNames& of_inputs) {
  constexpr std::string_view made_up = "unk__";
  return name.empty() || (name.starts_with(made_up) && !of_inputs.contains(name)) ? "?" : name;
}

ValueShape shape_of(const onnx::TypeProto& type, const SizeNames& of_inputs) {
  if (!type.has_tensor_type()) return {type.has_sequence_type() ? "sequence" : "", std::nullopt};
  const onnx::TypeProto::Tensor& tensor = type.tensor_type();
  ValueShape shape{dtype_text(tensor.elem_type()), std::nullopt};
  if (!tensor.has_shape()) return shape;
  shape.sizes.emplace();
  std::string sizes;
  for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
    if (!sizes.empty()) sizes += ",";
    if (dim.has_dim_value()) {
      sizes += std::to_string(dim.dim_value());
      if (shape.sizes) shape.sizes->push_back(dim.dim_value());
    } else {
      sizes += size_text(dim.dim_param(), of_inputs);
      shape.sizes.reset();
    }
  }
  shape.text += "[" + sizes + "]";
  return shape;
}

// The number of every dynamic size of the inputs that was given one. An input may have a size called "all".
Sizes numbers_of(const SizeNames& of_inputs, const Sizes& given) {
  Sizes sizes;
  const auto all = of_inputs.contains("all") ? given.end() : given.find("all");
  for (const std::string& name : of_inputs) {
    if (const auto own = given.find(name); own != given.end()) {
      sizes.insert(*own);
    } else if (all != given.end()) {
      sizes.emplace(name, all->second);
    }
  }
  for (const auto& [name, size] : given) {
    if (of_inputs.contains(name) || name == "all") continue;
    std::string names;
    for (const std::string& each : of_inputs) {
      if (!each.empty()) names += (names.empty() ? "" : ", ") + each;
    }
    throw Error(Code::usage, "no input of the file has a size called '" + name + "'",
                of_inputs.empty() ? "all sizes of its inputs are fixed"
                : names.empty()   ? "its dynamic sizes have no names: --size all=" + std::to_string(size)
                                  : "its dynamic sizes are " + names + "; all=N is every one",
                {.stage = "command line"});
  }
  return sizes;
}

}  // namespace

Result<FileShapes> value_shapes(const std::string& path, const std::map<std::string, std::int64_t>& sizes) {
  return guarded([&] {
    ModelParts parts = read_model_parts(path);
    inline_calls(parts, /*all=*/false);
    const SizeNames of_inputs = input_sizes(parts.frame.graph());
    const Sizes numbers = numbers_of(of_inputs, sizes);
    FileShapes shapes;
    std::unordered_map<const onnx::TypeProto*, std::shared_ptr<const ValueShape>> distinct;
    const ValueTypes types = value_types(parts, numbers);
    shapes.values.reserve(types.size());
    for (const auto& [name, type] : types) {
      auto& shape = distinct[type.get()];
      if (shape == nullptr) shape = std::make_shared<const ValueShape>(shape_of(*type, of_inputs));
      shapes.values.emplace(name, shape);
    }
    for (const std::string& name : of_inputs) {
      if (!numbers.contains(name)) shapes.open.push_back(name.empty() ? "?" : name);
    }
    return shapes;
  });
}

}  // namespace whence::functions
