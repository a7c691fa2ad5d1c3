// Computed values: what a program computes from its parameters alone, such as a weight from its direction and length,
// or a bias from a table of relative positions. Exporters and optimisers store the results in the file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schema/program.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

struct ComputedValue {
  std::string name;  // the recipe's digest after the last operator: the same program gives the same name
  TensorData data;
  std::vector<std::string> parameters;  // that it is computed from
  std::string recipe;                   // "Mul(direction, Div(length, ReduceL2(direction)))"
  bool is_rounded = false;              // its operators do arithmetic, and do not only choose elements
  std::vector<std::int32_t> readers;    // operations of the program that read it, perhaps moved
};

// Evaluates each operation that depends on parameters and constants alone and does more than moving elements or
// choosing rows of a parameter, which are found in the parameter itself. `value` returns a parameter's numbers; nullopt
// if they are unknown. Returns nothing for a program that cannot be exported.
std::vector<ComputedValue> computed_values(const Program& program,
                                           const std::function<std::optional<TensorData>(const Parameter&)>& value);

}  // namespace whence::derivation
