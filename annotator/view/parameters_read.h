// Assigns the weights of an ONNX file to the modules of the nodes that read them. Names do not suffice: exporters store
// a Linear's weight transposed under a name of their own.
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
  bool unplaced = false;          // a node without a module reads it, too
};

// Collects the initializers of floating-point and quantized numbers that nodes read, also in bodies. A single number
// counts only when it is named after a module that reads it: others are constants. A weight that a node of several
// modules reads belongs to the module that the weight is named after, else to the module around them all: a Conv with a
// BatchNorm folded in reads the weights of both in one.
class ParametersRead {
 public:
  // `graph` must outlive it.
  explicit ParametersRead(const onnx_file::OnnxGraph& graph);

  void add(const onnx_file::OnnxNode& reader, const metadata::Attribution& attribution);

  // Calls visit(const ReadParameter&) for each.
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

  FlatMap<std::string_view, Weight> weights_;  // by name: of equal ones, the outer one
  std::vector<std::string> modules_;
  FlatMap<std::string, std::uint32_t> number_of_module_;
};

}  // namespace whence::view
