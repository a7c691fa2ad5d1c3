// OnnxSummary: the structure of an ONNX file without its weights, for validate, show and explain.
//
// It is read directly from the wire format of the mapped file, so a model of many gigabytes needs only memory for its
// structure. Names are copied; messages, metadata and weights are views into the mapping. `file` keeps both alive.
// Nothing is checked here: duplicate names and keys, unknown domains and wrong external data are kept unchanged, for
// the checks in annotator/validation.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/page_release.h"
#include "annotator/onnx_file/rare_list.h"
#include "schema/files/files.h"
#include "schema/result.h"

namespace whence::onnx_file {

// A file to read. For a draft that whence made from another file, `stands_for` is that file: messages name it, and
// external data is in its folder.
struct ModelSource {
  template <std::convertible_to<std::string> Path>  // keeps the template from replacing the copy constructor
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  ModelSource(Path&& file, std::string original = "")
      : path(std::forward<Path>(file)), stands_for(original.empty() ? path : std::move(original)) {}

  std::string path, stands_for;
};

struct OnnxProperty {
  std::string_view key, value;
};
using OnnxProperties = std::vector<OnnxProperty>;  // in file order, duplicates kept

// The metadata of a node. It is parsed from the file on each access: a million nodes have ten million entries.
class NodeMetadata {
 public:
  NodeMetadata() = default;
  // `fields`: the fields of the node's message from the first entry to the last. Each entry has been parsed once
  // without error. `pages`: of the mapped file with the fields; null if they are in memory.
  NodeMetadata(std::string_view fields, PageRelease* pages) : fields_(fields), pages_(pages) {}

  bool empty() const { return fields_.empty(); }
  OnnxProperties list() const;
  operator OnnxProperties() const { return list(); }
  std::optional<std::string_view> find(std::string_view key) const;
  bool same_bytes(const NodeMetadata& other) const {
    was_read(fields_.size());
    other.was_read(other.fields_.size());
    return fields_ == other.fields_;
  }
  void was_read(std::size_t bytes) const {
    if (pages_ != nullptr) pages_->was_read(bytes);
  }

 private:
  std::string_view fields_;
  PageRelease* pages_ = nullptr;
};

// Returns the first value of `key`; nullopt if it is absent.
std::optional<std::string_view> find_property(const OnnxProperties& properties, std::string_view key);
inline std::optional<std::string_view> find_property(const NodeMetadata& metadata, std::string_view key) {
  return metadata.find(key);
}

// An initializer, or a tensor in an attribute.
struct OnnxTensor {
  std::string_view name;
  int data_type = 0;  // onnx::TensorProto::DataType
  std::vector<std::int64_t> dims;
  std::uint64_t stored_bytes = 0;  // size of raw_data; 0 if the values are in a typed field or external
  std::string_view raw;            // raw_data, in the mapped file
  std::string_view message;        // the complete TensorProto in the file, including typed fields
  bool external = false;           // data_location EXTERNAL
  OnnxProperties external_data;    // location, offset, length, checksum
  OnnxProperties metadata;
};

struct OnnxGraph;

struct OnnxAttribute {
  std::string_view name;
  std::string_view message;    // the complete AttributeProto in the file
  std::string_view reference;  // the attribute of the enclosing function with the value; empty if the value is here
  bool holds_graph = false;
};

// The modules of a node in a call of a captured graph, whose metadata states those of another call
// (captured_regions.h).
struct CapturedModules {
  std::vector<std::string> paths;  // the called modules, from the root
  bool certain = true;             // false: the node belongs to the last module or to one inside it
};

struct OnnxNode {
  std::string_view message;  // the complete NodeProto in the file
  std::string_view name, op_type, domain, overload, doc_string;
  std::vector<std::string_view> inputs, outputs;
  std::uint32_t model_inputs = 0;  // bit i is set if input i (below 32) is an input of the model whose name has a dot
  std::vector<OnnxAttribute> attributes;
  NodeMetadata metadata;
  RareList<OnnxTensor> tensors;               // in attributes
  RareList<OnnxGraph> subgraphs;              // in attributes: branches, loop bodies
  const CapturedModules* captured = nullptr;  // null if the modules in its metadata are its own

  // False for the parameter `decoder.0.key`, true for the model's input `past.0.key`.
  bool is_model_input(std::size_t input) const { return input < 32 && (model_inputs >> input & 1U) != 0; }
  // Returns the message and counts it as read, for callers that parse all of it.
  std::string_view read() const {
    metadata.was_read(message.size());
    return message;
  }
};

struct OnnxValue {
  std::string_view message;  // the complete ValueInfoProto in the file
  std::string_view name;
  std::string_view type;  // the TypeProto message
  OnnxProperties metadata;
};

struct OnnxGraph {
  std::string_view name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValue> inputs, outputs, value_info;
  OnnxProperties metadata;
};

struct OnnxOpset {
  std::string_view domain;  // "" is ai.onnx
  std::int64_t version = 0;
};

struct OnnxFunction {
  std::string_view message;  // the complete FunctionProto in the file
  std::string_view domain, name, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  // declared, with and without a default
  std::vector<OnnxNode> nodes;
  std::vector<OnnxValue> value_info;
  std::vector<OnnxOpset> opsets;
  OnnxProperties metadata;
};

struct OnnxSummary {
  std::shared_ptr<const MappedFile> file;
  std::int64_t ir_version = 0;
  std::string_view producer, producer_version;
  std::vector<OnnxOpset> opsets;
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
  OnnxProperties metadata;
};

// Reads the summary of a file. Errors: missing_file, empty_file, truncated_file, wrong_kind (a zip archive, JSON, no
// graph), corrupt_file.
Result<OnnxSummary> read_onnx_summary(const ModelSource& source);

// Reads the summary without the graph, whose bytes are skipped, for callers that need only functions or metadata.
// Errors as above, but errors within the graph are not found.
Result<OnnxSummary> read_summary_without_graph(const ModelSource& source);

// Returns every node of a graph in the order of whence's reports: nested nodes follow the node with their body.
std::vector<const OnnxNode*> all_nodes(const OnnxGraph& graph);

}  // namespace whence::onnx_file
