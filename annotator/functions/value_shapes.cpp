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

// Returns the dynamic sizes of the inputs; "" for sizes without a name.
SizeNames input_sizes(const onnx::GraphProto& graph) {
  SizeNames names;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.has_dim_value()) names.insert(dim.dim_param());
    }
  }
  return names;
}

// Inference invents names such as `unk__13` for unknown sizes. Returns "?" for these, unless an input has the name.
std::string size_text(const std::string& name, const SizeNames& input_names) {
  constexpr std::string_view invented_prefix = "unk__";
  return name.empty() || (name.starts_with(invented_prefix) && !input_names.contains(name)) ? "?" : name;
}

ValueShape shape_of(const onnx::TypeProto& type, const SizeNames& input_names) {
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
      sizes += size_text(dim.dim_param(), input_names);
      shape.sizes.reset();
    }
  }
  shape.text += "[" + sizes + "]";
  return shape;
}

// Returns the numbers of the inputs' dynamic sizes that have one. An input may have a size named "all".
Sizes numbers_of_sizes(const SizeNames& input_names, const Sizes& requested_sizes) {
  Sizes sizes;
  const auto default_number = input_names.contains("all") ? requested_sizes.end() : requested_sizes.find("all");
  for (const std::string& name : input_names) {
    if (const auto requested = requested_sizes.find(name); requested != requested_sizes.end()) {
      sizes.insert(*requested);
    } else if (default_number != requested_sizes.end()) {
      sizes.emplace(name, default_number->second);
    }
  }
  for (const auto& [name, size] : requested_sizes) {
    if (input_names.contains(name) || name == "all") continue;
    std::string names;
    for (const std::string& each : input_names) {
      if (!each.empty()) names += (names.empty() ? "" : ", ") + each;
    }
    throw Error(Code::usage, "no input of the file has a dynamic size '" + name + "'",
                input_names.empty() ? "all sizes of its inputs are fixed"
                : names.empty()     ? "its dynamic sizes have no names: --size all=" + std::to_string(size)
                                    : "its dynamic sizes are " + names + "; all=N sets all of them",
                {.stage = "command line"});
  }
  return sizes;
}

}  // namespace

Result<FileShapes> value_shapes(const std::string& path, const std::map<std::string, std::int64_t>& sizes) {
  return guarded([&] {
    ModelParts parts = read_model_parts(path);
    inline_calls(parts, /*all=*/false);
    const SizeNames input_names = input_sizes(parts.frame.graph());
    const Sizes numbers = numbers_of_sizes(input_names, sizes);
    FileShapes shapes;
    std::unordered_map<const onnx::TypeProto*, std::shared_ptr<const ValueShape>> distinct;
    const ValueTypes types = value_types(parts, numbers);
    shapes.values.reserve(types.size());
    for (const auto& [name, type] : types) {
      auto& shape = distinct[type.get()];
      if (shape == nullptr) shape = std::make_shared<const ValueShape>(shape_of(*type, input_names));
      shapes.values.emplace(name, shape);
    }
    for (const std::string& name : input_names) {
      if (!numbers.contains(name)) shapes.open.push_back(name.empty() ? "?" : name);
    }
    return shapes;
  });
}

}  // namespace whence::functions
