// Makes the reference from a program: several exports of it that share the program's values.
#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "annotator/exporter/export.h"
#include "annotator/exporter/filled_weights.h"
#include "annotator/match/attribute_digest.h"
#include "annotator/match/reference.h"
#include "annotator/metadata/fx_names.h"
#include "annotator/origin/scope_path.h"
#include "annotator/program/program_edit.h"
#include "annotator/program/tensor_values.h"
#include "schema/flat_map.h"
#include "schema/program_walk.h"

namespace whence::match {

using exporter::ExportedForm;
using exporter::newest_opset;
using exporter::oldest_opset;
using graph::Graph;
using graph::GraphNode;
using graph::GraphValueId;
using graph::no_value;

namespace {

class Overlay {
 public:
  explicit Overlay(Reference& reference) : reference_(reference) {}

  // Adds one export. The values that it maps to the program's are the same in all forms; inputs are paired by position.
  void add(const exporter::ExportedForm& exported) {
    const std::shared_ptr<const Graph>& graph = exported.graph;
    if (const auto before = merged_.find(graph.get()); before != merged_.end()) {
      add_outputs(before->second);  // its nodes are there already
      return;
    }
    reference_.owners.push_back(graph);
    merges_ = true;
    std::unordered_map<GraphValueId, ValueId> program_value;
    for (const auto& [value, id] : *exported.values) {
      if (id == no_value) continue;  // an unread result that its converter did not compute
      const auto [entry, first] = program_value.try_emplace(id, value);
      if (!first) entry->second = std::min(entry->second, value);
    }
    Form form{*graph, std::vector<ReferenceValue>(graph->values.size())};
    for (std::size_t i = 0; i < graph->inputs.size(); ++i) {
      const GraphValueId id = graph->inputs[i];
      if (i >= s().inputs.size()) s().inputs.push_back(s().add_value(graph->values[id].name));
      form.ids[id] = s().inputs[i];
    }
    for (const auto& [id, value] : program_value) {
      if (form.ids[id].exists() || graph->values[id].initializer >= 0) continue;
      // The form has the value only if one of its nodes computes it.
      const std::int32_t producer = graph->values[id].producer;
      if (producer < 0 || static_cast<std::size_t>(producer) >= graph->nodes.size()) continue;
      const auto& outputs = graph->nodes[producer].outputs;
      if (std::find(outputs.begin(), outputs.end(), id) == outputs.end()) continue;
      const auto [entry, first] = values_.try_emplace(value);
      if (first) entry->second = s().add_value(graph->values[id].name);
      form.ids[id] = reference_.value_of_program[value] = entry->second;
    }
    add_graph(form);
    std::vector<ReferenceValue> outputs;
    for (const GraphValueId output : graph->outputs) outputs.push_back(form.ids[output]);
    add_outputs(outputs);
    if (merges_) merged_.emplace(graph.get(), std::move(outputs));
  }

