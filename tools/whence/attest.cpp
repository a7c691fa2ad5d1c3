// `whence attest`: where each tensor of an ONNX file comes from, proved against a checkpoint.
#include "annotator/app/attest.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "schema/printable.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

using app::AttestReport;
using comparison::NodeVerdict;
using derivation::Verdict;

constexpr std::size_t shown = 20;  // of the tensors and nodes that are unaccounted

std::string modules_text(const std::vector<std::string>& modules) {
  if (modules.empty()) return "";
  const std::string first = modules.front().empty() ? "(root)" : modules.front();
  return "  in " + first + (modules.size() > 1 ? " and " + std::to_string(modules.size() - 1) + " more" : "");
}

void print_more(std::size_t count) {
  if (count > shown) std::cout << "  ... and " << count - shown << " more\n";
}

void print_tensors(const AttestReport& report) {
  std::size_t count = 0;
  for (const app::AttestedTensor& tensor : report.tensors) {
    const auto& derivation = tensor.derivation;
    if (derivation.verdict != Verdict::unaccounted || ++count > shown) continue;
    std::cout << "  tensor " << tensor.name << ", " << derivation.bytes << " bytes" << modules_text(tensor.modules)
              << (derivation.remark.empty() ? "" : ": " + derivation.remark) << "\n";
  }
  print_more(count);
}

void print_nodes(const AttestReport& report) {
  std::size_t count = 0;
  for (const app::AttestedNode& node : report.nodes) {
    if (node.verdict != NodeVerdict::unaccounted || ++count > shown) continue;
    std::cout << "  node " << node.name << ", " << node.op_type << modules_text(node.modules)
              << (node.remark.empty() ? "" : ": " + node.remark) << "\n";
  }
  print_more(count);
}

void print_report(const AttestReport& report, const std::string& model, bool has_program) {
  std::cout << model << "\n";
  for (const Verdict verdict : derivation::all_verdicts) {
    const AttestReport::Count count = report.count(verdict);
    if (count.tensors == 0) continue;
    std::cout << "  " << name_of(verdict) << ": " << count.tensors << " tensors, " << count.bytes << " bytes\n";
  }
  print_tensors(report);
  if (!has_program) {
    std::cout << "  nodes: unaccounted, because there is no program to compare with (--sidecar)\n";
    return;
  }
  const std::int64_t unaccounted = report.count(NodeVerdict::unaccounted);
  std::cout << "  nodes: " << report.nodes.size() - static_cast<std::size_t>(unaccounted) << " accounted for, "
            << unaccounted << " unaccounted\n";
  print_nodes(report);
  for (const app::AbsentParameter& absent : report.absent) {
    if (absent.has_effect) std::cout << "  the file does not hold the parameter " << printable(absent.name) << "\n";
  }
  for (const std::string& difference : report.differences) std::cout << "  " << difference << "\n";
}

ExitCode run(int argc, char** argv) {
  CommandLine line("attest", "model.onnx --weights CHECKPOINT [--sidecar FILE] [-o statement.json] [--bom bom.json]",
                   "Proves where each tensor of an ONNX file comes from: it is computed again from the checkpoint,\n"
                   "by the steps of the exporter, the optimiser and the quantiser.\n\n"
                   "  exact        the same bytes\n"
                   "  bounded      the same numbers within the rounding of single precision\n"
                   "  constant     a constant of the recorded program\n"
                   "  calibrated   the range of an activation, which a tool measured\n"
                   "  unaccounted  none of these\n\n"
                   "Nodes are compared with the recorded program. Exit code 1 if a tensor or node is unaccounted.");
  line.positional("model", "an ONNX file from any exporter, optimiser or quantiser");
  line.option("weights,w", "FILE", "the checkpoint: safetensors, shards, torch.save, or a folder");
  line.option("sidecar,s", "FILE", "the sidecar of the model, for nodes and constants");
  line.option("output,o", "FILE", "the statement to write, in in-toto's form, with all tensors and nodes");
  line.option("bom", "FILE", "the bill of materials to write, in CycloneDX's form");
  line.option("values", "FILE",
              "also run the file on recorded inputs, and compare its values with PyTorch's;\n"
              "needs the Python package: `whence attest --values - --help`");
  line.example("whence attest bert.int8.onnx --weights bert.safetensors --sidecar bert.whence.json -o statement.json");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  const AttestReport report = app::attest(line.text("model"), {.weights = line.text_or("weights", ""),
                                                               .sidecar = line.text_or("sidecar", ""),
                                                               .statement = line.text_or("output", ""),
                                                               .bom = line.text_or("bom", "")});
  if (line.json()) {
    print_json(nlohmann::ordered_json::parse(statement_of(report)), report.notes);
  } else {
    print_text(report.notes);
    print_report(report, line.text("model"), line.has("sidecar"));
    for (const char* output : {"output", "bom"}) {
      if (line.has(output)) std::cout << line.text(output) << ": written\n";
    }
  }
  return report.all_accounted() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command attest_command = {"attest", "prove where each tensor of a file comes from", run};

}  // namespace whence
