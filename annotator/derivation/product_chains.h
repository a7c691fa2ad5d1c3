// Product chains: what the recorded program does with the result of a product with a weight: the bias that it adds, and
// the parameter or number by which it multiplies. Tools fold both into the weight and the bias of the product.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/derivation/program_forms.h"

namespace whence::derivation {

// A product, perhaps with a bias, perhaps multiplied after that. Parameters have the program's names.
struct ProductChain {
  std::string weight;
  std::string bias = {};             // "": none
  std::string factor = {};           // the parameter of the factor; "": none, or a number
  std::optional<float> number = {};  // the factor, if it is no parameter
  auto operator<=>(const ProductChain&) const = default;

  bool is_multiplied() const { return !factor.empty() || number.has_value(); }
};

// Returns the chains of all forms, each once, and each of their beginnings.
std::vector<ProductChain> product_chains(const std::vector<ProgramForm>& forms);

}  // namespace whence::derivation
