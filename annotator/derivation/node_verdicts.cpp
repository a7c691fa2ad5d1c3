#include "annotator/derivation/node_verdicts.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/file_wiring.h"
#include "annotator/derivation/invert.h"
#include "annotator/derivation/operation_forms.h"
#include "annotator/derivation/operator_fit.h"
#include "annotator/derivation/orientation.h"
#include "annotator/derivation/wiring.h"
#include "annotator/match/match.h"
#include "annotator/match/op_class.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/node_attributes.h"
#include "schema/element_count.h"
#include "schema/flat_map.h"
#include "schema/printable.h"

namespace whence::derivation {

using onnx_file::OnnxNode;

std::string_view name_of(NodeVerdict verdict) {
  static constexpr std::array<std::string_view, 4> names = {"operation", "movement", "size", "unaccounted"};
  return names[static_cast<std::size_t>(verdict)];
}

namespace {

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
    if (node.inputs.empty() && node.op_type != "Constant") return NodeVerdict::unaccounted;
    if (node.op_type == "EyeLike" || node.op_type.starts_with("Random")) return NodeVerdict::unaccounted;
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

// Returns the nodes on which an output depends, and all in bodies.
std::set<const OnnxNode*> used_nodes(const onnx_file::OnnxGraph& graph, const FileTensors& tensors) {
  std::set<const OnnxNode*> used;
  std::vector<std::string_view> open;
  for (const onnx_file::OnnxValue& output : graph.outputs) open.push_back(output.name);
  while (!open.empty()) {
    const OnnxNode* const maker = tensors.producer(open.back());
    open.pop_back();
    if (maker == nullptr || !used.insert(maker).second) continue;
    open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
    for (const onnx_file::OnnxGraph& body : maker->subgraphs) {
      for (const OnnxNode* node : onnx_file::all_nodes(body)) {
        used.insert(node);
        open.insert(open.end(), node->inputs.begin(), node->inputs.end());
      }
    }
  }
  return used;
}

// Adds the operations for which no node stands. Tools compute equal calls of a module once, and integers need no Relu:
// a quantiser cuts off negative numbers with the zero point.
void find_dropped(const std::vector<const OnnxNode*>& nodes, const std::vector<Placed>& placed,
                  const OperationForms& operations, const Wiring& program, const match::Reference& reference,
                  const onnx_file::OnnxGraph& graph, const FileTensors& tensors,
                  std::vector<std::string>& differences) {
  const std::set<const OnnxNode*> used = used_nodes(graph, tensors);
  std::set<std::int32_t> standing;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!used.contains(nodes[i])) continue;
    for (const std::int32_t operation : placed[i].operations) standing.insert(program.role_of(operation));
  }
  const bool is_quantised = std::ranges::any_of(nodes, [](const OnnxNode* node) {
    return node->op_type == "QuantizeLinear" || node->op_type.starts_with("QLinear");
  });
  for (const std::int32_t operation : operations.computing()) {
    if (standing.contains(program.role_of(operation))) continue;
    const auto& classes = reference.classes_of_unit[match::UnitIndex(operation)];
    const bool is_cut = std::ranges::any_of(
        classes, [](std::uint16_t each) { return each == match::op_class("Relu") || each == match::op_class("Clip"); });
    if (is_quantised && is_cut) continue;
    const match::ReferenceUnit& unit = reference.units[match::UnitIndex(operation)];
    const std::string module = unit.scope.exists() ? reference.scopes[unit.scope].path : "";
    differences.push_back("no node stands for " + unit.name + (module.empty() ? "" : " of " + module));
  }
}

