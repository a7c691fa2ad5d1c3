// The stages of an export, in order, and the names of inputs and outputs.
#include "annotator/exporter/export.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "annotator/convert/convert.h"
#include "annotator/exporter/bfloat16.h"
#include "annotator/exporter/lowered.h"
#include "annotator/exporter/names.h"
#include "annotator/lower/pipeline.h"
#include "annotator/program/program_edit.h"
#include "annotator/program/program_facts.h"
#include "annotator/simplify/pipeline.h"

namespace whence::exporter {

using graph::Graph;
using graph::GraphValueId;
using graph::no_value;

namespace {

Error usage(std::string message, std::string remedy) {
  return Error(Code::usage, std::move(message), std::move(remedy), Place{.stage = "export"});
}

void check_opset(int opset) {
  if (opset >= oldest_opset && opset <= newest_opset) return;
  throw usage("opset " + std::to_string(opset) + " is not supported",
              "use " + std::to_string(oldest_opset) + " to " + std::to_string(newest_opset));
}

// Sets the requested names on the first inputs or outputs.
void set_names(Graph& graph, const std::vector<GraphValueId>& values, const std::vector<std::string>& names,
               const std::string& what) {
  if (names.size() > values.size()) {
    throw usage(std::to_string(names.size()) + " " + what + " names for " + std::to_string(values.size()) + " " + what +
                    (values.size() == 1 ? "" : "s"),
                "pass at most one name for each");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) throw usage("an " + what + " name is empty", "name each, or pass fewer names");
    graph.values[values[i]].name = names[i];
  }
}

void check_distinct(const Graph& graph) {
  std::set<std::string> seen;
  for (const auto* values : {&graph.inputs, &graph.outputs}) {
    for (const GraphValueId value : *values) {
      const std::string& name = graph.values[value].name;
      if (!name.empty() && !seen.insert(name).second) {
        throw usage("two inputs or outputs are named '" + name + "'", "choose other names");
      }
    }
  }
}

// Adds a number to an output that the model named like an input. Names chosen by the user must differ already.
void separate_outputs(Graph& graph, std::size_t chosen) {
  std::set<std::string> taken;
  for (const GraphValueId input : graph.inputs) taken.insert(graph.values[input].name);
  for (std::size_t i = chosen; i < graph.outputs.size(); ++i) {
    std::string& name = graph.values[graph.outputs[i]].name;
    if (name.empty()) continue;
    const std::string base_name = name;
    for (int n = 1; !taken.insert(name).second; ++n) name = base_name + "_" + std::to_string(n);
  }
}

Program with_weights_as_inputs(Program program, const std::set<std::string>& kept) {
  const auto read = program::values_read(program);
  for (const ValueId id : program.values.keys()) {
    Value& value = program.values[id];
    if (value.source != ValueSource::parameter || !read.contains(id)) continue;
    const Parameter& parameter = program.parameters[ParameterId(value.index)];
    if (kept.contains(parameter.name)) continue;
    value.source = ValueSource::input;
    value.index = static_cast<std::int32_t>(program.inputs.size());
    program.inputs.push_back({parameter.name, id});
  }
  return program;
}

// Warns of operators to keep that the program does not contain, as recorded or after lowering: the name is misspelt, or
// belongs to another front end.
void warn_of_absent(const std::set<std::string>& kept, const Program& program, const Program& lowered,
                    Diagnostics& notes) {
  for (const std::string& name : kept) {
    const auto named = [&](const Node& node) { return program::named_in({name}, qualified(node)) != nullptr; };
    if (program::any_node(program.body, named) || program::any_node(lowered.body, named)) continue;
    notes.push_back(warning(Code::unknown_node, "the model has no operator " + name,
                            "use PyTorch's names: aten::add for all overloads, aten::add.Tensor for one",
                            Place{.stage = "export", .op = name}));
  }
}

std::vector<ScopeId> scopes_of(const Program& program) {
  std::vector<ScopeId> scopes;
  for (const Node* node : operations(program)) scopes.push_back(node->origin.scope);
  return scopes;
}

// The result of one conversion attempt.
struct Converted {
  Graph graph;
  Failures failures;
  std::unordered_map<ValueId, GraphValueId> values;  // indexed by value of the lowered program
  convert::TrackedOpset opset;
  Diagnostics notes = {};

