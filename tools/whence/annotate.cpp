// `whence annotate`: writes on every node of an exported file where it comes from.
#include "annotator/merge/annotate.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/whence/cli.h"
#include "tools/whence/command.h"

namespace whence {
namespace {

// "model.onnx" -> "model.whence.json", the name that `whence record` suggests.
std::string sidecar_beside(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".whence.json").string();
}

std::string sidecar_file(const CommandLine& line, const std::string& model) {
  if (line.has("sidecar")) return line.text("sidecar");
  const std::string guess = sidecar_beside(model);
  if (std::filesystem::exists(guess)) return guess;
  throw Error(Code::usage, "no sidecar was given, and there is no " + guess,
              "name it with --sidecar; `whence export --sidecar-out FILE` or `whence record` writes it",
              {.stage = "command line"});
}

void print_json(const AnnotateReport& report, const std::string& output, const Diagnostics& notes) {
  const nlohmann::ordered_json object = {{"file", output},
                                         {"nodes", report.nodes},
                                         {"exact", report.exact},
                                         {"matched", report.matched},
                                         {"inferred", report.inferred},
                                         {"ancestor", report.ancestor},
                                         {"unattributed", report.unattributed},
                                         {"renamed", report.renamed},
                                         {"changed", report.changed},
                                         {"diagnostics", nlohmann::ordered_json::parse(json_array(notes))}};
  std::cout << object.dump(2) << "\n";
}

void print_people(const AnnotateReport& report, const std::string& output, const Diagnostics& notes) {
  print_text(notes);
  std::cout << output << ": " << report.nodes << " nodes, " << report.exact << " with their exact module";
  if (report.matched > 0) std::cout << ", " << report.matched << " matched";
  if (report.inferred > 0) std::cout << ", " << report.inferred << " inferred from neighbours";
  std::cout << ", " << report.ancestor << " shared by several";
  if (report.unattributed > 0) std::cout << ", " << report.unattributed << " unknown";
  if (report.renamed > 0) std::cout << ", " << report.renamed << " renamed";
  std::cout << (report.changed ? "\n" : "; nothing to add\n");
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "annotate", "model.onnx -o out.onnx [--sidecar model.whence.json]",
      "Writes on every node which module, which call of it and which source line it comes from, for files\n"
      "that `whence export` wrote. `whence strip` takes it back.");
  line.positional("model", "an ONNX file that `whence export` wrote");
  line.option("output,o", "FILE", "the annotated file; may be the same file");
  line.option("sidecar", "FILE", "the sidecar of the same program; model.whence.json beside the model by default");
  line.option("keys", "A,B", "write only these metadata keys, full or by their last part: module,source,namespace");
  line.flag("no-names", "leave node names as they are");
  line.example("whence annotate bert.onnx --sidecar bert.whence.json -o bert.annotated.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string input = line.text("model"), output = line.text("output");
  AnnotateOptions options;
  options.keys = split(line.text_or("keys", ""), ',');
  options.names = !line.has("no-names");

  Diagnostics notes;
  const Sidecar sidecar = unwrap(read_sidecar(sidecar_file(line, input)), notes);
  const AnnotateReport report = unwrap(annotate_file(input, sidecar, output, options), notes);
  line.json() ? print_json(report, output, notes) : print_people(report, output, notes);
  return ExitCode::ok;
}

}  // namespace

const Command annotate_command = {"annotate", "write on every ONNX node where it comes from", run};

}  // namespace whence
