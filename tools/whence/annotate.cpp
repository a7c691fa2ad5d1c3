// `whence annotate`: writes the origin of every node into an exported file.
#include "whence/annotate.h"

#include <array>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/text/words.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/option_table.h"
#include "tools/whence/printing.h"

namespace whence {
namespace {

using Kind = OptionRow::Kind;

constexpr std::array annotate_table = {
    OptionRow{"sidecar", Kind::text, "FILE",
              "the sidecar of the same model; model.whence.json next to the file by default", "sidecar", "sidecar"},
    OptionRow{"from", Kind::text, "FILE",
              "the annotated file that an optimiser, quantiser or converter made this one from", "from", "source"},
    OptionRow{"weights", Kind::text, "FILE",
              "instead of a recording, the model's weights: safetensors, an index of shards, a torch.save file, or a "
              "folder with one; modules are found by the parameters that nodes read",
              "weights", "weights"},
    OptionRow{"allow-different-weights", Kind::flag, "",
              "match by structure although the weights differ from the sidecar's", "allow_different_weights",
              "allow_different_weights"},
    OptionRow{"value-pairs", Kind::text, "FILE",
              "values of the file that are results of recorded operations, written by `whence annotate --values`, for "
              "which the Python package runs the model (`whence annotate --values - --help`)",
              "value_pairs", "values"},
    OptionRow{"keys", Kind::text, "A,B",
              "write only these metadata keys, by full name or last part: module,source,namespace", "keys", "keys"},
    OptionRow{"no-names", Kind::flag, "", "leave node names as they are", "names", "names"},
    OptionRow{"functions", Kind::text, "CHOICE",
              "modules become ONNX functions, one for each unique block: auto, types=A,B, modules=GLOB,GLOB or depth=N "
              "(see `whence functions --help`)",
              "functions", "functions"},
    OptionRow{"min", Kind::list, "WHAT=PCT",
              "exit code 1 if the share is lower, as in `whence validate --min`: covered=95, exact=90@encoder.*,\n"
              "covered=90@op:MatMul; the output is written in any case",
              "minima", "minima"},
    OptionRow{"carry", Kind::flag, "",
              "also write each node's name into its doc_string, which survives ONNX Runtime and onnxsim", "carry",
              "carry"},
};

void print_json(const AnnotateReport& report, const std::string& output) {
  const NodeCounts& nodes = report.nodes;
  nlohmann::ordered_json object = {{"file", output},
                                   {"nodes", nodes.total()},
                                   {"exact", nodes.exact},
                                   {"matched", nodes.matched},
                                   {"inferred", nodes.inferred},
                                   {"ancestor", nodes.ancestor},
                                   {"unattributed", nodes.unattributed}};
  object["renamed"] = report.renamed;
  object["parameters"] = {{"known", report.parameters.known},
                          {"by_name", report.parameters.by_name},
                          {"by_digest", report.parameters.by_bytes},
                          {"by_sketch", report.parameters.by_sketch},
                          {"by_shape", report.parameters.by_shape}};
  object["changed"] = report.changed;
  object["shortfalls"] = report.shortfalls;
  if (report.functions) object["functions"] = to_json(*report.functions);
  print_json(std::move(object), report.notes);
}

void print_people(const AnnotateReport& report, const std::string& output) {
  print_text(report.notes);
  std::cout << output << ": " << text::counted(report.nodes.total(), "node");
  if (report.nodes.total() > 0) std::cout << ": " << describe(report.nodes);
  if (report.renamed > 0) std::cout << "; " << report.renamed << " renamed";
  std::cout << (report.changed ? "\n" : "; nothing to add\n");
  if (report.functions) std::cout << "  " << describe(*report.functions) << "\n";
  for (const std::string& shortfall : report.shortfalls) std::cout << "  " << shortfall << "\n";
  const auto& [known, by_bytes, by_name, by_sketch, by_shape] = report.parameters;
  if (known == 0) return;
  std::cout << "  of " << known << " parameters " << by_bytes << " were found by their bytes, " << by_name
            << " more by name, " << by_sketch << " more by some of their elements, " << by_shape << " more by shape\n";
}

AnnotateOptions parse_options(const CommandLine& line) {
  AnnotateOptions options;
  options.sidecar = line.text_or("sidecar", "");
  options.from = line.text_or("from", "");
  options.weights = line.text_or("weights", "");
  options.value_pairs = line.text_or("value-pairs", "");
  options.keys = text::split(line.text_or("keys", ""), ',');
  options.names = !line.has("no-names");
  options.carry = line.has("carry");
  options.allow_different_weights = line.has("allow-different-weights");
  options.functions = line.text_or("functions", "");
  options.minima = line.list("min");
  options.overwrite = line.has("overwrite");
  options.copy_data = line.has("copy-data");
  return options;
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "annotate", "model.onnx -o out.onnx [--sidecar model.whence.json | --from annotated.onnx | --weights FILE]",
      "Writes into every node its module, the call of the module and the source line. Files from `whence export`\n"
      "contain this information; nodes of other files are matched with the recorded program, with the annotated\n"
      "file that a tool made them from, or with the model's published weights. Without any of these, the file's\n"
      "own names and metadata are used. `whence strip` removes the annotation.");
  line.positional("model", "an ONNX file from any exporter or optimiser");
  declare_model_output(line, "the annotated file; may be the same file", Target::may_be_the_model);
  declare_copy_data(line);
  declare(line, annotate_table);
  line.example("whence annotate bert.optimised.onnx --from bert.annotated.onnx -o bert.optimised.annotated.onnx");
  line.example("whence annotate bert.onnx --sidecar bert.whence.json -o bert.annotated.onnx --min covered=95");
  line.example("whence annotate bert.onnx --weights model.safetensors -o bert.annotated.onnx");
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string output = line.text("output");
  const AnnotateReport report = annotate(line.text("model"), output, parse_options(line));
  line.json() ? print_json(report, output) : print_people(report, output);
  return report.shortfalls.empty() ? ExitCode::ok : ExitCode::findings;
}

}  // namespace

const Command annotate_command = {"annotate", "write the origin of every ONNX node into the file", run};

}  // namespace whence