// Returns the operations that read the parameter of a constant value, perhaps moved or dequantised; empty if there is
// none.
std::vector<std::int32_t> readers_of_parameter(std::string_view value, const FileTensors& tensors,
                                               const std::vector<Derivation>& derivations,
                                               const match::Reference& reference) {
  while (tensors.find(value) == no_tensor) {
    const OnnxNode* const maker = tensors.producer(value);
    if (maker == nullptr || !is_movement(maker->op_type) || maker->inputs.empty()) return {};
    value = maker->inputs[0];
  }
  const auto& expression = derivations[static_cast<std::size_t>(tensors.find(value))].expression;
  if (!expression) return {};
  std::set<std::int32_t> readers;
  for_each_parameter(*expression, [&](const ParameterStep& step) {
    for (const match::ReferenceParameter& parameter : reference.parameters) {
      const bool is_read = std::ranges::any_of(parameter.names, [&](const std::string& name) {
        return name == step.name || std::ranges::find(step.same_bytes, name) != step.same_bytes.end();
      });
      if (!is_read) continue;
      for (const match::UnitIndex unit : parameter.units) readers.insert(unit.number());
    }
  });
  return {readers.begin(), readers.end()};
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

// Returns the parameters that a node's operations read, with their numbers of elements; empty if its operations are
// unknown.
std::map<std::string, std::int64_t, std::less<>> parameters_of(const std::vector<match::UnitIndex>& units,
                                                               const match::Reference& reference) {
  std::map<std::string, std::int64_t, std::less<>> names;
  for (const match::UnitIndex unit : units) {
    for (const match::ParameterIndex parameter : reference.parameters_of_unit[unit]) {
      for (const std::string& name : reference.parameters[parameter].names) {
        names.emplace(name, element_count(reference.parameters[parameter].dims));
      }
    }
  }
  return names;
}

// Returns true for the products by which a quantiser turns integer sums into numbers: the scales of input and weight,
// and their product times the sums.
bool is_rescaling(const OnnxNode& node, const FileTensors& tensors) {
  if (node.op_type != "Mul" || node.inputs.size() != 2) return false;
  const auto made_by = [&](std::string_view value, std::string_view op_type) -> const OnnxNode* {
    const OnnxNode* const maker = tensors.producer(value);
    return maker != nullptr && maker->op_type == op_type && !maker->inputs.empty() ? maker : nullptr;
  };
  const auto is_scale = [&](std::string_view value) {
    const OnnxNode* const quantiser = made_by(value, "DynamicQuantizeLinear");
    return quantiser != nullptr && quantiser->outputs.size() > 1 && value == quantiser->outputs[1];
  };
  const auto is_sum = [&](std::string_view value) {
    const OnnxNode* const cast = made_by(value, "Cast");
    return cast != nullptr && (made_by(cast->inputs[0], "MatMulInteger") || made_by(cast->inputs[0], "ConvInteger"));
  };
  const auto is_product_of_scales = [&](std::string_view value) {
    const OnnxNode* const product = made_by(value, "Mul");
    return product != nullptr && std::ranges::any_of(product->inputs, is_scale);
  };
  return std::ranges::any_of(node.inputs, is_scale) ||
         (is_sum(node.inputs[0]) && is_product_of_scales(node.inputs[1])) ||
         (is_sum(node.inputs[1]) && is_product_of_scales(node.inputs[0]));
}

// Returns true for a conversion to integers or conditions, which keeps less than the numbers.
bool truncates(const OnnxNode& node) {
  if (node.op_type != "Cast") return false;
  const DType to = from_onnx(static_cast<int>(onnx_file::integer_attribute(node, "to", 0)));
  return is_integral(to) || to == DType::boolean;
}

// Finds operations for which the file has more nodes with one operator than any form of the program.
class Surplus {
 public:
  Surplus(const std::vector<const OnnxNode*>& nodes, const std::vector<Placed>& placed,
          const std::vector<NodeFinding>& findings, const OperationForms& operations, const FileTensors& tensors)
      : nodes_(nodes), placed_(placed), operations_(operations) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const bool counts = findings[i].verdict != NodeVerdict::size && !is_rescaling(*nodes[i], tensors);
      if (counts && placed[i].operations.size() == 1) ++counts_[key_of(i)];
    }
  }

  std::string of(std::size_t node) const {
    // Operators on integers are often placed at a neighbour.
    const bool is_counted = is_arithmetic(nodes_[node]->op_type) && !nodes_[node]->op_type.starts_with("QLinear");
    if (placed_[node].operations.size() != 1 || !is_counted) return "";
    const auto [operation, op_class] = key_of(node);
    std::int64_t most = operations_.count(operation, op_class);
    if (most == 0) return "";
    // Exporters write attention with one scaling of each operand, and with a mask that is added.
    const bool is_of_attention = operations_.count(operation, match::op_class("Softmax")) > 0;
    if (is_of_attention && (op_class == match::op_class("Mul") || op_class == match::op_class("Add"))) ++most;
    const std::int64_t count = counts_.at(key_of(node));
    if (count <= most) return "";
    return "one of " + std::to_string(count) + " such nodes for an operation, which the program computes with " +
           std::to_string(most);
  }

 private:
  std::pair<std::int32_t, std::uint16_t> key_of(std::size_t node) const {
    return {placed_[node].operations[0], match::op_class(nodes_[node]->op_type)};
  }

  const std::vector<const OnnxNode*>& nodes_;
  const std::vector<Placed>& placed_;
  const OperationForms& operations_;
  std::map<std::pair<std::int32_t, std::uint16_t>, std::int64_t> counts_;
};

