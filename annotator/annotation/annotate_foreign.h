// Annotating what carries no stamps: files from other exporters, and nodes that a tool added to whence's own.
// The match engine says where nodes come from; this writes it down.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotator/annotation/annotate.h"
#include "annotator/match/match.h"
#include "annotator/onnx_file/onnx_rewrite.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/origin/node_origin.h"

namespace whence::annotation {

// Turns a decision into entries of the file: the keys, and the path that node names begin with.
class KeySource {
 public:
  virtual ~KeySource() = default;
  virtual std::vector<std::pair<std::string_view, std::string>> keys_of(const match::NodeMatch& match) const = 0;
  virtual std::string path_of(const match::NodeMatch& match) const = 0;
  // The name that this very node has where it is known from; empty when there it is another or none.
  virtual std::string_view own_name(const match::NodeMatch&, std::string_view /*op_type*/) const { return {}; }
  virtual bool wants(std::string_view key) const = 0;
  // Digest of the program whose operations origin_of() names; empty when units are not known to be operations.
  virtual std::string program() const { return {}; }
  // Nothing when it is not known of all units which operations they stand for.
  virtual std::optional<origin::NodeOrigin> origin_of(const match::NodeMatch&) const { return std::nullopt; }
};

// Lists the annotation keys that the node has already, behind those in `kept`: annotating leaves them, and strip must.
void list_kept_keys(const onnx_file::NodeView& node, std::string kept, onnx_file::NodeEdit& edit);

// The confidence that the node's keys state once the edit is made; `decided` where the choice of keys leaves the
// module out.
origin::Confidence confidence_after(const onnx_file::NodeView& node, const onnx_file::NodeEdit& edit,
                                    origin::Confidence decided);

// Writes the decisions of `found` to every node of `model`, read of `input`, that says nothing of itself yet. `digest`
// identifies the reference; it goes into the model, and a file that says it already, on all its nodes, stays as it is.
AnnotateReport write_matches(const onnx_file::OnnxSummary& model, const match::MatchReport& found,
                             const KeySource& source, const std::string& digest, const onnx_file::ModelSource& input,
                             const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// True when every node has been annotated against this reference: there is nothing to find.
bool fully_annotated(const onnx_file::OnnxSummary& model, const std::string& digest);
// The same, against whatever reference.
bool annotated_at_all_nodes(const onnx_file::OnnxSummary& model);

}  // namespace whence::annotation
