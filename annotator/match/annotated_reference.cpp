// Makes the reference from an annotated ONNX file, for comparison with the file that a tool made from it. Each node of
// the annotated file is a unit, and values that keep their names are the same values.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "annotator/match/file_structure.h"
#include "annotator/match/name_paths.h"
#include "annotator/match/reference.h"
#include "annotator/match/scope_in_name.h"
#include "annotator/match/weight_elements.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/origin/keys/origin.h"
#include "schema/dtype.h"
#include "schema/files/files.h"
#include "schema/module_path.h"
#include "schema/tensor_sketch.h"

namespace whence::match {

namespace keys = origin::keys;
using onnx_file::find_property;

ScopeIndex ScopeTree::of(const std::vector<metadata::CalledModule>& calls) {
  ScopeIndex scope;
  for (const metadata::CalledModule& module : calls) {
    const auto known = known_.find({module.path, module.call});
    scope = known != known_.end() ? known->second : add(module.path, module.call, scope);
  }
  return scope;
}

ScopeIndex ScopeTree::of(const std::string& path, std::int32_t call) {
  const auto known = known_.find({path, call});
  if (known != known_.end()) return known->second;
  // Calls of one module are children of the module, so that the common scope of its calls and of its children's calls
  // is the module: the file does not state to which of its calls a child's call belongs.
  ScopeIndex parent;
  if (call > 0) {
    parent = of(path, 0);
  } else if (!path.empty()) {
    parent = of(std::string(module_around(path)), 0);
  }
  return add(path, call, parent);
}

ScopeIndex ScopeTree::add(const std::string& path, std::int32_t call, ScopeIndex parent) {
  std::string name_path = path.empty() ? "" : "/" + path;
  std::replace(name_path.begin(), name_path.end(), '.', '/');
  const ScopeIndex id = scopes_.add({.parent = parent, .path = path, .call = call, .name_path = std::move(name_path)});
  known_.emplace(std::pair(path, call), id);
  return id;
}

std::optional<std::string> module_of(const onnx_file::OnnxNode& node) {
  if (const auto module = find_property(node.metadata, keys::module)) return std::string(*module);
  std::vector<metadata::CalledModule> modules = metadata::exporter_scopes(node).modules;
  return modules.empty() ? std::nullopt : std::optional(std::move(modules.back().path));
}

origin::Confidence confidence_in(const onnx_file::OnnxNode& node) {
  const auto stated = metadata::stated_confidence(node.domain, node.op_type, node.metadata);
  if (!stated && node.captured != nullptr && !node.captured->certain) return origin::Confidence::ancestor;
  return stated.value_or(origin::limited_by(node.domain, origin::Confidence::matched));
}

namespace {

// Returns "/encoder/layer.0" for the node "/encoder/layer.0/MatMul_1", if this path is that of the module: only the
// file's names show how a qualified name divides into calls.
std::optional<std::string_view> name_path_of(std::string_view node, const std::string& module,
                                             const ScopeReader& reader) {
  if (!node.starts_with('/')) return std::nullopt;
  const std::string_view path = reader.read(node).path;
  return module_of_path(path) == module ? std::optional(path) : std::nullopt;
}

// Returns false for vectors of integers, which are sizes, axes and indices, and for single numbers.
bool is_weight(const StructureTensor& tensor) {
  const DType dtype = from_onnx(tensor.data_type);
  const bool counts = dtype == DType::int64 || dtype == DType::int32 || dtype == DType::boolean;
  return tensor.elements() > 1 && !(counts && tensor.is_vector());
}

UnitIndex unit_of(const StructureNode<Side::reference>& node) { return UnitIndex(node.source.number()); }

// Adds digests and a sketch of the weight, by which it is found under other names.
void add_content(const StructureTensor& tensor, ReferenceParameter& parameter) {
  parameter.weight = is_weight(tensor);
  const DType dtype = from_onnx(tensor.data_type);
  parameter.dtype = dtype;
  if (!parameter.weight || tensor.bytes.empty()) return;
  parameter.digests.content = digest_of(tensor.bytes.data(), tensor.bytes.size());
  parameter.sketched_without_ones = true;  // recurrent weights: [1, 4 * hidden, input]
  parameter.sketch = sketch_of(
      {dtype, without_leading_ones(tensor.dims), Bytes::part_of(nullptr, tensor.bytes.data(), tensor.bytes.size())});
}

// Adds the scopes of the calls that nodes state. Skips nodes of optimisers whose stated calls lead to another module
// than the one that whence found.
void add_stated_calls(const std::vector<const onnx_file::OnnxNode*>& nodes, ScopeTree& tree) {
  for (const onnx_file::OnnxNode* node : nodes) {
    std::vector<metadata::CalledModule> calls = metadata::stated_modules(*node);
    if (calls.empty() || calls.back().path != module_of(*node)) continue;
    metadata::set_call_numbers(node->metadata, calls);
    tree.of(calls);
  }
}

}  // namespace

Reference make_reference(const onnx_file::OnnxSummary& annotated) {
  Reference reference;
  FileStructure file = make_structure<Side::reference>(annotated);
  reference.structure = std::move(file.structure);
  reference.file = annotated.file;
  reference.values_keep_names = true;
  ScopeTree tree(reference.scopes);
  tree.of("", 0);
  add_stated_calls(file.file_nodes.items(), tree);
  const ScopeReader reader(annotated);
  reference.units.items().reserve(file.file_nodes.size());
  for (const onnx_file::OnnxNode* node : file.file_nodes) {
    ReferenceUnit unit;
    unit.name = node->name;
    if (const auto module = module_of(*node)) {
      std::vector<metadata::CalledModule> last{{.path = *module}};
      metadata::set_call_numbers(node->metadata, last);
      unit.scope = tree.of(*module, last.back().call);
      unit.confidence = confidence_in(*node);
      if (const auto path = name_path_of(node->name, *module, reader)) reference.scopes[unit.scope].name_path = *path;
    }
    reference.units.add(std::move(unit));
  }
  for (const auto& node : reference.structure.nodes) {
    reference.units_of_node.add(node.source.exists() ? std::vector{unit_of(node)} : std::vector<UnitIndex>{});
  }
  IndexedVector<ReferenceTensor, ReferenceValue> holders(reference.structure.tensors.size());
  for (const ReferenceValue value : reference.structure.values.keys()) {
    const ReferenceTensor tensor = reference.structure.values[value].tensor;
    if (tensor.exists()) holders[tensor] = value;
  }
  for (const ReferenceTensor index : holders.keys()) {
    const StructureTensor& tensor = reference.structure.tensors[index];
    if (tensor.name.empty()) continue;
    ReferenceParameter parameter;
    parameter.names.emplace_back(tensor.name);
    parameter.dims = tensor.dims;
    for (const auto& use : reference.structure.values[holders[index]].uses) {
      if (!use.node.exists() || !reference.structure.nodes[use.node].source.exists()) continue;
      parameter.units.push_back(unit_of(reference.structure.nodes[use.node]));
    }
    if (parameter.units.empty()) continue;
    add_content(tensor, parameter);
    release_bytes(annotated, file.external.get(), tensor);
    reference.parameters.add(std::move(parameter));
  }
  reference.index_units();
  return reference;
}

}  // namespace whence::match
