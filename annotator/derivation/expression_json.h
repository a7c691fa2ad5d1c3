// Expressions as JSON, for statements and for refitting a file without its first checkpoint.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "annotator/derivation/expression.h"
#include "schema/result.h"

namespace whence::derivation {

nlohmann::ordered_json to_json(const Expression& expression);
// Throws Error(corrupt_file) with `place` for JSON that to_json() does not write.
Expression expression_from(const nlohmann::ordered_json& json, const Place& place);

}  // namespace whence::derivation
