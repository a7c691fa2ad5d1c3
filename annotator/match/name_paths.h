// The paths of modules in the names of a file's nodes, values and initializers, for files without other evidence of
// modules.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::match {

// Returns the module of the path at the beginning of a node's name (scope_in_name.h): "layer1.0.conv1" for
// "/layer1/layer1.0/conv1", because the names of a called container's children repeat the container's name. Returns an
// empty string for the root and for a name without a path.
std::string module_of_path(std::string_view name_path);

// Removes the fusion and the operand's role that ONNX Runtime puts before the name of an initializer it recomputes:
// "ConvMulFusion_W_encoder.conv.weight".
std::string_view without_fusion(std::string_view name);

// Returns the modules' paths in names of nodes and values, without those of second and later calls: "/att/v_1" is a
// call of att.v if the file has "/att/v" and `parameters` has no "att.v_1.weight".
std::set<std::string_view> called_paths(const onnx_file::OnnxSummary& model,
                                        const std::set<std::string_view>& parameters);

// Containers that are missing from the paths in names. PyTorch's older exporter does not name a container if its
// forward is never called: "/blocks/k/Gemm" belongs to blocks.heads.k if `heads` is a ModuleDict. Parameters have the
// complete path.
class OmittedContainers {
 public:
  // `with_parameters`: modules that the names of parameters contain. `name_paths`: "/blocks/k".
  OmittedContainers(const std::set<std::string>& with_parameters, const std::set<std::string_view>& name_paths);

  // Returns the module of the path in a name, with the missing containers added from the names of parameters. Returns
  // nullopt if it may be one of several modules.
  std::optional<std::string> module_meant(const std::string& named) const;

 private:
  bool may_be(std::string_view named, const std::string& module) const;

  std::map<std::string, std::set<std::string>> modules_;  // with parameters, or around them; by last segment
  std::set<std::string> named_;                           // modules that names mention
};

}  // namespace whence::match
