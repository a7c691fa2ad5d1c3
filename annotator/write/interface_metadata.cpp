#include "annotator/write/interface_metadata.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "annotator/lower/written_state.h"
#include "annotator/metadata/fx_names.h"
#include "annotator/origin/keys/interface.h"
#include "schema/flat_map.h"

namespace whence::write {

namespace keys = origin::keys;
using metadata::FxNames;

namespace {

std::string line_of(const SignatureEntry& entry) {
  std::string line = entry.name + ": " + entry.kind;
  if (entry.target) line += " target='" + *entry.target + "'";
  if (entry.persistent) line += std::string(" persistent=") + (*entry.persistent ? "True" : "False");
  return line;
}

std::string lines_of(const std::vector<SignatureEntry>& entries) {
  std::string lines;
  for (const SignatureEntry& entry : entries) lines += (lines.empty() ? "" : "\n") + line_of(entry);
  return lines;
}

void collect_outputs(const Argument& argument, std::vector<const Argument*>& leaves) {
  if (const auto* list = argument.as<ArgumentList>()) {
    for (const Argument& element : *list) collect_outputs(element, leaves);
  } else {
    leaves.push_back(&argument);
  }
}

// Returns all results of a program, in order.
std::vector<const Argument*> results_of(const Program& program) {
  std::vector<const Argument*> leaves;
  for (const ProgramOutput& output : program.outputs) collect_outputs(output.value, leaves);
  return leaves;
}

// Inserts an entry before the results for each buffer or input that the program changes, named after its new value.
void add_mutations(const Program& program, const FxNames& names, Signature& signature) {
  std::vector<SignatureEntry> added;
  for (const lower::WrittenState& written : lower::written_state(program)) {
    const std::string& state = names.value_name(written.state);
    const auto input = std::ranges::find(signature.inputs, state, &SignatureEntry::name);
    if (input == signature.inputs.end()) continue;
    const bool is_user_input = input->kind == "USER_INPUT";
    added.push_back({input->kind + "_MUTATION", names.value_name(written.holds),
                     is_user_input ? std::optional(input->name) : input->target, std::nullopt});
  }
  signature.outputs.insert(signature.outputs.begin(), added.begin(), added.end());
}

Signature stated_by_torchscript(const Program& program, const FxNames& names) {
  constexpr std::string_view kinds[] = {"PARAMETER", "BUFFER", "CONSTANT_TENSOR"};  // indexed by ParameterKind
  Signature signature;
  for (const ValueId id : program.values.keys()) {
    if (program.values[id].source != ValueSource::parameter) continue;
    const Parameter& parameter = program.parameters[ParameterId(program.values[id].index)];
    SignatureEntry& entry = signature.inputs.emplace_back();
    entry.kind = kinds[static_cast<std::size_t>(parameter.kind)];
    entry.name = names.value_name(id);
    entry.target = parameter.name;
    if (parameter.kind == ParameterKind::buffer) entry.persistent = parameter.persistent;
  }
  for (const ProgramInput& input : program.inputs) {
    signature.inputs.push_back({"USER_INPUT", names.value_name(input.value), std::nullopt, std::nullopt});
  }
  for (const Argument* result : results_of(program)) {
    const auto* value = result->as<ValueRef>();
    signature.outputs.push_back(
        {"USER_OUTPUT", value == nullptr ? "" : names.value_name(value->id), std::nullopt, std::nullopt});
  }
  add_mutations(program, names, signature);
  return signature;
}

std::string bound(const std::optional<std::int64_t>& number, const char* otherwise) {
  return number ? std::to_string(*number) : otherwise;
}

// Returns "{s77: VR[2, 64]}", with the names of the dimensions. Sizes that a user gave the same name share the
// intersection of their ranges. A data-dependent size may have no bounds.
std::string range_constraints(const Program& program) {
  std::vector<Symbol> named;
  for (const Symbol& symbol : program.symbols) {
    if (!symbol.min && !symbol.max && symbol.kind == SymbolKind::derived) continue;
    const auto known = std::ranges::find(named, symbol.name, &Symbol::name);
    if (known == named.end()) {
      named.push_back(symbol);
      continue;
    }
    if (symbol.min) known->min = std::max(*symbol.min, known->min.value_or(*symbol.min));
    if (symbol.max) known->max = std::min(*symbol.max, known->max.value_or(*symbol.max));
  }
  std::string ranges;
  for (const Symbol& symbol : named) {
    if (!ranges.empty()) ranges += ", ";
    ranges += symbol.name + ": VR[" + bound(symbol.min, "-int_oo") + ", " + bound(symbol.max, "int_oo") + "]";
  }
  return "{" + ranges + "}";
}

// Returns the names of the results, without None. The signature in an archive uses the names of PyTorch's exporter.
std::vector<std::string> names_of_results(const Program& program, const FxNames& names) {
  std::vector<std::string> stated, originals;
  for (const SignatureEntry& entry : program.signature.outputs) {
    if (entry.kind == "USER_OUTPUT") stated.push_back(entry.name);
  }
  const std::vector<const Argument*> results = results_of(program);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto* value = results[i]->as<ValueRef>();
    if (results[i]->is_none()) continue;
    const bool is_stated = stated.size() == results.size();
    originals.push_back(is_stated ? stated[i] : value == nullptr ? "" : names.value_name(value->id));
  }
  return originals;
}

void add_input_kind(const SignatureEntry& entry, InterfaceMetadata::Entries& to) {
  const std::string_view persistent = !entry.persistent ? "None" : *entry.persistent ? "True" : "False";
  to.emplace_back(keys::input_kind, entry.kind);
  to.emplace_back(keys::input_persistent, persistent);
}

void add_original_name(const std::string& original, const std::string& name, InterfaceMetadata::Entries& to) {
  if (!original.empty() && original != name) to.emplace_back(keys::original_node_name, original);
}

}  // namespace

