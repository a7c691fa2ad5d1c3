// Assigns the weights of an ONNX file to the modules of the nodes that read them. Names are not enough: exporters store
// a Linear's weight transposed, under a new name.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/flat_map.h"

namespace whence::view {

struct ReadParameter {
  std::int64_t elements = 0;
  std::set<std::string> modules;  // modules of the nodes that read it
  bool unplaced = false;          // a node without a module also reads it
};

// Collects the floating-point and quantized initializers that nodes read, also in bodies. A scalar counts only if it is
// named after a module that reads it; other scalars are constants. A weight read by a node of several modules belongs
// to the module it is named after, else to their common ancestor: a Conv with a folded BatchNorm reads one weight that
// combines both.
class ParametersRead {
 public:
  // `graph` must outlive this.
  explicit ParametersRead(const onnx_file::OnnxGraph& graph);

  void add(const onnx_file::OnnxNode& reader, const metadata::Attribution& attribution);

  // Calls visit(const ReadParameter&) for each parameter.
  void each(const auto& visit) const {
    for (const auto& [name, weight] : weights_) {
      if (!weight.read()) continue;
      ReadParameter parameter{weight.elements, {}, weight.unplaced};
      for (const std::uint32_t module : weight.modules) parameter.modules.insert(modules_[module]);
      if (parameter.elements > 1 || is_named_after_reader(name, parameter)) visit(parameter);
    }
  }

 private:
  struct Weight {
    std::int64_t elements = 0;
    bool unplaced = false;
    std::vector<std::uint32_t> modules = {};  // numbers in modules_

    bool read() const { return unplaced || !modules.empty(); }
  };

  static bool is_named_after_reader(std::string_view name, const ReadParameter& parameter);
  std::uint32_t number_of(const std::string& module);

  FlatMap<std::string_view, Weight> weights_;  // by name; the outer tensor hides an inner one of equal name
  std::vector<std::string> modules_;
  FlatMap<std::string, std::uint32_t> number_of_module_;
};

}  // namespace whence::view
