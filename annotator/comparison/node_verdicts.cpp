#include "annotator/comparison/node_verdicts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "annotator/comparison/ambiguities.h"
#include "annotator/comparison/cuts.h"
#include "annotator/comparison/file_results.h"
#include "annotator/comparison/file_wiring.h"
#include "annotator/comparison/node_checks.h"
#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/operation_forms.h"
#include "annotator/comparison/operator_fit.h"
#include "annotator/comparison/parameter_places.h"
#include "annotator/comparison/parameter_roles.h"
#include "annotator/comparison/placing.h"
#include "annotator/comparison/recorded_layers.h"
#include "annotator/comparison/repetitions.h"
#include "annotator/comparison/sizes.h"
#include "annotator/comparison/unrolled_layers.h"
#include "annotator/comparison/weight_arithmetic.h"
#include "annotator/comparison/wiring.h"
#include "annotator/comparison/written_out.h"
#include "annotator/derivation/effects.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/derivation/orientation.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/node_attributes.h"
#include "schema/printable.h"

namespace whence::comparison {

using derivation::Contents;
using derivation::Derivation;
using derivation::FileTensor;
using derivation::FileTensors;
using derivation::is_movement;
using derivation::Orientations;
using derivation::ProgramForm;
using derivation::TensorNumber;
using derivation::Verdict;
using derivation::Weights;

using onnx_file::OnnxNode;

std::string_view name_of(NodeVerdict verdict) {
  static constexpr std::array<std::string_view, 4> names = {"operation", "movement", "size", "unaccounted"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

// Returns true for a node whose meaning is not read: a call of a local function, and numbers outside of tensors.
bool is_opaque(const OnnxNode& node, const onnx_file::OnnxSummary& model) {
  const bool is_call = std::ranges::any_of(model.functions, [&](const onnx_file::OnnxFunction& function) {
    const auto plain = [](std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; };
    return function.name == node.op_type && plain(function.domain) == plain(node.domain);
  });
  if (is_call || node.op_type != "Constant") return is_call;
  return std::ranges::any_of(node.attributes, [](const onnx_file::OnnxAttribute& attribute) {
    return attribute.name == "value_float" || attribute.name == "value_floats" || attribute.name == "sparse_value";
  });
}

// Returns why a node is unaccounted in which nothing contradicts the program.
std::string reason_unaccounted(const OnnxNode& node, const onnx_file::OnnxSummary& model) {
  if (is_opaque(node, model))
    return node.op_type == "Constant" ? "states numbers in an attribute that is not compared"
                                      : "calls a local function, whose nodes are not compared";
  const std::string bodies = node.subgraphs.empty() ? "" : ", and its bodies are compared with none";
  return "no operation of the program was found for it" + bodies;
}

// Returns true for a conversion to floats of 8 bits.
bool coarsens(const OnnxNode& node) {
  const DType to = conversion_of(node);
  return to != DType::undefined && is_floating(to) && size_of(to) == 1;
}

// Returns true for a conversion to a float of 16 bits in a file without tensors of that dtype, whose outputs have
// another one: it only loses precision.
bool rounds_alone(const OnnxNode& node, const onnx_file::OnnxGraph& graph, const FileTensors& tensors,
                  const OperationForms& operations) {
  const DType to = conversion_of(node);
  if ((to != DType::float16 && to != DType::bfloat16) || node.outputs.empty() || operations.converts_to(to))
    return false;
  const auto& outputs = graph.outputs;
  const bool is_output = std::ranges::find(outputs, node.outputs[0], &onnx_file::OnnxValue::name) != outputs.end();
  return !is_output && std::ranges::none_of(tensors.all(), [&](const FileTensor& tensor) {
    return from_onnx(tensor.tensor->data_type) == to;
  });
}

// Returns the dtype to which a product rounds what it reads, as tools choose: its attribute allows it.
std::string rounded_inputs(const OnnxNode& node) {
  static constexpr std::array<std::string_view, 5> dtypes = {"", "", "float16", "bfloat16", "int8"};
  if (node.op_type != "MatMulNBits") return "";
  const std::int64_t level = onnx_file::integer_attribute(node, "accuracy_level", 0);
  const bool is_less = level > 1 && level < static_cast<std::int64_t>(dtypes.size());
  return is_less ? "may round its input to " + std::string(dtypes[static_cast<std::size_t>(level)]) : "";
}

// The caches of a language model are no results of the recorded call, unless it had caches as well.
void compare_outputs(const onnx_file::OnnxGraph& graph, const WrittenOut& written, const Wiring& program,
                     const FileWiring& file, const FileWiring::IsSaturated& is_saturated,
                     std::vector<std::string>& differences) {
  const auto& outputs = graph.outputs;
  const std::size_t without_caches = outputs.size() - written.caches.size();
  if (program.outputs() != without_caches && program.outputs() != outputs.size()) {
    differences.push_back("the file has " + std::to_string(outputs.size()) + " outputs, the program " +
                          std::to_string(program.outputs()));
    return;
  }
  std::size_t result = 0;
  for (const onnx_file::OnnxValue& output : outputs) {
    const bool is_cache = std::ranges::find(written.caches, output.name, &CachePair::present) != written.caches.end();
    const auto makers = is_cache ? std::vector<std::int32_t>() : file.certain_makers_of(output.name, is_saturated);
    if (!makers.empty() && !program.is_output_of(result, makers))
      differences.push_back("the output '" + printable(output.name) + "' is not result " + std::to_string(result) +
                            " of the program");
    if (!is_cache || program.outputs() == outputs.size()) ++result;
  }
}

std::vector<std::string> modules_of(const Placed& node, const match::NodeMatch* found,
                                    const match::Reference& reference) {
  std::set<std::string> modules;
  for (const std::int32_t operation : node.operations) {
    const match::ScopeIndex scope = reference.units[match::UnitIndex(operation)].scope;
    if (scope.exists()) modules.insert(reference.scopes[scope].path);
  }
  if (modules.empty() && found != nullptr && found->scope.exists()) modules.insert(reference.scopes[found->scope].path);
  return {modules.begin(), modules.end()};
}

// Returns true for the choice of rows of a table of angles by positions: by an input that the program does not have, or
// has under that name.
bool chooses_angles(const OnnxNode& node, const onnx_file::OnnxGraph& graph, const WrittenOut& written,
                    const Wiring& program) {
  const bool is_choice = node.op_type == "Gather" && node.inputs.size() == 2 && !node.outputs.empty();
  if (!is_choice || !written.angles.contains(node.outputs[0])) return false;
  const auto& inputs = graph.inputs;
  const bool is_input = std::ranges::find(inputs, node.inputs[1], &onnx_file::OnnxValue::name) != inputs.end();
  return is_input && (node.inputs[1] == "position_ids" || !program.input_named(node.inputs[1]));
}

// Returns the verdict on a node, and why it is unaccounted. `of_size`: the verdict of Sizes.
NodeFinding judged(std::size_t number, NodeVerdict of_size, const PlacedFile& file, NodeChecks& checks) {
  const OnnxNode& node = *file.nodes[number];
  const bool is_placed = !file.placement.placed[number].operations.empty();
  const bool is_size = of_size == NodeVerdict::size;
  const bool chooses = of_size == NodeVerdict::movement && !is_movement(node.op_type);
  NodeFinding finding{of_size};
  if (chooses_angles(node, file.model.graph, file.written, file.wiring)) {
    finding.verdict = NodeVerdict::movement;
  } else if (chooses || (!is_size && (coarsens(node) || (truncates(node) && file.wires.reads_numbers(number))))) {
    finding.remark = is_placed ? misfit(node, file.placement.placed[number].operations, file.reference)
                               : "the program has no such operation";
    if (finding.remark.empty()) finding.remark = checks.other_rows(number);
    finding.verdict = NodeVerdict::operation;
  } else if (!is_size && rounds_alone(node, file.model.graph, file.tensors, file.operations)) {
    finding.remark = "rounds to a dtype in which neither the file nor the program computes";
  } else if (is_movement(node.op_type) || is_rescaling(node, file.tensors)) {
    finding.verdict = is_placed ? NodeVerdict::operation : NodeVerdict::movement;
    finding.remark = unknown_domain(node);
    if (finding.remark.empty()) finding.remark = checks.other_repetition(number);
  } else if (is_placed && !is_size) {
    // Exporters compute sizes in ways of their own.
    finding.remark = checks.difference(number);
    finding.verdict = NodeVerdict::operation;
  }
  if (finding.remark.empty()) finding.remark = checks.other_integers_read(number);
  if (finding.remark.empty()) finding.remark = checks.other_layout_read(number);
  if (file.written.unread.contains(number)) finding.remark = "has inputs or attributes that are not compared";
  if (!finding.remark.empty() || is_opaque(node, file.model)) finding.verdict = NodeVerdict::unaccounted;
  if (finding.verdict == NodeVerdict::unaccounted && finding.remark.empty())
    finding.remark = reason_unaccounted(node, file.model);
  if (finding.remark.empty()) finding.remark = rounded_inputs(node);
  return finding;
}

// The nodes of masks that hide the same are compared as a whole, and not one by one.
void accept_masks(const PlacedFile& file, NodeChecks& checks, std::vector<NodeFinding>& findings) {
  for (const std::size_t i : checks.nodes_of_equal_masks()) {
    if (is_opaque(*file.nodes[i], file.model)) continue;
    findings[i].remark.clear();
    if (findings[i].verdict == NodeVerdict::unaccounted) findings[i].verdict = NodeVerdict::operation;
  }
}

// The nodes that choose and join the steps of recurrent layers are compared as a whole.
void accept_steps(const PlacedFile& file, const Program& program, std::vector<NodeFinding>& findings) {
  UnrolledLayers unrolled(file.nodes, file.model.graph, file.tensors, file.derivations, file.contents);
  for (const RecordedLayers& recorded : recorded_layers(program)) {
    const auto proved = unrolled.proved(recorded);
    for (std::size_t i = 0; i < file.nodes.size(); ++i) {
      if (!proved.contains(file.nodes[i])) continue;
      findings[i].remark.clear();
      if (findings[i].verdict == NodeVerdict::unaccounted) findings[i].verdict = NodeVerdict::operation;
    }
  }
}

// The match places what computes a weight at the operation that reads it.
void accept_weights(const PlacedFile& file, const Program& program, std::vector<NodeFinding>& findings) {
  WeightArithmetic arithmetic(program, file.tensors, file.derivations, file.contents);
  const auto operations_of = [&](const OnnxNode& node) { return file.wires.certain_operations_of(node); };
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    const bool is_open = findings[i].verdict == NodeVerdict::unaccounted && !file.placement.placed[i].is_certain;
    if (!is_open || !arithmetic.is_recorded(*file.nodes[i], operations_of)) continue;
    findings[i].remark.clear();
    findings[i].verdict = NodeVerdict::operation;
  }
}

// What a file computes from its constants alone is compared by its results.
void accept_results(const PlacedFile& file, const NodeChecks& checks, std::vector<NodeFinding>& findings) {
  TrialProgram* const program = checks.trial_program();
  const bool has_open = std::ranges::find(findings, NodeVerdict::unaccounted, &NodeFinding::verdict) != findings.end();
  if (program == nullptr || !has_open) return;
  FlatMap<const OnnxNode*, std::size_t> numbers;
  for (std::size_t i = 0; i < file.nodes.size(); ++i) numbers.emplace(file.nodes[i], i);
  FileResults results(file.nodes, file.tensors, file.contents);
  const auto proved = results.proved([&](const OnnxNode& node) {
    std::set<std::int32_t> roles;
    const auto number = numbers.find(&node);
    if (number == numbers.end()) return std::vector<const TensorData*>();
    for (const std::int32_t operation : file.placement.placed[number->second].operations)
      roles.insert(file.wiring.role_of(operation));
    return program->read_alone(roles);
  });
  for (std::size_t i = 0; i < file.nodes.size(); ++i) {
    if (findings[i].verdict != NodeVerdict::unaccounted || !proved.contains(file.nodes[i])) continue;
    if (is_opaque(*file.nodes[i], file.model)) continue;
    findings[i].remark.clear();
    findings[i].verdict = NodeVerdict::operation;
  }
}

// Makes the nodes unaccounted at which numbers become others, unless an unaccounted node explains it.
void compare_numbers(const NodeChecks& checks, std::vector<NodeFinding>& findings,
                     std::vector<std::string>& differences) {
  std::vector<const TrialRun::Difference*> unexplained;
  for (const TrialRun::Difference& each : checks.other_numbers()) {
    const bool is_explained = std::ranges::any_of(
        each.between, [&](std::size_t node) { return findings[node].verdict == NodeVerdict::unaccounted; });
    if (!is_explained) unexplained.push_back(&each);
  }
  for (const TrialRun::Difference* each : unexplained) {
    for (const std::size_t node : each->nodes) {
      findings[node].verdict = NodeVerdict::unaccounted;
      if (findings[node].remark.empty()) findings[node].remark = each->remark;
    }
    if (!each->output.empty()) differences.push_back(each->output);
  }
}

// Adds the outputs that hold other results, and the operations for which nothing stands.
void compare_results(const PlacedFile& file, NodeChecks& checks, std::vector<std::string>& differences) {
  const auto is_saturated = [&](const OnnxNode& quantiser, std::int32_t operation) {
    return checks.is_saturated(quantiser, operation);
  };
  compare_outputs(file.model.graph, file.written, file.wiring, file.wires, is_saturated, differences);
  std::ranges::move(checks.other_outputs(), std::back_inserter(differences));
  const auto angles =
      file.written.angles.empty() ? std::set<std::int32_t>() : operations_of_angles(file.operations, file.wiring);
  const auto without_effect = operations_without_effect(file.program, file.forms);
  const auto is_replaced = [&](std::int32_t operation) {
    return angles.contains(operation) || without_effect.contains(operation) ||
           file.wires.is_dropped(operation, is_saturated);
  };
  std::ranges::move(dropped_operations(file.nodes, file.model.graph, file.placement.placed, file.operations,
                                       file.wiring, file.reference, file.tensors, is_replaced),
                    std::back_inserter(differences));
}

// Makes tensors unaccounted that are read the other way round than in the program, or added where it multiplies.
void refuse_readings(const FileTensors& tensors, const std::vector<ProgramForm>& forms,
                     std::vector<Derivation>& derivations) {
  const Orientations orientations(forms);
  const ParameterRoles roles(forms);
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    const auto& expression = derivations[i].expression;
    if (!expression) continue;
    const auto number = static_cast<TensorNumber>(i);
    std::string remark = roles.difference(tensors, number, *expression);
    if (orientations.is_transposed(tensors, number, *expression))
      remark = "read the other way round than in the program: " + to_text(*expression);
    if (!remark.empty()) derivations[i] = {Verdict::unaccounted, {}, std::move(remark), derivations[i].bytes};
  }
}

// As node_findings(), for a file that is written out.
std::vector<NodeFinding> findings_of(const onnx_file::OnnxSummary& model, const WrittenOut& written,
                                     const Program& program, const std::vector<ProgramForm>& forms,
                                     const Weights& weights, const FileTensors& tensors, Contents& contents,
                                     std::vector<Derivation>& derivations, std::vector<std::string>& differences) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const match::Reference reference = match::make_reference(program, opset_of(model));
  match::MatchReport report = match_model(model, reference);
  const OperationForms operations(forms);
  const Wiring wiring(program, forms);
  Sizes sizes(tensors, derivations);
  std::vector<NodeVerdict> size_verdicts;
  for (const OnnxNode* node : nodes) size_verdicts.push_back(sizes.add(*node));
  const Cuts cuts(operations, tensors, contents);
  const Repetitions repetitions(operations, tensors, contents);
  Placement placement = Placing(nodes, reference, tensors, derivations, operations, wiring, cuts, repetitions)
                            .run(report, size_verdicts, model.graph, written);
  const FileWiring wires(nodes, model.graph, written, wiring, tensors, placement.placed);
  const PlacedFile file{model,      written, nodes, forms,       reference, tensors, contents, derivations,
                        operations, wiring,  cuts,  repetitions, placement, wires,   program,  weights};
  NodeChecks checks(file);
  std::vector<NodeFinding> findings;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    findings.push_back(judged(i, size_verdicts[i], file, checks));
    const match::NodeMatch* const found = i < report.nodes.size() ? &report.nodes[i] : nullptr;
    findings.back().modules = modules_of(placement.placed[i], found, reference);
  }
  accept_masks(file, checks, findings);
  accept_steps(file, program, findings);
  accept_weights(file, program, findings);
  accept_results(file, checks, findings);
  compare_numbers(checks, findings, differences);
  compare_results(file, checks, differences);
  refuse_misplaced(nodes, report, reference, tensors, wiring, derivations);
  refuse_readings(tensors, forms, derivations);
  return findings;
}

