#include "annotator/app/views.h"

#include <optional>
#include <utility>

#include "annotator/app/fitting_sidecar.h"
#include "annotator/app/input_file.h"
#include "annotator/functions/flat_summary.h"
#include "annotator/metadata/attribution.h"

namespace whence::app {

using onnx_file::OnnxSummary;
using view::Explanation;

namespace {

view::ModuleTree read_tree(const std::string& file, const std::optional<std::string>& sidecar_path,
                           Diagnostics& notes) {
  if (kind_of_file(file) != FileKind::onnx) return view::tree_of(read_program(file, notes));
  const OnnxSummary model = unwrap(functions::read_flat_summary(file), notes);
  const std::optional<Sidecar> sidecar = read_fitting_sidecar(sidecar_path, {&model}, notes);
  return view::tree_of(model, program_of(sidecar));
}

// Explains a node of the file, else a node inside a function call under the name that `whence inline` gives it.
Result<Explanation> explain_anywhere(const OnnxSummary& model, const std::string& name, const Program* program,
                                     const SourceRoot& root) {
  Result<Explanation> found = view::explain_node(model, name, program, root);
  if (found || !functions::has_cut_functions(model)) return found;
  const Result<OnnxSummary> flat = functions::read_flat_summary(model.file->path());
  return flat ? view::explain_node(*flat, name, program, root) : found;
}

// Refuses nodes in functions: all calls share a node's name, so a list cannot name the nodes of one module.
void require_outside_functions(const OnnxSummary& model, const view::NodeSelection& selection,
                               const std::string& file) {
  try {
    view::select_nodes(model, selection, nullptr);
  } catch (const Error& error) {
    const Result<OnnxSummary> flat = functions::read_flat_summary(file);
    if (!flat) throw;
    view::select_nodes(*flat, selection, nullptr);  // throws if nothing matches in the inlined file either
    throw Error(Code::usage, "the selected nodes are in functions, where all calls share their names",
                "run `whence inline` on the file first, or select the module that is called",
                {.file = file, .stage = "select"});
  }
}

}  // namespace

ShowReport show(const std::string& file, const ShowOptions& options) {
  ShowReport report;
  report.tree = read_tree(file, options.sidecar, report.notes);
  metadata::note_origins(report.tree.by_exporter, report.tree.count, file, report.notes);
  report.rows = view::select_rows(report.tree, options.selection);
  if (!report.rows.empty()) return report;
  throw Error(Code::unknown_node, "no module matches '" + options.selection.select + "'",
              "use a glob over whole segments, for example 'encoder.**' or '**.attention'",
              {.file = file, .stage = "show"});
}

ExplainReport explain(const std::string& model_path, const std::string& node,
                      const std::optional<std::string>& sidecar_path, const SourceRoot& root) {
  ExplainReport report;
  const OnnxSummary model = unwrap(onnx_file::read_onnx_summary(model_path), report.notes);
  const std::optional<Sidecar> sidecar = read_sidecar_if_given(sidecar_path, report.notes);
  report.explanation = unwrap(explain_anywhere(model, node, program_of(sidecar), root), report.notes);
  return report;
}

Drawing draw(const std::string& model_path, const std::optional<std::string>& sidecar_path) {
  Diagnostics notes;
  auto model = std::make_unique<const OnnxSummary>(unwrap(functions::read_flat_summary(model_path), notes));
  auto sidecar =
      std::make_unique<const std::optional<Sidecar>>(read_fitting_sidecar(sidecar_path, {model.get()}, notes));
  view::NodeGraph graph = view::node_graph_of(*model, program_of(*sidecar));
  metadata::note_origins(graph.tree.by_exporter, graph.tree.count, model_path, notes);
  return {std::move(model), std::move(sidecar), std::move(graph), std::move(notes)};
}

functions::ValueShapes shapes_of(const std::string& model) {
  return value_of(functions::value_shapes(model, {})).values;
}

SelectReport select(const std::string& model_path, const SelectOptions& options) {
  SelectReport report;
  const dialect::Dialect* format = options.format.empty() ? nullptr : &dialect::find_dialect(options.format);
  const OnnxSummary model = unwrap(onnx_file::read_onnx_summary(model_path), report.notes);
  const std::optional<Sidecar> sidecar = read_fitting_sidecar(options.sidecar, {&model}, report.notes);
  std::optional<metadata::Recorded> recorded;
  if (sidecar && metadata::belongs_to(model, sidecar->program)) recorded.emplace(sidecar->program);
  if (functions::has_cut_functions(model)) require_outside_functions(model, options.selection, model_path);
  report.nodes = view::select_nodes(model, options.selection, recorded ? &*recorded : nullptr);
  const std::int64_t possible = view::count_possible_nodes(model, options.selection, recorded ? &*recorded : nullptr);
  if (possible > 0) {
    report.notes.push_back(
        warning(Code::usage,
                std::to_string(possible) + (possible == 1 ? " more node" : " more nodes") +
                    " may belong to the modules: for these only an enclosing module is known, or none",
                "`whence validate --all` lists them as ancestor and unattributed; a sidecar may resolve them",
                {.file = model_path, .stage = "select"}));
  }
  metadata::note_origins(model, report.notes);
  if (format) report.text = dialect::write_choice(*format, report.nodes, model, options.choice, report.notes);
  return report;
}

ProfileReport profile_run(const std::string& model, const profile::ProfileFiles& files) {
  ProfileReport report;
  report.profile = unwrap(profile::profile_by_module(model, files), report.notes);
  report.notes.insert(report.notes.end(), report.profile.notes.begin(), report.profile.notes.end());
  metadata::note_origins(report.profile.tree.by_exporter, report.profile.tree.count, model, report.notes);
  return report;
}

}  // namespace whence::app
