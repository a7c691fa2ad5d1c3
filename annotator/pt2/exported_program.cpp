#include "annotator/pt2/exported_program.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "annotator/pt2/graph.h"
#include "annotator/pt2/guards.h"
#include "annotator/pt2/modules.h"
#include "annotator/pt2/open_sizes.h"
#include "annotator/pt2/signature.h"
#include "annotator/pt2/tensors.h"
#include "schema/files/zip_archive.h"
#include "schema/lost_writes.h"
#include "schema/tensor_digests.h"

namespace whence::pt2 {
namespace {

using ArchiveJson = nlohmann::ordered_json;  // for small documents within strings

constexpr std::int64_t schema_major = 8;

// Returns the folder that contains all members, "model/" for "model/models/model.json"; nullopt if there is no program.
std::optional<std::string> root_of(const ZipArchive& archive) {
  for (const auto& [name, content] : archive.members()) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || name.substr(slash + 1) != "archive_format") continue;
    if (content == "pt2") return name.substr(0, slash + 1);
  }
  return std::nullopt;
}

// Returns true for the format of PyTorch up to 2.8, whose archives contain pickled weights.
bool has_older_form(const ZipArchive& archive, const std::optional<std::string>& root) {
  if (!root) return archive.has("serialized_exported_program.json");
  return std::ranges::any_of(archive.members(), [&](const auto& member) {
    return member.first.starts_with(*root + "data/weights/") && member.first.ends_with(".pt");
  });
}

class ProgramReader {
 public:
  ProgramReader(const ReadOptions& options, Diagnostics& notes)
      : options_(options), notes_(notes), archive_(options.path, "torch.export.save"), reading_{options.path, ""} {}

  Program read() {
    const auto root = root_of(archive_);
    if (has_older_form(archive_, root)) {
      throw Error(Code::unsupported_feature, "the archive has the format of PyTorch before 2.9",
                  "load it with that PyTorch and export it again with PyTorch 2.9 or newer", place());
    }
    if (!root) {
      throw Error(Code::wrong_kind, "the archive contains no exported program",
                  "pass a file written by torch.export.save", place());
    }
    root_ = *root;
    check_byte_order();
    const auto json = JsonDocument::parse(program_text());
    if (!json) reading_.corrupt("the program is not JSON");
    const Part document(*json, reading_);
    check_version(document);

    const Part module = document.at("graph_module"), graph = module.at("graph"), signature = module.at("signature");
    ExportedModules modules(module.at("module_call_graph"), program_);
    ExportedGraph body(program_, modules, reading_);
    body.read_symbols(document.at("range_constraints"));
    const StoredTensors weights(archive_, root_ + "data/weights/", "model_weights_config.json");
    const StoredTensors constants(archive_, root_ + "data/constants/", "model_constants_config.json");
    read_inputs(signature.at("input_specs"), graph, body, weights, constants);
    body.read_program(graph, options_.texts, program_.body);
    read_outputs(signature.at("output_specs"), body);
    name_outputs(module.at("module_call_graph"));
    program_.signature = read_signature(signature);

    std::map<std::string, std::string> storage_of;
    for (const StoredTensors* stored : {&weights, &constants}) {
      for (const auto& [name, tensor] : stored->all()) storage_of.emplace(name, tensor.storage);
    }
    modules.join_aliases(storage_of);
    for (const ParameterId id : program_.parameters.keys()) {
      program_.modules[modules.owner_of(program_.parameters[id].name)].own_parameters.push_back(id);
    }
    sum_parameters(modules);
    const std::set<SymbolId> promised = rename_symbols();
    reading_.entry = "guards";
    if (const auto guards = document.maybe("guards_code"); guards && !guards->is_null()) {
      apply_guards(read_guards(*guards, program_), promised, place(), program_, notes_);
    }
    open_sizes(program_, place(), notes_);
    program_.source = {"torch.export", base_name(options_.path), archive_.size(), ""};
    program_.producer = "whence " WHENCE_VERSION ", PyTorch " + torch_version_;
    program_.ran = true;
    if (options_.digests) {
      program_.source.digest = digest_of_file(options_.path);
      compute_digests(program_);
    }
    return std::move(program_);
  }

