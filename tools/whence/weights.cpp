// `whence weights`: recovers the parameters of a model from an exported, optimised, quantised file.
#include <iostream>

#include "annotator/app/recover_weights.h"
#include "schema/printable.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line("weights", "shipped.onnx (--base CHECKPOINT | --statement FILE) [-o state.safetensors]",
                   "Recovers a model's parameters from a file that was exported, optimised and quantised: the steps\n"
                   "that `whence attest` found are inverted. Parameters that were joined, sliced or transposed get\n"
                   "their own form again; those from integers are their real numbers. Exit code 1 if a parameter\n"
                   "cannot be recovered: a norm was folded into it, or the file holds a part of it.");
  line.positional("model", "the file");
  line.option("base,b", "FILE",
              "the checkpoint that the file was made from: its names and forms are used, not its numbers");
  line.option("statement", "FILE", "instead of --base: the statement of `whence attest`");
  line.option("sidecar,s", "FILE", "the sidecar of the model");
  line.flag("split-norms",
            "for a norm that was folded into a product: the product gets the file's numbers, and the norm numbers "
            "that change nothing, so that the model computes the same");
  line.option("output,o", "FILE", "the safetensors file to write");
  line.flag("overwrite", "replace an existing file");
  line.example("whence weights bert.fp16.onnx --statement bert.json -o bert.safetensors");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  const app::RecoverReport report =
      app::recover_weights(line.text("model"), {.base = line.text_or("base", ""),
                                                .statement = line.text_or("statement", ""),
                                                .sidecar = line.text_or("sidecar", ""),
                                                .splits_norms = line.has("split-norms"),
                                                .output = line.text_or("output", ""),
                                                .overwrite = line.has("overwrite")});
  if (line.json()) {
    print_json({{"stored", report.stored},
                {"dequantised", report.dequantised},
                {"left_out", report.left_out},
                {"equivalent", report.equivalent},
                {"several_forms", report.several_forms},
                {"elsewhere", report.elsewhere},
                {"missing", report.missing}},
               report.notes);
  } else {
    print_text(report.notes);
    const auto print = [](const std::vector<std::string>& names, const char* what) {
      if (!names.empty()) std::cout << names.size() << " parameters " << what << "\n";
    };
    print(report.stored, "with the file's numbers");
    print(report.dequantised, "computed from integers and their scales");
    print(report.left_out, "that the file left out, because all elements were one number");
    print(report.equivalent, "of folded norms and their products, with other numbers that have the same effect");
    print(report.elsewhere, "of other parts of the checkpoint's model");
    for (const std::string& name : report.several_forms) {
      std::cout << "in several forms: " << printable(name)
                << ": other readers get less precise numbers from the file\n";
    }
    for (const auto& [name, reason] : report.missing) {
      std::cout << "missing: " << printable(name) << ": " << reason << "\n";
    }
    if (line.has("output")) std::cout << line.text("output") << ": written\n";
  }
  return report.missing.empty() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command weights_command = {"weights", "recover a model's parameters from an exported, quantised file", run};

}  // namespace whence
