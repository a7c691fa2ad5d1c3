#include "annotator/comparison/product_parts.h"

#include <algorithm>
#include <optional>

#include "annotator/comparison/node_counts.h"
#include "annotator/comparison/packed_products.h"
#include "annotator/comparison/wiring.h"
#include "annotator/derivation/folded_vectors.h"
#include "annotator/derivation/operator_classes.h"
#include "annotator/program/tensor_values.h"

namespace whence::comparison {

using derivation::bias_slot;
using derivation::ByChannelStep;
using derivation::CastStep;
using derivation::Contents;
using derivation::Derivation;
using derivation::Expression;
using derivation::FileTensors;
using derivation::FoldedVectors;
using derivation::FoldStep;
using derivation::is_movement;
using derivation::multiplies;
using derivation::no_tensor;
using derivation::NumberStep;
using derivation::PadStep;
using derivation::ParameterStep;
using derivation::ProductChain;
using derivation::QuantiseBiasStep;
using derivation::ReshapeStep;
using derivation::TensorNumber;
using derivation::Verdict;
using derivation::Weights;

using onnx_file::OnnxNode;

namespace {

using Names = std::set<std::string, std::less<>>;

// Returns the names of the parameters from which an expression is made, and of their equals. `is_of_norm`: those of a
// folded norm, or else those that the norm or a factor was folded into.
Names names_in(const Expression& expression, bool is_of_norm) {
  Names names;
  if (const auto* parameter = std::get_if<ParameterStep>(&expression.step)) {
    if (is_of_norm) return names;
    names.insert(parameter->name);
    names.insert(parameter->same_bytes.begin(), parameter->same_bytes.end());
    return names;
  }
  const auto* const fold = std::get_if<FoldStep>(&expression.step);
  const bool has_own = fold == nullptr || !fold->is_bias || fold->has_bias;
  for (std::size_t i = 0; i < expression.inputs.size(); ++i) {
    const bool is_folded = fold != nullptr && (i > 0 || !has_own);
    if (std::holds_alternative<ByChannelStep>(expression.step) && i > 0) continue;
    if (std::holds_alternative<QuantiseBiasStep>(expression.step) && i > 0) continue;
    names.merge(is_folded ? (is_of_norm ? names_in(expression.inputs[i], false) : Names())
                          : names_in(expression.inputs[i], is_of_norm));
  }
  return names;
}

bool share(const Names& one, const Names& other) {
  return std::ranges::any_of(one, [&](const std::string& name) { return other.contains(name); });
}

// Returns the parameter that an expression is, perhaps in other sizes, filled up or converted; null for others.
const ParameterStep* whole_parameter(const Expression& expression) {
  if (const auto* const parameter = std::get_if<ParameterStep>(&expression.step)) return parameter;
  const bool keeps = std::holds_alternative<PadStep>(expression.step) ||
                     std::holds_alternative<ReshapeStep>(expression.step) ||
                     std::holds_alternative<CastStep>(expression.step);
  return keeps ? whole_parameter(expression.inputs.at(0)) : nullptr;
}

std::string factor_text(const Expression& expression) {
  const Expression* const factor = FoldedVectors::factor_of(expression);
  return factor == nullptr ? "" : to_text(*factor);
}

}  // namespace

ProductParts::ProductParts(std::vector<ProductChain> chains, const FileTensors& tensors,
                           const std::vector<Derivation>& derivations, Contents& contents, const Weights& weights)
    : chains_(std::move(chains)), tensors_(tensors), derivations_(derivations), contents_(contents), weights_(weights) {
  for (const ProductChain& chain : chains_) {
    if (chain.bias.empty()) continue;
    biases_[chain.weight].insert(chain.bias);
    all_biases_.insert(chain.bias);
  }
}

std::string ProductParts::difference(const OnnxNode& node) const {
  const auto slot = bias_slot(node.op_type);
  if (slot && node.inputs.size() > *slot)
    return of_pair(constant_of(node.inputs[1], tensors_), constant_of(node.inputs[*slot], tensors_));
  const bool adds = node.op_type == "Add", multiplies = node.op_type == "Mul";
  if ((!adds && !multiplies) || node.inputs.size() != 2) return "";
  for (const std::size_t at : {0, 1}) {
    const TensorNumber constant = constant_of(node.inputs[at], tensors_);
    const TensorNumber weight = constant == no_tensor ? no_tensor : weight_before(node.inputs[1 - at], multiplies);
    std::string found = adds ? of_pair(weight, constant) : of_factor(weight, constant);
    if (!found.empty()) return found;
  }
  return "";
}

const Expression* ProductParts::expression_of(TensorNumber tensor) const {
  const bool is_known = tensor != no_tensor && derivations_[static_cast<std::size_t>(tensor)].expression.has_value();
  return is_known ? &*derivations_[static_cast<std::size_t>(tensor)].expression : nullptr;
}

TensorNumber ProductParts::weight_before(std::string_view value, bool after_sums) const {
  constexpr int longest = 12;  // nodes between
  for (int steps = 0; steps < longest; ++steps) {
    const OnnxNode* const maker = tensors_.producer(value);
    if (maker == nullptr || maker->inputs.empty()) return no_tensor;
    if (multiplies(maker->op_type) || maker->op_type == "ConvInteger")
      return maker->inputs.size() < 2 ? no_tensor : constant_of(maker->inputs[1], tensors_);
    if (const std::string_view sum = rescaled_sum(*maker, tensors_); !sum.empty()) {
      value = sum;
    } else if (after_sums && maker->op_type == "Add" && maker->inputs.size() == 2) {
      const bool is_second = constant_of(maker->inputs[1], tensors_) != no_tensor;
      value = maker->inputs[is_second ? 0 : 1];
    } else if (is_movement(maker->op_type)) {
      value = maker->inputs[0];
    } else {
      return no_tensor;
    }
  }
  return no_tensor;
}

std::string ProductParts::of_pair(TensorNumber weight, TensorNumber bias) const {
  const Expression *own = expression_of(weight), *added = expression_of(bias);
  if (own == nullptr) return "";
  if (added == nullptr) return of_zeros(*own, bias);
  std::string found = other_bias(*own, *added);
  if (found.empty()) found = other_norm(*own, *added);
  if (found.empty()) found = other_factor(*own, *added);
  return found;
}

std::string ProductParts::other_bias(const Expression& weight, const Expression& bias) const {
  const Names weights = names_in(weight, false), added = names_in(bias, false);
  Names expected;
  for (const std::string& name : weights) {
    const auto found = biases_.find(name);
    if (found == biases_.end()) return "";
    expected.insert(found->second.begin(), found->second.end());
  }
  // Other vectors may be added after the product as well.
  const bool is_bias = std::ranges::all_of(added, [&](const std::string& name) { return all_biases_.contains(name); });
  if (weights.empty() || added.empty() || !is_bias || share(added, expected) || are_equal(bias, expected)) return "";
  return "adds " + *added.begin() + ", where the program adds " + *expected.begin();
}

bool ProductParts::are_equal(const Expression& bias, const Names& expected) const {
  const ParameterStep* const parameter = whole_parameter(bias);
  if (parameter == nullptr || weights_.find(parameter->name) == nullptr) return false;
  if (is_zero(parameter->name))
    return std::ranges::all_of(expected, [&](const std::string& name) { return is_zero(name); });
  const TensorData added = weights_.value(parameter->name);
  const auto numbers = program::Elements::of(added);
  return numbers && numbers->size() > 0 && std::ranges::all_of(expected, [&](const std::string& name) {
           if (weights_.find(name) == nullptr) return false;
           const TensorData other = weights_.value(name);
           const auto others = program::Elements::of(other);
           if (!others || others->size() == 0 || others->size() % numbers->size() != 0) return false;
           for (std::size_t i = 0; i < others->size(); ++i) {
             if (others->number(i) != numbers->number(i % numbers->size())) return false;
           }
           return true;
         });
}

bool ProductParts::is_zero(const std::string& parameter) const {
  if (weights_.find(parameter) == nullptr) return false;
  const TensorData data = weights_.value(parameter);
  const auto elements = program::Elements::of(data);
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    if (elements->number(i) != 0) return false;
  }
  return elements.has_value();
}

