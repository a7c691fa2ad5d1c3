// Attribution: what an ONNX node says of its origin: read from the keys that annotate wrote, or, when a file carries
// the export's stamps only, worked out from them and the sidecar; where whence left nothing, from PyTorch's own keys.
// Every command that shows or counts origins reads them here.
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
  std::vector<std::string> modules;  // qualified names, "" is the root; several for a fused node; empty: unattributed
  std::string module;                // the one, or the lowest common ancestor of `modules`
  std::string id;    // the identity of its operation, or of several (operation_ids.h), as written; empty when not known
  std::string call;  // call number of the module, as written; empty when not known
  std::string rule;  // the rule that decided it
  std::string source;                        // "modeling_bert.py:88 forward"
  std::optional<origin::NodeOrigin> origin;  // recorded operations, from the stamp
  bool by_pytorch = false;                   // PyTorch's exporter said it, and whence nothing

  bool attributed() const { return confidence != origin::Confidence::unattributed; }
};

// The operations of a sidecar's program and the keys that annotate would write for them, for a file that was exported
// from that program (belongs_to).
class Recorded {
 public:
  explicit Recorded(const Program& program);

  const Program& program() const { return program_; }
  const Node* operation(std::int32_t index) const;  // nullptr when there is none of that number
  const NodeKeys& keys() const { return keys_; }

 private:
  const Program& program_;
  std::vector<const Node*> operations_;
  NodeKeys keys_;
};

// `recorded` may be null. It is used for nodes with a stamp and no module: keys on the node win.
Attribution attribution_of(const onnx_file::OnnxNode& node, const Recorded* recorded);

// The same by what whence left on the node alone: what annotate and tools that keep to docs/metadata-spec.md wrote.
Attribution attribution_by_whence(const onnx_file::OnnxNode& node, const Recorded* recorded);

// The class of `module`, if PyTorch's keys on the node name it; empty otherwise.
std::string type_by_pytorch(const onnx_file::OnnxNode& node, std::string_view module);

// Adds the line that tells users of a file that the origins of `by_pytorch` of its `nodes` nodes are read from
// PyTorch's keys; nothing for none.
void note_origins(std::int64_t by_pytorch, std::int64_t nodes, const std::string& file, Diagnostics& notes);
// The same, and counts them.
void note_origins(const onnx_file::OnnxSummary& model, Diagnostics& notes);

// program_digest() of the program whose operations the stamps on a model's nodes name; nothing when it does not say.
// A file that was matched with the record of another program than it was exported from has that one's stamps. One
// matched with the file before a tool has those of that file, or, like one matched by its own names, of its own
// program.
std::optional<std::string_view> stamped_program(const onnx_file::OnnxSummary& model);

// True when the file was exported from this program or matched with it, or with a file that was: its stamps may be
// looked up in it.
bool belongs_to(const onnx_file::OnnxSummary& model, const Program& program);

}  // namespace whence::metadata
