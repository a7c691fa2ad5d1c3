// Explanation: why one ONNX node is attributed to its module: the metadata in the file, the node's recorded operations,
// and their modules and source lines.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/metadata/call_path.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/text/table.h"
#include "schema/files/source_root.h"
#include "schema/program.h"
#include "schema/result.h"

namespace whence::view {

// A recorded operation that the node implements.
struct ExplainedOperation {
  std::int32_t index = 0;
  std::string op;                             // "aten::linear"
  std::vector<metadata::CalledModule> scope;  // outermost first, without the root
  std::vector<std::string> source;            // innermost first, "modeling_bert.py:88 forward"
};

struct Explanation {
  std::string node, op_type, domain;
  std::vector<std::string> inputs, outputs;
  metadata::Attribution attribution;
  std::string file;         // "src/model.py:17 forward", relative to the source root (SourceRoot::place_in)
  std::string module_type;  // class of the module, if the sidecar or PyTorch's keys name it
  std::string reason;       // one sentence, from reason_of()
  std::vector<ExplainedOperation> operations;                 // with a sidecar only
  std::vector<std::pair<std::string, std::string>> evidence;  // keys found on the node, in file order
};

// Returns one sentence: how the node's module was determined, or why it is unknown. `recorded` as for explain().
std::string reason_of(const onnx_file::OnnxNode& node, const metadata::Attribution& attribution,
                      const metadata::Recorded* recorded);
std::vector<ExplainedOperation> operations_of(const metadata::Attribution& attribution,
                                              const metadata::Recorded* recorded);

// Explains one node. `recorded` may be null; otherwise the file must belong to it (belongs_to()).
Explanation explain(const onnx_file::OnnxNode& node, const metadata::Recorded* recorded,
                    const SourceRoot& root = SourceRoot());

// Explains the node with that name (metadata/node_names.h), or the producer of the value with that name. `program` may
// be null. Errors: unknown_node with the nearest names; usage if several nodes have the name; sidecar_mismatch if the
// file was not exported from `program`.
Result<Explanation> explain_node(const onnx_file::OnnxSummary& model, const std::string& name, const Program* program,
                                 const SourceRoot& root = SourceRoot());

std::string to_text(const Explanation& explanation, const text::Palette& palette);
std::string to_json(const Explanation& explanation);

}  // namespace whence::view
