// V401, with --full: onnx's own checker, with shape inference in strict mode. It parses the whole model, weights
// included, so it costs memory as all the other checks together do not.
#include <onnx/checker.h>

#include "annotator/validation/checks.h"

namespace whence::validation {
namespace {

std::vector<FindingItem> find_onnx_checker(const CheckContext& context) {
  const std::string& path = context.model.file->path();
  try {
    onnx::checker::check_model(path, /*full_check=*/true);
  } catch (const std::exception& error) {  // onnx throws ValidationError, InferenceError and bare runtime_errors
    return {{path, error.what()}};
  }
  return {};
}

}  // namespace

const Check onnx_checker_check = {{"V401", "onnx_checker", "complaints of onnx's own checker",
                                   "report it to whoever made the file; for whence's own exports, to whence",
                                   "With shape inference in strict mode. It parses the whole model, weights included, "
                                   "so it costs memory as all other checks together do not: with --full.",
                                   Severity::error},
                                  find_onnx_checker,
                                  true};

}  // namespace whence::validation
