// `whence annotate`: writes on every node of an exported file where it comes from.
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
              "the sidecar of the same model; model.whence.json beside the file by default", "sidecar", "sidecar"},
    OptionRow{"from", Kind::text, "FILE",
              "the annotated file that an optimiser, quantiser or converter made this one from", "from", "source"},
    OptionRow{
        "weights", Kind::text, "FILE",
        "instead of a recording, the model's weights: safetensors, an index of shards, what torch.save wrote, or a "
        "folder with one; modules are told by the parameters that nodes read",
        "weights", "weights"},
    OptionRow{"allow-different-weights", Kind::flag, "",
              "match by structure although the weights are not the sidecar's", "allow_different_weights",
              "allow_different_weights"},
    OptionRow{"value-pairs", Kind::text, "FILE",
              "values of the file that are results of recorded operations, as `whence annotate --values` finds them: "
              "with --values FILE the Python package runs the model (`whence annotate --values - --help`)",
              "value_pairs", "values"},
    OptionRow{"keys", Kind::text, "A,B",
              "write only these metadata keys, full or by their last part: module,source,namespace", "keys", "keys"},
    OptionRow{"no-names", Kind::flag, "", "leave node names as they are", "names", "names"},
    OptionRow{"functions", Kind::text, "CHOICE",
              "modules become ONNX functions, one for each unique block: auto, types=A,B, modules=GLOB,GLOB or depth=N "
              "(`whence functions` says more)",
              "functions", "functions"},
    OptionRow{"min", Kind::list, "WHAT=PCT",
              "exit code 1 when less is known, as `whence validate --min` says it: covered=95, exact=90@encoder.*,\n"
              "covered=90@op:MatMul; the output is written all the same",
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
  std::cout << "  of " << known << " parameters " << by_bytes << " are there by their bytes, " << by_name
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
      "Writes on every node which module, which call of it and which source line it comes from. Files that\n"
      "`whence export` wrote say so themselves; nodes of others are matched with the recorded program, or with\n"
      "the annotated file that a tool made them from, or with the weights that the model was published with.\n"
      "With none of them, the file's own names and metadata have to do. `whence strip` takes it back.");
  line.positional("model", "an ONNX file, whoever exported or optimised it");
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

const Command annotate_command = {"annotate", "write on every ONNX node where it comes from", run};

}  // namespace whence
