// Assigns bytes to the model file or to files of external data; model_layout.h writes them.
#include "annotator/write/onnx_writer.h"

#include <algorithm>
#include <map>
#include <set>

#include <sys/resource.h>

#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/stamp.h"
#include "annotator/text/unique_names.h"
#include "annotator/write/graph_proto.h"
#include "annotator/write/model_layout.h"
#include "schema/files/output_files.h"
#include "schema/result.h"

namespace whence::write {

using origin::NodeOrigin;
namespace keys = origin::keys;
using graph::Graph;

namespace {

struct External {
  std::size_t file;  // index into Layout::files
  std::uint64_t offset;
  const Bytes* bytes;
};

struct Layout {
  ModelLayout model;
  std::vector<std::string> files;  // base names of the external data files
  std::vector<External> external;  // grouped by file, ascending offsets
};

void add_entry(onnx::TensorProto& tensor, const char* key, const std::string& value) {
  onnx::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}

// Returns the value's name as part of a file name.
std::string file_part(std::string name) {
  for (char& letter : name) {
    if (letter == '/' || static_cast<unsigned char>(letter) < ' ') letter = '_';
  }
  return name.substr(0, 150);  // file systems allow 255 bytes
}

constexpr std::uint64_t page = 4096;  // runtimes can map a tensor that starts at a page boundary

// Versions by domain, and the user's functions that nodes call, each with the origins of its calls.
struct Imports {
  std::map<std::string, std::int64_t> versions;
  std::map<const onnx::FunctionProto*, NodeOrigin> functions;

