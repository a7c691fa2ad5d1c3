// Implements whence::export_archive: converts a TorchScript or torch.export archive to an ONNX file with origins.
//
//   archive -> recorder or pt2 -> Program -> exporter -> write, optionally with sidecar and annotation
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "annotator/app/export_markdown.h"
#include "annotator/app/export_options.h"
#include "annotator/app/function_choice.h"
#include "annotator/app/read_options.h"
#include "annotator/app/recorder_library.h"
#include "annotator/app/separate_files.h"
#include "annotator/functions/outline_file.h"
#include "annotator/metadata/node_keys.h"
#include "schema/files/files.h"
#include "schema/files/new_file.h"
#include "schema/files/output_files.h"
#include "schema/files/paths.h"
#include "schema/files/scratch_folder.h"
#include "schema/sidecar/file_names.h"
#include "schema/sidecar/sidecar.h"
#include "whence/export.h"

namespace whence {
namespace {

namespace fs = std::filesystem;
using graph::Graph;

void count_nodes(const Graph& graph, ExportReport& report) {
  for (const graph::GraphNode& node : graph.nodes) {
    ++report.nodes;
    report.operators.insert(node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type);
    for_each_body(node, [&](const Graph& body) { count_nodes(body, report); });
  }
}

// Returns "input_ids int64[batch,16]".
std::string describe(const Graph& graph, graph::GraphValueId id) {
  const graph::GraphValue& value = graph.values[id];
  std::string text = value.name + " " + std::string(name_of(value.dtype));
  if (!value.dims) return text;
  text += "[";
  for (const Dim& dim : *value.dims) {
    if (text.back() != '[') text += ",";
    const bool named = dim.dynamic && dim.symbol != none_id;
    text += named ? graph.symbols[dim.symbol].name : dim.is_static() ? std::to_string(dim.size) : "?";
  }
  return text + "]";
}

// Turns modules of the annotated draft into functions.
std::optional<FunctionsReport> cut_functions(const std::string& draft, const FunctionChoice& choice,
                                             Diagnostics& notes) {
  Result<FunctionsReport> outlined = functions::outline_file(draft, draft, choice);
  if (outlined || !choice.automatic()) return unwrap(std::move(outlined), notes);
  // With "auto" the user named no module, so finding none is only a warning.
  notes.push_back(warning(Code::usage, "no module with three or more nodes is repeated: no function was made",
                          "choose modules: --functions types=A,B or modules=GLOB",
                          {.file = draft, .stage = "functions"}));
  return std::nullopt;
}

// Adds the model's data files, which are in the scratch folder.
void add_data_files(const ScratchFolder& scratch, const onnx_file::ModelOutput& output, OutputFiles& files) {
  std::set<fs::path> names;
  std::error_code failure;
  fs::directory_iterator entries(scratch.path(), failure);
  for (; !failure && entries != fs::directory_iterator(); entries.increment(failure)) {
    names.insert(entries->path().filename());
  }
  if (failure) fail_to_write(output.path, failure.value());
  names.erase(base_name(output.path));
  for (const fs::path& name : names) {
    const std::string data = scratch.file(name.string());
    AtomicFile* const file =
        onnx_file::add_data_file(data, (fs::path(output.path).parent_path() / name).string(), output, files);
    if (file != nullptr) file->take(data);
  }
}

class ArchiveExport {
 public:
  ArchiveExport(const std::string& archive, const std::string& output, const Options& options)
      : options_(options),
        read_(app::read_options(archive, options)),
        conversion_(app::conversion_options(options)),
        output_(checked_output(archive, output)) {
    if (!options.converters.empty()) converters_ = write::UserFunctions::read(options.converters, options.opset);
    if (converters_) conversion_.custom_operators = converters_->operators();
    if (!options.functions.empty()) choice_ = app::parse_function_choice(options.functions);
    // Annotations contain the texts of fx nodes. A sidecar needs digests, to find renamed or transposed weights later.
    read_.texts = annotates() || !options.sidecar.empty();
    read_.digests = !options.sidecar.empty();
    run_.archive = archive;
    run_.output = output;
    run_.opset = options.opset;
  }

  // Writes all files to a scratch folder, and renames all or none of them at the end.
  ExportReport run() {
    // Opens the outputs before the work, so that an unwritable path fails at once.
    std::optional<OutputFiles> files(std::in_place);
    AtomicFile* const markdown = options_.report.empty() ? nullptr : &files->add(options_.report);
    AtomicFile* const sidecar = options_.sidecar.empty() ? nullptr : &files->add(options_.sidecar);
    AtomicFile& model = files->add(output_.path);
    const ScratchFolder scratch(output_.path);
    try {
      convert();
      const std::string draft = scratch.file(base_name(output_.path));
      write_draft(draft);
      run_.diagnostics = scratch.with_user_paths(std::move(run_.diagnostics));
      report_written(draft);
      if (sidecar != nullptr) sidecar->write(bound_sidecar(draft));
      add_data_files(scratch, output_, *files);
      model.take(draft);
      run_.written = true;
      run_.stages.end();
      if (markdown != nullptr) markdown->write(app::to_markdown(run_));
      files->commit();
    } catch (const Error& error) {
      files.reset();
      fail(scratch.with_user_paths(error.diagnostics()));
    }
    report_.stages = run_.stages.seconds();
    report_.notes = std::move(run_.diagnostics);
    return std::move(report_);
  }

