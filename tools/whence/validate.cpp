// `whence validate`: reports how many nodes have a module, and problems that onnx's own checker does not find.
#include <algorithm>
#include <array>

#include "annotator/app/validate_config.h"
#include "annotator/app/validation_of.h"
#include "annotator/validation/attested.h"
#include "annotator/validation/problems.h"
#include "annotator/validation/validation_text.h"
#include "schema/files/paths.h"
#include "schema/files/source_root.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/formats.h"
#include "tools/whence/option_table.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

constexpr int default_depth = 2;

using Kind = OptionRow::Kind;

constexpr std::array validate_table = {
    OptionRow{"sidecar,s", Kind::text, "FILE",
              "the sidecar: also reports the outcome of each recorded operation and parameter, and the modules\n"
              "without a node; resolves the stamps of a file that is not yet annotated",
              "sidecar", "sidecar"},
    OptionRow{"min-covered", Kind::text, "PCT", "minimum share of nodes that are exact, matched or inferred", "minima",
              "min_covered"},
    OptionRow{"min", Kind::list, "WHAT=PCT",
              "minimum share of a confidence: exact=95; within modules: covered=99@encoder.*; for an operator\n"
              "type: covered=90@op:MatMul",
              "minima", "minima"},
    OptionRow{"require", Kind::list, "GLOB", "modules that must have nodes, all of them covered; or re:PATTERN",
              "required", "required"},
    OptionRow{"baseline", Kind::text, "FILE",
              "the previous file, or its --json output: shows both; lower coverage is an error", "baseline",
              "baseline"},
    OptionRow{"attested", Kind::text, "FILE",
              "a statement of `whence attest`: an error if it is about another file or leaves something unaccounted",
              "attested", "attested"},
    OptionRow{"conformance", Kind::text, "FILE",
              "the input of the tool that made this file: also checks that the tool followed docs/metadata-spec.md",
              "conformance", "conformance"},
    OptionRow{"config", Kind::text, "FILE",
              "these options as JSON: {\"min\": [...], \"require\": [...], \"allow\": [...], \"tolerance\": "
              "[...],\n\"baseline\": F, \"attested\": F}",
              "", "config"},
    OptionRow{
        "format", Kind::list, "FORMAT",
        "text, json, sarif (code scanning), junit, github (annotations of a workflow); repeatable, each with its\n"
        "--output",
        "", ""},
    OptionRow{"allow", Kind::list, "CODE", "ignore findings of this check, for example V101 or V503; or re:PATTERN",
              "allowed", "allowed"},
    OptionRow{"tolerance", Kind::list, "[CODE=]N",
              "ignore findings of a check if there are at most N of them, or N% of the file's nodes: 3, 0.5%,\n"
              "V503=2",
              "tolerances", "tolerances"},
    OptionRow{"depth,d", Kind::text, "N", "levels of modules in the tables (2)", "", ""},
    OptionRow{"all", Kind::flag, "", "list every module, node and parameter", "", ""},
    OptionRow{"full", Kind::flag, "", "also run onnx's checker and shape inference, which load the weights", "full",
              "full"},
};

// Returns the table of the codes that --allow accepts, for the end of the description.
std::string checks_text() {
  text::Table table({}, {text::Align::left, text::Align::left}, "  ");
  for (const validation::Check* check : validation::all_checks()) {
    table.row({check->code, std::string(check->summary) + (check->full       ? " (with --full)"
                                                           : check->compares ? " (with --conformance)"
                                                                             : "")});
  }
  for (const validation::Rule* gate : {&validation::threshold_rule, &validation::required_rule,
                                       &validation::baseline_rule, &validation::attested_rule})
    table.row({gate->code, gate->summary});
  return "\nchecks:\n" + table.text();
}

// Combines the settings of --config and the command line. The command line's baseline replaces the one in the file.
ValidateOptions parse_options(const CommandLine& line) {
  ValidateOptions options;
  if (line.has("config")) options = app::read_validate_config(line.text("config"));
  const auto append = [&](std::vector<std::string>& settings, const char* option) {
    for (std::string& text : line.list(option)) settings.push_back(std::move(text));
  };
  if (line.has("min-covered")) options.minima.insert(options.minima.begin(), "covered=" + line.text("min-covered"));
  append(options.minima, "min");
  append(options.required, "require");
  append(options.allowed, "allow");
  append(options.tolerances, "tolerance");
  options.sidecar = line.text_or("sidecar", "");
  options.baseline = line.text_or("baseline", options.baseline);
  options.attested = line.text_or("attested", options.attested);
  options.conformance = line.text_or("conformance", "");
  options.full = line.has("full");
  return options;
}

// Returns the file's path for code scanning: relative to the root of the repository, or absolute.
std::string place_of_findings(const CommandLine& line) {
  const std::string path = line.text("file");
  return SourceRoot(line.text_or("source-root", "")).below(path).value_or(place_of(path));
}

const std::vector<std::string> validate_formats = {"text", "json", "sarif", "junit", "github"};

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "validate", "model.onnx [--sidecar F] [--min-covered PCT] [--min exact=95]...",
      "Reports how many nodes have a module, with which confidence, which modules have no node, and problems\n"
      "of the file that onnx's own checker does not find. Exit code 1 if a check finds something or a\n"
      "threshold is not reached.\n" +
          checks_text());
  line.positional("file", "the ONNX file");
  declare(line, validate_table);
  line.choices("format", validate_formats);
  declare_report_outputs(line);
  line.option("values", "FILE",
              "also run the file on recorded inputs, and count the modules whose results equal the recorded ones;\n"
              "needs the Python package: `whence validate --values - --help`");
  line.option("source-root", "DIR",
              "the folder that the file's path in sarif and github is relative to; the working folder by default");
  line.example("whence validate model.onnx --sidecar model.whence.json --min-covered 99");
  line.example("whence validate optimised.onnx --conformance model.onnx");
  line.example("whence validate model.onnx --format sarif -o model.sarif --format junit -o model.xml --format text");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::vector<ReportForm> forms = report_forms(line, validate_formats, line.json() ? "json" : "text");
  const ValidateOptions options = parse_options(line);
  const validation::ReportExtent extent{.depth = line.depth().value_or(default_depth), .all = line.has("all")};
  Diagnostics notes;
  const std::string path = line.text("file");
  const validation::Validation found = app::validation_of(path, options, notes);
  print_text(notes);
  write_report_forms(forms, [&](const ReportForm& form) {
    if (form.format == "json") return to_json(found) + "\n";
    if (form.format == "sarif") return to_sarif(found, place_of_findings(line));
    if (form.format == "junit") return to_junit(found);
    if (form.format == "github") return to_github(found, place_of_findings(line));
    return to_text(found, extent, form.file.empty() ? output_palette() : text::Palette{});
  });
  return found.clean() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command validate_command = {"validate", "report how many nodes have a module, and problems of the file", run};

}  // namespace whence
