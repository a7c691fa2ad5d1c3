#include "annotator/annotation/carry_name.h"

#include "annotator/origin/carried_token.h"
#include "annotator/origin/keys/undo.h"

namespace whence::annotation {

namespace keys = origin::keys;

void carry_name(const onnx_file::NodeView& node, origin::Confidence confidence, onnx_file::NodeEdit& edit) {
  const std::string_view name = edit.name ? std::string_view(*edit.name) : node.name;
  // The token is one line, so names with a line break are skipped; no exporter writes them.
  if (name.empty() || name.find('\n') != name.npos || onnx_file::find_property(node.metadata, keys::carry)) return;
  edit.doc_string = origin::with_token(node.doc_string, node.has_doc_string, {name, confidence});
  edit.added.emplace_back(keys::carry, "doc_string");
}

void drop_token(const onnx_file::NodeView& node, onnx_file::NodeEdit& edit) {
  if (!origin::token_in(node.doc_string)) return;  // changed since annotate wrote it
  const auto before = origin::without_token(node.doc_string);
  edit.drop_doc_string = !before;
  if (before) edit.doc_string = std::string(*before);
}

}  // namespace whence::annotation
