// Which weights of an ONNX file are whose: by the modules of the nodes that read them. Names do not tell: exporters
// store a Linear's weight transposed under a name of their own.
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
  std::set<std::string> modules;  // of the nodes that read it
  bool unplaced = false;          // a node without a module reads it, too
};

// Initializers of floating-point and quantized numbers that some reader reads, those of bodies too. Single numbers
// count when they are named after a module that reads them: others are constants. What a node of several modules reads
// belongs to the one that it is named after, else to the module around them all: a Conv with a BatchNorm folded in
// reads the weights of both in one.
std::vector<ReadParameter> parameters_read(const onnx_file::OnnxGraph& graph,
                                           const std::vector<ParameterReader>& readers);

}  // namespace whence::view
