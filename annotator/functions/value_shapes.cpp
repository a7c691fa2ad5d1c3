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

ValueShape shape_of(const onnx::TypeProto& type) {
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
      sizes += dim.dim_param().empty() ? "?" : dim.dim_param();
      shape.sizes.reset();
    }
  }
  shape.text += "[" + sizes + "]";
  return shape;
}

void require_known(const onnx::GraphProto& graph, const Sizes& sizes) {
  std::set<std::string> known;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.dim_param().empty()) known.insert(dim.dim_param());
    }
  }
  for (const auto& [name, size] : sizes) {
    if (known.contains(name)) continue;
    std::string names;
    for (const std::string& each : known) names += (names.empty() ? "" : ", ") + each;
    throw Error(Code::usage, "no input of the file has a size called '" + name + "'",
                names.empty() ? "all sizes of its inputs are fixed" : "its dynamic sizes are " + names,
                {.stage = "command line"});
  }
}

}  // namespace

Result<ValueShapes> value_shapes(const std::string& path, const std::map<std::string, std::int64_t>& sizes) {
  return guarded([&] {
    ModelParts parts = read_model_parts(path);
    inline_calls(parts, /*all=*/false);
    require_known(parts.frame.graph(), sizes);
    ValueShapes shapes;
    std::unordered_map<const onnx::TypeProto*, std::shared_ptr<const ValueShape>> distinct;
    for (const auto& [name, type] : value_types(parts, sizes)) {
      auto& shape = distinct[type.get()];
      if (shape == nullptr) shape = std::make_shared<const ValueShape>(shape_of(*type));
      shapes.emplace(name, shape);
    }
    return shapes;
  });
}

}  // namespace whence::functions
