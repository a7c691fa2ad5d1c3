// `whence annotate`: writes on every node of an exported file where it comes from.
#include "annotator/merge/annotate.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "annotator/merge/onnx_rewrite.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/function_choice.h"
#include "tools/whence/given_files.h"
#include "tools/whence/scratch_folder.h"
#include "tools/whence/written_out.h"

namespace whence {
namespace {

// "model.onnx" -> "model.whence.json", the name that `whence record` suggests.
std::string sidecar_beside(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".whence.json").string();
}

// The sidecar that was named, or the one beside the model; empty when there is neither.
std::string sidecar_file(const CommandLine& line, const std::string& model) {
  if (line.has("sidecar")) return line.text("sidecar");
  const std::string guess = sidecar_beside(model);
  return std::filesystem::exists(guess) ? guess : "";
}

void print_json(const AnnotateReport& report, const std::optional<OutlineReport>& functions, const std::string& output,
                const Diagnostics& notes) {
  nlohmann::ordered_json object = {{"file", output}, {"nodes", report.nodes.total()}};
  for (std::size_t i = 0; i < confidence_count; ++i) {
    object[std::string(name_of(static_cast<Confidence>(i)))] = report.nodes.by[i];
  }
  object["renamed"] = report.renamed;
  object["parameters"] = {{"known", report.fit.parameters},
                          {"by_name", report.fit.by_name},
                          {"by_digest", report.fit.by_bytes},
                          {"by_shape", report.fit.by_shape}};
  object["changed"] = report.changed;
  object["diagnostics"] = nlohmann::ordered_json::parse(json_array(notes));
  if (functions) object["functions"] = to_json(*functions);
  std::cout << object.dump(2) << "\n";
}

void print_people(const AnnotateReport& report, const std::optional<OutlineReport>& functions,
                  const std::string& output, const Diagnostics& notes) {
  print_text(notes);
  std::cout << output << ": " << report.nodes.total() << " nodes";
  if (report.nodes.total() > 0) std::cout << ": " << describe(report.nodes);
  if (report.renamed > 0) std::cout << "; " << report.renamed << " renamed";
  std::cout << (report.changed ? "\n" : "; nothing to add\n");
  if (functions) std::cout << "  " << describe(*functions) << "\n";
  const ModelFit& fit = report.fit;
  if (fit.parameters == 0) return;
  std::cout << "  of " << fit.parameters << " parameters " << fit.by_bytes << " are there by their bytes, "
            << fit.by_name << " more by name, " << fit.by_shape << " more by shape\n";
}

AnnotateReport annotate(const CommandLine& line, const ModelSource& input, const ModelOutput& output,
                        const AnnotateOptions& options, Diagnostics& notes) {
  if (line.has("from")) {
    const WrittenOut before(line.text("from"), output.path, notes);
    return unwrap(annotate_from_file(input, before.source(), output, options), notes);
  }
  const std::string sidecar = sidecar_file(line, line.text("model"));
  if (sidecar.empty()) return unwrap(annotate_alone(input, output, options), notes);
  const Sidecar recorded = unwrap(read_sidecar(sidecar), notes);
  if (!recorded.complete) {
    notes.push_back({Code::sidecar_mismatch,
                     Severity::warning,
                     "the sidecar is incomplete: its recording ended before the model did",
                     {.file = sidecar, .stage = "read"},
                     "record the model again",
                     1,
                     {}});
  }
  return unwrap(annotate_file(input, recorded, output, options), notes);
}

// A file to which nothing is to be added.
void copy_as_it_is(const std::string& input, const ModelOutput& output, Diagnostics& notes) {
  class NoEdit : public NodeEditor {
    NodeEdit edit(const NodeView&) override { return {}; }
  };
  const OnnxSummary model = unwrap(read_onnx_summary(input), notes);
  rewrite_file(
      input, output, [] { return std::make_unique<NoEdit>(); }, {}, data_files_of(model));
}

void declare_options(CommandLine& line) {
  line.positional("model", "an ONNX file, whoever exported or optimised it");
  declare_model_output(line, "the annotated file; may be the same file", Target::may_be_the_model);
  line.option("sidecar", "FILE", "the sidecar of the same model; model.whence.json beside the file by default");
  line.option("from", "FILE", "the annotated file that an optimiser, quantiser or converter made this one from");
  line.flag("allow-different-weights", "match by structure although the weights are not the sidecar's");
  line.option("keys", "A,B", "write only these metadata keys, full or by their last part: module,source,namespace");
  line.flag("no-names", "leave node names as they are");
  declare_functions(line);
  line.flag("carry", "also write each node's name into its doc_string, which survives ONNX Runtime and onnxsim");
  line.example("whence annotate bert.optimised.onnx --from bert.annotated.onnx -o bert.optimised.annotated.onnx");
  line.example("whence annotate bert.onnx --sidecar bert.whence.json -o bert.annotated.onnx");
}

AnnotateOptions parse_options(const CommandLine& line) {
  if (line.has("from") && line.has("sidecar")) {
    throw Error(Code::usage, "--from and --sidecar were both given", "give one of them", {.stage = "command line"});
  }
  AnnotateOptions options;
  options.keys = split(line.text_or("keys", ""), ',');
  options.names = !line.has("no-names");
  options.carry = line.has("carry");
  options.allow_different_weights = line.has("allow-different-weights");
  return options;
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "annotate", "model.onnx -o out.onnx [--sidecar model.whence.json | --from annotated.onnx]",
      "Writes on every node which module, which call of it and which source line it comes from. Files that\n"
      "`whence export` wrote say so themselves; nodes of others are matched with the recorded program, or with\n"
      "the annotated file that a tool made them from. With neither, the file's own names and metadata have to\n"
      "do. `whence strip` takes it back.");
  declare_options(line);
  if (!line.parse(argc, argv)) return ExitCode::ok;

  const std::string input = line.text("model"), sidecar = sidecar_file(line, input);
  if (!sidecar.empty()) line.also_reads("the sidecar", sidecar);
  const ModelOutput output = model_output(line);
  const AnnotateOptions options = parse_options(line);

  Diagnostics notes;
  const WrittenOut flat(input, output.path, notes);
  const bool anew = line.has("functions");
  const std::optional<OutlineOptions> choice = anew ? parse_functions(line) : flat.cut();
  std::optional<OutlineReport> functions;
  AnnotateReport report;
  if (choice) {
    const ScratchFolder scratch(output.path);
    ModelOutput annotated(scratch.file(base_name(output.path)));
    annotated.draft = true;
    report = annotate(line, flat.source(), annotated, options, notes);
    if (anew || report.changed) {
      functions = unwrap(outline_file({annotated.path, input}, output, *choice), notes);
    } else {
      copy_as_it_is(input, output, notes);
    }
  } else {
    report = annotate(line, input, output, options, notes);
  }
  line.json() ? print_json(report, functions, output.path, notes) : print_people(report, functions, output.path, notes);
  return ExitCode::ok;
}

}  // namespace

const Command annotate_command = {"annotate", "write on every ONNX node where it comes from", run};

}  // namespace whence
