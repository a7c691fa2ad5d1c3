// Checks a choice of nodes and writes it as text for a tool.
#pragma once

#include <string>
#include <vector>

#include "annotator/dialect/dialect.h"
#include "whence/diagnostics.h"

namespace whence::dialect {

struct ChoiceOptions {
  std::string setting;   // empty: the dialect's default
  bool partial = false;  // leave out nodes that the tool cannot take, with a note
};

// Returns the text. Errors: usage if nothing is chosen, a node has no name or shares it with a node outside the choice,
// the tool cannot take a node (unless `partial`), or the dialect does not have the setting.
std::string write_choice(const Dialect& dialect, std::vector<view::SelectedNode> nodes,
                         const onnx_file::OnnxSummary& model, const ChoiceOptions& options, Diagnostics& notes);

}  // namespace whence::dialect
