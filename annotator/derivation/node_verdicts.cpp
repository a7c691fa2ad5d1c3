#include "annotator/derivation/node_verdicts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/file_wiring.h"
#include "annotator/derivation/node_counts.h"
#include "annotator/derivation/operation_forms.h"
#include "annotator/derivation/operator_fit.h"
#include "annotator/derivation/orientation.h"
#include "annotator/derivation/parameter_places.h"
#include "annotator/derivation/saturation.h"
#include "annotator/derivation/sizes.h"
#include "annotator/derivation/wiring.h"
#include "annotator/match/match.h"
#include "annotator/match/op_class.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/node_attributes.h"
#include "schema/printable.h"

namespace whence::derivation {

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

int opset_of(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return static_cast<int>(opset.version);
  }
  return 0;
}

// Returns true for a conversion to integers or conditions, which keeps less than the numbers.
bool truncates(const OnnxNode& node) {
  if (node.op_type != "Cast") return false;
  const DType to = from_onnx(static_cast<int>(onnx_file::integer_attribute(node, "to", 0)));
  return is_integral(to) || to == DType::boolean;
}

void compare_outputs(const onnx_file::OnnxGraph& graph, const Wiring& program, const FileWiring& file,
                     std::vector<std::string>& differences) {
  if (graph.outputs.size() != program.outputs()) {
    differences.push_back("the file has " + std::to_string(graph.outputs.size()) + " outputs, the program " +
                          std::to_string(program.outputs()));
    return;
  }
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto makers = file.certain_makers_of(graph.outputs[i].name);
    if (makers.empty() || program.is_output_of(i, makers)) continue;
    differences.push_back("the output '" + printable(graph.outputs[i].name) + "' is not result " + std::to_string(i) +
                          " of the program");
  }
}

// Adds the operation that an operator of ONNX Runtime computes by its attribute `activation`.
void add_fused_activations(const std::vector<const OnnxNode*>& nodes, const OperationForms& operations,
                           const Wiring& program, std::vector<Placed>& placed) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string_view activation = onnx_file::text_attribute(*nodes[i], "activation");
    if (activation.empty() || nodes[i]->domain.empty() || placed[i].operations.empty()) continue;
    const std::vector<std::int32_t> own = placed[i].operations;
    for (const std::int32_t operation : program.readers_of(own)) {
      const bool is_new = std::ranges::find(own, operation) == own.end();
      if (is_new && operations.has(operation, match::op_class(activation))) placed[i].operations.push_back(operation);
    }
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

}  // namespace

