#include "annotator/annotation/carry_name.h"

#include "annotator/origin/carried_token.h"
#include "annotator/origin/keys.h"

namespace whence::annotation {

using origin::Confidence;
namespace keys = origin::keys;
using onnx_file::find_property;
using onnx_file::NodeEdit;
using onnx_file::NodeView;
using origin::with_token;

void carry_name(const NodeView& node, Confidence confidence, NodeEdit& edit) {
  const std::string_view name = edit.name ? std::string_view(*edit.name) : node.name;
  if (name.empty() || find_property(node.metadata, keys::carry)) return;
  edit.doc_string = with_token(node.doc_string, node.has_doc_string, {name, confidence});
  edit.added.emplace_back(keys::carry, "doc_string");
}

}  // namespace whence::annotation
