// `whence export`: from a TorchScript or torch.export archive to an ONNX file whose nodes know where they come from.
//
// archive -> recorder -> Program -> export_program -> write_onnx, and on request the sidecar and the annotation.
#include "annotator/exporter/export.h"

#include <bit>
#include <charconv>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "annotator/annotation/annotate.h"
#include "annotator/origin/keys.h"
#include "annotator/write/onnx_writer.h"
#include "schema/files/files.h"
#include "schema/files/scratch_folder.h"
#include "schema/printable.h"
#include "schema/sidecar/sidecar.h"
#include "tools/whence/cli.h"
#include "tools/whence/command.h"
#include "tools/whence/export_report.h"
#include "tools/whence/function_choice.h"
#include "tools/whence/given_files.h"
#include "tools/whence/input_spec.h"
#include "tools/whence/recorder_library.h"

namespace whence {
namespace {

namespace fs = std::filesystem;

using DomainVersions = std::map<std::string, std::int64_t>;

// --custom-opset mylib=2: operators of the namespace mylib become nodes of the domain mylib, version 2.
DomainVersions parse_custom_opsets(const CommandLine& line) {
  DomainVersions versions;
  for (const std::string& text : line.list("custom-opset")) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string domain = text.substr(0, equals), number = text.substr(std::min(equals + 1, text.size()));
    std::int64_t version = 0;
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), version);
    const bool whole = failure == std::errc() && end == number.data() + number.size() && version >= 1;
    if (!whole || domain.empty() || domain == "ai.onnx") {
      throw Error(Code::usage, "--custom-opset '" + text + "' is not a domain with a version",
                  "give it as mylib=1; the version of ONNX's own operators is --opset", Place{.stage = "command line"});
    }
    versions[domain] = version;
  }
  return versions;
}

ExportOptions parse_export_options(const CommandLine& line, const DomainVersions& custom) {
  ExportOptions options;
  const std::int64_t opset = line.integer_or("opset", default_opset);
  if (opset < oldest_opset || opset > newest_opset) {
    throw Error(Code::usage, "--opset " + std::to_string(opset) + " is not supported",
                "opsets " + std::to_string(oldest_opset) + " to " + std::to_string(newest_opset) + " are",
                Place{.stage = "command line"});
  }
  options.opset = static_cast<int>(opset);
  options.input_names = split(line.text_or("input-names", ""), ',');
  options.output_names = split(line.text_or("output-names", ""), ',');
  const std::string unsupported = line.text_or("on-unsupported", "error");
  if (unsupported != "error" && unsupported != "domain") {
    throw Error(Code::usage, "--on-unsupported=" + unsupported + " is not known",
                "'error' stops and reports every such operator, 'domain' writes them in a domain of their own",
                Place{.stage = "command line"});
  }
  options.unsupported_as_domain = unsupported == "domain";
  options.simplify = !line.has("no-optimize");
  options.weights_as_inputs = line.has("weights-as-inputs");
  options.trace_composite = trace_composite;
  for (const auto& [domain, version] : custom) options.passed_through.insert(domain);
  return options;
}

std::uint64_t bytes_option(const CommandLine& line, const std::string& name, std::uint64_t otherwise) {
  const std::int64_t bytes = line.integer_or(name, static_cast<std::int64_t>(otherwise));
  if (bytes >= 0) return static_cast<std::uint64_t>(bytes);
  throw Error(Code::usage, "--" + name + " " + std::to_string(bytes) + " is not a number of bytes", "give 0 or more",
              Place{.stage = "command line"});
}

ExternalData parse_external_data(const CommandLine& line) {
  ExternalData external;
  external.file_per_tensor = line.has("external-data-per-tensor");
  external.always = line.has("external-data") || external.file_per_tensor || line.has("external-data-threshold") ||
                    line.has("external-data-alignment");
  external.threshold = bytes_option(line, "external-data-threshold", external.threshold);
  external.alignment = bytes_option(line, "external-data-alignment", external.alignment);
  if (!std::has_single_bit(external.alignment)) {
    throw Error(Code::usage,
                "--external-data-alignment " + std::to_string(external.alignment) + " is not a power of two",
                "1 for none, 4096 for pages", Place{.stage = "command line"});
  }
  return external;
}

