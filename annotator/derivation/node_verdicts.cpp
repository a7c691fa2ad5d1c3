#include "annotator/derivation/node_verdicts.h"

#include <algorithm>
#include <array>
#include <set>

#include "annotator/derivation/file_tensors.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"
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

// Finds values that depend on sizes and constants alone.
class Sizes {
 public:
  explicit Sizes(const onnx_file::OnnxSummary& model) {
    for (const onnx_file::OnnxTensor& tensor : model.graph.initializers) values_.insert(tensor.name);
  }

  // Nodes come in order: a node after those that it reads from.
  bool add(const OnnxNode& node) {
    const bool starts = node.op_type == "Shape" || node.op_type == "Size";
    const bool follows = node.subgraphs.empty() && std::ranges::all_of(node.inputs, [&](std::string_view input) {
                           return input.empty() || values_.contains(input);
                         });
    if (starts || follows) values_.insert(node.outputs.begin(), node.outputs.end());
    return starts || follows;
  }

 private:
  FlatSet<std::string_view> values_;
};

int opset_of(const onnx_file::OnnxSummary& model) {
  for (const onnx_file::OnnxOpset& opset : model.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") return static_cast<int>(opset.version);
  }
  return 0;
}

// Returns the names of the parameters that a node's operations read; empty if its operations are unknown.
std::set<std::string, std::less<>> parameters_of(const match::NodeMatch& node, const match::Reference& reference) {
  std::set<std::string, std::less<>> names;
  for (const match::UnitIndex unit : node.units) {
    for (const match::ParameterIndex parameter : reference.parameters_of_unit[unit]) {
      const auto& all = reference.parameters[parameter].names;
      names.insert(all.begin(), all.end());
    }
  }
  return names;
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
        if (!fits && other.empty()) other = step.name;
      });
      if (other.empty()) continue;
      derivation = {Verdict::unaccounted,
                    {},
                    "holds " + other + " where the program reads " + *allowed.begin(),
                    derivation.bytes};
      break;
    }
  }
}

}  // namespace

std::vector<NodeVerdict> node_verdicts(const onnx_file::OnnxSummary& model, const Program& program,
                                       const FileTensors& tensors, std::vector<Derivation>& derivations) {
  const std::vector<const OnnxNode*> nodes = onnx_file::all_nodes(model.graph);
  const match::Reference reference = match::make_reference(program, opset_of(model));
  const match::MatchReport report = match_model(model, reference);
  Sizes sizes(model);
  std::vector<NodeVerdict> verdicts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_size = sizes.add(*nodes[i]);
    const bool is_known = i < report.nodes.size() && !report.nodes[i].units.empty();
    verdicts.push_back(is_known                         ? NodeVerdict::operation
                       : is_movement(nodes[i]->op_type) ? NodeVerdict::movement
                       : is_size                        ? NodeVerdict::size
                                                        : NodeVerdict::unaccounted);
  }
  refuse_misplaced(nodes, report, reference, tensors, derivations);
  return verdicts;
}

}  // namespace whence::derivation
