// The tables of this build of whence: operators with a converter, and those of an archive that have none; rules of
// validation.
#pragma once

#include <string>
#include <vector>

#include "annotator/validation/check.h"
#include "whence/options.h"

namespace whence::app {

struct ConvertibleOperator {
  std::string name;    // "aten::add.Tensor"
  std::string schema;  // "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
};
std::vector<ConvertibleOperator> convertible_operators();  // by name

// Everything that stands in the way of an export of the archive, at once; nothing is written. Of the options those that
// say how the archive is read and the opset count. Throws Error for an archive that cannot be
// read.
Diagnostics export_problems(const std::string& archive, const Options& options);

// Every rule, or the one of this code or name. Throws Error(usage) when there is none.
std::vector<const validation::Rule*> rules(const std::string& code_or_name);

}  // namespace whence::app