 private:
  Place place() const { return {.file = options_.path, .stage = "read"}; }

  std::string_view program_text() const {
    std::string only;
    for (const auto& [name, content] : archive_.members()) {
      if (!name.starts_with(root_ + "models/") || !name.ends_with(".json")) continue;
      if (!only.empty()) {
        throw Error(Code::unsupported_feature, "the archive contains several programs", "save one program at a time",
                    place());
      }
      only = name;
    }
    if (only.empty()) reading_.corrupt("the archive contains no program");
    return archive_.text(only);
  }

  void check_byte_order() const {
    if (!archive_.has(root_ + "byteorder") || archive_.text(root_ + "byteorder") != "big") return;
    throw Error(Code::unsupported_feature, "the weights of the archive are in big-endian order",
                "load it with torch.export.load and save it again on a little-endian machine", place());
  }

  void check_version(const Part& document) {
    const Part version = document.at("schema_version");
    const std::int64_t major = version.at("major").integer();
    torch_version_ = document.has("torch_version") ? document.at("torch_version").text() : "unknown";
    if (major == schema_major) return;
    const std::string schema_message = "the archive has schema " + std::to_string(major) + "." +
                                       std::to_string(version.at("minor").integer()) + ", written by PyTorch " +
                                       torch_version_;
    if (major > schema_major) {
      throw Error(Code::newer_version, schema_message + "; this whence reads schema 8",
                  "use a newer whence, or export with an "
                  "older PyTorch",
                  place());
    }
    throw Error(Code::unsupported_feature, schema_message + "; this whence reads schema 8",
                "load it with that PyTorch and export it again with PyTorch 2.9 or newer", place());
  }

  // ---- the signature ----------------------------------------------------------------------------------------------