WriteOptions write_options(const Program& program, const ExportOptions& exported, const CommandLine& line) {
  WriteOptions options;
  options.opset = exported.opset;
  options.ir_version = exported.opset >= 23 ? 11 : 10;  // node metadata needs 10; opset 23 was released with 11
  options.producer_version = WHENCE_VERSION;
  options.metadata = {{std::string(keys::program), program_digest(program)}};
  options.external = parse_external_data(line);
  options.initializers_as_inputs = line.has("keep-initializers-as-inputs");
  return options;
}

void count_nodes(const Graph& graph, std::int64_t& nodes, std::set<std::string>& operators) {
  for (const GraphNode& node : graph.nodes) {
    ++nodes;
    operators.insert(node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type);
    for (const Attribute& attribute : node.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value))
        count_nodes(**body, nodes, operators);
    }
  }
}

// "input_ids int64[batch,16]"
std::string describe(const Graph& graph, GraphValueId id) {
  const GraphValue& value = graph.values[id];
  std::string text = value.name + " " + std::string(name_of(value.dtype));
  if (!value.dims) return text;
  text += "[";
  for (const Dim& dim : *value.dims) {
    if (text.back() != '[') text += ",";
    const bool named = dim.dynamic && dim.symbol != none_id;
    text += named ? graph.symbols[dim.symbol].name : dim.is_static() ? std::to_string(dim.size) : "?";
  }
  return text + "]";
}

std::vector<std::string> describe(const Graph& graph, const std::vector<GraphValueId>& ids) {
  std::vector<std::string> texts;
  for (const GraphValueId id : ids) texts.push_back(describe(graph, id));
  return texts;
}

// Writes the model to a file of the scratch folder. Functions are cut out of the annotated file: they need to know the
// modules.
std::optional<FunctionsReport> write_draft(const Graph& graph, const Sidecar& sidecar, const std::string& draft,
                                           const WriteOptions& options, bool annotate,
                                           const std::optional<FunctionChoice>& functions, Diagnostics& notes) {
  write_onnx(graph, draft, options);
  if (!annotate) return std::nullopt;
  unwrap(annotate_file(draft, sidecar, draft, {}), notes);
  if (!functions) return std::nullopt;
  Result<FunctionsReport> outlined = outline_file(draft, draft, *functions);
  if (outlined || !functions->automatic()) return unwrap(std::move(outlined), notes);
  // Nobody named a module, so that none to be cut out is not a mistake.
  notes.push_back({Code::usage,
                   Severity::warning,
                   "no module is repeated, or none of three nodes or more: nothing became a function",
                   {.file = draft, .stage = "functions"},
                   "choose modules: --functions types=A,B or modules=GLOB",
                   1,
                   {}});
  return std::nullopt;
}

// The report of an export that failed, which is not to hide why.
Diagnostics write_report(const std::string& path, const ExportRun& run) {
  try {
    write_file(path, to_markdown(run));
  } catch (const Error& error) {
    return error.diagnostics();
  }
  return {};
}

// What stands beside the model in the scratch folder: its weights.
void add_data_files(const ScratchFolder& scratch, const ModelOutput& output, OutputFiles& files) {
  std::set<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path())) names.insert(entry.path().filename());
  names.erase(base_name(output.path));
  for (const fs::path& name : names) {
    const std::string data = scratch.file(name.string());
    AtomicFile* const file = add_data_file(data, (fs::path(output.path).parent_path() / name).string(), output, files);
    if (file != nullptr) file->take(data);
  }
}

// What was written, for the summary.
struct Written {
  std::string file, sidecar;
  std::int64_t nodes = 0;
  std::set<std::string> operators;
  std::vector<std::string> inputs, outputs;
  int opset = 0;
  std::uint64_t size = 0;
  std::optional<FunctionsReport> functions;
};

Written describe_written(const Graph& graph, const std::string& draft, const std::string& sidecar, int opset) {
  Written written;
  written.sidecar = sidecar;
  count_nodes(graph, written.nodes, written.operators);
  written.inputs = describe(graph, graph.inputs);
  written.outputs = describe(graph, graph.outputs);
  written.opset = opset;
  written.size = size_of_file(draft);
  return written;
}

