// `whence diff`: compares two ONNX files, module by module.
#include "annotator/app/diff.h"

#include <iostream>

#include "annotator/app/separate_files.h"
#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

void declare(CommandLine& line) {
  line.positional("a", "an ONNX file");
  line.positional("b", "the file to compare it with, for example the output of an optimiser");
  line.option("sidecar,s", "FILE", "the sidecar, for files that whence exported but did not annotate");
  line.option("depth,d", "N", "levels of modules in the text");
  line.flag("all", "also modules without a difference");
  line.flag("nodes", "every node that changed, not only the first few");
  line.output("html", "write a page instead: both module trees, and the graphs of each module side by side");
  line.repeated("figures-a", "FILE",
                "show measurements of the first file on the page: JSON of whence profile, accuracy or sensitivity");
  line.repeated("figures-b", "FILE", "the same for the second file");
  line.option("model-explorer", "DIR",
              "write both graphs and their mapping into this folder, to open side by side in Model Explorer");
  line.flag("exit-code", "exit with 1 if there is a difference");
  line.removed("no-pager", no_pager);
  line.example("whence diff model.onnx optimised.onnx --depth 2");
  line.example("whence diff model.onnx model.int8.onnx --figures-b accuracy.json --html diff.html");
}

app::DiffOptions options_of(const CommandLine& line) {
  app::DiffOptions options{.sidecar = line.optional_text("sidecar"),
                           .page = line.optional_text("html"),
                           .model_explorer = line.optional_text("model-explorer"),
                           .figures = {line.list("figures-a"), line.list("figures-b")}};
  if (!options.page && (!options.figures[0].empty() || !options.figures[1].empty())) {
    throw Error(Code::usage, "figures are shown on the page only", "add --html diff.html", {.stage = "command line"});
  }
  if (options.model_explorer) {
    if (options.model_explorer->empty()) {
      throw Error(Code::usage, "--model-explorer is empty", "name a folder", {.stage = "command line"});
    }
    std::vector<app::NamedFile> outputs;
    for (const std::string& file : app::model_explorer_files(*options.model_explorer)) {
      outputs.push_back({"--model-explorer", file});
    }
    if (options.page) outputs.push_back({"--html", *options.page});
    app::require_separate(line.inputs(), outputs, "");
  }
  return options;
}

void print_written(const app::DiffReport& report) {
  const view::ModelDiff& diff = report.diff;
  for (const std::string& file : report.written) {
    std::cout << file << ": " << text::counted(diff.all.nodes_a, "node") << " -> " << diff.all.nodes_b << ", "
              << (diff.same() ? "no difference" : text::counted(diff.nodes.size(), "change")) << "\n";
  }
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "diff", "a.onnx b.onnx [--html page.html] [--sidecar F] [--exit-code]",
      "Compares two annotated ONNX files: the nodes and parameters of each module, and which nodes were added,\n"
      "removed, fused, replaced, renamed or moved to another module, or have different attributes, weights\n"
      "or inputs.");
  declare(line);
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const view::DiffText extent{.depth = line.depth(), .every_module = line.has("all"), .every_node = line.has("nodes")};
  const app::DiffReport report = app::diff(line.text("a"), line.text("b"), options_of(line));
  print_text(report.notes);
  if (line.json()) {
    std::cout << view::to_json(report.diff) << "\n";
  } else if (!report.written.empty()) {
    print_written(report);
  } else {
    std::cout << view::to_text(report.diff, extent, output_palette());
  }
  return line.has("exit-code") && !report.diff.same() ? ExitCode::findings : ExitCode::ok;
}

}  // namespace

const Command diff_command = {"diff", "compare two ONNX files, module by module", run};

}  // namespace whence
