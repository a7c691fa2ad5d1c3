// `whence record`: writes the sidecar of a TorchScript or torch.export archive.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/record_archive.h"
#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/export_options.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

void print_summary(const Program& program, const std::string& output, const Diagnostics& notes, bool json) {
  const std::size_t count = operations(program).size();
  const std::int64_t parameters = program.modules.empty() ? 0 : program.modules[root_module].parameters_total;
  const std::uint64_t size = size_of_file(output);
  if (json) {
    const nlohmann::ordered_json object = {
        {"file", output},           {"size", size},      {"modules", program.modules.size()}, {"operations", count},
        {"parameters", parameters}, {"ran", program.ran}};
    print_json(object, notes);
    return;
  }
  print_text(notes);
  std::cout << output << ": " << text::counted(program.modules.size(), "module") << ", "
            << text::counted(count, "operation") << ", " << text::counted(parameters, "parameter")
            << (program.ran ? "" : ", shapes unknown (no example inputs)") << ", " << human_size(size) << "\n";
}

ExitCode run(int argc, char** argv) {
  CommandLine line("record", "model.pt|model.pt2 -o model.whence.json [--inputs FILE | --input SPEC]...",
                   "Records the module, the call of the module and the source line of every operation of a\n"
                   "TorchScript or torch.export archive. TorchScript (.pt) needs LibTorch; a .pt2 does not, and\n"
                   "contains dtypes and shapes, so it needs no example inputs.");
  line.positional("archive", "an archive from torch.jit.save, traced or scripted, or from torch.export.save");
  line.output("output,o", "the sidecar to write");
  declare_inputs(line);
  line.option(
      "values", "FILE",
      "also record inputs and outputs of each call of each module, complete for modules of --full GLOB, and with\n"
      "--operations the results of operations; needs the Python package: `whence record --values - --help`");
  line.flag("no-run", "do not run the program: record only operations and modules, without dtypes and shapes");
  line.example("whence record bert.pt -o bert.whence.json --input 'input_ids=int64[1,16]<30522'");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  Options options;
  parse_inputs(line, options);
  const std::string output = line.text("output");
  const auto [program, notes] = app::record_archive(line.text("archive"), output, options, !line.has("no-run"));
  print_summary(program, output, notes, line.json());
  return ExitCode::ok;
}

}  // namespace

const Command record_command = {"record",
                                "record the origin of every operation of a TorchScript or torch.export archive", run};

}  // namespace whence