void print_json(const Written& written, const ExportRun& run) {
  nlohmann::ordered_json object = {{"file", written.file},           {"size", written.size},
                                   {"opset", written.opset},         {"nodes", written.nodes},
                                   {"operators", written.operators}, {"inputs", written.inputs},
                                   {"outputs", written.outputs}};
  if (!written.sidecar.empty()) object["sidecar"] = written.sidecar;
  if (written.functions) object["functions"] = to_json(*written.functions);
  for (const auto& [stage, seconds] : run.stages.seconds()) object["seconds"][stage] = seconds;
  object["diagnostics"] = nlohmann::ordered_json::parse(json_array(run.diagnostics));
  std::cout << object.dump(2) << "\n";
}

void print_people(const Written& written, const ExportRun& run, bool times) {
  print_text(run.diagnostics);
  std::cout << written.file << ": " << written.nodes << " nodes of " << written.operators.size() << " operators, opset "
            << written.opset << ", " << human_size(written.size) << "\n";
  for (const std::string& input : written.inputs) std::cout << "  input   " << shown(input) << "\n";
  for (const std::string& output : written.outputs) std::cout << "  output  " << shown(output) << "\n";
  if (!written.sidecar.empty()) std::cout << written.sidecar << ": its sidecar\n";
  if (written.functions) std::cout << "  " << describe(*written.functions) << "\n";
  for (const auto& [stage, seconds] : run.stages.seconds()) {
    if (times) std::cout << "  " << std::fixed << std::setprecision(3) << seconds << " s  " << stage << "\n";
  }
}

Binding bind(const std::string& file, int opset, std::int64_t nodes) {
  return {base_name(file), digest_of_file(file), opset, nodes};
}

void declare(CommandLine& line) {
  line.positional("archive", "what torch.jit.save wrote, traced or scripted, or torch.export.save");
  declare_model_output(line, "the ONNX file to write", Target::another_file);
  declare_inputs(line, /*dynamic=*/true);
  line.option("opset", "N", "13 to 23, 20 by default");
  line.output("sidecar-out", "write the sidecar too, bound to the ONNX file");
  line.flag("annotate", "annotate the file too, as `whence annotate` does");
  line.output("report", "a Markdown report, also when the export fails: what is missing, where, operators, times");
  line.flag("profile", "print the time of each stage");
  line.option("on-unsupported", "error|domain", "what to do with operators that have no converter; error by default");
  declare_functions(line);
  line.option(
      "converters", "FILE",
      "your own converters: a model file with ONNX functions; `op` of the domain `whence.mylib` is for mylib::op");
  line.repeated("keep-operator", "OPERATOR",
                "write the operator, such as aten::gelu or aten::add.Tensor, as a node of the domain whence.aten, "
                "though it has a "
                "converter");
  line.repeated("custom-opset", "NAME=VERSION",
                "write operators of the namespace NAME that have no converter as nodes of the ONNX domain NAME");
  line.option("input-names", "A,B", "names of the graph's inputs, in order; forward's argument names by default");
  line.option("output-names", "A,B", "names of the graph's outputs, in order");
  line.flag("no-optimize", "leave the graph as it was converted: no folding, no merging, nothing shared");
  line.flag("weights-as-inputs", "leave the weights out: parameters and buffers become inputs, by qualified name");
  line.flag("keep-initializers-as-inputs", "list the weights among the graph's inputs too");
  line.flag("external-data", "keep the weights in a file beside the model (done by itself above 2 GiB)");
  line.flag("external-data-per-tensor", "a file for each of the weights: model.onnx.encoder.weight");
  line.option("external-data-threshold", "BYTES",
              "weights that are not larger stay in the model file; 1024 by default");
  line.option("external-data-alignment", "BYTES", "where weights start in the file; 4096 by default");
  line.example(
      "whence export bert.pt -o bert.onnx --input 'input_ids=int64[2,16]<30522' --dynamic 'input_ids:0=batch,1=seq'");
  line.example("whence export bert.pt2 -o bert.onnx --dynamic 'input_ids:0=batch'");
}

