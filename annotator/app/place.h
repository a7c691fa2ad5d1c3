// The use that assigns modules to devices, and compares with what ONNX Runtime chose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annotator/placement/placement.h"

namespace whence::app {

struct PlaceOptions {
  std::optional<std::string> sidecar;  // reads the stamps of a file that is not annotated
  std::vector<std::string> rules;  // "gpu=encoder.**", the first that holds a node decides; empty: those in the file
  std::string otherwise;           // the device of other nodes; "none": left to ONNX Runtime; empty: there are none
  std::string output;              // empty: nothing is written
  std::string profile, optimized;  // time of each device: a runtime's profile; empty: none
  std::string providers;           // the list of those that ONNX Runtime chose; empty: not compared
  bool overwrite = false, copy_data = false;  // as in AnnotateOptions
};
struct PlaceReport {
  placement::Placement placement;
  Diagnostics notes;
};
// Errors: those of place_nodes, placement_in, compare_with_providers, profile_by_module and write_layer_assignment;
// usage for a file whose modules are functions, and for an output without rules.
PlaceReport place(const std::string& model, const PlaceOptions& options);

}  // namespace whence::app
