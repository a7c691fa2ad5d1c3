// OnnxRewrite: copies an ONNX file with some nodes edited, on the level of the wire format. Parts without an edit,
// especially weights, are copied as spans; only the lengths of the messages around an edit are rewritten.
//
// The file is read once. New bytes are kept until they are written (file_pieces.h): the lengths of edited messages
// precede their content. Nodes of the graph, of all nested bodies and of local functions can be edited.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/file_pieces.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "schema/files/files.h"

namespace whence::onnx_file {

struct NodeView {
  std::uint64_t offset = 0;  // position of the node's message in the file
  std::string_view name, op_type, domain;
  OnnxProperties metadata;
  std::string_view doc_string;
  bool has_name = false;         // the field is present, possibly empty
  bool has_doc_string = false;   // the field is present, possibly empty
  bool regular_metadata = true;  // entries are contiguous and in the usual encoding
};

// A metadata entry at its present or future `position` among the node's entries.
struct PlacedEntry {
  std::size_t position = 0;
  std::string key, value;
};

struct NodeEdit {
  std::optional<std::string> name;             // replaces the name; "" removes the field ...
  bool keep_empty_name = false;                // ... or with this flag keeps it empty
  std::optional<std::string> doc_string;       // replaces the doc_string
  bool drop_doc_string = false;                // removes the field
  std::vector<std::string_view> dropped_keys;  // removes all metadata entries with these keys
  std::vector<std::size_t> dropped_positions;  // removes metadata entries by position
  std::vector<PlacedEntry> restored;           // adds metadata entries, ascending by position in the result
  std::vector<std::pair<std::string_view, std::string>> added;  // appends metadata entries
  std::map<std::string_view, std::string> renamed_outputs;      // new names by present ones
  std::vector<std::string> following;                           // messages of nodes to insert after it, in a graph
};

// The base class changes no node.
class NodeEditor {
 public:
  virtual ~NodeEditor() = default;
  // Called once for each node; a node comes before the nodes of its bodies.
  virtual NodeEdit edit(const NodeView&) { return {}; }
};

// New content of a tensor that is stored in the model's file, in the layout of raw data.
struct TensorEdit {
  std::uint64_t size = 0;       // bytes; those of the present content
  std::function<Bytes()> make;  // called when the file is written, or before for a typed field
};

struct ModelEdit {
  std::optional<std::int64_t> ir_version;  // replaces the version
  std::vector<std::string_view> dropped_keys;
  std::vector<std::pair<std::string_view, std::string>> added;
  // New locations of external data. They do not count as a change by themselves.
  Locations locations = {};
  bool restores_data = false;                        // restores the former names of data files
  std::map<std::uint64_t, TensorEdit> tensors = {};  // by the position of the tensor's message in the file
  std::string graph_fields = {};                     // appended to the fields of the main graph
};

class OnnxRewrite {
 public:
  // Makes the edits. Throws Error: truncated_file, corrupt_file; over_limit for graphs that are nested too deeply or if
  // the result would exceed protobuf's 2 GiB.
  OnnxRewrite(const std::shared_ptr<MappedFile>& file, NodeEditor& editor, const ModelEdit& model);

  bool changes() const { return changes_; }  // false if the result equals the input
  void write(AtomicFile& to) const { pieces_.write(to); }

 private:
  FilePieces pieces_;
  bool changes_ = false;
};

// Writes `input` with its edits to `output`, which may be the same file. Handles data files as in carried_data.h.
// Writes nothing if output and input are the same file and nothing changes. Returns true if something changed. Throws
// the errors of OnnxRewrite, CarriedData and OutputFiles.
bool rewrite_file(const ModelSource& input, const ModelOutput& output, NodeEditor& editor, ModelEdit model,
                  const DataFiles& data_files);

}  // namespace whence::onnx_file