std::string to_text(const Signature& signature) {
  return "\n# inputs\n" + lines_of(signature.inputs) + "\n\n# outputs\n" + lines_of(signature.outputs) + "\n";
}

InterfaceMetadata interface_metadata(const graph::Graph& graph, const Program& program) {
  const FxNames names(program);
  const Signature signature = program.signature.empty() ? stated_by_torchscript(program, names) : program.signature;
  InterfaceMetadata metadata;
  metadata.graph.emplace_back(keys::graph_signature, to_text(signature));
  if (!program.signature.empty()) metadata.graph.emplace_back(keys::range_constraints, range_constraints(program));

  FlatMap<std::string_view, const SignatureEntry*> by_name, by_target;
  FlatSet<std::string_view> returned;
  for (const SignatureEntry& entry : signature.outputs) {
    if (entry.kind == "USER_OUTPUT") returned.insert(entry.name);
  }
  const auto add_kinds = [&](const SignatureEntry& entry, InterfaceMetadata::Entries& to) {
    add_input_kind(entry, to);
    if (returned.contains(entry.name)) to.emplace_back(keys::output_kind, "USER_OUTPUT");
  };
  for (const SignatureEntry& entry : signature.inputs) {
    by_name.emplace(entry.name, &entry);
    if (entry.target) by_target.emplace(*entry.target, &entry);
  }
  for (std::size_t i = 0; i < graph.inputs.size() && i < program.inputs.size(); ++i) {
    const std::string& original = names.value_name(program.inputs[i].value);
    InterfaceMetadata::Entries& entries = metadata.values[graph.inputs[i]];
    if (const auto found = by_name.find(original); found != by_name.end()) add_kinds(*found->second, entries);
    add_original_name(original, graph.values[graph.inputs[i]].name, entries);
  }
  for (const graph::Initializer& initializer : graph.initializers) {
    const std::string& name = graph.values[initializer.value].name;
    auto found = by_target.find(name);
    if (found == by_target.end() && !initializer.parameter) {
      found = by_target.find(std::string_view(name).substr(0, name.rfind('.')));  // "w.transposed" is still w
    }
    if (found == by_target.end()) continue;
    InterfaceMetadata::Entries& entries = metadata.values[initializer.value];
    add_kinds(*found->second, entries);
    add_original_name(found->second->name, name, entries);
  }

  const std::vector<std::string> originals = names_of_results(program, names);
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    InterfaceMetadata::Entries& entries = metadata.values[graph.outputs[i]];
    entries.emplace_back(keys::output_kind, "USER_OUTPUT");
    if (originals.size() != graph.outputs.size()) continue;
    if (const auto input = by_name.find(originals[i]); input != by_name.end()) add_input_kind(*input->second, entries);
    add_original_name(originals[i], graph.values[graph.outputs[i]].name, entries);
  }
  return metadata;
}

}  // namespace whence::write
