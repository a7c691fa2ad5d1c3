// Assigns the weights of an ONNX file to the modules of the nodes that read them. Names do not suffice: exporters store
// a Linear's weight transposed under a name of their own.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/onnx_summary.h"

namespace whence::view {

struct ParameterReader {
  const onnx_file::OnnxNode* node = nullptr;
  const metadata::Attribution* attribution = nullptr;
};

struct ReadParameter {
  std::int64_t elements = 0;
  std::set<std::string> modules;  // modules of the nodes that read it
  bool unplaced = false;          // a node without a module reads it, too
};

// Returns the initializers of floating-point and quantized numbers that some reader reads, also in bodies. A single
// number counts only when it is named after a module that reads it: others are constants. A weight that a node of
// several modules reads belongs to the module that the weight is named after, else to the module around them all: a
// Conv with a BatchNorm folded in reads the weights of both in one.
std::vector<ReadParameter> parameters_read(const onnx_file::OnnxGraph& graph,
                                           const std::vector<ParameterReader>& readers);

}  // namespace whence::view