 private:
  void add_outputs(const std::vector<ReferenceValue>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].exists()) continue;
      const bool known = i < s().outputs.size();
      if (!known) s().outputs.push_back(outputs[i]);
      s().values[outputs[i]].uses.push_back({{}, static_cast<std::int32_t>(i)});
    }
  }

  struct Form {
    const Graph& graph;
    std::vector<ReferenceValue> ids;  // structure values, by value of the graph
  };

  ReferenceStructure& s() { return reference_.structure; }

  void add_graph(Form& form) {
    for (const graph::Initializer& initializer : form.graph.initializers) add_initializer(form, initializer);
    for (const GraphNode& node : form.graph.nodes) {
      if (!node.removed) add_node(form, node);
    }
  }

  ReferenceValue id_of(Form& form, GraphValueId value) {
    if (value == no_value) return {};
    ReferenceValue& id = form.ids[value];
    if (!id.exists()) id = s().add_value(form.graph.values[value].name);
    return id;
  }

  void add_initializer(Form& form, const graph::Initializer& initializer) {
    const std::string& name = form.graph.values[initializer.value].name;
    // A parameter is one value in all forms, and so is a small constant with the same content.
    std::string key = initializer.parameter ? "p" + name : "";
    const TensorData& data = initializer.data;
    const auto content = data.bytes.in_memory();
    if (!initializer.parameter && content && content->data() != nullptr && content->size() <= 64) {
      key = "c" + std::to_string(static_cast<int>(data.dtype)) + ":" + std::to_string(data.shape.size()) + ":" +
            std::string(as_text(*content));
    }
    // A constant computed from a parameter is named after it, and has the same name in all forms.
    if (key.empty() && !name.empty() && name.front() != '/') {
      key = "d" + name + ":" + std::to_string(static_cast<int>(data.dtype));
      for (const std::int64_t size : data.shape) key += "," + std::to_string(size);
    }
    if (!key.empty()) {
      const auto [entry, first] = constants_.try_emplace(key);
      if (!first) {
        form.ids[initializer.value] = entry->second;
        return;
      }
      entry.value() = id_of(form, initializer.value);
    } else {
      merges_ = false;
    }
    const ReferenceValue value = id_of(form, initializer.value);
    if (s().values[value].tensor.exists()) return;
    StructureTensor tensor;
    tensor.name = name;
    tensor.data_type = to_onnx(data.dtype);
    tensor.dims = data.shape;
    if (const auto number = program::single_number(data)) {
      tensor.single = true;
      tensor.number = *number;
    }
    s().values[value].tensor = s().tensors.add(std::move(tensor));
  }

  void add_node(Form& form, const GraphNode& node) {
    StructureNode<Side::reference> entry;
    entry.op_type = node.op_type;
    entry.domain = node.domain;
    entry.name = node.name;
    for (const GraphValueId input : node.inputs) {
      if (input != no_value && !form.ids[input].exists()) merges_ = false;
      entry.inputs.push_back(id_of(form, input));
    }
    for (const graph::Attribute& attribute : node.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) {
        add_body(form, node, **body, entry);
      } else {
        entry.attributes += digest(attribute);
        const auto* pads = std::get_if<std::vector<std::int64_t>>(&attribute.value);
        if (attribute.name == "pads" && pads != nullptr &&
            std::any_of(pads->begin(), pads->end(), [](auto each) { return each != 0; })) {
          entry.padding = digest(attribute);
        }
      }
    }
    // Another form may have the same node, of the same operations with the same inputs.
    std::string key(node.op_type);
    for (const ReferenceValue input : entry.inputs) key += "," + std::to_string(input.number());
    key += "|" + std::to_string(entry.attributes) + "|" + std::to_string(node.outputs.size());
    for (const std::int32_t op : node.origin.ops) key += ";" + std::to_string(op);
    const auto found = entry.holds_bodies ? nodes_.end() : nodes_.find(key);
    if (found != nodes_.end() && same_results(form, node, s().nodes[found->second])) return;
    if (entry.holds_bodies || found != nodes_.end()) merges_ = false;
    for (const GraphValueId output : node.outputs) entry.outputs.push_back(id_of(form, output));
    const ReferenceNode index = s().add_node(std::move(entry));
    reference_.units_of_node.add(units_of(node));
    if (node.origin.kind == origin::OriginKind::shared) reference_.shared_nodes.insert(index);
    nodes_.try_emplace(std::move(key), index);
  }

  static std::vector<UnitIndex> units_of(const GraphNode& node) {
    return {node.origin.ops.begin(), node.origin.ops.end()};
  }

  // Returns true if the program's values among the results are those of the known node. The other results then become
  // the known node's.
  bool same_results(Form& form, const GraphNode& node, const StructureNode<Side::reference>& known) {
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == no_value) continue;
      const ReferenceValue id = form.ids[node.outputs[i]];
      if (id.exists() && id != known.outputs[i]) return false;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != no_value) form.ids[node.outputs[i]] = known.outputs[i];
    }
    return true;
  }

  void add_body(Form& outer, const GraphNode& holder, const Graph& body, StructureNode<Side::reference>& entry) {
    entry.holds_bodies = true;
    Form form{body, std::vector<ReferenceValue>(body.values.size())};
    for (std::size_t i = 0; i < body.values.size(); ++i) {
      if (body.values[i].captured != no_value) form.ids[i] = id_of(outer, body.values[i].captured);
    }
    for (std::size_t i = 0; i < body.inputs.size() && i < holder.inputs.size(); ++i) {
      const ReferenceValue from = id_of(outer, holder.inputs[i]);
      if (!from.exists()) continue;
      StructureNode<Side::reference> pass;
      pass.op_type = "Identity";
      pass.inputs = {from};
      pass.outputs = {id_of(form, body.inputs[i])};
      s().add_node(std::move(pass));
      reference_.units_of_node.add(units_of(holder));
    }
    add_graph(form);
    for (const GraphValueId output : body.outputs) entry.inputs.push_back(id_of(form, output));
  }

  static std::uint64_t digest(const graph::Attribute& attribute) {
    AttributeDigest digest(attribute.name);
    const auto add_float = [&](float number) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      digest.add(std::uint64_t{bits});
    };
    if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) {
      digest.add(static_cast<std::uint64_t>(*integer));
    } else if (const auto* number = std::get_if<float>(&attribute.value)) {
      add_float(*number);
    } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
      digest.add(std::string_view(*text));
    } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
      for (const std::int64_t each : *integers) digest.add(static_cast<std::uint64_t>(each));
    } else if (const auto* numbers = std::get_if<std::vector<float>>(&attribute.value)) {
      for (const float each : *numbers) add_float(each);
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
      for (const std::string& each : *texts) digest.add(std::string_view(each));
    }
    return digest.value();
  }

  Reference& reference_;
  std::unordered_map<ValueId, ReferenceValue> values_;
  FlatMap<std::string, ReferenceValue> constants_;
  FlatMap<std::string, ReferenceNode> nodes_;
  bool merges_ = true;  // adding the current form again would add no value or node
  std::unordered_map<const Graph*, std::vector<ReferenceValue>>
      merged_;  // forms that add nothing when added again, with their outputs
};