ExitCode run(int argc, char** argv) {
  CommandLine line(
      "export", "model.pt|model.pt2 -o model.onnx [--inputs FILE | --input SPEC]... [--dynamic SPEC]...",
      "Exports a TorchScript or torch.export archive to ONNX, every node stamped with the operation that it\n"
      "comes from. TorchScript (.pt) needs LibTorch; a torch.export archive (.pt2) needs neither that nor\n"
      "example inputs, and --dynamic gives names to the sizes that are dynamic in it.");
  declare(line);
  if (!line.parse(argc, argv)) return ExitCode::ok;

  ReadOptions read = parse_read_options(line);
  const DomainVersions custom_opsets = parse_custom_opsets(line);
  ExportOptions options = parse_export_options(line, custom_opsets);
  read.input_names = options.input_names;
  const auto converters =
      line.has("converters") ? UserFunctions::read(line.text("converters"), options.opset) : nullptr;
  if (converters) options.custom_operators = converters->operators();
  for (const std::string& kept : line.list("keep-operator")) options.kept_operators.insert(kept);
  const std::optional<FunctionChoice> functions = parse_functions(line);
  const bool annotates = line.has("annotate") || functions;
  read.texts = annotates;
  const ModelOutput output = model_output(line);
  const std::string sidecar_output = line.text_or("sidecar-out", "");
  if (!sidecar_output.empty()) {
    // A record that a renamed or transposed weight can be found by, as `whence record` writes.
    read.digests = true;
    read.texts = true;
  }

  ExportRun done{.archive = read.path, .output = output.path, .opset = options.opset};
  Diagnostics& notes = done.diagnostics;
  Sidecar sidecar;
  std::optional<Graph> graph;
  std::optional<FunctionsReport> outlined;
  // Opened before the work begins, so that what cannot be written is an error at once.
  std::optional<OutputFiles> files(std::in_place);
  AtomicFile* const report_file = line.has("report") ? &files->add(line.text("report")) : nullptr;
  AtomicFile* const sidecar_file = sidecar_output.empty() ? nullptr : &files->add(sidecar_output);
  AtomicFile& model_file = files->add(output.path);
  const ScratchFolder scratch(output.path);
  const std::string draft = scratch.file(base_name(output.path));
  Written written;
  try {
    done.stages.begin("read the archive");
    load_operators(line.list("library"));
    sidecar.program = read_archive(read, notes);
    done.program = &sidecar.program;
    done.stages.begin("convert");
    graph = unwrap(export_program(sidecar.program, options), notes);
    if (graph->outputs.empty()) {
      throw Error(Code::unsupported_feature, "the model returns no tensor, and an ONNX graph has to have a result",
                  "return what is to be computed", {.file = read.path, .stage = "export"});
    }
    done.graph = &*graph;
    done.stages.begin(annotates ? "write and annotate" : "write");
    WriteOptions writing = write_options(sidecar.program, options, line);
    writing.domain_versions = custom_opsets;
    writing.functions = converters;
    writing.interface = interface_metadata(*graph, sidecar.program);
    outlined = write_draft(*graph, sidecar, draft, writing, annotates, functions, notes);
    notes = scratch.as_seen(std::move(notes));
    written = describe_written(*graph, draft, sidecar_output, options.opset);
    if (sidecar_file != nullptr) {
      sidecar.bindings.push_back(bind(draft, options.opset, written.nodes));
      sidecar_file->write(to_json_text(sidecar));
    }
    add_data_files(scratch, output, *files);
    model_file.take(draft);
    done.written = true;
    done.stages.end();
    if (report_file != nullptr) report_file->write(to_markdown(done));
    files->commit();
  } catch (const Error& error) {
    files.reset();
    Diagnostics found = scratch.as_seen(error.diagnostics());
    notes.insert(notes.end(), found.begin(), found.end());
    done.written = false;
    done.stages.end();
    if (line.has("report")) {
      const Diagnostics unwritten = write_report(line.text("report"), done);
      found.insert(found.end(), unwritten.begin(), unwritten.end());
    }
    throw Error(found);
  }
  written.file = output.path;
  written.functions = std::move(outlined);
  line.json() ? print_json(written, done) : print_people(written, done, line.has("profile"));
  return ExitCode::ok;
}

}  // namespace

const Command export_command = {"export", "turn a TorchScript or torch.export archive into ONNX, its origins kept",
                                run};

}  // namespace whence
