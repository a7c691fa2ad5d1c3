// `whence profile`: where the time of a run goes, by module.
#include <iostream>

#include "annotator/app/views.h"
#include "annotator/profile/module_profile.h"
#include "schema/files/files.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

constexpr int default_depth = 3;

ExitCode run(int argc, char** argv) {
  CommandLine line("profile", "model.onnx --ort-profile ort.json [--optimized FILE] [--format FORMAT] [-o FILE]",
                   "Folds a profile of ONNX Runtime up to the module tree: time of each module and call. A fused\n"
                   "operator counts for the node whose name it kept; with --optimized, for what it took the place of.\n"
                   "Time that no module is known for is shown, and counted for no module.");
  line.positional("model", "the annotated file that the session was made from");
  line.option("ort-profile", "FILE", "what SessionOptions.enable_profiling wrote");
  line.option("optimized", "FILE", "the model as the session saved it (SessionOptions.optimized_model_filepath)");
  line.option("format", "FORMAT", "text; json; collapsed (flamegraph.pl, inferno); speedscope (speedscope.app)");
  line.output("output,o", "the file to write; standard output by default");
  line.option("depth,d", "N", "levels of modules in the text (3)");
  line.example("whence profile bert.annotated.onnx --ort-profile ort.json --format speedscope -o bert.speedscope.json");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string format =
      line.one_of("format", {"text", "json", "collapsed", "speedscope"}, line.json() ? "json" : "text");
  const std::string output = line.text_or("output", "");
  const int depth = line.depth().value_or(default_depth);
  const auto [found, notes] =
      app::profile_run(line.text("model"), line.text("ort-profile"), line.text_or("optimized", ""));
  print_text(notes);
  const std::string text = format == "json"        ? profile::to_json(found)
                           : format == "collapsed" ? profile::to_collapsed(found)
                           : format == "speedscope"
                               ? profile::to_speedscope(found)
                               : profile::to_text(found, depth, output.empty() ? output_palette() : text::Palette{});
  if (output.empty()) {
    std::cout << text;
  } else {
    write_file(output, text);
  }
  return ExitCode::ok;
}

}  // namespace

const Command profile_command = {"profile", "time of a run by module, from ONNX Runtime's profile", run};

}  // namespace whence
