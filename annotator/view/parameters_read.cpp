#include "annotator/view/parameters_read.h"

#include <algorithm>

#include "annotator/onnx_file/walk.h"
#include "schema/element_count.h"
#include "schema/module_path.h"

namespace whence::view {

using onnx_file::OnnxGraph;
using onnx_file::OnnxTensor;

namespace {

// Excludes types that no parameter has (onnx::TensorProto::DataType): INT64 (indices, shapes), STRING, BOOL.
bool is_numbers(const OnnxTensor& tensor) {
  return tensor.data_type != 7 && tensor.data_type != 8 && tensor.data_type != 9;
}

const std::string& owner_among(const metadata::Attribution& readers, std::string_view name) {
  const auto owner = std::ranges::find(readers.modules, module_around(name));
  return owner == readers.modules.end() ? readers.primary : *owner;
}

}  // namespace

ParametersRead::ParametersRead(const OnnxGraph& outermost) {
  onnx_file::walk_graphs(outermost, [&](const OnnxGraph& graph) {
    for (const OnnxTensor& tensor : graph.initializers) {
      const std::int64_t elements = is_numbers(tensor) ? element_count(tensor.dims) : 0;
      if (elements > 0) weights_.emplace(tensor.name, Weight{elements});
    }
  });
}

void ParametersRead::add(const onnx_file::OnnxNode& reader, const metadata::Attribution& attribution) {
  for (const std::string_view name : reader.inputs) {
    const auto found = weights_.find(name);
    if (found == weights_.end()) continue;
    Weight& weight = found.value();
    if (!attribution.attributed()) {
      weight.unplaced = true;
      continue;
    }
    const std::uint32_t module = number_of(owner_among(attribution, name));
    if (std::ranges::find(weight.modules, module) == weight.modules.end()) weight.modules.push_back(module);
  }
}

bool ParametersRead::is_named_after_reader(std::string_view name, const ReadParameter& parameter) {
  return name.find('.') != std::string_view::npos && parameter.modules.contains(std::string(module_around(name)));
}

std::uint32_t ParametersRead::number_of(const std::string& module) {
  const auto [entry, is_new] = number_of_module_.try_emplace(module, static_cast<std::uint32_t>(modules_.size()));
  if (is_new) modules_.push_back(module);
  return entry->second;
}

}  // namespace whence::view
