// `whence report`: writes one file with all information on a model, for a browser or a pull request.
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/app/write_report.h"
#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/printing.h"

namespace whence {

namespace {

using Format = app::ReportFormat;

// Returns the format of output `number`: its --format, else by the output's file name.
Format parse_format(const std::vector<std::string>& formats, std::size_t number, const std::string& output) {
  if (number >= formats.size()) {
    if (output.ends_with(".html") || output.ends_with(".htm")) return Format::html;
    if (output.ends_with(".md") || output.ends_with(".markdown")) return Format::markdown;
    throw Error(Code::usage, "the report format is unknown: " + output + " does not end with .html or .md",
                "name it report.html or report.md, or pass --format html or --format md", {.stage = "command line"});
  }
  return one_of("format", formats[number], {"html", "md"}) == "html" ? Format::html : Format::markdown;
}

// Parses "batch=1,seq=128".
std::map<std::string, std::int64_t> parse_sizes(const CommandLine& line) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& given : line.list("size")) {
    for (const std::string& part : text::split(given, ',')) {
      const std::size_t equals = part.find('=');
      const std::string digits = equals == std::string::npos ? "" : part.substr(equals + 1);
      const bool number = !digits.empty() && digits.size() <= 12 &&
                          digits.find_first_not_of("0123456789") == std::string::npos && digits != "0";
      if (!number || equals == 0) {
        throw Error(Code::usage, "--size '" + given + "' is not a size", "for example: --size batch=1,seq=128",
                    {.stage = "command line"});
      }
      sizes[part.substr(0, equals)] = std::stoll(digits);
    }
  }
  return sizes;
}

nlohmann::ordered_json to_json(const app::ReportSummary& report, const std::string& output) {
  return {{"file", output},
          {"nodes", report.nodes},
          {"modules", report.modules},
          {"covered", report.covered},
          {"findings", report.findings},
          {"size", size_of_file(output)}};
}

void print_people(const app::ReportSummary& report, const std::string& output) {
  std::cout << output << ": " << text::counted(report.nodes, "node") << " in "
            << text::counted(report.modules, "module") << ", " << report.covered << " covered, "
            << text::counted(report.findings, "finding") << "\n";
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "report", "model.onnx -o report.html [--sidecar F] [--size batch=1,seq=128]",
      "Writes one HTML page that opens from disk, without network: the module tree with search and filters,\n"
      "the graph of each module, the origin of each node with its evidence, and the findings of validate. With\n"
      "-o report.md, writes a summary in Markdown for pull requests.");
  line.positional("file", "the ONNX file");
  line.outputs("output,o", "the report: .html or .md; repeatable");
  line.option("sidecar,s", "FILE",
              "the sidecar: adds modules without operations, recorded operations and complete source stacks");
  line.repeated("format", "FORMAT", "html or md, one for each output in order; by the file name by default");
  line.choices("format", {"html", "md"});
  line.repeated("size", "NAME=N",
                "values of dynamic sizes, to count operations (FLOPs): batch=1,seq=128; all=1 sets all other sizes");
  line.example("whence report bert.annotated.onnx --sidecar bert.whence.json --size batch=1,seq=128 -o bert.html");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::vector<std::string> outputs = line.list("output"), formats = line.list("format");
  if (outputs.empty() || formats.size() > outputs.size()) {
    throw Error(Code::usage, outputs.empty() ? "missing option --output" : "there are more formats than outputs",
                "pass a file name for each report: -o report.html", {.stage = "command line"});
  }
  std::vector<app::ReportOutput> written;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    written.push_back({outputs[i], parse_format(formats, i, outputs[i])});
  }
  const app::ReportSummary report = app::write_report(
      line.text("file"), written, {.sidecar = line.optional_text("sidecar"), .sizes = parse_sizes(line)});
  if (!line.json()) {
    print_text(report.notes);
    for (const std::string& output : outputs) print_people(report, output);
  } else if (outputs.size() == 1) {
    print_json(to_json(report, outputs.front()), report.notes);
  } else {
    auto list = nlohmann::ordered_json::array();
    for (const std::string& output : outputs) list.push_back(to_json(report, output));
    print_json({{"reports", list}}, report.notes);
  }
  return ExitCode::ok;
}

}  // namespace

const Command report_command = {"report", "write a page on a model: tree, graphs, evidence, findings", run};

}  // namespace whence
