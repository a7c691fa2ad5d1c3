// The paths of modules in the names of a file's nodes, values and initializers, where modules are known by nothing
// else.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::match {

// Returns the module of the path that a node's name begins with (scope_in_name.h), "/layer1/layer1.0/conv1" ->
// "layer1.0.conv1": the names of a called container's children repeat the container's name. Empty for the root, and for
// a name without a path.
std::string module_of_path(std::string_view name_path);

// ONNX Runtime puts the fusion and the operand's role before the name of an initializer that it computes anew:
// "ConvMulFusion_W_encoder.conv.weight".
std::string_view without_fusion(std::string_view name);

// The modules' paths in names of nodes and values, without those of second and later calls: where "/att/v" is there and
// none of `parameters` is called "att.v_1.weight", "/att/v_1" is a call of att.v.
std::set<std::string_view> called_paths(const onnx_file::OnnxSummary& model,
                                        const std::set<std::string_view>& parameters);

// PyTorch's older exporter leaves a container whose forward is never called out of names: "/blocks/k/Gemm" of
// blocks.heads.k, where `heads` is a ModuleDict. Parameters have the complete path.
class LeftOutContainers {
 public:
  // `with_parameters`: modules that parameters are named after. `name_paths`: "/blocks/k".
  LeftOutContainers(const std::set<std::string>& with_parameters, const std::set<std::string_view>& name_paths);

  // Returns the module that the path in a name means: with the containers that are left out, where parameters say so,
  // and nothing where it may be one module or another.
  std::optional<std::string> module_meant(const std::string& named) const;

 private:
  bool may_be(std::string_view named, const std::string& module) const;

  std::map<std::string, std::set<std::string>> modules_;  // with parameters, or around such; by their last segments
  std::set<std::string> named_;                           // modules that names mention
};

}  // namespace whence::match