 private:
  bool annotates() const { return options_.annotate || choice_; }

  onnx_file::ModelOutput checked_output(const std::string& archive, const std::string& output) const {
    require_sidecar_name(options_.sidecar);
    std::vector<app::NamedFile> inputs = {
        {"archive", archive}, {"--inputs", options_.inputs_file}, {"--converters", options_.converters}};
    for (const std::string& library : options_.libraries) inputs.push_back({"--library", library});
    std::vector<app::NamedFile> outputs = {
        {"--output", output}, {"--sidecar-out", options_.sidecar}, {"--report", options_.report}};
    app::require_separate(inputs, outputs, "");
    const ExternalData external = app::external_data(options_);
    if (external.always && !external.per_tensor) {  // names of other data files are only known when they are written
      outputs.push_back({"the weights", output + ".data"});
      app::require_distinct(outputs);
    }
    return app::model_output(inputs, {"--output", output}, app::InPlace::refused, options_.external_data.overwrite);
  }

  void convert() {
    run_.stages.begin("read the archive");
    app::load_operators(options_.libraries);
    sidecar_.program = app::read_archive(read_, run_.diagnostics);
    run_.program = &sidecar_.program;
    run_.stages.begin("convert");
    graph_ = unwrap(exporter::export_program(sidecar_.program, conversion_), run_.diagnostics);
    if (graph_->outputs.empty()) {
      throw Error(Code::unsupported_feature, "the model returns no tensor, but an ONNX graph must have an output",
                  "return the result as a tensor", {.file = run_.archive, .stage = "export"});
    }
    run_.graph = &*graph_;
  }

  void write_draft(const std::string& draft) {
    run_.stages.begin(annotates() ? "write and annotate" : "write");
    std::optional<metadata::NodeKeys> keys;
    if (annotates()) keys.emplace(sidecar_.program, metadata::annotation_keys());
    write::WriteOptions writing = app::write_options(sidecar_.program, options_);
    writing.functions = converters_;
    writing.interface = write::interface_metadata(*graph_, sidecar_.program);
    writing.keys = keys ? &*keys : nullptr;
    write::write_onnx(*graph_, draft, writing);
    if (choice_) report_.functions = cut_functions(draft, *choice_, run_.diagnostics);
  }

  void report_written(const std::string& draft) {
    report_.file = output_.path;
    report_.sidecar = options_.sidecar;
    report_.opset = options_.opset;
    std::error_code ignored;  // moving the draft next reports the error
    report_.size = fs::file_size(draft, ignored);
    count_nodes(*graph_, report_);
    for (const graph::GraphValueId id : graph_->inputs) report_.inputs.push_back(describe(*graph_, id));
    for (const graph::GraphValueId id : graph_->outputs) report_.outputs.push_back(describe(*graph_, id));
  }

  std::string bound_sidecar(const std::string& draft) {
    sidecar_.bindings.push_back({base_name(draft), digest_of_file(draft), options_.opset, report_.nodes});
    return to_json_text(sidecar_);
  }

  // Throws all errors. Also writes them to the requested report, unless an error is about the report file itself.
  [[noreturn]] void fail(Diagnostics found) {
    run_.diagnostics.insert(run_.diagnostics.end(), found.begin(), found.end());
    run_.written = false;
    run_.stages.end();
    const bool report_failed =
        std::ranges::any_of(found, [&](const Diagnostic& each) { return same_file(each.where.file, options_.report); });
    if (!options_.report.empty() && !report_failed) {
      try {
        write_file(options_.report, app::to_markdown(run_));
      } catch (const Error& unwritten) {  // added to the errors of the export, which must not be hidden
        found.insert(found.end(), unwritten.diagnostics().begin(), unwritten.diagnostics().end());
      }
    }
    throw Error(found);
  }

  const Options& options_;
  ReadOptions read_;
  exporter::ExportOptions conversion_;
  onnx_file::ModelOutput output_;
  std::shared_ptr<const write::UserFunctions> converters_;
  std::optional<FunctionChoice> choice_;

  app::ExportRun run_;
  Sidecar sidecar_;
  std::optional<Graph> graph_;
  ExportReport report_;
};

}  // namespace

ExportReport export_archive(const std::string& archive, const std::string& output, const Options& options) {
  return ArchiveExport(archive, output, options).run();
}

}  // namespace whence
