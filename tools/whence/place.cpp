// `whence place`: modules on devices, for ONNX Runtime's layer assignment.
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
      "Assigns modules to devices, and says what each has to hold and which values cross. The devices are\n"
      "written on the nodes (layer_ann), for a session of ONNX Runtime with the settings that are printed;\n"
      "`whence strip` takes them back. The first rule that holds a node's module decides; a glob means a\n"
      "module and all below it. Devices: cpu, gpu, cuda, dml, npu, fpga, accelerator, gpu:nvidia, gpu:0, or\n"
      "an execution provider by its full name. With --assigned, exit code 1 when ONNX Runtime chose otherwise.");
  line.positional("model", "an annotated ONNX file; without a rule, one that was placed before");
  line.repeated("rule", "DEVICE=GLOB", "the modules of a device; or DEVICE=re:PATTERN");
  line.option("default", "DEVICE", "the device of all other nodes; none: left to ONNX Runtime");
  declare_model_output(line, "the file to write; may be the same file", Target::may_be_the_model);
  declare_copy_data(line);
  line.option("profile", "FILE", "time of each device, from what a runtime measured (`whence profile` says which)");
  line.option("optimized", "FILE", "the model as that session saved it (SessionOptions.optimized_model_filepath)");
  line.option("assigned", "FILE", "the providers that ONNX Runtime chose, as JSON (docs/dialects.md)");
  line.option("sidecar,s", "FILE", "the sidecar, for a file that was exported and not yet annotated");
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

const Command place_command = {"place", "modules on devices, for ONNX Runtime", run};

}  // namespace whence