  void collect(const Graph& graph, const UserFunctions* known) {
    for (const graph::GraphNode& node : graph.nodes) {
      versions.emplace(node.domain, 1);
      std::set<const onnx::FunctionProto*> taken;
      if (known != nullptr) call(known->find(node.domain, node.op_type), node.origin, *known, taken);
      for_each_body(node, [&](const Graph& body) { collect(body, known); });
    }
  }
  // A function may call others of the same file, but never itself (UserFunctions::read). `taken`: the functions already
  // collected for this node.
  void call(const onnx::FunctionProto* function, const NodeOrigin& origin, const UserFunctions& known,
            std::set<const onnx::FunctionProto*>& taken) {
    if (function == nullptr || !taken.insert(function).second) return;
    const auto [entry, is_new] = functions.try_emplace(function, origin);
    if (!is_new) entry->second = origin::merge_origins(entry->second, origin, origin::OriginKind::shared);
    for (const onnx::OperatorSetIdProto& import : function->opset_import()) {
      versions.emplace(import.domain(), import.version());
    }
    for (const onnx::FunctionProto* called : known.called_by(*function)) call(called, origin, known, taken);
  }
};

// Returns the IR version introduced with an opset (onnx/helper.py, VERSION_TABLE), but at least 10, which node metadata
// needs.
std::int64_t ir_version(int opset) {
  if (opset >= 28) return 14;
  if (opset >= 25) return 13;
  if (opset == 24) return 12;
  return opset == 23 ? 11 : 10;
}

// Serialises ModelProto's fields before the graph (numbers 1 to 6).
std::string model_head(const WriteOptions& options) {
  onnx::ModelProto model;
  model.set_ir_version(ir_version(options.opset));
  model.set_producer_name("whence");
  if (!options.producer_version.empty()) model.set_producer_version(options.producer_version);
  return model.SerializeAsString();
}

std::string model_tail(const Graph& graph, const WriteOptions& options, GraphProtoMaker& maker) {
  onnx::ModelProto model;
  Imports imports;
  imports.versions.emplace("", options.opset);
  imports.collect(graph, options.functions.get());
  for (const auto& [domain, version] : imports.versions) {
    onnx::OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain(domain);
    const auto listed = options.domain_versions.find(domain);
    opset.set_version(listed == options.domain_versions.end() ? version : listed->second);
  }
  if (options.functions != nullptr) {
    for (const onnx::FunctionProto& function : options.functions->model().functions()) {
      const auto called = imports.functions.find(&function);
      if (called == imports.functions.end()) continue;
      *model.add_functions() = maker.function(function, called->second);
    }
  }
  const auto add_metadata = [&](std::string_view key, const std::string& value) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(std::string(key));
    entry.set_value(value);
  };
  for (const auto& [key, value] : options.metadata) add_metadata(key, value);
  if (options.stamp_origins && !graph.folded.empty()) add_metadata(keys::folded, origin::to_ranges(graph.folded));
  if (options.keys != nullptr) add_metadata(keys::annotated, WHENCE_VERSION);
  return model.SerializeAsString();
}

// `model_file`: base name of the model, the prefix for files of external data; empty: everything inline.
Layout lay_out(const Graph& graph, const WriteOptions& options, const std::string& model_file) {
  GraphProtoMaker maker(graph, options.interface, options.stamp_origins, options.functions.get(), options.keys);
  Layout layout;
  layout.model.head = model_head(options);
  layout.model.graph_head = maker.nodes().SerializeAsString();
  layout.model.tail = model_tail(graph, options, maker);
  layout.model.graph_tail = maker.interface(options.initializers_as_inputs).SerializeAsString();
  const std::uint64_t alignment = options.external.alignment.value_or(page),
                      max_inline = options.external.threshold.value_or(1024);
  text::UniqueNames file_names;
  std::uint64_t end = 0;
  for (const graph::Initializer* each : weights_first(graph.initializers)) {
    const graph::Initializer& initializer = *each;
    onnx::TensorProto tensor = maker.tensor_header(initializer);
    const Bytes& bytes = initializer.data.bytes;
    ModelLayout::Tensor piece;
    // Axes and shapes stay inline: shape inference reads them and does not open other files.
    const bool always_inline = is_integral(initializer.data.dtype) && !initializer.parameter && bytes.size() <= 1024;
    if (model_file.empty() || bytes.size() <= max_inline || always_inline) {
      piece.raw = &bytes;
    } else {
      const bool own_file = options.external.per_tensor;
      if (own_file) end = 0;
      if (own_file || layout.files.empty()) {
        layout.files.push_back(file_names.claim(model_file + "." + (own_file ? file_part(tensor.name()) : "data")));
      }
      const std::uint64_t offset = (end + alignment - 1) / alignment * alignment;
      end = offset + bytes.size();
      add_entry(tensor, "location", layout.files.back());
      add_entry(tensor, "offset", std::to_string(offset));
      add_entry(tensor, "length", std::to_string(bytes.size()));
      tensor.set_data_location(onnx::TensorProto::EXTERNAL);
      layout.external.push_back({layout.files.size() - 1, offset, &bytes});
    }
    piece.head = tensor.SerializeAsString();
    layout.model.initializers.push_back(std::move(piece));
  }
  return layout;
}

// All files stay open until all are complete. Throws Error(over_limit) if the system does not allow so many open files.
void write_external(const Layout& layout, const std::string& folder, OutputFiles& to) {
  constexpr rlim_t others = 32;  // the archive and other files that this process has open
  rlimit open_files{};
  if (getrlimit(RLIMIT_NOFILE, &open_files) == 0 && layout.files.size() + others > open_files.rlim_cur) {
    open_files.rlim_cur = open_files.rlim_max;
    if (layout.files.size() + others > open_files.rlim_max || setrlimit(RLIMIT_NOFILE, &open_files) != 0) {
      throw Error(
          Code::over_limit,
          std::to_string(layout.files.size()) + " files of external data are more than this system allows to be open",
          "write a single file with --external-data", {.file = folder, .stage = "write"});
    }
  }
  std::vector<AtomicFile*> files;
  for (const std::string& name : layout.files) files.push_back(&to.add(folder + name));
  for (const External& tensor : layout.external) {
    AtomicFile& file = *files[tensor.file];
    file.write(std::string(tensor.offset - file.position(), '\0'));
    file.write(*tensor.bytes);
  }
}

}  // namespace

void write_onnx(const Graph& graph, const std::string& path, const WriteOptions& options) {
  Layout layout = lay_out(graph, options, options.external.always ? base_name(path) : "");
  if (!options.external.always && layout.model.size() > options.protobuf_limit) {
    layout = lay_out(graph, options, base_name(path));
  }
  if (layout.model.size() > options.protobuf_limit) {
    throw Error(Code::over_limit,
                "the graph without its weights needs " + std::to_string(layout.model.size()) +
                    " bytes, more than the " + std::to_string(options.protobuf_limit) + " that protobuf can hold",
                "export a part of the model", {.file = path, .stage = "write"});
  }

  OutputFiles files;
  AtomicFile& model = files.add(path);
  write_external(layout, path.substr(0, path.size() - base_name(path).size()), files);
  layout.model.write(model);
  files.commit();
}

}  // namespace whence::write