std::vector<NodeFinding> node_findings(const onnx_file::OnnxSummary& model, const Program& program,
                                       const std::vector<ProgramForm>& forms, const FileTensors& tensors,
                                       Contents& contents, std::vector<Derivation>& derivations,
                                       std::vector<std::string>& differences) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const match::Reference reference = match::make_reference(program, opset_of(model));
  const match::MatchReport report = match_model(model, reference);
  const OperationForms operations(forms);
  const Wiring wiring(program, forms);
  Sizes sizes(tensors, derivations);
  std::vector<Placed> placed;
  std::vector<NodeFinding> findings;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    NodeFinding finding{sizes.add(*nodes[i])};
    Placed place{.is_size = finding.verdict == NodeVerdict::size};
    if (i < report.nodes.size()) {
      for (const match::UnitIndex unit : report.nodes[i].units) place.operations.push_back(unit.number());
      place.is_certain = report.nodes[i].confidence <= origin::Confidence::matched;
    }
    placed.push_back(std::move(place));
    findings.push_back(std::move(finding));
  }
  // The match is less strict: where its answer does not fit, the wiring is asked.
  const std::vector<Placed> matched = placed;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_asked = findings[i].verdict != NodeVerdict::size && !placed[i].operations.empty() &&
                          !is_movement(nodes[i]->op_type) &&
                          !misfit(*nodes[i], placed[i].operations, reference).empty();
    if (is_asked) placed[i] = {.is_size = placed[i].is_size};
  }
  FileWiring file(nodes, model.graph, wiring, tensors, placed);
  file.place_remaining(
      [&](const OnnxNode& node, std::int32_t operation) { return misfit(node, {operation}, reference).empty(); });
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!placed[i].operations.empty()) continue;
    const auto readers = nodes[i]->op_type.ends_with("Mul") ? file.operations_after(i) : std::vector<std::int32_t>();
    const bool fits = !readers.empty() && misfit(*nodes[i], readers, reference).empty();
    placed[i] = fits ? Placed{readers} : matched[i];
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool chooses = findings[i].verdict == NodeVerdict::movement && !is_movement(nodes[i]->op_type);
    const bool is_placed = !placed[i].operations.empty() && misfit(*nodes[i], placed[i].operations, reference).empty();
    if (!chooses || is_placed || nodes[i]->inputs.empty()) continue;
    const auto readers = readers_of_parameter(nodes[i]->inputs[0], tensors, derivations, reference);
    if (!readers.empty() && misfit(*nodes[i], readers, reference).empty()) placed[i] = {readers};
  }
  add_fused_activations(nodes, operations, wiring, placed);
  const Saturation saturation(tensors, contents);
  const auto is_saturated = [&](const OnnxNode& quantiser, std::int32_t operation) {
    const auto bounds = operations.bounds(operation);
    return bounds && saturation.is_within(quantiser, *bounds);
  };
  const Surplus surplus(nodes, placed, operations, tensors);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    NodeFinding& finding = findings[i];
    const auto& own = placed[i].operations;
    finding.modules = modules_of(placed[i], i < report.nodes.size() ? &report.nodes[i] : nullptr, reference);
    const bool is_size = finding.verdict == NodeVerdict::size;
    const bool chooses = finding.verdict == NodeVerdict::movement && !is_movement(nodes[i]->op_type);
    if (chooses || (!is_size && truncates(*nodes[i]) && file.reads_numbers(i))) {
      finding.remark = own.empty() ? "the program has no such operation" : misfit(*nodes[i], own, reference);
      finding.verdict = NodeVerdict::operation;
    } else if (is_movement(nodes[i]->op_type) || is_rescaling(*nodes[i], tensors)) {
      finding.verdict = own.empty() ? NodeVerdict::movement : NodeVerdict::operation;
      finding.remark = unknown_domain(*nodes[i]);
    } else if (!own.empty() && !is_size) {
      // Exporters compute sizes in ways of their own.
      finding.remark = misfit(*nodes[i], own, reference);
      if (finding.remark.empty()) finding.remark = operations.difference(*nodes[i], own, opset_of(model));
      if (finding.remark.empty()) finding.remark = operations.exchanged(*nodes[i], own, tensors);
      if (finding.remark.empty()) finding.remark = file.difference(i, is_saturated);
      if (finding.remark.empty()) finding.remark = surplus.of(i);
      finding.verdict = NodeVerdict::operation;
    }
    if (!finding.remark.empty()) finding.verdict = NodeVerdict::unaccounted;
    if (is_opaque(*nodes[i], model)) finding.verdict = NodeVerdict::unaccounted;
  }
  compare_outputs(model.graph, wiring, file, differences);
  std::ranges::move(
      dropped_operations(nodes, model.graph, placed, operations, wiring, reference, tensors,
                         [&](std::int32_t operation) { return file.is_dropped(operation, is_saturated); }),
      std::back_inserter(differences));
  refuse_misplaced(nodes, report, reference, tensors, wiring, derivations);
  const Orientations orientations(forms);
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    if (!orientations.is_transposed(tensors, static_cast<TensorNumber>(i), derivations[i])) continue;
    derivations[i] = {Verdict::unaccounted,
                      {},
                      "read the other way round than in the program: " + to_text(*derivations[i].expression),
                      derivations[i].bytes};
  }
  return findings;
}

}  // namespace whence::derivation
