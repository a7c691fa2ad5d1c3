#include "annotator/comparison/stated_numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "annotator/comparison/constant_operands.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/derivation/program_constants.h"
#include "annotator/operators/onnx_operators.h"

namespace whence::comparison {

using derivation::Contents;
using derivation::Derivation;
using derivation::FileTensors;
using derivation::is_arithmetic;
using derivation::rounding_of;
using derivation::Verdict;

namespace {

using graph::Graph;
using graph::GraphNode;
using onnx_file::OnnxNode;
using FormNode = OperationForms::FormNode;

std::optional<double> number_in(const Graph& graph, graph::GraphValueId value) {
  const TensorData* const constant = graph.constant(value);
  return constant == nullptr ? std::nullopt : uniform_number(*constant);
}

// Returns the bounds of Relu, Clip, and Max and Min with a number; nullopt for other operators.
std::optional<std::pair<double, double>> bounds_of(const Graph& graph, const GraphNode& node) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (node.op_type == "Relu") return std::pair(0.0, infinite);
  if ((node.op_type == "Max" || node.op_type == "Min") && node.inputs.size() == 2) {
    auto number = number_in(graph, node.inputs[1]);
    if (!number) number = number_in(graph, node.inputs[0]);
    if (!number) return std::nullopt;
    return node.op_type == "Max" ? std::pair(*number, infinite) : std::pair(-infinite, *number);
  }
  if (node.op_type != "Clip") return std::nullopt;
  const auto stated = [&](std::size_t slot) {
    return slot < node.inputs.size() && node.inputs[slot] != graph::no_value;
  };
  const auto low = stated(1) ? number_in(graph, node.inputs[1]) : -infinite;
  const auto high = stated(2) ? number_in(graph, node.inputs[2]) : infinite;
  return low && high ? std::optional(std::pair(*low, *high)) : std::nullopt;
}

// What a number does in a node.
enum class Part : std::uint8_t { factor, term, exponent, smallest, largest, limit, branch };

std::optional<Part> part_of(std::string_view op_type, std::size_t slot) {
  if (op_type == "Mul" || op_type == "Div") return Part::factor;
  if (op_type == "Add" || op_type == "Sub") return Part::term;
  if (op_type == "Pow" && slot == 1) return Part::exponent;
  if (op_type == "Max" || (op_type == "Clip" && slot == 1)) return Part::smallest;
  if (op_type == "Min" || (op_type == "Clip" && slot == 2)) return Part::largest;
  if (op_type.starts_with("Greater") || op_type.starts_with("Less")) return Part::limit;
  if (op_type == "Where" && slot > 0) return Part::branch;
  return std::nullopt;
}

using Numbers = std::map<Part, std::set<double>>;

// Returns the numbers by which an operator is defined, and which files may state instead of it.
const Numbers& numbers_of_definition(std::string_view op_type) {
  static const Numbers none = {};
  static const Numbers of_gelu = {{Part::factor, {0.5, 1.702, 0.044715, std::sqrt(0.5), std::sqrt(2 / M_PI)}},
                                  {Part::term, {1}},
                                  {Part::exponent, {2, 3}}};
  static const Numbers of_hard = {
      {Part::factor, {1.0 / 6}}, {Part::term, {0.5, 3}}, {Part::smallest, {0}}, {Part::largest, {1, 6}}};
  static const Numbers of_norm = {{Part::exponent, {-1, -0.5, 0.5, 2}}};
  static const Numbers of_exponential = {
      {Part::factor, {0.5, 2}}, {Part::term, {-1, 1}}, {Part::smallest, {0}}, {Part::largest, {0}}};
  // PyTorch's softplus is the identity above 20.
  static const Numbers of_softplus = {{Part::factor, {0.5, 2}}, {Part::term, {-1, 1}}, {Part::limit, {20}}};
  static const std::map<std::string_view, const Numbers*> known = {
      {"Celu", &of_exponential},        {"Cosh", &of_exponential},
      {"Elu", &of_exponential},         {"Gelu", &of_gelu},
      {"GroupNormalization", &of_norm}, {"HardSigmoid", &of_hard},
      {"HardSwish", &of_hard},          {"InstanceNormalization", &of_norm},
      {"LayerNormalization", &of_norm}, {"LpNormalization", &of_norm},
      {"Mish", &of_softplus},           {"Reciprocal", &of_norm},
      {"ReduceL2", &of_norm},           {"Relu", &of_exponential},
      {"RMSNormalization", &of_norm},   {"Selu", &of_exponential},
      {"Sigmoid", &of_exponential},     {"Sinh", &of_exponential},
      {"Softplus", &of_softplus},       {"Sqrt", &of_norm},
      {"Swish", &of_exponential},
  };
  const auto found = known.find(op_type);
  return found == known.end() ? none : *found->second;
}

// Returns a divisor as a factor, and a subtrahend as a term.
double as_stated(std::string_view op_type, std::size_t slot, double number) {
  if (op_type == "Sub" && slot == 1) return -number;
  return op_type == "Div" && slot == 1 && number != 0 ? 1 / number : number;
}

// Adds the numbers of one node of a form. `defined`: those of its operator's definition.
void add_numbers(const FormNode& form, Numbers& numbers, Numbers& defined) {
  for (const graph::Attribute& attribute : form.node->attributes) {
    if (const auto* number = std::get_if<float>(&attribute.value))
      numbers[attribute.name == "epsilon" ? Part::term : Part::factor].insert(*number);
  }
  for (const auto& [part, defining] : numbers_of_definition(form.node->op_type))
    defined[part].insert(defining.begin(), defining.end());
  for (std::size_t slot = 0; slot < form.node->inputs.size(); ++slot) {
    const auto part = part_of(form.node->op_type, slot);
    const auto number = number_in(*form.graph, form.node->inputs[slot]);
    if (part && number) numbers[*part].insert(as_stated(form.node->op_type, slot, *number));
  }
}

// Returns the factors that tools make of these: they join two to one, and divide one between two operands.
std::set<double> following_from(const std::set<double>& factors) {
  std::set<double> single, all;
  for (const double factor : factors) {
    single.insert(factor);
    if (factor > 0) single.insert(std::sqrt(factor));
  }
  for (const double one : single) {
    all.insert(one);
    for (const double other : single) all.insert(one * other);
  }
  return all;
}

bool is_near(double number, double known, double rounding) {
  // The smallest and largest numbers of a type stand for those of another one. `step`: the distance of the float16
  // numbers next to zero.
  constexpr double tiny = 1e-6, huge = 1e4, step = 6e-8;
  if ((number < 0) != (known < 0)) return false;
  const double one = std::abs(number), other = std::abs(known);
  if (one == other || (one <= tiny && other <= tiny && other > 0) || (one >= huge && other >= huge)) return true;
  return std::abs(one - other) <= std::max(rounding * other, rounding > tiny ? step / 2 : 0);
}

// Returns the numbers that the operations state as this part of a node.
std::set<double> stated_in(const OperationForms& forms, const std::vector<std::int32_t>& operations,
                           std::string_view op_type, Part part) {
  std::set<double> stated;
  for (const std::int32_t operation : operations) {
    Numbers numbers, defined;
    bool is_plain = false;  // a form has the operator, so that its numbers are those of no definition
    bool has_angle = false;
    forms.for_each_node({operation}, [&](const FormNode& form) {
      const std::size_t before = numbers[part].size();
      add_numbers(form, numbers, defined);
      is_plain = is_plain || (form.node->op_type == op_type && numbers[part].size() > before);
      has_angle = has_angle || form.node->op_type == "Atan";
    });
    stated.merge(numbers[part]);
    if (!is_plain) stated.merge(defined[part]);
    // An angle of two coordinates is turned by half a circle either way.
    if (part == Part::term && has_angle) stated.insert({M_PI, -M_PI});
  }
  return part == Part::factor ? following_from(stated) : stated;
}

}  // namespace

