#include "annotator/app/diff.h"

#include <filesystem>
#include <utility>

#include "annotator/app/fitting_sidecar.h"
#include "annotator/functions/flat_summary.h"
#include "annotator/functions/value_shapes.h"
#include "annotator/metadata/attribution.h"
#include "annotator/report/diff_page.h"
#include "annotator/view/model_explorer.h"
#include "annotator/view/model_explorer_mapping.h"
#include "schema/files/output_files.h"

namespace whence::app {

using onnx_file::OnnxSummary;

namespace {

// Warns if the figures state another file's name, most likely because the two sides were exchanged.
void check_model(const report::Figures& figures, const std::string& file, const std::string& path, Diagnostics& notes) {
  if (figures.model == file) return;
  notes.push_back(warning(Code::input_mismatch,
                          "the figures are of " + printable(figures.model) + ", not of " + printable(file),
                          "--figures-a takes measurements of the first file, --figures-b those of the second",
                          {.file = path, .stage = "figures"}));
}

void make_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(Code::cannot_write, "the folder cannot be made: " + failure.message(),
                "pass a folder in an existing, writable one", {.file = folder, .stage = "write"});
  }
}

void write_for_model_explorer(const view::Comparison& comparison, const std::array<report::DiffSide, 2>& sides,
                              const Program* program, const std::vector<std::string>& paths, OutputFiles& files) {
  std::array<view::NodeGraph, 2> graphs;
  for (const std::size_t side : {0U, 1U}) {
    graphs[side] = view::node_graph_of(*sides[side].model, program);
    AtomicFile& file = files.add(paths[side]);
    view::write_model_explorer(*sides[side].model, graphs[side], sides[side].shapes,
                               [&](std::string_view text) { file.write(text); });
  }
  AtomicFile& file = files.add(paths[2]);
  view::write_mapping(comparison, graphs[0], graphs[1], [&](std::string_view text) { file.write(text); });
}

}  // namespace

std::vector<std::string> model_explorer_files(const std::string& folder) {
  const std::filesystem::path parent = folder.empty() ? "." : folder;
  std::vector<std::string> paths;
  for (const char* name : {"a.graph.json", "b.graph.json", "mapping.json"}) paths.push_back((parent / name).string());
  return paths;
}

DiffReport diff(const std::string& a_path, const std::string& b_path, const DiffOptions& options) {
  DiffReport report;
  std::array<report::DiffSide, 2> sides;
  for (const std::size_t side : {0U, 1U}) {
    for (const std::string& path : options.figures[side]) {
      sides[side].figures.push_back(report::read_figures(path));
      check_model(sides[side].figures.back(), base_name(side == 0 ? a_path : b_path), path, report.notes);
    }
  }
  const bool writes = options.page || options.model_explorer;
  if (writes) {  // first, because shape inference needs the most memory
    for (const std::size_t side : {0U, 1U}) {
      sides[side].shapes = value_of(functions::value_shapes(side == 0 ? a_path : b_path, {})).values;
    }
  }
  const OnnxSummary a = unwrap(functions::read_flat_summary(a_path), report.notes);
  const OnnxSummary b = unwrap(functions::read_flat_summary(b_path), report.notes);
  const std::optional<Sidecar> sidecar = read_fitting_sidecar(options.sidecar, {&a, &b}, report.notes);
  view::Comparison comparison = view::compare_models(a, b, program_of(sidecar));
  if (writes) {
    sides[0].model = &a;
    sides[1].model = &b;
    OutputFiles files;
    if (options.page) {
      report::write_diff_page(report::diff_page_data(comparison, sides, program_of(sidecar)), files.add(*options.page));
      report.written.push_back(*options.page);
    }
    if (options.model_explorer) {
      make_folder(*options.model_explorer);
      const std::vector<std::string> paths = model_explorer_files(*options.model_explorer);
      write_for_model_explorer(comparison, sides, program_of(sidecar), paths, files);
      report.written.insert(report.written.end(), paths.begin(), paths.end());
    }
    files.commit();
  }
  report.diff = std::move(comparison.diff);
  report.notes.insert(report.notes.end(), report.diff.notes.begin(), report.diff.notes.end());
  for (const OnnxSummary* model : {&a, &b}) metadata::note_origins(*model, report.notes);
  return report;
}

}  // namespace whence::app
