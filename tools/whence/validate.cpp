// `whence validate`: coverage of an ONNX file by modules, and the checks that onnx's own checker does not make.
#include <iostream>
#include <optional>

#include "annotator/validate/validation_text.h"
#include "schema/sidecar.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {
namespace {

constexpr std::int64_t default_depth = 2;

// The codes and what they stand for, at the end of the description: --allow takes them.
std::string checks_text() {
  Table table({}, {Align::left, Align::left}, "  ");
  for (const Check* check : all_checks()) {
    table.row({check->code, std::string(check->summary) + (check->full ? " (with --full)" : "")});
  }
  table.row({shortfall_code, "a threshold that is not reached"});
  return "\nchecks:\n" + table.text();
}

ValidateOptions parse_options(const CommandLine& line) {
  ValidateOptions options;
  if (line.has("min-covered")) options.minima.push_back(parse_threshold("covered=" + line.text("min-covered")));
  for (const std::string& text : line.list("min")) options.minima.push_back(parse_threshold(text));
  options.allowed = line.list("allow");
  options.full = line.has("full");
  return options;
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "validate", "model.onnx [--sidecar F] [--min-covered PCT] [--min exact=95]...",
      "Says how many nodes have a module and how surely, which modules have no node, and what is wrong with\n"
      "the file that onnx's own checker does not see. Exit code 1 when a check finds something or a\n"
      "threshold is not reached.\n" +
          checks_text());
  line.positional("file", "the ONNX file");
  line.option("sidecar,s", "FILE",
              "the sidecar: adds modules without a node, and reads stamps of files not yet annotated");
  line.option("min-covered", "PCT", "the least share of nodes that are exact, matched or inferred");
  line.repeated("min", "WHAT=PCT", "the least share of one confidence, for example exact=95");
  line.repeated("allow", "CODE", "findings of this check do not count, for example V101");
  line.option("depth,d", "N", "levels of modules in the coverage table (2)");
  line.flag("full", "run onnx's checker and shape inference too; loads the weights");
  line.example("whence validate model.onnx --sidecar model.whence.json --min-covered 99");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const ValidateOptions options = parse_options(line);
  const std::int64_t depth = line.integer_or("depth", default_depth);
  Diagnostics notes;
  std::optional<Sidecar> sidecar;
  if (line.has("sidecar")) sidecar = unwrap(read_sidecar(line.text("sidecar")), notes);
  const Validation validation =
      unwrap(validate_file(line.text("file"), sidecar ? &sidecar->program : nullptr, options), notes);
  print_text(notes);
  if (line.json()) {
    std::cout << to_json(validation) << "\n";
  } else {
    std::cout << to_text(validation, static_cast<int>(depth), output_palette());
  }
  return validation.clean() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command validate_command = {"validate", "how much of a file is known, and what is wrong with it", run};

}  // namespace whence