std::string ProductParts::other_norm(const Expression& weight, const Expression& bias) const {
  const Names own = names_in(weight, true), other = names_in(bias, true);
  return own.empty() || other.empty() || share(own, other) ? ""
                                                           : "the norm in its weight is another one than in its bias";
}

std::string ProductParts::other_factor(const Expression& weight, const Expression& bias) const {
  if (factor_text(weight) == factor_text(bias)) return "";
  const Names weights = names_in(weight, false), added = names_in(bias, false);
  const bool is_multiplied = std::ranges::any_of(chains_, [&](const ProductChain& chain) {
    return chain.is_multiplied() && weights.contains(chain.weight) && added.contains(chain.bias);
  });
  const ParameterStep* const parameter = whole_parameter(bias);
  if (!is_multiplied || (parameter != nullptr && is_zero(parameter->name))) return "";
  return factor_text(bias).empty() ? "adds a bias without the factor that is in its weight"
                                   : "adds a bias with a factor that is not in its weight";
}

std::string ProductParts::of_zeros(const Expression& weight, TensorNumber bias) const {
  if (bias == no_tensor || derivations_[static_cast<std::size_t>(bias)].verdict != Verdict::constant) return "";
  const bool is_folded = !names_in(weight, true).empty() || FoldedVectors::is_scaled(weight);
  const bool has_bias =
      std::ranges::any_of(names_in(weight, false), [&](const std::string& name) { return biases_.contains(name); });
  if (!is_folded && !has_bias) return "";
  const TensorData data = contents_.data(tensors_[bias]);
  const auto elements = program::Elements::of(data);
  for (std::size_t i = 0; elements && i < elements->size(); ++i) {
    if (elements->number(i) != 0) return "";
  }
  return "adds zeros, where the program adds a bias";
}

std::string ProductParts::of_factor(TensorNumber weight, TensorNumber factor) const {
  const Expression* const own = expression_of(weight);
  const Expression* const folded = own == nullptr ? nullptr : FoldedVectors::factor_of(*own);
  if (folded == nullptr) return "";
  const Expression* const other = expression_of(factor);
  const bool is_same = other == nullptr ? std::holds_alternative<NumberStep>(folded->step)
                                        : share(names_in(*other, false), names_in(*folded, false));
  return is_same ? "multiplies by a factor that is in the weight as well" : "";
}

}  // namespace whence::comparison
