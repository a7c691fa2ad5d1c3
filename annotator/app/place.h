// Assigns modules to devices, and compares the result with the providers that ONNX Runtime chose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/placement/placement.h"

namespace whence::app {

struct PlaceOptions {
  std::optional<std::string> sidecar;  // reads the stamps of a file that is not annotated
  std::vector<std::string> rules;      // "gpu=encoder.**", the first matching rule decides; empty: rules in the file
  std::string otherwise;               // the device of other nodes; "none": left to ONNX Runtime; empty: no other nodes
  std::string output;                  // empty: nothing is written
  std::string profile, optimized;      // a runtime's profile, for the time of each device; empty: no times
  std::string providers;               // file with the providers that ONNX Runtime chose; empty: not compared
  bool overwrite = false, copy_data = false;  // as in AnnotateOptions
};
struct PlaceReport {
  placement::Placement placement;
  Diagnostics notes;
};
// Places the nodes. Errors: as place_nodes(), placement_in(), compare_with_providers(), profile_by_module() and
// write_layer_assignment(); usage for a file with whence's functions, and for an output without rules.
PlaceReport place(const std::string& model, const PlaceOptions& options);

}  // namespace whence::app
