// `whence export`: converts a TorchScript or torch.export archive to an ONNX file whose nodes contain their origins.
#include "whence/export.h"

#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/text/words.h"
#include "schema/printable.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/export_options.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

void print_json(const ExportReport& report) {
  nlohmann::ordered_json object = {
      {"file", report.file},           {"size", report.size},     {"opset", report.opset},    {"nodes", report.nodes},
      {"operators", report.operators}, {"inputs", report.inputs}, {"outputs", report.outputs}};
  if (!report.sidecar.empty()) object["sidecar"] = report.sidecar;
  if (report.functions) object["functions"] = to_json(*report.functions);
  for (const auto& [stage, seconds] : report.stages) object["seconds"][stage] = seconds;
  print_json(std::move(object), report.notes);
}

void print_people(const ExportReport& report, bool times) {
  print_text(report.notes);
  std::cout << report.file << ": " << text::counted(report.nodes, "node") << " of "
            << text::counted(report.operators.size(), "operator") << ", opset " << report.opset << ", "
            << human_size(report.size) << "\n";
  for (const std::string& input : report.inputs) std::cout << "  input   " << shown(input) << "\n";
  for (const std::string& output : report.outputs) std::cout << "  output  " << shown(output) << "\n";
  if (!report.sidecar.empty()) std::cout << report.sidecar << ": its sidecar\n";
  if (report.functions) std::cout << "  " << describe(*report.functions) << "\n";
  for (const auto& [stage, seconds] : report.stages) {
    if (times) std::cout << "  " << std::fixed << std::setprecision(3) << seconds << " s  " << stage << "\n";
  }
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "export", "model.pt|model.pt2 -o model.onnx [--inputs FILE | --input SPEC]... [--dynamic SPEC]...",
      "Exports a TorchScript or torch.export archive to ONNX, with the operation that each node comes from.\n"
      "TorchScript (.pt) needs LibTorch; a torch.export archive (.pt2) needs neither LibTorch nor example\n"
      "inputs, and --dynamic names the sizes that are dynamic in it.");
  line.positional("archive", "an archive from torch.jit.save, traced or scripted, or from torch.export.save");
  declare_model_output(line, "the ONNX file to write", Target::another_file);
  declare_export_options(line);
  line.flag("profile", "print the time of each stage");
  line.example(
      "whence export bert.pt -o bert.onnx --input 'input_ids=int64[2,16]<30522' --dynamic 'input_ids:0=batch,1=seq'");
  line.example("whence export bert.pt2 -o bert.onnx --dynamic 'input_ids:0=batch'");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const ExportReport report = export_archive(line.text("archive"), line.text("output"), parse_export_options(line));
  line.json() ? print_json(report) : print_people(report, line.has("profile"));
  return ExitCode::ok;
}

}  // namespace

const Command export_command = {"export", "export a TorchScript or torch.export archive to ONNX with origins", run};

}  // namespace whence
