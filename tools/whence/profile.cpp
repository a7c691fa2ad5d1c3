// `whence profile`: prints the time of a run by module.
#include <optional>

#include "annotator/app/views.h"
#include "annotator/profile/comparison.h"
#include "annotator/profile/module_profile.h"
#include "annotator/profile/trace.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/formats.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

constexpr int default_depth = 3;

std::vector<std::string> profiles_of(const CommandLine& line) {
  std::vector<std::string> profiles = line.list("profile");
  if (const auto other = line.optional_text("ort-profile")) profiles.insert(profiles.begin(), *other);
  if (!profiles.empty()) return profiles;
  throw Error(Code::usage, "missing option --profile", "pass the runtime's profile: --profile FILE");
}

profile::ModuleProfile read_profile(const CommandLine& line, std::vector<std::string> profiles, std::string optimized) {
  profile::ProfileFiles files = {std::move(profiles), std::move(optimized)};
  if (line.has("warmup")) files.options.warmup_runs = line.integer_or("warmup", 0);
  if (files.options.warmup_runs.value_or(0) < 0) {
    throw Error(Code::usage, "--warmup takes a number of runs", "for example: --warmup 1");
  }
  auto [found, notes] = app::profile_run(line.text("model"), files);
  print_text(notes);
  return std::move(found);
}

std::string in_format(const profile::ModuleProfile& found, const std::string& format,
                      const profile::TextOptions& options, const text::Palette& palette) {
  if (format == "json") return profile::to_json(found);
  if (format == "collapsed") return profile::to_collapsed(found);
  if (format == "speedscope") return profile::to_speedscope(found);
  if (format == "model-explorer") return profile::to_node_data(found);
  return profile::to_text(found, options, palette);
}

const std::vector<std::string> profile_formats = {"text", "json", "collapsed", "speedscope", "model-explorer"};

void declare(CommandLine& line) {
  line.positional("model", "the annotated file that was run");
  line.repeated("profile", "FILE",
                "the runtime's profile; repeat it for TensorRT's layer information, QNN's operator trace or ONNX\n"
                "Runtime's list of providers");
  line.option("ort-profile", "FILE", "the same as --profile");
  line.option("optimized", "FILE", "the model that ONNX Runtime saved (SessionOptions.optimized_model_filepath)");
  line.repeated("against", "FILE", "a second profile, of any runtime, to compare each module's time with (text, json)");
  line.option("against-optimized", "FILE", "--optimized for the second profile");
  line.option("warmup", "N", "number of first runs to ignore (by default 1 if there are several)");
  line.repeated("format", "FORMAT",
                "text, json, collapsed (flamegraph.pl, inferno), speedscope (speedscope.app) or model-explorer (node "
                "data);\nrepeatable, each with its --output");
  line.choices("format", profile_formats);
  declare_report_outputs(line);
  line.output("trace", "also write a trace of the first profile (ui.perfetto.dev, chrome://tracing)");
  line.option("depth,d", "N", "levels of modules in the text (3)");
  line.flag("memory", "also print bytes by module in the text, if the profile has them");
  line.example("whence profile bert.annotated.onnx --profile ort.json --format speedscope -o bert.speedscope.json");
  line.example("whence profile bert.annotated.onnx --profile ort.json --against openvino_runtime.xml");
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "profile", "model.onnx --profile FILE [--against FILE] [--optimized FILE] [--format FORMAT] [-o FILE]",
      "Sums a runtime's profile over the module tree: the time of each module and call. The kind of file is\n"
      "detected from its content: ONNX Runtime's profile, memory or providers, OpenVINO's runtime model or\n"
      "counters, TensorRT's profile, QNN's profile, ExecuTorch's table of events. A fused operator counts for\n"
      "the node whose name it kept; with --optimized, for the nodes that it replaced. Time without a known\n"
      "module is shown separately.");
  declare(line);
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::vector<std::string> against = line.list("against");
  if (against.empty() && line.has("against-optimized")) {
    throw Error(Code::usage, "--against-optimized without --against",
                "pass the profile of that session: --against FILE");
  }
  const std::vector<std::string> formats = against.empty() ? profile_formats : std::vector<std::string>{"text", "json"};
  const std::vector<ReportForm> forms = report_forms(line, formats, line.json() ? "json" : "text");
  const profile::TextOptions options = {line.depth().value_or(default_depth), line.has("memory")};

  profile::ModuleProfile found = read_profile(line, profiles_of(line), line.text_or("optimized", ""));
  const std::string trace = line.has("trace") ? profile::to_trace(found) : "";
  std::optional<profile::Comparison> comparison;
  if (!against.empty()) {
    comparison = profile::compare(std::move(found), read_profile(line, against, line.text_or("against-optimized", "")));
  }
  std::vector<ReportForm> written = forms;
  if (line.has("trace")) written.push_back({"trace", line.text("trace")});
  write_report_forms(written, [&](const ReportForm& form) {
    const text::Palette palette = form.file.empty() ? output_palette() : text::Palette{};
    if (form.format == "trace") return trace;
    if (!comparison) return in_format(found, form.format, options, palette);
    return form.format == "json" ? profile::to_json(*comparison)
                                 : profile::to_text(*comparison, options.depth, palette);
  });
  return ExitCode::ok;
}

}  // namespace

const Command profile_command = {"profile", "print the time of a run by module, from a runtime's profile", run};

}  // namespace whence
