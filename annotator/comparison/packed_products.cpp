#include "annotator/comparison/packed_products.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "annotator/comparison/wiring.h"
#include "annotator/derivation/operator_classes.h"
#include "schema/element_count.h"

namespace whence::comparison {

using derivation::ByChannelStep;
using derivation::CastStep;
using derivation::ConcatenateStep;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::FoldStep;
using derivation::is_movement;
using derivation::multiplies;
using derivation::no_tensor;
using derivation::ParameterStep;
using derivation::PickStep;
using derivation::QuantiseStep;
using derivation::ReshapeStep;
using derivation::TensorNumber;
using derivation::TransposeStep;

using onnx_file::OnnxNode;

namespace {

// Returns the concatenation below steps that keep the order of its pieces; null if there is none.
const Expression* concatenation(const Expression& expression) {
  const Expression* at = &expression;
  while (!std::holds_alternative<ConcatenateStep>(at->step)) {
    const bool keeps = std::holds_alternative<TransposeStep>(at->step) || std::holds_alternative<CastStep>(at->step) ||
                       std::holds_alternative<QuantiseStep>(at->step) || std::holds_alternative<ReshapeStep>(at->step);
    if (!keeps || at->inputs.size() != 1) return nullptr;
    at = &at->inputs[0];
  }
  return at;
}

template <class Step>
bool holds(const Expression& expression) {
  return std::holds_alternative<Step>(expression.step) || std::ranges::any_of(expression.inputs, holds<Step>);
}

}  // namespace

TensorNumber constant_of(std::string_view value, const FileTensors& tensors) {
  constexpr int longest = 8;  // a chain of movements
  for (int steps = 0; steps < longest; ++steps) {
    if (const TensorNumber tensor = tensors.find(value); tensor != no_tensor) return tensor;
    const OnnxNode* const maker = tensors.producer(value);
    if (maker == nullptr || !is_movement(maker->op_type) || maker->inputs.empty()) break;
    value = maker->inputs[0];
  }
  return no_tensor;
}

std::vector<std::int32_t> packed_operations(const OnnxNode& node, const FileTensors& tensors,
                                            const std::vector<Derivation>& derivations,
                                            const match::Reference& reference, const Fits& fits) {
  if ((!multiplies(node.op_type) && node.op_type != "Add") || node.inputs.size() < 2) return {};
  for (const std::string_view input : node.inputs) {
    const TensorNumber tensor = constant_of(input, tensors);
    if (tensor == no_tensor) continue;
    const auto& expression = derivations[static_cast<std::size_t>(tensor)].expression;
    const Expression* const pieces = expression ? concatenation(*expression) : nullptr;
    if (pieces == nullptr) continue;
    std::vector<std::int32_t> operations;
    for (const Expression& piece : pieces->inputs) {
      if (!is_whole_parameter(piece)) return {};
      std::set<std::int32_t> readers;
      for_each_parameter(piece, [&](const ParameterStep& step) {
        for (const match::ReferenceParameter& parameter : reference.parameters) {
          if (std::ranges::find(parameter.names, step.name) == parameter.names.end()) continue;
          for (const match::UnitIndex unit : parameter.units) {
            if (fits(node, unit.number())) readers.insert(unit.number());
          }
        }
      });
      if (readers.size() != 1) return {};
      operations.push_back(*readers.begin());
    }
    if (operations.size() > 1) return operations;
  }
  return {};
}

double share_of(const OnnxNode& node, const FileTensors& tensors, const std::vector<Derivation>& derivations) {
  if (!multiplies(node.op_type) && node.op_type != "Add") return 1;
  for (const std::string_view input : node.inputs) {
    const TensorNumber tensor = constant_of(input, tensors);
    if (tensor == no_tensor) continue;
    const auto& expression = derivations[static_cast<std::size_t>(tensor)].expression;
    if (!expression || !holds<PickStep>(*expression)) continue;
    // A sum with the rows of a table is no part of a product.
    if (!multiplies(node.op_type) && dims_of(*expression).size() > 1) continue;
    std::int64_t all = 0;
    for_each_parameter(*expression, [&](const ParameterStep& step) { all += element_count(step.dims); });
    if (all > 0) return static_cast<double>(element_count(dims_of(*expression))) / static_cast<double>(all);
  }
  return 1;
}

bool is_plain(const OnnxNode& node, const FileTensors& tensors, const std::vector<Derivation>& derivations) {
  const bool is_norm = node.op_type.ends_with("Normalization");
  if ((!multiplies(node.op_type) && !is_norm) || !node.domain.empty()) return false;
  bool has_weight = false;
  for (const std::string_view input : node.inputs) {
    const TensorNumber tensor = constant_of(input, tensors);
    if (tensor == no_tensor) continue;
    const auto& expression = derivations[static_cast<std::size_t>(tensor)].expression;
    if (!expression || holds<FoldStep>(*expression) || holds<ByChannelStep>(*expression)) return false;
    has_weight = true;
  }
  return has_weight;
}

std::set<std::int32_t> products_before(std::string_view value, const FileTensors& tensors, const PackedProducts& packed,
                                       const std::function<std::vector<std::int32_t>(const OnnxNode&)>& operations_of) {
  constexpr std::size_t most = 200;  // nodes between
  constexpr std::size_t no_piece = static_cast<std::size_t>(-1);
  struct Open {
    std::string_view value;
    std::size_t piece;  // the output of the last Split
    std::size_t pieces;
  };
  std::set<std::int32_t> found;
  std::vector<Open> open = {{value, no_piece, 0}};
  for (std::size_t i = 0; i < open.size() && i < most; ++i) {
    const Open at = open[i];
    const OnnxNode* const maker = tensors.producer(at.value);
    if (maker == nullptr) continue;
    if (const auto pieces = packed.find(maker); pieces != packed.end() && multiplies(maker->op_type)) {
      if (at.pieces == pieces->second.size()) found.insert(pieces->second[at.piece]);
      continue;
    }
    const bool has_weight = multiplies(maker->op_type) && std::ranges::any_of(maker->inputs, [&](auto input) {
                              return constant_of(input, tensors) != no_tensor;
                            });
    if (has_weight) {
      const std::vector<std::int32_t> operations = operations_of(*maker);
      if (operations.empty()) return {};
      found.insert(operations.begin(), operations.end());
      continue;
    }
    Open next{{}, at.piece, at.pieces};
    if (maker->op_type == "Split") {
      next.piece = static_cast<std::size_t>(std::ranges::find(maker->outputs, at.value) - maker->outputs.begin());
      next.pieces = maker->outputs.size();
    }
    for (const std::string_view input : maker->inputs) {
      next.value = input;
      open.push_back(next);
    }
  }
  return found;
}

std::set<std::int64_t> first_rows_before(std::string_view value, const FileTensors& tensors,
                                         const std::vector<Derivation>& derivations) {
  constexpr std::size_t most = 200;  // nodes between
  std::set<std::int64_t> found;
  std::vector<std::string_view> open = {value};
  for (std::size_t i = 0; i < open.size() && i < most; ++i) {
    const OnnxNode* const maker = tensors.producer(open[i]);
    if (maker == nullptr) continue;
    const TensorNumber weight =
        multiplies(maker->op_type) && maker->inputs.size() > 1 ? constant_of(maker->inputs[1], tensors) : no_tensor;
    if (weight == no_tensor) {
      open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
      continue;
    }
    const auto& expression = derivations[static_cast<std::size_t>(weight)].expression;
    const Expression* at = expression ? &*expression : nullptr;
    while (at != nullptr && !std::holds_alternative<PickStep>(at->step))
      at = at->inputs.size() == 1 ? &at->inputs[0] : nullptr;
    const auto* const pick = at == nullptr ? nullptr : std::get_if<PickStep>(&at->step);
    if (pick == nullptr || pick->runs.size() != 1) return {};
    found.insert(pick->runs[0].first);
  }
  return found;
}

}  // namespace whence::comparison
