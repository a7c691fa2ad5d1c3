#include "annotator/derivation/node_verdicts.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "annotator/derivation/distinctive_operators.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"
#include "schema/element_count.h"
#include "schema/flat_map.h"

namespace whence::derivation {

using onnx_file::OnnxNode;

std::string_view name_of(NodeVerdict verdict) {
  static constexpr std::array<std::string_view, 4> names = {"operation", "movement", "size", "unaccounted"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

// Operators that keep each element, or convert it to another type.
bool is_movement(std::string_view op_type) {
  static const std::set<std::string_view> movements = {
      "Cast",      "CastLike",       "Constant",    "DequantizeLinear", "DynamicQuantizeLinear",
      "Expand",    "Flatten",        "Identity",    "QuantizeLinear",   "Reshape",
      "Squeeze",   "Transpose",      "Split",       "ReorderInput",     "ReorderOutput",
      "Unsqueeze", "MemcpyFromHost", "MemcpyToHost"};
  return movements.contains(op_type);
}

// Finds values that depend on sizes and constants alone, and elements of parameters that constants pick.
class Sizes {
 public:
  Sizes(const FileTensors& tensors, const std::vector<Derivation>& derivations) {
    for (std::size_t i = 0; i < derivations.size(); ++i) {
      const FileTensor& tensor = tensors.all()[i];
      const DType dtype = from_onnx(tensor.tensor->data_type);
      const bool is_plain =
          derivations[i].verdict == Verdict::constant || is_integral(dtype) || dtype == DType::boolean;
      (is_plain ? sizes_ : parameters_).insert(tensor.name);
    }
  }

  // Nodes come in order: a node after those that it reads from.
  NodeVerdict add(const OnnxNode& node) {
    static const std::set<std::string_view> picks = {
        "Gather", "GatherBlockQuantized", "GatherElements", "GatherND", "Slice", "Concat"};
    if (!node.subgraphs.empty()) return NodeVerdict::unaccounted;
    const bool starts = node.op_type == "Shape" || node.op_type == "Size";
    const auto all_in = [&](const auto& is_known) {
      return std::ranges::all_of(node.inputs, [&](std::string_view input) { return input.empty() || is_known(input); });
    };
    if (starts || all_in([&](std::string_view input) { return sizes_.contains(input); })) {
      sizes_.insert(node.outputs.begin(), node.outputs.end());
      return NodeVerdict::size;
    }
    const bool is_fixed =
        all_in([&](std::string_view input) { return sizes_.contains(input) || parameters_.contains(input); });
    if (!is_fixed || !(picks.contains(node.op_type) || is_movement(node.op_type))) return NodeVerdict::unaccounted;
    parameters_.insert(node.outputs.begin(), node.outputs.end());
    return NodeVerdict::movement;
  }

 private:
  FlatSet<std::string_view> sizes_, parameters_;
};

// Returns true for a node whose meaning is not read: a call of a local function, and numbers outside of tensors.
bool is_opaque(const OnnxNode& node, const onnx_file::OnnxSummary& model) {
  const bool is_call = std::ranges::any_of(model.functions, [&](const onnx_file::OnnxFunction& function) {
    return function.name == node.op_type && function.domain == node.domain;
  });
  if (is_call || node.op_type != "Constant") return is_call;
  return std::ranges::any_of(node.attributes, [](const onnx_file::OnnxAttribute& attribute) {
    return attribute.name == "value_floats" || attribute.name == "sparse_value";
  });
}

int opset_of(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return static_cast<int>(opset.version);
  }
  return 0;
}

// Returns the parameters that a node's operations read, with their numbers of elements; empty if its operations are
// unknown.
std::map<std::string, std::int64_t, std::less<>> parameters_of(const match::NodeMatch& node,
                                                               const match::Reference& reference) {
  std::map<std::string, std::int64_t, std::less<>> names;
  for (const match::UnitIndex unit : node.units) {
    for (const match::ParameterIndex parameter : reference.parameters_of_unit[unit]) {
      for (const std::string& name : reference.parameters[parameter].names) {
        names.emplace(name, element_count(reference.parameters[parameter].dims));
      }
    }
  }
  return names;
}

std::vector<std::string> modules_of(const match::NodeMatch& node, const match::Reference& reference) {
  std::set<std::string> modules;
  for (const match::UnitIndex unit : node.units) {
    const match::ScopeIndex scope = reference.units[unit].scope;
    if (scope.exists()) modules.insert(reference.scopes[scope].path);
  }
  if (modules.empty() && node.scope.exists()) modules.insert(reference.scopes[node.scope].path);
  return {modules.begin(), modules.end()};
}

void refuse_misplaced(const std::vector<const OnnxNode*>& nodes, const match::MatchReport& report,
                      const match::Reference& reference, const FileTensors& tensors,
                      std::vector<Derivation>& derivations) {
  FlatMap<const OnnxNode*, std::size_t> numbers;
  for (std::size_t i = 0; i < nodes.size(); ++i) numbers.emplace(nodes[i], i);
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    Derivation& derivation = derivations[i];
    if (!derivation.expression) continue;
    for (const Use& use : tensors.all()[i].uses) {
      const auto number = numbers.find(use.node);
      if (number == numbers.end() || number->second >= report.nodes.size()) continue;
      if (report.nodes[number->second].confidence > origin::Confidence::matched) continue;
      const auto allowed = parameters_of(report.nodes[number->second], reference);
      if (allowed.empty()) continue;
      std::string other;
      for_each_parameter(*derivation.expression, [&](const ParameterStep& step) {
        // The operation reads what another one computed.
        if (step.is_computed()) return;
        const bool fits =
            allowed.contains(step.name) ||
            std::ranges::any_of(step.same_bytes, [&](const std::string& name) { return allowed.contains(name); });
        // A parameter is misplaced only where another one of its size belongs.
        const bool is_exchanged =
            std::ranges::any_of(allowed, [&](const auto& each) { return each.second == element_count(step.dims); });
        if (!fits && is_exchanged && other.empty()) other = step.name;
      });
      if (other.empty()) continue;
      derivation = {Verdict::unaccounted,
                    {},
                    "holds " + other + " where the program reads " + allowed.begin()->first,
                    derivation.bytes};
      break;
    }
  }
}

}  // namespace

std::vector<NodeFinding> node_findings(const onnx_file::OnnxSummary& model, const Program& program,
                                       const FileTensors& tensors, std::vector<Derivation>& derivations) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const match::Reference reference = match::make_reference(program, opset_of(model));
  const match::MatchReport report = match_model(model, reference);
  Sizes sizes(tensors, derivations);
  std::vector<NodeFinding> findings;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeVerdict fixed = sizes.add(*nodes[i]);
    const bool is_placed = i < report.nodes.size() && !report.nodes[i].units.empty();
    NodeFinding finding{is_placed && fits_operations(*nodes[i], report.nodes[i], reference) ? NodeVerdict::operation
                        : is_movement(nodes[i]->op_type)                                    ? NodeVerdict::movement
                                                                                            : fixed};
    if (is_opaque(*nodes[i], model)) finding.verdict = NodeVerdict::unaccounted;
    if (i < report.nodes.size()) finding.modules = modules_of(report.nodes[i], reference);
    findings.push_back(std::move(finding));
  }
  refuse_misplaced(nodes, report, reference, tensors, derivations);
  return findings;
}

}  // namespace whence::derivation
