// `whence attest`: where each tensor of an ONNX file comes from, proved against a checkpoint.
#include "annotator/app/attest.h"

#include <iostream>
#include <map>

#include "annotator/text/table.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

using derivation::Verdict;

ExitCode run(int argc, char** argv) {
  CommandLine line("attest", "model.onnx --weights CHECKPOINT [--sidecar FILE]",
                   "Proves where each tensor of an ONNX file comes from.");
  line.positional("model", "an ONNX file");
  line.option("weights,w", "FILE", "the checkpoint");
  line.option("sidecar,s", "FILE", "the sidecar of the model");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  const app::AttestReport report =
      app::attest(line.text("model"), {.weights = line.text_or("weights", ""), .sidecar = line.text_or("sidecar", "")});
  print_text(report.notes);
  bool all = true;
  for (const app::AttestedTensor& tensor : report.tensors) {
    const auto& derivation = tensor.derivation;
    all = all && derivation.verdict != Verdict::unaccounted;
    std::cout << name_of(derivation.verdict) << "  " << tensor.name << "  " << derivation.bytes << "  "
              << (derivation.expression ? to_text(*derivation.expression) : "") << "  " << derivation.remark << "\n";
  }
  for (const app::AttestedNode& node : report.nodes) {
    if (node.verdict != derivation::NodeVerdict::unaccounted) continue;
    all = false;
    std::cout << "node  " << node.op_type << "  " << node.name << "\n";
  }
  return all ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command attest_command = {"attest", "prove where each tensor of a file comes from", run};

}  // namespace whence