std::string unknown_domain(const OnnxNode& node) {
  if (node.domain.empty() || node.domain == "ai.onnx") return "";
  return "an operator of the domain '" + printable(node.domain) + "', whose meaning is unknown";
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

// Returns the operations before and after those of a node.
std::vector<match::UnitIndex> neighbours_of(const match::NodeMatch& node, const Wiring& program) {
  std::vector<std::int32_t> own;
  for (const match::UnitIndex unit : node.units) own.push_back(unit.number());
  std::set<std::int32_t> all = program.readers_of(own);
  all.merge(program.sources_of(own));
  std::vector<match::UnitIndex> units;
  for (const std::int32_t operation : all) {
    if (operation >= 0) units.emplace_back(operation);
  }
  return units;
}

void refuse_misplaced(const std::vector<const OnnxNode*>& nodes, const match::MatchReport& report,
                      const match::Reference& reference, const FileTensors& tensors, const Wiring& program,
                      std::vector<Derivation>& derivations) {
  FlatMap<const OnnxNode*, std::size_t> numbers;
  for (std::size_t i = 0; i < nodes.size(); ++i) numbers.emplace(nodes[i], i);
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    Derivation& derivation = derivations[i];
    if (!derivation.expression) continue;
    for (const Use& use : tensors.final_uses(tensors.all()[i])) {
      const auto number = numbers.find(use.node);
      if (number == numbers.end() || number->second >= report.nodes.size()) continue;
      if (report.nodes[number->second].confidence > origin::Confidence::matched) continue;
      auto allowed = parameters_of(report.nodes[number->second].units, reference);
      if (allowed.empty()) continue;
      // Runtimes fuse a bias or a norm with the operator after it, and tools fold a norm into the product before it.
      const bool is_fused = origin::is_of_runtime(use.node->domain) || has_fold(*derivation.expression);
      if (is_fused) allowed.merge(parameters_of(neighbours_of(report.nodes[number->second], program), reference));
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
                                       const std::vector<ProgramForm>& forms, const FileTensors& tensors,
                                       std::vector<Derivation>& derivations, std::vector<std::string>& differences) {
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
    if (!chooses || !placed[i].operations.empty() || nodes[i]->inputs.empty()) continue;
    const auto readers = readers_of_parameter(nodes[i]->inputs[0], tensors, derivations, reference);
    if (!readers.empty() && misfit(*nodes[i], readers, reference).empty()) placed[i] = {readers};
  }
  const Surplus surplus(nodes, placed, findings, operations, tensors);
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
      if (!origin::is_of_runtime(nodes[i]->domain)) finding.remark = unknown_domain(*nodes[i]);
    } else if (!own.empty() && !is_size) {
      // Exporters compute sizes in ways of their own.
      finding.remark = misfit(*nodes[i], own, reference);
      if (finding.remark.empty()) finding.remark = operations.difference(*nodes[i], own, opset_of(model));
      if (finding.remark.empty()) finding.remark = operations.exchanged(*nodes[i], own, tensors);
      if (finding.remark.empty()) finding.remark = file.difference(i);
      if (finding.remark.empty()) finding.remark = surplus.of(i);
      finding.verdict = finding.remark.empty() ? NodeVerdict::operation : NodeVerdict::unaccounted;
    }
    if (!finding.remark.empty()) finding.verdict = NodeVerdict::unaccounted;
    if (is_opaque(*nodes[i], model)) finding.verdict = NodeVerdict::unaccounted;
  }
  compare_outputs(model.graph, wiring, file, differences);
  find_dropped(nodes, placed, operations, wiring, reference, model.graph, tensors, differences);
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
