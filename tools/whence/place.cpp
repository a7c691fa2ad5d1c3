// `whence place`: assigns modules to devices, for ONNX Runtime's layer assignment.
#include "annotator/app/place.h"

#include <iostream>

#include "annotator/placement/placement.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "place", "annotated.onnx --rule 'gpu=encoder.**' [--rule DEVICE=GLOB]... [--default DEVICE] [-o placed.onnx]",
      "Assigns modules to devices, and prints the contents of each device and the values that cross between\n"
      "them. The devices are written into the nodes (layer_ann), for an ONNX Runtime session with the printed\n"
      "settings; `whence strip` removes them. The first rule that matches a node's module applies; a glob\n"
      "means a module and all below it. Devices: cpu, gpu, cuda, dml, npu, fpga, accelerator, gpu:nvidia,\n"
      "gpu:0, the full name of an execution provider, or provider:NAME for one of any name. With --assigned,\n"
      "exit code 1 if ONNX Runtime chose other devices.");
  line.positional("model", "an annotated ONNX file; without --rule, a file that was placed before");
  line.repeated("rule", "DEVICE=GLOB", "the modules of a device; or DEVICE=re:PATTERN");
  line.option("default", "DEVICE", "the device of all other nodes; none: left to ONNX Runtime");
  declare_model_output(line, "the file to write; may be the same file", Target::may_be_the_model);
  declare_copy_data(line);
  line.option("profile", "FILE", "a runtime's profile, for the time of each device (see `whence profile --help`)");
  line.option("optimized", "FILE", "the model that this session saved (SessionOptions.optimized_model_filepath)");
  line.option("assigned", "FILE", "the providers that ONNX Runtime chose, as JSON (docs/dialects.md)");
  line.option("sidecar,s", "FILE", "the sidecar, for a file that was exported but not annotated");
  line.example("whence place bert.onnx --rule 'gpu=encoder.**' --rule 'cpu=**' -o placed.onnx");
  line.example("whence place placed.onnx --assigned providers.json");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const auto [placement, notes] = app::place(line.text("model"), {.sidecar = line.optional_text("sidecar"),
                                                                  .rules = line.list("rule"),
                                                                  .otherwise = line.text_or("default", ""),
                                                                  .output = line.text_or("output", ""),
                                                                  .profile = line.text_or("profile", ""),
                                                                  .optimized = line.text_or("optimized", ""),
                                                                  .providers = line.text_or("assigned", ""),
                                                                  .overwrite = line.has("overwrite"),
                                                                  .copy_data = line.has("copy-data")});
  if (line.json()) {
    print_json(nlohmann::ordered_json::parse(placement::to_json(placement)), notes);
  } else {
    print_text(notes);
    std::cout << placement::to_text(placement);
    if (line.has("output")) std::cout << line.text("output") << ": written for these settings\n";
  }
  const bool differs = placement.compared && !placement.compared->differences.empty();
  return differs ? ExitCode::findings : ExitCode::ok;
}

}  // namespace

const Command place_command = {"place", "assign modules to devices, for ONNX Runtime", run};

}  // namespace whence
