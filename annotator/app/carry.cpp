// Implements whence::carry: runs a tool on a copy of the model, and matches the tool's file with the model.
#include "whence/carry.h"

#include <chrono>
#include <csignal>
#include <optional>

#include "annotator/annotation/annotate.h"
#include "annotator/app/counts.h"
#include "annotator/app/separate_files.h"
#include "annotator/app/tool_folder.h"
#include "annotator/app/tool_process.h"
#include "annotator/match/file_structure.h"
#include "annotator/match/reference.h"
#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/files/files.h"
#include "schema/files/temporary_names.h"

namespace whence {
namespace {

using app::shell_text;
using app::ToolEnd;
using app::ToolFolder;

constexpr Place running() { return {.stage = "run the tool"}; }

void require_commands(const std::vector<ToolCommand>& tools) {
  const std::string example = "for example: -- onnxslim {in} {out}";
  if (tools.empty()) throw Error(Code::usage, "no tool was specified", example, running());
  for (const ToolCommand& tool : tools) {
    if (tool.empty() || tool.front().empty())
      throw Error(Code::usage, "a tool command has no program name", example, running());
    if (app::has_placeholder(tool, "{in}")) continue;
    throw Error(Code::usage,
                "no argument of `" + shell_text(tool) + "` has {in}, which is replaced with the model's path", example,
                running());
  }
}

// Counts nodes like the match engine: PyTorch's keys also name modules, but without a confidence.
NodeCounts counts_of(const onnx_file::OnnxSummary& model) {
  origin::Counts counts;
  for (const onnx_file::OnnxNode* node : match::nodes_with_functions(model)) {
    const bool known = match::module_of(*node).has_value();
    counts.add(known ? match::confidence_in(*node) : origin::Confidence::unattributed);
  }
  return app::to_node_counts(counts);
}

struct Examined {
  NodeCounts nodes;
  onnx_file::DataFiles data;
};

Examined require_origins(const std::string& model) {
  const auto summary = value_of(onnx_file::read_onnx_summary(model));
  annotation::require_origins(summary, model);
  return {counts_of(summary), onnx_file::data_files_of(summary)};
}

onnx_file::DataFiles data_files_of(const std::string& model) {
  return onnx_file::data_files_of(value_of(onnx_file::read_onnx_summary(model)));
}

std::string printed(const ToolEnd& end) {
  return end.words.empty() ? "; it printed nothing" : "; it printed: " + end.words;
}

[[noreturn]] void report_failure(const std::string& tool, const ToolEnd& end, const CarryOptions& options) {
  if (end.stopped) throw Error(Code::tool_failed, "`" + tool + "` was stopped", "run the command again", running());
  if (end.timed_out) {
    std::string seconds = std::to_string(options.timeout);
    seconds.erase(seconds.find_last_not_of('0') + 1);
    if (seconds.back() == '.') seconds.pop_back();
    throw Error(Code::tool_failed, "`" + tool + "` took more than " + seconds + " s and was stopped" + printed(end),
                "raise the timeout, or check why the tool hangs", running());
  }
  const bool killed = WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL;
  throw Error(Code::tool_failed, "`" + tool + "` ended with " + app::ending_text(end.status) + printed(end),
              killed ? "check whether the machine has enough memory for it"
                     : "run the tool without whence, with a file in place of {in}, to see its own error",
              running());
}

// Runs the tool in its folder; clears the folder if the tool fails or is stopped.
ToolEnd run_in(const ToolFolder& folder, const ToolCommand& tool, const CarryOptions& options) {
  const PostponedStops until_removed;
  try {
    ToolEnd end = app::run_tool(folder.filled_in(tool), {options.timeout, options.show_words});
    if (end.stopped || end.timed_out || end.status != 0) report_failure(shell_text(tool), end, options);
    return end;
  } catch (...) {
    folder.clear();
    throw;
  }
}

// Returns the error for a tool whose file is missing or unreadable; `cause` is the error of reading it.
Error without_file(const ToolFolder& folder, const ToolCommand& tool, const ToolEnd& end, const Error& cause) {
  const Diagnostic first = folder.with_user_paths(cause.diagnostics()).front();
  const bool found = first.code != Code::tool_failed;
  return Error(
      Code::tool_failed,
      "`" + shell_text(tool) + "`: " + (found ? "the tool's file cannot be read: " : "") + first.message + printed(end),
      found ? "check that the tool writes a valid ONNX file to {out}" : first.remedy, running());
}

AnnotateOptions carried_from(const std::string& model, bool overwrite) {
  AnnotateOptions options;
  options.from = model;
  options.names = false;
  // The tool's file certainly derives from `model`, even if all nodes changed.
  options.is_made_from_it = true;
  options.tokens_go = true;
  options.overwrite = overwrite;
  return options;
}

// Returns true for the note that there is nothing to add, as after a tool that keeps all metadata.
bool is_expected(const Diagnostic& note) {
  return note.severity == Severity::note && note.code == Code::sidecar_mismatch;
}

// Returns true for an error about the tool's file: it is malformed, or its weights are missing.
bool is_about(const Error& error, const std::string& file) {
  const Diagnostic& first = error.diagnostics().front();
  const ExitCode exit = info(first.code).exit;
  const bool of_files = exit == ExitCode::malformed || exit == ExitCode::security || first.code == Code::missing_file;
  return of_files && first.where.file == file;
}

// Carries metadata through one tool. `output` may be in the folder of an intermediate step.
AnnotateReport carry_through(const std::string& model, const onnx_file::DataFiles& data, const std::string& output,
                             const ToolCommand& tool, const CarryOptions& options) {
  const ToolFolder folder(model, data, output);
  const ToolEnd end = run_in(folder, tool, options);
  std::string file;
  try {
    file = folder.result(tool);
    AnnotateReport report = annotate(file, output, carried_from(model, options.overwrite));
    std::erase_if(report.notes, is_expected);
    report.notes = folder.with_user_paths(std::move(report.notes));
    return report;
  } catch (const Error& error) {
    if (file.empty() || is_about(error, file)) throw without_file(folder, tool, end, error);
    throw Error(folder.with_user_paths(error.diagnostics()));
  }
}

}  // namespace

CarryReport carry(const std::string& model, const std::string& output, const std::vector<ToolCommand>& tools,
                  const CarryOptions& options) {
  require_commands(tools);
  app::model_output({{"the model", model}}, {"--output", output}, app::InPlace::refused, options.overwrite);
  CarryReport report;
  const Examined examined = require_origins(model);
  report.before = examined.nodes;
  const ScratchFolder between(output);  // for intermediate files between two tools
  std::string current = model;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const bool last = i + 1 == tools.size();
    const std::string target = last ? output : between.file(std::to_string(i) + "_" + base_name(model));
    const auto began = std::chrono::steady_clock::now();
    AnnotateReport step =
        carry_through(current, i == 0 ? examined.data : data_files_of(current), target, tools[i], options);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    report.steps.push_back({shell_text(tools[i]), step.nodes, seconds.count()});
    if (last) report.result = std::move(step);
    current = target;
  }
  return report;
}

}  // namespace whence
