#include "annotator/convert/operator_types.h"

#include <algorithm>
#include <map>

#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

namespace whence::convert {
namespace {

using Parameters = std::vector<onnx::OpSchema::FormalParameter>;

// Returns the formal parameter of an input or output; the last one repeats if it is variadic.
const onnx::OpSchema::FormalParameter* formal(const Parameters& parameters, std::size_t index) {
  if (index < parameters.size()) return &parameters[index];
  const bool repeats = !parameters.empty() && parameters.back().GetOption() == onnx::OpSchema::Variadic;
  return repeats ? &parameters.back() : nullptr;
}

bool takes(const onnx::OpSchema::FormalParameter& parameter, DType dtype) {
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(to_onnx(dtype));
  return parameter.GetTypes().count(onnx::Utils::DataTypeUtils::ToType(type)) > 0;
}

// Returns true if the parameter accepts tensors, not only sequences or optionals.
bool takes_tensors(const onnx::OpSchema::FormalParameter& parameter) {
  return std::ranges::any_of(parameter.GetTypes(), [](const auto& type) { return type->starts_with("tensor("); });
}

// Returns the dtypes to try instead of `dtype`, nearest first.
std::vector<DType> wider(DType dtype) {
  if (is_floating(dtype)) return {DType::float32};
  if (dtype == DType::int64 || !(is_integral(dtype) || dtype == DType::boolean)) return {};
  return {DType::int32, DType::int64, DType::float32};
}

}  // namespace

std::optional<WidenedTypes> widened_types(std::string_view op_type, int opset, const std::vector<DType>& inputs,
                                          int outputs) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(std::string(op_type), opset, "");
  if (schema == nullptr) return std::nullopt;
  std::map<std::string, std::pair<DType, DType>> changed;  // by type variable: from, to
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* parameter = formal(schema->inputs(), i);
    if (parameter == nullptr || inputs[i] == DType::undefined || !takes_tensors(*parameter)) continue;
    if (takes(*parameter, inputs[i])) continue;
    const std::vector<DType> choices = wider(inputs[i]);
    const auto choice = std::ranges::find_if(choices, [&](DType dtype) { return takes(*parameter, dtype); });
    if (choice == choices.end()) return WidenedTypes{{}, {}, inputs[i]};
    changed.try_emplace(parameter->GetTypeStr(), inputs[i], *choice);
  }
  if (changed.empty()) return std::nullopt;
  WidenedTypes result{inputs, std::vector<DType>(static_cast<std::size_t>(outputs), DType::undefined)};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* parameter = formal(schema->inputs(), i);
    const auto entry = parameter == nullptr ? changed.end() : changed.find(parameter->GetTypeStr());
    if (entry != changed.end() && inputs[i] == entry->second.first) result.inputs[i] = entry->second.second;
  }
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const auto* parameter = formal(schema->outputs(), i);
    const auto entry = parameter == nullptr ? changed.end() : changed.find(parameter->GetTypeStr());
    if (entry != changed.end()) result.outputs[i] = entry->second.first;
  }
  return result;
}

}  // namespace whence::convert