std::optional<std::pair<double, double>> bounds_of(const OperationForms& forms, std::int32_t operation) {
  std::map<std::size_t, std::pair<double, double>> by_form;
  bool only_cuts = true;
  forms.for_each_node({operation}, [&](const FormNode& form) {
    static const std::set<std::string_view> finding_places = {"ArgMax", "ArgMin", "TopK"};
    if (finding_places.contains(form.node->op_type)) only_cuts = false;
    if (!only_cuts || !is_arithmetic(form.node->op_type)) return;
    const auto own = bounds_of(*form.graph, *form.node);
    only_cuts = own.has_value();
    if (!only_cuts) return;
    auto& [low, high] = by_form.try_emplace(form.form, *own).first->second;
    low = std::max(low, own->first), high = std::min(high, own->second);
  });
  return only_cuts && !by_form.empty() ? std::optional(by_form.begin()->second) : std::nullopt;
}

std::set<double> factors_of(const OperationForms& forms, const std::vector<std::int32_t>& operations) {
  std::set<double> single;
  forms.for_each_node(operations, [&](const FormNode& form) {
    if (const graph::Attribute* const scale = form.node->find("scale")) {
      if (const auto* number = std::get_if<float>(&scale->value)) single.insert(*number);
    }
    if (form.node->op_type != "Mul" && form.node->op_type != "Div") return;
    for (const graph::GraphValueId input : form.node->inputs) {
      const auto number = number_in(*form.graph, input);
      if (number && *number != 0) single.insert({*number, 1 / *number});
    }
  });
  std::set<double> all = {1};
  for (const double one : single) {
    all.insert({one, 1 / one});
    for (const double other : single) all.insert({one * other, 1 / (one * other)});
  }
  return all;
}

