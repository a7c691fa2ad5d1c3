// The table of export options. ../README.md lists what else a new option needs.
#include "tools/whence/export_options.h"

#include <algorithm>
#include <array>

#include "annotator/text/words.h"
#include "schema/parse_number.h"
#include "tools/whence/option_table.h"

namespace whence {
namespace {

using Kind = OptionRow::Kind;

constexpr std::array inputs_table = {
    OptionRow{"inputs", Kind::text, "FILE", "example inputs: a torch-saved tensor, tuple or dict, or an .npz",
              "inputs_file", "args"},
    OptionRow{"input", Kind::list, "SPEC",
              "an example input to make, NAME=DTYPE[DIMS], with a range after it: 'ids=int64[1,16]<30522'", "inputs",
              "args"},
    OptionRow{"default-dtype", Kind::text, "DTYPE",
              "the dtype that torch.set_default_dtype sets for the model; float32 by default", "default_dtype", ""},
    OptionRow{"library", Kind::list, "FILE", "a shared library that defines operators of the archive (TORCH_LIBRARY)",
              "libraries", ""},
};

constexpr std::array export_table = {
    OptionRow{"dynamic", Kind::list, "SPEC", "axes that may vary at run time: 'input_ids:0=batch,1=seq'",
              "dynamic_axes", "dynamic_axes"},
    OptionRow{"opset", Kind::text, "N", "13 to 28, 20 by default", "opset", "opset_version"},
    OptionRow{
        "operators", Kind::text, "fused|plain",
        "operators introduced with opset 23 and later: all operators of the opset, or none; by default the ones that "
        "ONNX Runtime 1.32 runs",
        "operators", "operators"},
    OptionRow{"sidecar-out", Kind::output, "", "also write the sidecar, bound to the ONNX file", "sidecar", "sidecar"},
    OptionRow{"annotate", Kind::flag, "", "also annotate the file, like `whence annotate`", "annotate", ""},
    OptionRow{"report", Kind::output, "",
              "write a Markdown report, even if the export fails: problems and their locations, operators, times",
              "report", "report"},
    OptionRow{"on-unsupported", Kind::text, "error|domain",
              "what to do with operators that have no converter; error by default", "unsupported_as_domain",
              "operator_export_type"},
    OptionRow{"functions", Kind::text, "CHOICE",
              "modules become ONNX functions, one for each unique block: auto, types=A,B, modules=GLOB,GLOB or depth=N "
              "(see `whence functions --help`)",
              "functions", "export_modules_as_functions"},
    OptionRow{
        "converters", Kind::text, "FILE",
        "your own converters: a model file with ONNX functions; `op` in the domain `whence.mylib` converts mylib::op",
        "converters", "custom_translation_table"},
    OptionRow{"keep-operator", Kind::list, "OPERATOR",
              "write the operator, such as aten::gelu or aten::add.Tensor, as a node of the domain whence.aten, "
              "although it has a converter",
              "kept_operators", "custom_translation_table"},
    OptionRow{"custom-opset", Kind::list, "NAME=VERSION",
              "write operators of the namespace NAME that have no converter as nodes of the ONNX domain NAME",
              "custom_opsets", "custom_opsets"},
    OptionRow{"input-names", Kind::text, "A,B",
              "names of the graph's inputs, in order; forward's argument names by default", "input_names",
              "input_names"},
    OptionRow{"output-names", Kind::text, "A,B", "names of the graph's outputs, in order", "output_names",
              "output_names"},
    OptionRow{"no-optimize", Kind::flag, "", "do not optimise the converted graph: no folding, no merging, no sharing",
              "optimize", "optimize"},
    OptionRow{"no-fold", Kind::flag, "", "do not fold weights: store each one as it is in the model", "fold",
              "do_constant_folding"},
    OptionRow{"keep-bfloat16", Kind::flag, "",
              "keep bfloat16 for operators that ONNX Runtime cannot compute in bfloat16 on the CPU; by default they "
              "compute in float32, between casts",
              "keep_bfloat16", "keep_bfloat16"},
    OptionRow{"weights-as-inputs", Kind::flag, "",
              "leave out the weights: parameters and buffers become inputs with their qualified names",
              "weights_as_inputs", "export_params"},
    OptionRow{"keep-initializers-as-inputs", Kind::flag, "", "also list the weights as inputs of the graph",
              "keep_initializers_as_inputs", "keep_initializers_as_inputs"},
    OptionRow{"external-data", Kind::flag, "", "store the weights in a file next to the model (automatic above 2 GiB)",
              "external_data", "external_data"},
    OptionRow{"external-data-per-tensor", Kind::flag, "",
              "store each weight in a file of its own: model.onnx.encoder.weight", "external_data", "external_data"},
    OptionRow{"external-data-threshold", Kind::text, "BYTES",
              "weights up to this size stay in the model file; 1024 by default", "external_data", "external_data"},
    OptionRow{"external-data-alignment", Kind::text, "BYTES", "the alignment of weights in the file; 4096 by default",
              "external_data", "external_data"},
};

std::optional<std::uint64_t> bytes_option(const CommandLine& line, const std::string& name) {
  if (!line.has(name)) return std::nullopt;
  const std::int64_t bytes = line.integer_or(name, 0);
  if (bytes >= 0) return static_cast<std::uint64_t>(bytes);
  throw Error(Code::usage, "--" + name + " " + std::to_string(bytes) + " is not a number of bytes", "use 0 or more",
              Place{.stage = "command line"});
}

// Parses --custom-opset mylib=2.
std::map<std::string, int> parse_custom_opsets(const CommandLine& line) {
  std::map<std::string, int> versions;
  for (const std::string& text : line.list("custom-opset")) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string number = text.substr(std::min(equals + 1, text.size()));
    const auto version = parse_number<int>(number);
    if (!version) {
      throw Error(Code::usage, "--custom-opset '" + text + "' is not a domain with a version",
                  "write it as mylib=1; --opset sets the version of ONNX's own operators",
                  Place{.stage = "command line"});
    }
    versions[text.substr(0, equals)] = *version;
  }
  return versions;
}

bool parse_on_unsupported(const CommandLine& line) {
  const std::string choice = line.text_or("on-unsupported", "error");
  if (choice == "error" || choice == "domain") return choice == "domain";
  throw Error(Code::usage, "unknown --on-unsupported '" + choice + "'",
              "choose 'error' to stop and report every such operator, or 'domain' to write them in a separate domain",
              Place{.stage = "command line"});
}

int parse_opset(const CommandLine& line) {
  const std::int64_t opset = line.integer_or("opset", Options{}.opset);
  return static_cast<int>(std::clamp<std::int64_t>(opset, -1, 10000));  // numbers out of range are refused later
}

}  // namespace

