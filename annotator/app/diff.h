// Compares two ONNX files, and writes the comparison as a page and for Model Explorer.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "annotator/view/diff.h"

namespace whence::app {

struct DiffOptions {
  std::optional<std::string> sidecar = {};         // resolves the stamps of exported files that are not annotated
  std::optional<std::string> page = {};            // the HTML file to write
  std::optional<std::string> model_explorer = {};  // the folder to write a.graph.json, b.graph.json and mapping.json to
  std::array<std::vector<std::string>, 2> figures = {};  // measurements of each file, for the page (report/figures.h)
};
struct DiffReport {
  view::ModelDiff diff;
  Diagnostics notes;
  std::vector<std::string> written;  // files
};

// Writes all outputs or none. Throws Error: sidecar_mismatch if the sidecar belongs to neither file; wrong_kind for
// other figures; cannot_write; as reading the files.
DiffReport diff(const std::string& a, const std::string& b, const DiffOptions& options);

// The paths of the files that `model_explorer` stands for.
std::vector<std::string> model_explorer_files(const std::string& folder);

}  // namespace whence::app