void add_units(const Program& program, const metadata::FxNames& names, Reference& reference) {
  for (const ScopeId id : program.scopes.keys()) {
    const Scope& scope = program.scopes[id];
    reference.scopes.add({.parent = ScopeIndex(scope.parent.number()),
                          .path = program.modules[scope.module].path,
                          .call = scope.call,
                          .name_path = origin::scope_path(program, id)});
  }
  for (const Node* node : operations(program)) {
    reference.units.add({ScopeIndex(node->origin.scope.number()), names.name(node->origin.op),
                         origin::confidence_of(node->origin.basis)});
  }
}

void add_parameters(const Program& program, Reference& reference) {
  for (const Parameter& parameter : program.parameters) {
    ReferenceParameter entry;
    entry.names.push_back(parameter.name);
    entry.names.insert(entry.names.end(), parameter.aliases.begin(), parameter.aliases.end());
    entry.dims = parameter.data.shape;
    entry.dtype = parameter.data.dtype;
    entry.digests = parameter.digests;
    entry.sketch = parameter.sketch;
    reference.parameters.add(std::move(entry));
  }
  for (const Node* node : operations(program)) {
    for (const NamedArgument& argument : node->arguments) {
      each_value(argument.value, [&](ValueId id) {
        const Value& value = program.values[id];
        if (value.source != ValueSource::parameter) return;
        auto& users = reference.parameters[ParameterIndex(value.index)].units;
        const UnitIndex unit(node->origin.op);
        if (users.empty() || users.back() != unit) users.push_back(unit);
      });
    }
  }
}

}  // namespace

Reference make_reference(const Program& program, int opset) {
  return make_reference(program, metadata::FxNames(program), opset);
}

Reference make_reference(const Program& program, const metadata::FxNames& names, int opset) {
  const Program filled = exporter::with_filled_weights(program);
  const int nearest_opset = std::clamp(opset, oldest_opset, newest_opset);
  exporter::ExportOptions options;
  options.unsupported_as_domain = true;
  std::vector<exporter::ExportForm> requested_forms = {
      {nearest_opset, false}, {nearest_opset, true}, {.opset = nearest_opset, .simplify = false, .literal = true}};
  // From opset 23 on, a file may have an RMSNormalization or the operators that it replaces.
  if (nearest_opset > 22) requested_forms.push_back({nearest_opset, true, operators::OperatorForms::plain});
  if (nearest_opset != newest_opset) requested_forms.push_back({newest_opset, false});
  if (nearest_opset != oldest_opset) requested_forms.push_back({oldest_opset, false});
  const std::vector<ExportedForm> forms = exporter::export_forms(filled, options, requested_forms);
  // Forms with contradicting values make a cycle; then tries fewer forms.
  for (std::size_t count = forms.size();; --count) {
    Reference reference;
    Overlay overlay(reference);
    for (std::size_t i = 0; i < count; ++i) overlay.add(forms[i]);
    try {
      reference.structure.finish("the reference");
    } catch (const Error&) {
      if (count == 1) throw;
      continue;
    }
    reference.program = program_digest(program);
    add_units(program, names, reference);
    add_parameters(program, reference);
    reference.index_units();
    return reference;
  }
}

}  // namespace whence::match
