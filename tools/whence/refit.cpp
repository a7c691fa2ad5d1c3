// `whence refit`: puts the weights of another checkpoint into an exported, optimised, quantised file.
#include "annotator/app/refit.h"

#include <iostream>

#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "refit",
      "shipped.onnx (--base CHECKPOINT | --statement FILE) [--weights CHECKPOINT] [--lora ADAPTER] [-o new.onnx]",
      "Puts new weights into a file that was exported, optimised and quantised: each tensor is computed again\n"
      "from the new checkpoint, by the steps that gave it its bytes. Scales of integers are computed anew by\n"
      "the same scheme. Ranges of activations, which a calibration measured, stay. Nothing is written if a\n"
      "tensor's origin is unknown, or a parameter is missing or has other sizes. Without -o, only checks.");
  line.positional("model", "the file to refit, which stays as it is");
  line.option("base,b", "FILE",
              "the checkpoint that the file was made from: safetensors, shards, torch.save, or a folder");
  line.option("statement", "FILE", "instead of --base: the statement of `whence attest`");
  line.option("weights,w", "FILE", "the new checkpoint");
  line.option("lora", "FILE", "an adapter of PEFT, which is added to the new checkpoint, or else to --base");
  line.flag("lora-as-inputs", "add the adapter as nodes whose factors are optional inputs, instead of merging it");
  line.flag("keep-scales", "keep the scales and zero points of weights; numbers beyond their range are cut off");
  line.option("sidecar,s", "FILE", "the sidecar of the model, whose constants no checkpoint holds");
  declare_model_output(line, "the file to write", Target::another_file);
  line.example("whence refit bert.int8.onnx --base bert.safetensors --weights finetuned.safetensors -o new.onnx");
  line.example(
      "whence refit llama.int4.onnx --statement llama.json --weights llama.safetensors --lora adapter/ -o new.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  const app::RefitReport report = app::refit(line.text("model"), {.base = line.text_or("base", ""),
                                                                  .statement = line.text_or("statement", ""),
                                                                  .weights = line.text_or("weights", ""),
                                                                  .lora = line.text_or("lora", ""),
                                                                  .lora_as_inputs = line.has("lora-as-inputs"),
                                                                  .keep_scales = line.has("keep-scales"),
                                                                  .sidecar = line.text_or("sidecar", ""),
                                                                  .output = line.text_or("output", ""),
                                                                  .overwrite = line.has("overwrite")});
  if (line.json()) {
    print_json({{"replaced", report.replaced},
                {"constants", report.constants},
                {"calibrated", report.calibrated},
                {"bounded", report.bounded},
                {"unused", report.unused},
                {"adapted", report.adapted},
                {"products", report.products}},
               report.notes);
    return ExitCode::ok;
  }
  print_text(report.notes);
  std::cout << report.replaced << " tensors from the new weights, " << report.constants << " constants of the program";
  if (report.adapted > 0) std::cout << "; the adapter changes " << report.adapted << " parameters";
  std::cout << "\n";
  if (report.products > 0)
    std::cout << report.products << " products of the adapter added, with its numbers as inputs\n";
  if (report.calibrated > 0) {
    std::cout << report.calibrated << " ranges of activations stay as they were measured with the old weights\n";
  }
  if (!report.bounded.empty()) {
    std::cout << report.bounded.size()
              << " tensors may differ from a new export in the last bits: " << report.bounded.front()
              << (report.bounded.size() > 1 ? ", ..." : "") << "\n";
  }
  if (!report.unused.empty()) {
    std::cout << report.unused.size() << " parameters of the checkpoint are not in the file: " << report.unused.front()
              << (report.unused.size() > 1 ? ", ..." : "") << "\n";
  }
  if (line.has("output")) std::cout << line.text("output") << ": written\n";
  return ExitCode::ok;
}

}  // namespace

const Command refit_command = {"refit", "put new weights into an exported, optimised, quantised file", run};

}  // namespace whence
