// Tables of this build of whence: operators with a converter, operators of an archive without one, validation rules.
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

// Returns all errors that an export of the archive would have; writes nothing. Uses only the options for reading the
// archive and the opset. Throws Error for an archive that cannot be read.
Diagnostics export_problems(const std::string& archive, const Options& options);

// Returns all rules, or the rule with this code or name. Throws Error(usage) if there is none.
std::vector<const validation::Rule*> rules(const std::string& code_or_name);

}  // namespace whence::app
