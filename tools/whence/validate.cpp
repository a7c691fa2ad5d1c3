// `whence validate`: coverage of an ONNX file by modules, and the checks that onnx's own checker does not make.
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "annotator/app/validation_of.h"
#include "annotator/validation/problems.h"
#include "annotator/validation/validation_text.h"
#include "schema/files/files.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/palette.h"

namespace whence {

namespace {

constexpr std::int64_t default_depth = 2;

// The codes and what they stand for, at the end of the description: --allow takes them.
std::string checks_text() {
  text::Table table({}, {text::Align::left, text::Align::left}, "  ");
  for (const validation::Check* check : validation::all_checks()) {
    table.row({check->code, std::string(check->summary) + (check->full ? " (with --full)" : "")});
  }
  for (const validation::Rule* gate :
       {&validation::threshold_rule, &validation::required_rule, &validation::baseline_rule})
    table.row({gate->code, gate->summary});
  return "\nchecks:\n" + table.text();
}

// A file that says what a team asks for, so that pipelines and people ask the same: {"min": [...], "require": [...],
// "allow": [...], "baseline": "file"}; names of files are relative to it. The command line adds to it.
struct Config {
  std::vector<std::string> minima, required, allowed;
  std::string baseline;
};

std::vector<std::string> strings(const nlohmann::json& value, const std::string& key, const Place& place) {
  const bool fits = value.is_array() && std::ranges::all_of(value, [](const auto& each) { return each.is_string(); });
  if (!fits) throw Error(Code::wrong_kind, "'" + key + "' is not a list of texts", "\"" + key + "\": [\"...\"]", place);
  return value.get<std::vector<std::string>>();
}

Config read_config(const std::string& path) {
  const Place place{.file = path, .stage = "command line"};
  const auto file = MappedFile::open(path);
  const auto json = nlohmann::json::parse(file->text(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(Code::wrong_kind, "not a JSON object", "{\"min\": [\"covered=99\"]}", place);
  Config config;
  for (const auto& [key, value] : json.items()) {
    if (key == "min") {
      config.minima = strings(value, key, place);
    } else if (key == "require") {
      config.required = strings(value, key, place);
    } else if (key == "allow") {
      config.allowed = strings(value, key, place);
    } else if (key == "baseline" && value.is_string()) {
      config.baseline = (std::filesystem::path(path).parent_path() / value.get<std::string>()).string();
    } else {
      throw Error(Code::wrong_kind, "'" + key + "' is not a setting",
                  "the settings are min, require, allow and baseline", place);
    }
  }
  return config;
}

ValidateOptions parse_options(const CommandLine& line) {
  const Config config = line.has("config") ? read_config(line.text("config")) : Config{};
  const auto both = [&](std::vector<std::string> from_config, const char* option) {
    for (std::string& text : line.list(option)) from_config.push_back(std::move(text));
    return from_config;
  };
  ValidateOptions options;
  options.sidecar = line.text_or("sidecar", "");
  if (line.has("min-covered")) options.minima.push_back("covered=" + line.text("min-covered"));
  for (std::string& text : both(config.minima, "min")) options.minima.push_back(std::move(text));
  options.required = both(config.required, "require");
  options.baseline = line.text_or("baseline", config.baseline);
  options.allowed = both(config.allowed, "allow");
  options.full = line.has("full");
  return options;
}

constexpr std::array formats = {"text", "json", "sarif", "junit", "github"};

std::string parse_format(const CommandLine& line) {
  const std::string format = line.text_or("format", line.json() ? "json" : "text");
  if (std::ranges::find(formats, format) == formats.end()) {
    throw Error(Code::usage, "unknown format '" + format + "'", "text, json, sarif, junit or github",
                {.stage = "command line"});
  }
  return format;
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
              "the sidecar: adds what became of each recorded operation and parameter, modules without a node,\n"
              "and reads stamps of files not yet annotated");
  line.option("min-covered", "PCT", "the least share of nodes that are exact, matched or inferred");
  line.repeated("min", "WHAT=PCT",
                "the least share of one confidence: exact=95; of modules, covered=99@encoder.*; of an\n"
                "operator type, covered=90@op:MatMul");
  line.repeated("require", "GLOB", "modules that must have nodes, all of them covered");
  line.option("baseline", "FILE", "the file before, or what --json printed of it: shows both; coverage may not fall");
  line.option("config", "FILE",
              "the same in JSON: {\"min\": [...], \"require\": [...], \"allow\": [...], \"baseline\": F}");
  line.option("format", "FORMAT", "text, json, sarif (code scanning), junit, github (annotations of a workflow)");
  line.repeated("allow", "CODE", "findings of this check do not count, for example V101");
  line.option("depth,d", "N", "levels of modules in the tables (2)");
  line.flag("all", "every module, node and parameter, however long the report");
  line.flag("full", "run onnx's checker and shape inference too; loads the weights");
  line.example("whence validate model.onnx --sidecar model.whence.json --min-covered 99");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string format = parse_format(line);
  const ValidateOptions options = parse_options(line);
  const validation::ReportExtent extent{
      .depth = static_cast<int>(std::clamp<std::int64_t>(line.integer_or("depth", default_depth), 0, 1000)),
      .all = line.has("all")};
  Diagnostics notes;
  const std::string path = line.text("file");
  const validation::Validation found = app::validation_of(path, options, notes);
  print_text(notes);
  if (format == "json") {
    std::cout << to_json(found) << "\n";
  } else if (format == "sarif") {
    std::cout << to_sarif(found, path);
  } else if (format == "junit") {
    std::cout << to_junit(found);
  } else if (format == "github") {
    std::cout << to_github(found, path);
  } else {
    std::cout << to_text(found, extent, output_palette());
  }
  return found.clean() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command validate_command = {"validate", "how much of a file is known, and what is wrong with it", run};

}  // namespace whence
