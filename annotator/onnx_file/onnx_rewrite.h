// OnnxRewrite: copies an ONNX file with some nodes edited, on the level of the wire format. Parts without an edit,
// above all weights, are copied as spans; only the lengths of the messages around an edit are written anew.
//
// The file is walked once. New bytes are kept until they are written (file_pieces.h), since the lengths of the edited
// messages stand before their content. Nodes of the graph, of all bodies nested in it and of local functions are
// edited.
#pragma once

#include <cstdint>
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
  bool has_name = false;         // the field is there, perhaps empty
  bool has_doc_string = false;   // likewise
  bool regular_metadata = true;  // entries follow each other, each as every writer would write it
};

// A metadata entry that stands, or is to stand, at `position` among the node's.
struct PlacedEntry {
  std::size_t position = 0;
  std::string key, value;
};

struct NodeEdit {
  std::optional<std::string> name;                              // replaces; "" takes the field away ...
  bool keep_empty_name = false;                                 // ... unless this says to leave it, empty
  std::optional<std::string> doc_string;                        // replaces
  bool drop_doc_string = false;                                 // takes the field away
  std::vector<std::string_view> dropped_keys;                   // every metadata entry under these goes
  std::vector<std::size_t> dropped_positions;                   // metadata entries, by position
  std::vector<PlacedEntry> restored;                            // metadata, ascending by position in the result
  std::vector<std::pair<std::string_view, std::string>> added;  // metadata, behind everything that is there
};

// By itself it leaves every node as it is.
class NodeEditor {
 public:
  virtual ~NodeEditor() = default;
  // Called once for each node, a node before those of its bodies.
  virtual NodeEdit edit(const NodeView&) { return {}; }
};

struct ModelEdit {
  std::optional<std::int64_t> ir_version;  // replaces
  std::vector<std::string_view> dropped_keys;
  std::vector<std::pair<std::string_view, std::string>> added;
  // New locations of external data, for every tensor. They alone do not count as a change.
  Locations locations = {};
  bool restores_data = false;  // data files get their former names back
};

class OnnxRewrite {
 public:
  // Makes the edits. Throws Error: truncated_file, corrupt_file, over_limit for graphs nested too deep or when the
  // result would pass protobuf's 2 GiB.
  OnnxRewrite(const std::shared_ptr<MappedFile>& file, NodeEditor& editor, const ModelEdit& model);

  bool changes() const { return changes_; }  // false: the result equals the input
  void write(AtomicFile& to) const { pieces_.write(to); }

 private:
  FilePieces pieces_;
  bool changes_ = false;
};

// Writes `input` with its edits to `output`, which may be the same file; the data files come along (carried_data.h).
// Nothing is written when output is input and nothing changes. Returns true if something changed. Throws what
// OnnxRewrite, CarriedData and OutputFiles throw.
bool rewrite_file(const ModelSource& input, const ModelOutput& output, NodeEditor& editor, ModelEdit model,
                  const DataFiles& data_files);

}  // namespace whence::onnx_file
