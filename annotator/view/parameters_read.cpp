#include "annotator/view/parameters_read.h"

#include <algorithm>
#include <map>

#include "annotator/onnx_file/walk.h"
#include "schema/element_count.h"
#include "schema/flat_map.h"
#include "schema/module_path.h"

namespace whence::view {

using onnx_file::OnnxGraph;
using onnx_file::OnnxTensor;

namespace {

// onnx::TensorProto::DataType of what is not a parameter: INT64 (indices, shapes), STRING, BOOL.
bool is_numbers(const OnnxTensor& tensor) {
  return tensor.data_type != 7 && tensor.data_type != 8 && tensor.data_type != 9;
}

// Elements by name, those of bodies too: of equal names the outer one counts.
FlatMap<std::string_view, std::int64_t> sizes_of(const OnnxGraph& outermost) {
  FlatMap<std::string_view, std::int64_t> sizes;
  onnx_file::walk_graphs(outermost, [&](const OnnxGraph& graph) {
    for (const OnnxTensor& tensor : graph.initializers) {
      const std::int64_t elements = is_numbers(tensor) ? element_count(tensor.dims) : 0;
      if (elements > 0) sizes.emplace(tensor.name, elements);
    }
  });
  return sizes;
}

bool is_named_after_reader(std::string_view name, const ReadParameter& parameter) {
  return name.find('.') != std::string_view::npos && parameter.modules.contains(std::string(module_around(name)));
}

const std::string& owner_among(const metadata::Attribution& readers, std::string_view name) {
  const auto owner = std::ranges::find(readers.modules, module_around(name));
  return owner == readers.modules.end() ? readers.module : *owner;
}

}  // namespace

std::vector<ReadParameter> parameters_read(const OnnxGraph& graph, const std::vector<ParameterReader>& readers) {
  const FlatMap<std::string_view, std::int64_t> sizes = sizes_of(graph);
  std::map<std::string_view, ReadParameter> read;
  for (const ParameterReader& reader : readers) {
    for (const std::string_view name : reader.node->inputs) {
      const auto size = sizes.find(name);
      if (size == sizes.end()) continue;
      ReadParameter& parameter = read[name];
      parameter.elements = size->second;
      if (reader.attribution->attributed()) parameter.modules.insert(owner_among(*reader.attribution, name));
      parameter.unplaced |= !reader.attribution->attributed();
    }
  }
  std::vector<ReadParameter> result;
  result.reserve(read.size());
  for (auto& [name, parameter] : read) {
    if (parameter.elements > 1 || is_named_after_reader(name, parameter)) result.push_back(std::move(parameter));
  }
  return result;
}

}  // namespace whence::view
