// `whence ops`: the PyTorch operators that export converts.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/recorder_library.h"
#include "annotator/convert/op_table.h"
#include "annotator/exporter/export.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {

using exporter::default_opset;

namespace {

// Everything that stands in the way of an export, at once; nothing is written.
ExitCode missing(const CommandLine& line) {
  Diagnostics notes;
  ReadOptions read;
  read.path = line.text("missing");
  read.inputs_file = line.text_or("inputs", "");
  exporter::ExportOptions options;
  options.opset = static_cast<int>(line.integer_or("opset", default_opset));
  options.trace_composite = app::trace_composite;
  app::load_operators(line.list("library"));
  const auto graph = exporter::export_program(app::read_archive(read, notes), options);
  const Diagnostics problems = graph ? Diagnostics{} : graph.diagnostics();
  if (line.json()) {
    print_json({{"missing", nlohmann::ordered_json::parse(json_array(problems))}});
  } else {
    print_text(problems);
    if (problems.empty()) std::cout << "every operator has a converter\n";
  }
  return exit_code(problems);
}

ExitCode run(int argc, char** argv) {
  CommandLine line("ops", "[--json] [--missing ARCHIVE]",
                   "Lists the operators that have a converter, each with its overload.");
  line.flag("schemas", "the whole schema of each");
  line.option("missing", "ARCHIVE",
              "instead: what of this archive (.pt, .pt2) cannot be converted, and where; exit code 4 when any");
  line.option("inputs", "FILE",
              "for --missing, with a scripted archive: example inputs, as `whence export` takes them");
  line.repeated("library", "FILE", "for --missing: a shared library that defines operators of the archive");
  line.option("opset", "N", "for --missing: 13 to 23, 20 by default");
  if (!line.parse(argc, argv)) return ExitCode::ok;
  if (line.has("missing")) return missing(line);

  const convert::OpTable& table = convert::OpTable::get();
  if (line.json()) {
    auto operators = nlohmann::ordered_json::array();
    for (const std::string& key : table.keys()) {
      operators.push_back({{"operator", key}, {"schema", table.find(key)->schema}});
    }
    print_json({{"operators", std::move(operators)}});
    return ExitCode::ok;
  }
  for (const std::string& key : table.keys()) {
    std::cout << (line.has("schemas") ? std::string(table.find(key)->schema) : key) << "\n";
  }
  return ExitCode::ok;
}

}  // namespace

const Command ops_command = {"ops", "the PyTorch operators that export converts", run};

}  // namespace whence
