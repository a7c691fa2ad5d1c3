// Annotates nodes without stamps: files from other exporters, and nodes that a tool added to a file of whence. Writes
// the results of the match engine.
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

// Turns a match result into entries of the file: the keys, and the path at the beginning of node names.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // `op_type`: the node's operator.
  virtual std::vector<std::pair<std::string_view, std::string>> keys_of(const match::NodeMatch& match,
                                                                        std::string_view op_type) const = 0;
  virtual std::string path_of(const match::NodeMatch& match) const = 0;
  // Returns the name of the matched node in the reference if it is the same node; else empty.
  virtual std::string_view own_name(const match::NodeMatch&, std::string_view /*op_type*/) const { return {}; }
  virtual bool is_requested(std::string_view key) const = 0;
  // Returns the digest of the program whose operations origin_of() numbers; empty if units are not operations.
  virtual std::string program() const { return {}; }
  // Returns the operations that the units represent; nullopt if they are unknown for a unit.
  virtual std::optional<origin::NodeOrigin> origin_of(const match::NodeMatch&) const { return std::nullopt; }
};

// Adds an entry that lists `kept` and the annotation keys that the node already has. Annotate and strip leave those
// unchanged.
void list_kept_keys(const onnx_file::NodeView& node, std::string kept, onnx_file::NodeEdit& edit);

// Returns the confidence that the node's keys state after the edit; `decided` if the requested keys do not include the
// module.
origin::Confidence confidence_after(const onnx_file::NodeView& node, const onnx_file::NodeEdit& edit,
                                    origin::Confidence decided);

// Writes the results in `found` to every node of `model`, which was read from `input`, that has no annotation yet.
// `digest` identifies the reference and is written to the model. A file whose nodes are all annotated against this
// reference stays unchanged.
AnnotateReport write_matches(const onnx_file::OnnxSummary& model, const match::MatchReport& found,
                             const KeySource& source, const std::string& digest, const onnx_file::ModelSource& input,
                             const onnx_file::ModelOutput& output, const AnnotateOptions& options);

// Returns true if every node is annotated against this reference, so that no matching is needed.
bool fully_annotated(const onnx_file::OnnxSummary& model, const std::string& digest);
// Returns true if every node is annotated, against any reference.
bool annotated_at_all_nodes(const onnx_file::OnnxSummary& model);

}  // namespace whence::annotation
