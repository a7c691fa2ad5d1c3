// Inverts an expression: computes the parameters from a tensor of the file, as far as its steps can be inverted.
#pragma once

#include <string>
#include <vector>

#include "annotator/derivation/expression.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// What a tensor of the file says of one parameter.
struct ParameterPiece {
  const ParameterStep* parameter = nullptr;
  TensorData data;          // with the parameter's sizes; elements that the tensor does not hold are 0
  bool is_neutral = false;  // a part of a folded norm, which leaves the product as it is
};

// Returns why an expression cannot be inverted; "" if it can, as `inverted` does.
std::string obstacle(const Expression& expression);
// Returns true if a norm was folded into the tensor.
bool has_fold(const Expression& expression);
// Returns true if the tensor holds each element of its parameters.
bool holds_all(const Expression& expression);

// Returns pieces of the parameters, which refer to the expression. The tensor has the expression's value and sizes, in
// any dtype; with has_fold() in float32. The numbers of a norm and the product that it was folded into are lost: the
// product gets the tensor's numbers, and the norm numbers that change nothing. Throws Error(corrupt_file) if the
// expression does not fit.
std::vector<ParameterPiece> inverted(const Expression& expression, TensorData tensor);

}  // namespace whence::derivation
