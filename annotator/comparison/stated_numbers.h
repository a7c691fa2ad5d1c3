// The numbers that the operations of a program state: factors, terms, exponents, bounds. Nodes of a file that stand for
// the same operations may state these, and numbers that follow from them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "annotator/comparison/operation_forms.h"
#include "annotator/derivation/contents.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::comparison {

// Returns the smallest and largest number of an operation that only cuts off numbers: Relu, Clip, Max or Min
// with a number; nullopt for others.
std::optional<std::pair<double, double>> bounds_of(const OperationForms& forms, std::int32_t operation);

// Returns the numbers by which forms multiply or divide in these operations, their reciprocals and products of two.
std::set<double> factors_of(const OperationForms& forms, const std::vector<std::int32_t>& operations);

// Returns which number of a node is none of its operations; "" if there is none. Tools write a division as a product,
// and two factors as one, so reciprocals, negatives, roots, squares and products of two count as well.
std::string unstated_number(const onnx_file::OnnxNode& node, const std::vector<std::int32_t>& operations,
                            const OperationForms& forms, const derivation::FileTensors& tensors,
                            const std::vector<derivation::Derivation>& derivations, derivation::Contents& contents);

}  // namespace whence::comparison
