#include "annotator/match/operator_name.h"

#include <string>

#include <onnx/defs/schema.h>

namespace whence::match {

bool is_onnx_operator(std::string_view name) { return onnx::OpSchemaRegistry::Schema(std::string(name)) != nullptr; }

}  // namespace whence::match
