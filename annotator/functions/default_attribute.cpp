#include "annotator/functions/default_attribute.h"

#include <onnx/defs/schema.h>

namespace whence::functions {

std::optional<std::string> default_attribute(std::string_view domain, std::string_view op_type, std::int64_t opset,
                                             std::string_view attribute) {
  const onnx::OpSchema* const schema = onnx::OpSchemaRegistry::Schema(std::string(op_type), static_cast<int>(opset),
                                                                      domain == "ai.onnx" ? "" : std::string(domain));
  if (schema == nullptr) return std::nullopt;
  const auto found = schema->attributes().find(std::string(attribute));
  if (found == schema->attributes().end() || !found->second.default_value.has_name()) return std::nullopt;
  return found->second.default_value.SerializeAsString();
}

}  // namespace whence::functions
