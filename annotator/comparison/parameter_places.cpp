#include "annotator/comparison/parameter_places.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "annotator/derivation/invert.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/origin/confidence.h"
#include "schema/element_count.h"
#include "schema/flat_map.h"

namespace whence::comparison {

using derivation::ByChannelStep;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::is_movement;
using derivation::multiplies;
using derivation::no_tensor;
using derivation::ParameterStep;
using derivation::QuantiseBiasStep;
using derivation::Use;
using derivation::Verdict;

using onnx_file::OnnxNode;

namespace {

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

// Returns true if a node reads a value that the program computes from parameters, and its operations do not. Products
// have absorbed the operations after them.
bool reads_computed_elsewhere(const Expression& expression, const OnnxNode& node, const match::NodeMatch& match,
                              const Wiring& program) {
  std::set<std::int32_t> own;
  for (const match::UnitIndex unit : match.units) own.insert(program.role_of(unit.number()));
  if (own.empty()) return false;
  static const std::set<std::string_view> single = {"Add", "Sub", "Mul", "Div"};
  if (!single.contains(node.op_type)) {
    for (int step = 0; step < 2; ++step) {
      for (const std::int32_t reader : program.readers_of({own.begin(), own.end()}))
        own.insert(program.role_of(reader));
    }
  }
  bool is_elsewhere = false;
  for_each_parameter(expression, [&](const ParameterStep& parameter) {
    const bool fits = std::ranges::any_of(parameter.readers,
                                          [&](std::int32_t reader) { return own.contains(program.role_of(reader)); });
    is_elsewhere = is_elsewhere || (parameter.is_computed() && !parameter.readers.empty() && !fits);
  });
  return is_elsewhere;
}

// Removes the parameters of a norm that do not belong to this input of its node: a bias is no factor, and a weight is
// not added. One operation reads both.
void remove_other_part(std::map<std::string, std::int64_t, std::less<>>& allowed, const Use& use) {
  static constexpr std::string_view weight = ".weight", bias = ".bias";
  const std::string_view op_type = use.node->op_type;
  const bool is_norm = op_type.ends_with("Normalization");
  const std::size_t scale_slot = op_type.starts_with("Skip") ? 2 : 1;
  const bool adds = is_norm ? use.slot == scale_slot + 1 : op_type == "Add" || op_type == "QLinearAdd";
  const bool multiplies = is_norm ? use.slot == scale_slot : op_type == "Mul" || op_type == "QLinearMul";
  if (!adds && !multiplies) return;
  const std::string_view wrong = adds ? weight : bias, right = adds ? bias : weight;
  std::erase_if(allowed, [&](const auto& each) {
    const auto& [name, elements] = each;
    if (!name.ends_with(wrong)) return false;
    // A fused norm also reads the bias of the product before it, at an input of its own.
    if (is_norm && multiplies) return true;
    const auto other = allowed.find(name.substr(0, name.size() - wrong.size()) + std::string(right));
    return other != allowed.end() && other->second == elements;
  });
}

bool multiplies_by_channel(const Expression& expression) {
  return std::holds_alternative<ByChannelStep>(expression.step) ||
         std::ranges::any_of(expression.inputs, multiplies_by_channel);
}

// Returns true if operations choose elements of a parameter, and those of the node read these: a product of two
// parameters, such as of an embedding of positions, in which only one is an operand itself.
bool reads_chosen(const ParameterStep& parameter, const match::NodeMatch& match, const match::Reference& reference,
                  const Wiring& program) {
  std::vector<std::int32_t> own, choosing;
  for (const match::UnitIndex unit : match.units) own.push_back(unit.number());
  for (const match::ReferenceParameter& each : reference.parameters) {
    if (std::ranges::find(each.names, parameter.name) == each.names.end()) continue;
    for (const match::UnitIndex unit : each.units) choosing.push_back(unit.number());
  }
  return !choosing.empty() && program.reach(choosing, own, Wiring::Between::selections);
}

// Adds the operations that read the parameters of an expression.
void add_readers(std::set<std::int32_t>& readers, const Expression& expression, const match::Reference& reference) {
  for_each_parameter(expression, [&](const ParameterStep& step) {
    readers.insert(step.readers.begin(), step.readers.end());
    for (const match::ReferenceParameter& parameter : reference.parameters) {
      const bool is_read = std::ranges::any_of(parameter.names, [&](const std::string& name) {
        return name == step.name || std::ranges::find(step.same_bytes, name) != step.same_bytes.end();
      });
      if (!is_read) continue;
      for (const match::UnitIndex unit : parameter.units) readers.insert(unit.number());
    }
  });
}

}  // namespace

std::set<std::int32_t> readers_of_folded(const Expression& expression, const match::Reference& reference) {
  std::set<std::int32_t> readers;
  if (std::holds_alternative<ByChannelStep>(expression.step)) add_readers(readers, expression.inputs.at(1), reference);
  for (const Expression& input : expression.inputs) readers.merge(readers_of_folded(input, reference));
  return readers;
}

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
  add_readers(readers, *expression, reference);
  return {readers.begin(), readers.end()};
}