  void read_inputs(const Part& specs, const Part& graph, ExportedGraph& body, const StoredTensors& weights,
                   const StoredTensors& constants) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      reading_.entry = "input " + std::to_string(i);
      const auto [kind, spec] = specs[i].alternative();
      if (kind == "parameter") {
        parameter(spec, spec.at("parameter_name").text(), ParameterKind::parameter, weights, graph, body);
      } else if (kind == "buffer") {
        const std::string& name = spec.at("buffer_name").text();
        const bool persistent = spec.at("persistent").flag();
        parameter(spec, name, ParameterKind::buffer, weights.has(name) ? weights : constants, graph, body, persistent);
      } else if (kind == "tensor_constant") {
        const StoredTensors::Tensor& tensor = constants.of(spec.at("tensor_constant_name").text());
        const ConstantId id = program_.constants.add({tensor.data, spec.at("tensor_constant_name").text(), {}, {}});
        const ValueId value = body.declare(graph, spec.at("arg").at("name").text(), ValueSource::constant, id.number());
        program_.values[value].known = id;
      } else if (kind == "user_input") {
        user_input(spec.at("arg"), graph, body);
      } else if (kind == "token") {
        throw Error(Code::unsupported_feature,
                    "the model has operations with side effects, such as printing, callbacks or assertions, ordered by "
                    "tokens; ONNX supports neither",
                    "export the model without printing, callbacks and operators registered as effectful; "
                    "run_decompositions() adds assertions of linear algebra: leave it out",
                    place());
      } else if (kind == "custom_obj") {
        throw Error(Code::unsupported_feature, "the model contains a script object",
                    "store its content in parameters and buffers", place());
      } else if (kind != "constant_input") {  // a number or None that the program was specialised for
        throw Error(Code::unsupported_feature, "the signature has an input of kind '" + std::string(kind) + "'",
                    "use a newer whence, or export the model with an older PyTorch", place());
      }
    }
  }

  void parameter(const Part& spec, const std::string& name, ParameterKind kind, const StoredTensors& stored,
                 const Part& graph, ExportedGraph& body, bool persistent = true) {
    const StoredTensors::Tensor& tensor = stored.of(name);
    const std::string& value = spec.at("arg").at("name").text();
    const auto [known, is_new] = by_storage_.try_emplace(tensor.storage, ParameterId(program_.parameters.size()));
    if (is_new) {
      Parameter entry;
      entry.name = name;
      entry.kind = kind;
      entry.trainable = kind == ParameterKind::parameter && tensor.requires_grad;
      entry.persistent = persistent;
      entry.data = tensor.data;
      entry.member = tensor.member;
      program_.parameters.push_back(std::move(entry));
    } else {
      program_.parameters[known->second].aliases.push_back(name);
    }
    body.declare(graph, value, ValueSource::parameter, known->second.number());
  }

  void user_input(const Part& argument, const Part& graph, ExportedGraph& body) {
    const auto [kind, content] = argument.alternative();
    const bool size = kind.starts_with("as_sym_") && content.has("as_name");  // a dynamic number (Dim.DYNAMIC)
    if (kind != "as_tensor" && !size) return;  // other numbers and None are part of the program
    const std::string& name = content.at(size ? "as_name" : "name").text();
    const auto number = static_cast<std::int32_t>(program_.inputs.size());
    const ValueId value = body.declare(graph, name, ValueSource::input, number);
    body.choose_sizes(graph, name);
    program_.inputs.push_back({name, value});
  }

  void read_outputs(const Part& specs, ExportedGraph& body) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      reading_.entry = "output " + std::to_string(i);
      const auto [kind, spec] = specs[i].alternative();
      if (kind == "user_output") {
        program_.outputs.push_back({"", body.argument(spec.at("arg"))});
      } else if (kind == "buffer_mutation" || kind == "parameter_mutation") {
        const std::string name = spec.at(kind == "buffer_mutation" ? "buffer_name" : "parameter_name").text();
        notes_.push_back(lost_write(WrittenTo::state, name, place()));
      } else if (kind == "user_input_mutation") {
        notes_.push_back(lost_write(WrittenTo::input, spec.at("user_input_name").text(), place()));
      }
    }
  }

  // Names results in a dict or dataclass by their keys if each is one tensor.
  void name_outputs(const Part& module_call_graph) {
    if (module_call_graph.size() == 0) return;
    const Part signature = module_call_graph[0].at("signature");
    if (signature.is_null()) return;
    const std::string form = signature.at("out_spec").text();
    if (!JsonDocument::parse(form)) return;  // the parser bounds the nesting depth
    const ArchiveJson spec = ArchiveJson::parse(form, nullptr, false);
    if (!spec.is_array() || spec.size() != 2 || !spec[1].is_object() || !spec[1].contains("context")) return;
    if (!spec[1]["context"].is_string() || !spec[1].contains("children_spec")) return;
    const ArchiveJson keys = ArchiveJson::parse(spec[1]["context"].get<std::string>(), nullptr, false);
    const ArchiveJson& children = spec[1]["children_spec"];
    if (!keys.is_array() || keys.size() != children.size()) return;
    std::size_t output = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const bool one = children[i].is_object() && children[i].value("type", ArchiveJson()).is_null();
      if (one && keys[i].is_string() && output < program_.outputs.size()) {
        program_.outputs[output].name = keys[i].get<std::string>();
      }
      output += leaves_of(children[i]);
    }
  }

  static std::size_t leaves_of(const ArchiveJson& spec) {
    if (!spec.is_object() || !spec.contains("children_spec") || spec.value("type", ArchiveJson()).is_null()) return 1;
    std::size_t leaves = 0;
    for (const ArchiveJson& child : spec["children_spec"]) leaves += leaves_of(child);
    return leaves;
  }

  // Counts each parameter once for every module that contains it under one of its names.
  void sum_parameters(ExportedModules& modules) {
    for (const Parameter& parameter : program_.parameters) {
      if (parameter.kind != ParameterKind::parameter) continue;
      std::vector<ModuleId> holders;
      const auto hold = [&](const std::string& name) {
        for (ModuleId id = modules.owner_of(name); id != none_id; id = program_.modules[id].parent) {
          if (std::ranges::find(holders, id) == holders.end()) holders.push_back(id);
        }
      };
      hold(parameter.name);
      for (const std::string& alias : parameter.aliases) hold(alias);
      for (const ModuleId id : holders) {
        program_.modules[id].parameters_total += parameter.data.element_count();
        if (parameter.trainable) program_.modules[id].parameters_trainable += parameter.data.element_count();
      }
    }
  }

  void require_derived(const DynamicAxis& axis, const Symbol& symbol) const {
    if (symbol.kind == SymbolKind::derived) return;
    throw Error(Code::input_mismatch,
                "axis " + std::to_string(axis.axis) + " of '" + axis.input +
                    "' is an independent size in the program, not derived from another",
                "give it a name, or export the program again with dynamic_shapes that derive it", place());
  }

  // --dynamic 'x:0=batch' renames the size of that axis, also in sizes derived from it. A size keeps the first name
  // that is given. Returns the sizes of these axes.
  std::set<SymbolId> rename_symbols() {
    std::map<SymbolId, std::string> given;
    std::set<SymbolId> promised;
    for (const DynamicAxis& axis : options_.dynamic) {
      auto input = std::ranges::find(program_.inputs, axis.input, &ProgramInput::name);
      const auto renamed_to = std::ranges::find(options_.input_names, axis.input);
      if (input == program_.inputs.end() && renamed_to != options_.input_names.end()) {
        const auto position = renamed_to - options_.input_names.begin();
        input += std::min<std::ptrdiff_t>(0, position - static_cast<std::ptrdiff_t>(program_.inputs.size()));
      }
      if (input == program_.inputs.end()) {
        throw Error(Code::input_mismatch, "the program has no input '" + axis.input + "'",
                    "`whence export` prints the names of its inputs", place());
      }
      const auto& dims = program_.values[input->value].type.dims;
      if (!dims || axis.axis < 0 || static_cast<std::size_t>(axis.axis) >= dims->size()) {
        throw Error(Code::input_mismatch, "input '" + axis.input + "' has no axis " + std::to_string(axis.axis),
                    "count from 0", place());
      }
      const Dim& dim = (*dims)[static_cast<std::size_t>(axis.axis)];
      if (!dim.dynamic || dim.symbol == none_id) {
        throw Error(
            Code::baked_size,
            "axis " + std::to_string(axis.axis) + " of '" + axis.input + "' was fixed when the program was exported",
            "export it again with dynamic_shapes for this axis", place());
      }
      const Symbol& symbol = program_.symbols[dim.symbol];
      const auto symbols = length_of(program_.symbols, dim).symbols();
      promised.insert(symbols.begin(), symbols.end());
      if (!axis.parts.empty() && symbol.kind == SymbolKind::derived) continue;  // a sum gets its name from its parts
      if (axis.derived()) {  // a derived size gets its name from its base
        require_derived(axis, symbol);
        continue;
      }
      const auto [name, is_first] = given.try_emplace(dim.symbol, axis.symbol);
      if (!is_first && name->second != axis.symbol) notes_.push_back(unused_name(axis, name->second));
    }
    for (const auto& [symbol, name] : given) program_.symbols[symbol].name = name;
    for (const SymbolId id : program_.symbols.keys()) {
      if (program_.symbols[id].kind == SymbolKind::derived && !given.contains(id)) name_derived(program_.symbols, id);
    }
    return promised;
  }

  Diagnostic unused_name(const DynamicAxis& axis, const std::string& name) const {
    return warning(Code::input_mismatch,
                   "axis " + std::to_string(axis.axis) + " of '" + axis.input + "' always equals the size '" + name +
                       "': the name '" + axis.symbol + "' is not used",
                   "use the same name for both", place());
  }

  const ReadOptions& options_;
  Diagnostics& notes_;
  ZipArchive archive_;
  Reading reading_;
  std::string root_, torch_version_;
  Program program_;
  std::map<std::string, ParameterId> by_storage_;
};

}  // namespace

bool is_exported_program(const std::string& path) {
  const auto answer = guarded([&] {
    const ZipArchive archive(path, "torch.export.save");
    const auto root = root_of(archive);
    return root || has_older_form(archive, root);
  });
  return answer ? *answer
                : path.ends_with(".pt2");  // unreadable files: the extension decides which reader reports the error
}

Result<Program> read_exported_program(const ReadOptions& options) {
  Diagnostics notes;
  auto result = guarded([&] { return ProgramReader(options, notes).read(); });
  return result ? Result<Program>(std::move(*result), std::move(notes)) : result;
}

}  // namespace whence::pt2
