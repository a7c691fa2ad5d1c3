// Attribution: the origin that an ONNX node states. It is read from the keys that annotate wrote; if the file has only
// the stamps of the export, it is computed from the stamps and the sidecar; without metadata of whence, it is read from
// the exporter's own keys. Every command that shows or counts origins uses this file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/graph/graph.h"
#include "annotator/metadata/node_keys.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/confidence.h"
#include "schema/program.h"
#include "whence/diagnostics.h"

namespace whence::metadata {

struct Attribution {
  origin::Confidence confidence = origin::Confidence::unattributed;
  std::vector<std::string> modules;  // qualified names, "" for the root; several for a fused node; empty: unattributed
  std::string module;                // the only module, or the lowest common ancestor of `modules`
  std::string primary;               // the module of the main operation of a fused node; else `module`
  std::string id;      // the identity of its operation or operations (operation_ids.h), as written; empty if unknown
  std::string call;    // call number of the module, as written; empty if unknown
  std::string rule;    // the rule that determined the origin
  std::string source;  // "modeling_bert.py:88 forward"
  std::optional<origin::NodeOrigin> origin;  // recorded operations, from the stamp
  bool by_exporter = false;                  // read from the keys of the file's exporter

  bool attributed() const { return confidence != origin::Confidence::unattributed; }
};

// The operations of a sidecar's program and the keys that annotate would write for them, for a file that belongs to the
// program (belongs_to).
class Recorded {
 public:
  explicit Recorded(const Program& program);

  const Program& program() const { return program_; }
  const Node* operation(std::int32_t index) const;  // nullptr if there is no such operation
  const NodeKeys& keys() const { return keys_; }

 private:
  const Program& program_;
  std::vector<const Node*> operations_;
  NodeKeys keys_;
};

// `recorded` may be null. It is used for nodes with a stamp but no module; keys on the node take precedence.
Attribution attribution_of(const onnx_file::OnnxNode& node, const Recorded* recorded);

// Like attribution_of(), but only from whence's keys, which annotate and tools that follow docs/metadata-spec.md write.
Attribution attribution_by_whence(const onnx_file::OnnxNode& node, const Recorded* recorded);

// Returns the class of `module` from the exporter's keys on the node; empty if they do not name the module.
std::string type_by_exporter(const onnx_file::OnnxNode& node, std::string_view module);

// Adds a note that `by_exporter` of the file's `nodes` nodes have their origin from the exporter's keys; none for 0.
void note_origins(std::int64_t by_exporter, std::int64_t nodes, const std::string& file, Diagnostics& notes);
// Counts these nodes of the model and adds the note.
void note_origins(const onnx_file::OnnxSummary& model, Diagnostics& notes);

// Returns the program_digest() of the program to whose operations the stamps on the model's nodes refer; nullopt if the
// model does not state it. A file matched with a recording has stamps of the recorded program, even if it was exported
// from another one. Stamps of a file matched with the tool's input are those of the input, or refer to the program that
// the file itself was exported from. Stamps of a file matched by names or with a checkpoint refer to that program, too.
std::optional<std::string_view> stamped_program(const onnx_file::OnnxSummary& model);

// Returns true if the file's stamps number operations of this program: the file was exported from it or matched with
// it, or was matched with such a file.
bool belongs_to(const onnx_file::OnnxSummary& model, const Program& program);

}  // namespace whence::metadata
