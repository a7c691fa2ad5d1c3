// The way to a node as its metadata states it: the called modules from the root inwards, whichever tool wrote them.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::metadata {

struct CalledModule {
  std::string path{};  // qualified name; empty for the root
  std::string type{};  // class; empty when the metadata do not say it
  int call = 0;        // 0 for the module's first call in execution order
};

// The modules that PyTorch's own keys list, from the root inwards, without their calls, and the operation that ends
// each of those lists: "aten.linear.default". Empty where no key of PyTorch's lists modules.
struct PyTorchScopes {
  std::vector<CalledModule> modules{};
  std::string operation{};
};
PyTorchScopes pytorch_scopes(const onnx_file::OnnxProperties& metadata);

// Returns the modules that the node's keys list, without their calls; empty when no key lists them. PyTorch's keys and
// whence's are read, whence's first.
std::vector<CalledModule> stated_modules(const onnx_file::OnnxProperties& metadata);

// Sets the calls of the modules on a way from whence's keys. Without them each module was called once.
void set_calls(const onnx_file::OnnxProperties& metadata, std::vector<CalledModule>& way);

// Writes the paths on a way as whence's key for them has it, a JSON array.
std::string way_text(const std::vector<CalledModule>& way);

// Writes the calls on a way as the key for them has it, "0/2/0"; empty where only the last module was called before.
std::string calls_text(const std::vector<CalledModule>& way);

}  // namespace whence::metadata