// A fused node is as good as the worst of the nodes that it stands for.
void merge(NodeFinding& whole, const NodeFinding& part) {
  static constexpr std::array<NodeVerdict, 4> by_weight = {NodeVerdict::size, NodeVerdict::movement,
                                                           NodeVerdict::operation, NodeVerdict::unaccounted};
  const auto weight = [](NodeVerdict verdict) { return std::ranges::find(by_weight, verdict) - by_weight.begin(); };
  if (weight(part.verdict) > weight(whole.verdict)) whole.verdict = part.verdict;
  if (whole.remark.empty()) whole.remark = part.remark;
  for (const std::string& module : part.modules) {
    if (std::ranges::find(whole.modules, module) == whole.modules.end()) whole.modules.push_back(module);
  }
}

}  // namespace

std::vector<NodeFinding> node_findings(const onnx_file::OnnxSummary& model, const Program& program,
                                       const std::vector<ProgramForm>& forms, const Weights& weights,
                                       const FileTensors& tensors, Contents& contents,
                                       std::vector<Derivation>& derivations, std::vector<std::string>& differences) {
  std::ranges::move(ambiguities(model), std::back_inserter(differences));
  const WrittenOut written = write_out(model);
  if (!written.model)
    return findings_of(model, written, program, forms, weights, tensors, contents, derivations, differences);
  const FileTensors parts(*written.model);
  const auto of_parts =
      findings_of(*written.model, written, program, forms, weights, parts, contents, derivations, differences);
  std::vector<NodeFinding> findings(onnx_file::all_nodes(model.graph).size(), NodeFinding{NodeVerdict::size});
  for (std::size_t i = 0; i < of_parts.size(); ++i) merge(findings[written.nodes[i]], of_parts[i]);
  return findings;
}

}  // namespace whence::comparison