  bool is_complete() const { return failures.empty(); }
};

Converted convert_lowered(const Program& lowered, const ExportOptions& options, Failures failures) {
  Graph graph;
  convert::ConvertSession session(lowered, graph, options);
  failures = session.convert(std::move(failures));
  return {std::move(graph), std::move(failures), session.take_outermost_values(), session.opset()};
}

Converted attempt(const Program& program, const ExportOptions& options, const Refused& refused_before) {
  Lowered lowered = lower_for_conversion(program, options, refused_before);
  Converted converted = convert_lowered(lowered.program, options, std::move(lowered.failures));
  warn_of_absent(options.kept_operators, program, lowered.program, lowered.notes);
  converted.notes = std::move(lowered.notes);
  return converted;
}

// Updates the map to values that rewritten nodes compute now.
void follow_rewrites(const Graph& graph, std::unordered_map<ValueId, GraphValueId>& values) {
  for (auto& [value, id] : values) {
    while (id != no_value && graph.values[id].rewritten_as != no_value) id = graph.values[id].rewritten_as;
  }
}

// Converts with the converters first; if one refuses, for example an LSTM with proj_size, tries ATen's definition of
// the operator instead.
Converted converted_or_decomposed(const Program& program, const ExportOptions& options) {
  Converted undecomposed = attempt(program, options, {});
  Refused refused;  // the first refusal of each operator
  for (const Failure& each : undecomposed.failures) {
    if (each.may_decompose) refused.emplace(each.op, each.diagnostic);
  }
  if (refused.empty() || !options.trace_composite) return undecomposed;
  Converted decomposed = attempt(program, options, refused);
  return decomposed.is_complete() ? std::move(decomposed) : std::move(undecomposed);
}

// Converts the program; if that fails, tries again with branches that return tensors of two ranks fixed to the rank of
// the example.
Graph converted(const Program& program, const ExportOptions& options, Diagnostics& notes) {
  Converted found = converted_or_decomposed(program, options);
  Diagnostics rank_notes;
  if (!found.is_complete()) {
    const std::optional<Program> settled = lower::with_example_ranks(program, rank_notes);
    if (settled) found = converted_or_decomposed(*settled, options);
  }
  if (!found.is_complete()) throw Error(diagnostics_of(found.failures));
  notes = std::move(found.notes);
  notes.insert(notes.end(), rank_notes.begin(), rank_notes.end());
  return std::move(found.graph);
}

void run_without_bfloat16(Graph& graph, Diagnostics& notes) {
  const std::size_t changed = widen_bfloat16(graph);
  if (changed == 0) return;
  notes.push_back(warning(Code::unsupported_feature,
                          std::to_string(changed) +
                              (changed == 1 ? " operator of bfloat16 computes" : " operators of bfloat16 compute") +
                              " in float32 between casts: ONNX Runtime on the CPU has no kernels of bfloat16 for them",
                          "pass --keep-bfloat16 for a runtime that has such kernels", Place{.stage = "export"}));
}

}  // namespace

Result<Graph> export_program(const Program& program, const ExportOptions& options) {
  Diagnostics notes;
  Result<Graph> result = guarded([&] {
    check_opset(options.opset);
    Graph graph = options.weights_as_inputs
                      ? converted(with_weights_as_inputs(program, options.weights_kept), options, notes)
                      : converted(program, options, notes);
    set_names(graph, graph.inputs, options.input_names, "input");
    set_names(graph, graph.outputs, options.output_names, "output");
    separate_outputs(graph, options.output_names.size());
    check_distinct(graph);
    if (options.simplify) {
      simplify::simplify(graph, {options.opset, options.operators, scopes_of(program), options.fold});
    } else {
      graph.compact();
    }
    if (!options.keep_bfloat16) run_without_bfloat16(graph, notes);
    name_nodes(graph, program);
    return graph;
  });
  if (!result) return result;
  return {std::move(*result), std::move(notes)};
}

namespace {

// Returns the program for a literal form.
Program literal(Program program) {
  for (Value& value : program.values) {
    if (value.type.kind != ValueKind::tensor) continue;
    value.known = none_id;
    if (!value.type.dims || value.source == ValueSource::parameter || value.source == ValueSource::constant) continue;
    // Feature and channel sizes stay known: converters need them, and no exporter leaves them dynamic.
    const std::size_t rank = value.type.dims->size();
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (axis + 1 == rank && rank > 1) continue;
      if (axis == 1 && rank > 3) continue;
      Dim& dim = (*value.type.dims)[axis];
      dim.dynamic = true;
      dim.symbol = none_id;
    }
  }
  return program;
}

// Converts in one form, without simplification and names.
std::shared_ptr<Converted> converted_in(const ExportForm& form, const Lowered& lowered, ExportOptions options) {
  options.opset = form.opset;
  options.operators = form.operators;
  options.as_other_exporters = form.literal;
  auto converted = std::make_shared<Converted>(convert_lowered(lowered.program, options, lowered.failures));
  if (!converted->is_complete()) throw Error(diagnostics_of(converted->failures));
  separate_outputs(converted->graph, 0);
  check_distinct(converted->graph);
  converted->graph.compact();
  return converted;
}

ExportedForm simplified(const Converted& converted, const ExportForm& form, const std::vector<ScopeId>& scopes) {
  auto graph = std::make_shared<Graph>(converted.graph.clone());
  auto values = std::make_shared<std::unordered_map<ValueId, GraphValueId>>(converted.values);
  simplify::simplify(*graph, {form.opset, form.operators, scopes});
  follow_rewrites(*graph, *values);
  name_interface(*graph);
  return {std::move(graph), std::move(values)};
}

}  // namespace

std::vector<ExportedForm> export_forms(const Program& program, const ExportOptions& options,
                                       const std::vector<ExportForm>& forms) {
  const std::vector<ScopeId> scopes = scopes_of(program);
  std::vector<std::shared_ptr<Converted>> sources(forms.size());
  std::vector<ExportedForm> exported(forms.size());
  for (const bool is_literal : {false, true}) {  // one after the other, because a lowered program is a large copy
    std::optional<Lowered> lowered;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      if (forms[i].literal != is_literal) continue;
      check_opset(forms[i].opset);
      for (std::size_t k = 0; k < i && !sources[i]; ++k) {
        const bool is_like = forms[k].literal == is_literal && forms[k].operators == forms[i].operators;
        if (is_like && sources[k]->opset.same_at(forms[i].opset)) sources[i] = sources[k];
      }
      if (!lowered && is_literal) lowered = lower_for_conversion(literal(program), options, {});
      if (!lowered) lowered = lower_for_conversion(program, options, {});
      if (!sources[i]) sources[i] = converted_in(forms[i], *lowered, options);
      if (forms[i].simplify) exported[i] = simplified(*sources[i], forms[i], scopes);
    }
  }
  // Simplified forms are built from unnamed graphs, so the other graphs get their names last.
  std::set<const Converted*> named;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (forms[i].simplify) continue;
    const std::shared_ptr<Converted>& source = sources[i];
    if (named.insert(source.get()).second) name_interface(source->graph);
    exported[i] = {{source, &source->graph}, {source, &source->values}};
  }
  return exported;
}

}  // namespace whence::exporter