namespace {

// What is read at one place of a file: the parameter that the program does not read there, and one that it reads.
struct Misplaced {
  std::string parameter = {}, expected = {};
  bool is_computed_elsewhere = false;
};

class Places {
 public:
  Places(const std::vector<const OnnxNode*>& nodes, const match::MatchReport& report, const match::Reference& reference,
         const Wiring& program)
      : report_(report), reference_(reference), program_(program) {
    for (std::size_t i = 0; i < nodes.size(); ++i) numbers_.emplace(nodes[i], i);
  }

  // Returns what is wrong about one reader of a tensor; nullopt if the tensor fits, or the place is unknown.
  // `expression`: the tensor's, or the part of it to look at.
  std::optional<Misplaced> at(const Use& use, const Expression& expression) const {
    const auto number = numbers_.find(use.node);
    if (number == numbers_.end() || number->second >= report_.nodes.size()) return std::nullopt;
    const match::NodeMatch& match = report_.nodes[number->second];
    if (match.confidence > origin::Confidence::matched) return std::nullopt;
    if (reads_computed_elsewhere(expression, *use.node, match, program_))
      return Misplaced{.is_computed_elsewhere = true};
    auto allowed = parameters_of(match.units, reference_);
    if (allowed.empty()) return std::nullopt;
    // Runtimes fuse a bias or a norm with the operator after it, and tools fold norms and factors into products.
    const bool is_fused =
        origin::is_of_runtime(use.node->domain) || has_fold(expression) || multiplies_by_channel(expression);
    if (is_fused) allowed.merge(parameters_of(neighbours_of(match, program_), reference_));
    if (is_whole_parameter(expression)) remove_other_part(allowed, use);
    std::string other;
    for_each_parameter(expression, [&](const ParameterStep& step) {
      // The operation reads what another one computed.
      if (step.is_computed() || !other.empty()) return;
      const bool fits =
          allowed.contains(step.name) ||
          std::ranges::any_of(step.same_bytes, [&](const std::string& name) { return allowed.contains(name); });
      // A parameter is misplaced only where another one of its size belongs.
      const bool is_exchanged =
          std::ranges::any_of(allowed, [&](const auto& each) { return each.second == element_count(step.dims); });
      const bool is_moved = is_exchanged && std::ranges::count(use.node->inputs, use.node->inputs[use.slot]) == 1 &&
                            reads_chosen(step, match, reference_, program_);
      if (!fits && is_exchanged && !is_moved) other = step.name;
    });
    return other.empty() ? std::nullopt : std::optional(Misplaced{other, allowed.begin()->first});
  }

 private:
  const match::MatchReport& report_;
  const match::Reference& reference_;
  const Wiring& program_;
  FlatMap<const OnnxNode*, std::size_t> numbers_;
};

}  // namespace

void refuse_misplaced(const std::vector<const OnnxNode*>& nodes, const match::MatchReport& report,
                      const match::Reference& reference, const FileTensors& tensors, const Wiring& program,
                      std::vector<Derivation>& derivations) {
  const Places places(nodes, report, reference, program);
  for (std::size_t i = 0; i < derivations.size(); ++i) {
    Derivation& derivation = derivations[i];
    if (!derivation.expression) continue;
    const auto uses = tensors.final_uses(tensors.all()[i]);
    // Equal biases are stored once, with the scale of one of their products: the others have weights of their own.
    const bool is_bias = std::holds_alternative<QuantiseBiasStep>(derivation.expression->step);
    const bool is_shared =
        is_bias && std::ranges::any_of(uses, [&](const Use& use) { return !places.at(use, *derivation.expression); });
    for (const Use& use : uses) {
      auto misplaced = places.at(use, *derivation.expression);
      if (misplaced && is_shared) {
        const auto* const step = std::get_if<QuantiseBiasStep>(&derivation.expression->step);
        misplaced = step->is_scale ? std::nullopt : places.at(use, derivation.expression->inputs.at(0));
      }
      if (!misplaced) continue;
      const std::string remark =
          misplaced->is_computed_elsewhere
              ? "read at another place than in the program: " + to_text(*derivation.expression)
              : "holds " + misplaced->parameter + " where the program reads " + misplaced->expected;
      derivation = {Verdict::unaccounted, {}, remark, derivation.bytes};
      break;
    }
  }
}

}  // namespace whence::comparison
