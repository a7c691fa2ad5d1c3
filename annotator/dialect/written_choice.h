// A choice of nodes as text for a tool, after the checks that hold for every tool.
#pragma once

#include <string>
#include <vector>

#include "annotator/dialect/dialect.h"
#include "whence/diagnostics.h"

namespace whence::dialect {

struct ChoiceOptions {
  std::string setting;   // empty: the dialect's default
  bool partial = false;  // leave out what the tool cannot be given, and say so in a note
};

// Errors: usage when nothing is chosen, a node has no name, a name is also that of a node that is not chosen, the tool
// cannot be given a node (unless `partial`), the setting is not one of the dialect's.
std::string write_choice(const Dialect& dialect, std::vector<view::SelectedNode> nodes,
                         const onnx_file::OnnxSummary& model, const ChoiceOptions& options, Diagnostics& notes);

}  // namespace whence::dialect