void declare_inputs(CommandLine& line) { declare(line, inputs_table); }

void parse_inputs(const CommandLine& line, Options& options) {
  options.inputs_file = line.text_or("inputs", "");
  options.inputs = line.list("input");
  options.default_dtype = line.text_or("default-dtype", "");
  options.libraries = line.list("library");
}

void declare_export_options(CommandLine& line) {
  declare_inputs(line);
  declare(line, export_table);
}

Options parse_export_options(const CommandLine& line) {
  Options options;
  parse_inputs(line, options);
  options.dynamic = line.list("dynamic");
  options.opset = parse_opset(line);
  options.operators = line.text_or("operators", "");
  options.sidecar = line.text_or("sidecar-out", "");
  options.annotate = line.has("annotate");
  options.report = line.text_or("report", "");
  options.unsupported_as_domain = parse_on_unsupported(line);
  options.functions = line.text_or("functions", "");
  options.converters = line.text_or("converters", "");
  options.kept_operators = line.list("keep-operator");
  options.custom_opsets = parse_custom_opsets(line);
  options.input_names = text::split(line.text_or("input-names", ""), ',');
  options.output_names = text::split(line.text_or("output-names", ""), ',');
  options.optimize = !line.has("no-optimize");
  options.fold = !line.has("no-fold");
  options.keep_bfloat16 = line.has("keep-bfloat16");
  options.weights_as_inputs = line.has("weights-as-inputs");
  options.keep_initializers_as_inputs = line.has("keep-initializers-as-inputs");
  options.external_data.always = line.has("external-data");
  options.external_data.per_tensor = line.has("external-data-per-tensor");
  options.external_data.threshold = bytes_option(line, "external-data-threshold");
  options.external_data.alignment = bytes_option(line, "external-data-alignment");
  options.external_data.overwrite = line.has("overwrite");
  return options;
}

}  // namespace whence
