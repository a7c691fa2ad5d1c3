// OnnxSummary: the structure of an ONNX file without its weights, as validate, show and explain need it.
//
// Read straight from the mapped file's wire format, so a model of many gigabytes costs the memory of its structure.
// Names are copied; messages, metadata and weights are views into the mapping. `file` keeps both alive. Nothing is
// judged here: duplicate names and keys, unknown domains and wrong external data are kept as they stand, for the checks
// in annotator/validation.
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

// A file to read. A draft that whence made of another file stands for it: messages name that file, and external data
// lies in its folder.
struct ModelSource {
  template <std::convertible_to<std::string> Path>  // which keeps it from standing for a copy
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  ModelSource(Path&& file, std::string original = "")
      : path(std::forward<Path>(file)), stands_for(original.empty() ? path : std::move(original)) {}

  std::string path, stands_for;
};

struct OnnxProperty {
  std::string_view key, value;
};
using OnnxProperties = std::vector<OnnxProperty>;  // in file order, duplicates kept

// The metadata of a node where it stands in the file, read anew each time: a million nodes have ten million entries.
class NodeMetadata {
 public:
  NodeMetadata() = default;
  // `fields`: of the node's message, from the first entry to the last. Each entry has been read once without error.
  // `pages`: of the file in which they lie; null where they are in memory anyway.
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

// The first value under `key`; nullopt when it is absent.
std::optional<std::string_view> find_property(const OnnxProperties& properties, std::string_view key);
inline std::optional<std::string_view> find_property(const NodeMetadata& metadata, std::string_view key) {
  return metadata.find(key);
}

// An initializer, or a tensor in an attribute.
struct OnnxTensor {
  std::string_view name;
  int data_type = 0;  // onnx::TensorProto::DataType
  std::vector<std::int64_t> dims;
  std::uint64_t stored_bytes = 0;  // raw_data; 0 when the values lie in a typed field or outside
  std::string_view raw;            // those bytes, in the mapped file
  std::string_view message;        // the whole tensor as it stands in the file, typed fields included
  bool external = false;           // data_location EXTERNAL
  OnnxProperties external_data;    // location, offset, length, checksum
  OnnxProperties metadata;
};

struct OnnxGraph;

struct OnnxAttribute {
  std::string_view name;
  std::string_view message;    // the whole attribute as it stands in the file
  std::string_view reference;  // the attribute of the enclosing function that gives the value; empty: it is here
  bool holds_graph = false;
};

struct OnnxNode {
  std::string_view message;  // the whole node as it stands in the file
  std::string_view name, op_type, domain, overload, doc_string;
  std::vector<std::string_view> inputs, outputs;
  std::vector<OnnxAttribute> attributes;
  NodeMetadata metadata;
  RareList<OnnxTensor> tensors;   // held by attributes
  RareList<OnnxGraph> subgraphs;  // held by attributes: branches, loop bodies

  // The message, for a reader who goes through all of it.
  std::string_view read() const {
    metadata.was_read(message.size());
    return message;
  }
};

struct OnnxValue {
  std::string_view message;  // the whole ValueInfoProto as it stands in the file
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
  std::string_view message;  // the whole function as it stands in the file
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

// Errors: missing_file, empty_file, truncated_file, wrong_kind (a zip archive, JSON, no graph), corrupt_file.
Result<OnnxSummary> read_onnx_summary(const ModelSource& source);

// Reads the same without the graph, whose bytes are stepped over: for those who ask about functions or metadata alone.
// Errors: the same, but for what is wrong within the graph.
Result<OnnxSummary> read_summary_without_graph(const ModelSource& source);

// Every node of a graph, nested ones after the node that holds them: the order of whence's reports.
std::vector<const OnnxNode*> all_nodes(const OnnxGraph& graph);

}  // namespace whence::onnx_file
