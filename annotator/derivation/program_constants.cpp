#include "annotator/derivation/program_constants.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "annotator/derivation/evaluate_node.h"
#include "annotator/derivation/expression.h"
#include "schema/files/files.h"
#include "schema/program_walk.h"

namespace whence::derivation {
namespace {

constexpr std::size_t max_bytes = std::size_t{1} << 23;  // of a constant

// Returns true if the numbers are equal, or differ by `bound` times the largest one.
bool same_numbers(const program::Elements& a, const program::Elements& b, double bound) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double number = std::abs(b.number(i));
    if (number < 1e6) largest = std::max(largest, number);
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a.number(i), y = b.number(i % b.size());
    if (x != y && !(std::abs(x - y) <= bound * largest) && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

}  // namespace

double rounding_of(DType dtype) { return dtype == DType::float16 ? 1e-3 : dtype == DType::bfloat16 ? 8e-3 : 4e-7; }

bool is_half_of(double half, double number) {
  return std::ranges::any_of(cast_ranges, [&](const CastRange& range) {
    double within = number;
    if (range.is_limited() && number != 0) {
      const bool is_small = std::abs(number) < static_cast<double>(range.least);
      const double size = std::clamp<double>(std::abs(number), range.least, range.largest);
      within = is_small && !range.keeps_sign ? size : std::copysign(size, number);
    }
    const auto rounded = program::cast_tensor(program::number_scalar(within, DType::float32), DType::float16);
    return rounded && program::Elements::of(*rounded)->number(0) == half;
  });
}

ProgramConstants::ProgramConstants(const Program& program, const std::vector<ProgramForm>& forms) {
  for (const Constant& constant : program.constants) add(constant.data);
  for (const Parameter& parameter : program.parameters) {
    if (!parameter.persistent) add(parameter.data);
  }
  for (const ProgramForm& form : forms) add(*form.graph);
  if (const auto graph = written_out(program)) add(*graph);
  for (const Node* node : operations(program)) {
    for (const NamedArgument& argument : node->arguments) {
      if (const auto* number = argument.value.as<double>()) numbers_.insert(*number);
      if (const auto* number = argument.value.as<std::int64_t>()) numbers_.insert(static_cast<double>(*number));
    }
  }
  for (const Parameter& parameter : program.parameters) {
    for (const std::int64_t size : parameter.data.shape) numbers_.insert(static_cast<double>(size));
  }
}

void ProgramConstants::add(const graph::Graph& graph) {
  for (const graph::GraphValue& value : graph.values) {
    for (const Dim& dim : value.dims.value_or(std::vector<Dim>())) numbers_.insert(static_cast<double>(dim.size));
  }
  std::unordered_map<graph::GraphValueId, TensorData> known;
  for (const graph::Initializer& initializer : graph.initializers) {
    const TensorData& data = initializer.data;
    if (!data.bytes.in_memory() || data.bytes.size() > max_bytes) continue;
    known.emplace(initializer.value, data);
    if (!initializer.parameter && !initializer.rearranged) add(data);
  }
  for (const graph::GraphNode& node : graph.nodes) {
    for (const graph::Attribute& attribute : node.attributes) {
      if (const auto* tensor = std::get_if<TensorData>(&attribute.value)) add(*tensor);
    }
    graph::for_each_body(node, [&](const graph::Graph& body) { add(body); });
    if (const auto whole = known.find(node.inputs.empty() ? graph::no_value : node.inputs[0]); whole != known.end()) {
      auto parts = parts_of_split(graph, node, whole->second);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        add(parts[i]);
        known.emplace(node.outputs[i], std::move(parts[i]));
      }
    }
    if (!can_evaluate(graph, node)) continue;
    simplify::Constants inputs;
    bool all_known = true;
    for (const graph::GraphValueId input : node.inputs) {
      const auto found = known.find(input);
      all_known = all_known && (input == graph::no_value || found != known.end());
      inputs.push_back(found == known.end() ? nullptr : &found->second);
    }
    if (!all_known) continue;
    if (auto result = evaluate(graph, node, inputs, max_bytes)) {
      add(*result);
      known.emplace(node.outputs[0], std::move(*result));
    }
  }
}

void ProgramConstants::add(const TensorData& constant) {
  const auto bytes = constant.bytes.in_memory();
  if (!bytes || bytes->size() > max_bytes || !program::has_number_form(constant.dtype)) return;
  const std::string digest = std::string(name_of(constant.dtype)) + digest_of(bytes->data(), bytes->size());
  if (!digests_.insert(digest).second) return;
  constants_[constant.element_count()].push_back(constant);
  if (constant.element_count() == 1) numbers_.insert(program::Elements::of(constant)->number(0));
}

// Calls visit(double) with each number of the program, and with the scales that exporters compute from it: an
// attention's is a root of the size of its heads.
template <class Visit>
void ProgramConstants::for_each_number(Visit&& visit) const {
  for (const double known : numbers_) {
    for (const double power : {1.0, -1.0, 0.5, -0.5, 0.25, -0.25}) {
      if (known > 0 || power == 1) visit(std::pow(known, power));
    }
  }
}

bool ProgramConstants::is_known_number(double number, double bound, double smallest) const {
  bool is_known = false;
  for_each_number([&](double known) {
    is_known = is_known || std::abs(std::abs(number) - std::abs(known)) <= std::max(bound * std::abs(known), smallest);
  });
  return is_known;
}

std::vector<TensorData> ProgramConstants::numbers() const {
  std::vector<TensorData> all;
  for_each_number([&](double known) { all.push_back(program::number_scalar(known, DType::float32)); });
  return all;
}

// Returns true for a condition of the program as numbers that are added: 0 where it holds, a very negative number
// elsewhere.
bool ProgramConstants::is_mask(const program::Elements& elements) const {
  constexpr double masked = -1e4;
  for (const auto& [size, constants] : constants_) {
    if (size == 0 || elements.size() % static_cast<std::size_t>(size) != 0) continue;
    for (const TensorData& constant : constants) {
      if (constant.dtype != DType::boolean) continue;
      const auto conditions = program::Elements::of(constant);
      bool all = true;
      for (std::size_t i = 0; all && i < elements.size(); ++i) {
        const double number = elements.number(i);
        all = conditions->number(i % conditions->size()) != 0 ? number == 0 : number <= masked;
      }
      if (all) return true;
    }
  }
  return false;
}

const std::vector<TensorData>& ProgramConstants::of_size(std::int64_t elements) const {
  static const std::vector<TensorData> none;
  const auto found = constants_.find(elements);
  return found == constants_.end() ? none : found->second;
}

std::vector<TensorData> ProgramConstants::masks_of_size(std::int64_t elements) const {
  std::vector<TensorData> masks;
  for (const auto& [size, constants] : constants_) {
    if (size < 2 || elements % size != 0) continue;
    for (const TensorData& constant : constants) {
      if (constant.dtype != DType::boolean) continue;
      const auto conditions = program::Elements::of(constant);
      std::vector<float> numbers;
      for (std::int64_t i = 0; i < elements; ++i) {
        const bool holds = conditions->number(static_cast<std::size_t>(i % size)) != 0;
        numbers.push_back(holds ? 0 : std::numeric_limits<float>::lowest());
      }
      masks.push_back({DType::float32, {elements}, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))});
    }
  }
  return masks;
}

