// Carry origins through a tool: an optimiser, quantiser or converter that is run as a command, and that drops or mixes
// up what an annotated file says of its nodes.
//
//   whence::carry("bert.annotated.onnx", "bert.slim.onnx", {{"onnxslim", "{in}", "{out}"}});
//
// CMake: find_package(whence) and target_link_libraries(... whence::annotator). LibTorch is not needed.
#pragma once

#include <string>
#include <vector>

#include "whence/annotate.h"
#include "whence/diagnostics.h"

namespace whence {

// A program, looked up as a shell does, and its arguments. In each argument {in} is replaced by the path of a copy of
// the model, {out} by the path where the tool has to write its file. Without {out} the tool changes {in}.
using ToolCommand = std::vector<std::string>;

struct CarryOptions {
  double timeout = 0;       // seconds that one tool may take; 0: any
  bool show_words = false;  // copies the tools' output to standard error as it comes
  bool overwrite = false;   // as in AnnotateOptions
};

struct CarryReport {
  NodeCounts before;  // nodes of the model
  struct Step {
    std::string tool;  // its command line, {in} and {out} as they were given
    NodeCounts nodes;  // nodes of its file
    double seconds = 0;
  };
  std::vector<Step> steps;  // one for each tool
  AnnotateReport result;    // the last one's file
};

// Runs the tools one after the other, each on what the one before made, and writes the last one's file to `output` with
// the origins of the model's nodes on it. Names, order and weights are the tool's. The model is never written to; an
// output is written as a whole or not at all. Errors: usage; missing_file for a program that is not there; wrong_kind
// when the model has no origins; tool_failed when a tool fails, is stopped, or leaves no ONNX file, with its last
// words; those of annotate().
CarryReport carry(const std::string& model, const std::string& output, const std::vector<ToolCommand>& tools,
                  const CarryOptions& options = {});

}  // namespace whence