std::string unstated_number(const OnnxNode& node, const std::vector<std::int32_t>& operations,
                            const OperationForms& forms, const FileTensors& tensors,
                            const std::vector<Derivation>& derivations, Contents& contents) {
  const std::string_view plain = operators::onnx_operator(node.op_type).plain;
  const std::string_view op_type = plain.empty() ? node.op_type : plain;
  for (const ConstantOperand& operand : constant_operands(node, tensors)) {
    const auto part = part_of(op_type, operand.slot);
    const Verdict verdict = derivations[static_cast<std::size_t>(operand.tensor)].verdict;
    if (!part || verdict != Verdict::constant) continue;
    const auto number = uniform_number(operand, tensors, contents);
    const bool is_reciprocal = op_type == "Div" && operand.slot == 0 && number == 1.0;
    if (!number || std::isnan(*number) || is_reciprocal) continue;
    constexpr double of_text = 1e-6;  // of numbers that a tool printed and read again
    const DType dtype = from_onnx(tensors[operand.is_quantised() ? operand.scale : operand.tensor].tensor->data_type);
    // Exponents are small integers and their halves.
    const bool is_exact = *part == Part::exponent && dtype == DType::float32 && !operand.is_quantised();
    const double rounding = is_exact ? 0 : std::max(rounding_of(dtype), of_text);
    const double own = as_stated(op_type, operand.slot, *number);
    const std::set<double> stated = stated_in(forms, operations, op_type, *part);
    // A sum with 0 adds nothing to a program that states no term.
    const bool is_neutral = stated.empty() && own == (*part == Part::factor ? 1 : 0);
    const bool is_stated =
        is_neutral || std::ranges::any_of(stated, [&](double known) { return is_near(own, known, rounding); });
    if (!is_stated) return "states " + std::to_string(*number) + ", which the program does not state here";
  }
  return "";
}

}  // namespace whence::comparison
