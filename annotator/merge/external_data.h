// Files with a model's weights that lie beside it.
#pragma once

#include <set>
#include <string>

#include "annotator/read/onnx_summary.h"

namespace whence {

// The data files that the model's initializers name, relative to its folder.
std::set<std::string> external_locations(const OnnxSummary& model);

// Makes sure that the model written to `output` finds its weights: when it lies in another folder than `input`, every
// data file is copied there, under the same name. Throws Error: outside_folder for a name that leads out of the model's
// folder, missing_file, cannot_write.
void carry_external_data(const std::set<std::string>& locations, const std::string& input, const std::string& output);

}  // namespace whence