bool ProgramConstants::holds(const TensorData& tensor) const {
  const auto elements = program::Elements::of(tensor);
  if (!elements) return false;
  const auto count = static_cast<std::int64_t>(elements->size());
  if (count == 0) return true;
  const auto all_equal = [&](double number) {
    for (std::size_t i = 0; i < elements->size(); ++i) {
      if (elements->number(i) != number) return false;
    }
    return true;
  };
  const double bound = rounding_of(tensor.dtype);
  // Zeros and ones are made without a constant of the program.
  if (all_equal(0) || all_equal(1)) return true;
  // Half the distance of the float16 numbers next to zero.
  const double smallest = tensor.dtype == DType::float16 ? 3e-8 : 0;
  if (tensor.dtype == DType::float16 && count == 1) {
    const double half = elements->number(0);
    if (std::ranges::any_of(numbers_, [&](double known) { return is_half_of(half, known); })) return true;
  }
  if (count == 1 && is_known_number(elements->number(0), std::max(bound, 1e-6), smallest)) return true;
  if (is_mask(*elements)) return true;
  for (const auto& [size, constants] : constants_) {
    if (size == 0 || count % size != 0) continue;
    for (const TensorData& constant : constants) {
      if (same_numbers(*elements, *program::Elements::of(constant), bound)) return true;
    }
  }
  return false;
}

}  // namespace whence::derivation
