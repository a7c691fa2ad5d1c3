// Carries origins through a tool (an optimiser, quantiser or converter that runs as a command) that drops or mixes up
// the metadata of an annotated file.
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

// A program (looked up on PATH) and its arguments. In each argument, {in} is replaced with the path of a copy of the
// model and {out} with the path of the tool's output. A tool without {out} changes {in} in place.
using ToolCommand = std::vector<std::string>;

struct CarryOptions {
  double timeout = 0;       // seconds for each tool; 0: no limit
  bool show_words = false;  // copies the tools' output to standard error as it comes
  bool overwrite = false;   // as in AnnotateOptions
};

struct CarryReport {
  NodeCounts before;  // nodes of the model
  struct Step {
    std::string tool;  // the command line, before {in} and {out} are replaced
    NodeCounts nodes;  // nodes of the tool's output
    double seconds = 0;
  };
  std::vector<Step> steps;  // one for each tool
  AnnotateReport result;    // of the last tool's output
};

// Runs the tools in order, each on the output of the previous tool, and writes the last output to `output` with the
// origins of the model's nodes added. Names, order and weights are those of the last tool. The model is never changed,
// and no partial output is written. Errors: usage; missing_file for a program that does not exist; wrong_kind when the
// model has no origins; tool_failed, with the end of the tool's output, when a tool fails, is stopped or writes no ONNX
// file; and the errors of annotate().
CarryReport carry(const std::string& model, const std::string& output, const std::vector<ToolCommand>& tools,
                  const CarryOptions& options = {});

}  // namespace whence
