// Explanation: why one ONNX node is attributed to its module: the metadata in the file, the recorded operations behind
// the node, and the modules and source lines that lead to them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annotator/metadata/attribution.h"
#include "annotator/metadata/way.h"
#include "annotator/onnx_file/onnx_summary.h"
#include "annotator/text/table.h"
#include "schema/files/source_root.h"
#include "schema/program.h"
#include "schema/result.h"

namespace whence::view {

// One recorded operation that the node stands for.
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
  std::string file;                            // "src/model.py:17 forward", from the source root; SourceRoot::place_in
  std::string module_type;                     // class of the module, if the sidecar or PyTorch's keys name it
  std::string reason;                          // one sentence: how the module became known, or why it is not
  std::vector<ExplainedOperation> operations;  // with a sidecar only
  std::vector<std::pair<std::string, std::string>> evidence;  // keys found on the node, in file order
};

// Returns one sentence: how the node's module became known, or why it is not. `recorded` as for explain().
std::string reason_of(const onnx_file::OnnxNode& node, const metadata::Attribution& attribution,
                      const metadata::Recorded* recorded);
std::vector<ExplainedOperation> operations_of(const metadata::Attribution& attribution,
                                              const metadata::Recorded* recorded);

// Explains one node. `recorded` may be null; if not, the file must belong to it (belongs_to).
Explanation explain(const onnx_file::OnnxNode& node, const metadata::Recorded* recorded,
                    const SourceRoot& root = SourceRoot());

// Explains the node of that name (metadata/node_names.h), or the node that makes the value of that name. `program` may
// be null. Errors: unknown_node with the nearest names; usage when several nodes carry the name; sidecar_mismatch when
// the file was not exported from `program`.
Result<Explanation> explain_node(const onnx_file::OnnxSummary& model, const std::string& name, const Program* program,
                                 const SourceRoot& root = SourceRoot());

std::string to_text(const Explanation& explanation, const text::Palette& palette);
std::string to_json(const Explanation& explanation);

}  // namespace whence::view
