#include "schema/sidecar/file_names.h"

#include <string_view>

#include "schema/result.h"

namespace whence {
namespace {

constexpr std::string_view model_ending = ".onnx", sidecar_ending = ".whence.json";

[[noreturn]] void refuse(const std::string& path, const std::string& named_as, const std::string& written,
                         std::string_view ending) {
  throw Error(Code::usage, "'" + path + "' is named as " + named_as + ", but " + written + " is written",
              "name it model" + std::string(ending), {.file = path, .stage = "command line"});
}

}  // namespace

void require_sidecar_name(const std::string& path) {
  if (path.ends_with(model_ending)) refuse(path, "an ONNX file", "a sidecar", sidecar_ending);
}

void require_model_name(const std::string& path) {
  if (path.ends_with(sidecar_ending)) refuse(path, "a sidecar", "an ONNX file", model_ending);
}

}  // namespace whence
