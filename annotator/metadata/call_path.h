// The call path of a node: the called modules from the root to the node, as stated by the metadata of any tool.
#pragma once

#include <string>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::metadata {

struct CalledModule {
  std::string path{};  // qualified name; empty for the root
  std::string type{};  // class; empty if the metadata does not state it
  int call = 0;        // 0 for the module's first call in execution order
};

// The modules that the keys of the file's exporter list, from the root inwards, without call numbers, and the operation
// at the end of PyTorch's list: "aten.linear.default". Empty if no key lists modules.
struct ExporterScopes {
  std::vector<CalledModule> modules{};
  std::string operation{};
  bool certain = true;  // false: the node belongs to the last module or to one inside it
};
ExporterScopes exporter_scopes(const onnx_file::OnnxProperties& metadata);
// Like exporter_scopes(metadata), but a node in a call of a captured graph has the modules of its own call.
// `metadata`: the node's list of entries, for callers that already have it.
ExporterScopes exporter_scopes(const onnx_file::OnnxNode& node, const onnx_file::OnnxProperties& metadata);
ExporterScopes exporter_scopes(const onnx_file::OnnxNode& node);

// Returns the modules that the node's keys list, without call numbers; empty if no key lists them. Whence's key takes
// precedence over PyTorch's keys.
std::vector<CalledModule> stated_modules(const onnx_file::OnnxNode& node);

// Sets the call numbers on a call path from whence's keys. Without keys they stay 0.
void set_call_numbers(const onnx_file::OnnxProperties& metadata, std::vector<CalledModule>& call_path);

// Returns the module paths of a call path as a JSON array, the format of whence's key.
std::string call_path_text(const std::vector<CalledModule>& call_path);

// Returns the call numbers of a call path in the format of their key, "0/2/0"; empty if all but the last are 0.
std::string calls_text(const std::vector<CalledModule>& call_path);

}  // namespace whence::metadata
