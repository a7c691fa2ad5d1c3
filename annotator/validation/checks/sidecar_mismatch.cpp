// V302: a sidecar of another program, or stamps of operations that are not in the sidecar. Needs --sidecar.
#include "annotator/origin/keys/origin.h"
#include "annotator/origin/keys/program.h"
#include "annotator/origin/stamp.h"
#include "annotator/validation/checks.h"

namespace whence::validation {

namespace keys = origin::keys;

namespace {

std::vector<FindingItem> find_sidecar_mismatch(const CheckContext& context) {
  if (context.program == nullptr) return {};
  if (context.recorded == nullptr) {
    const auto digest = onnx_file::find_property(context.model.metadata, keys::program);
    return {{context.model.file->path(), digest ? "was exported from another program" : "does not state its program"}};
  }
  std::vector<FindingItem> items;
  for (const onnx_file::OnnxNode* node : context.nodes) {
    const auto stamp = origin::parse_stamp(onnx_file::find_property(node->metadata, keys::op).value_or(""));
    for (const std::int32_t op : stamp ? stamp->ops : std::vector<std::int32_t>{}) {
      if (context.recorded->operation(op) == nullptr) {
        items.push_back({shown_node(*node), "stamped with operation " + std::to_string(op)});
        break;
      }
    }
  }
  return items;
}

}  // namespace

const Check sidecar_mismatch_check = {
    {"V302", "sidecar_mismatch", "elements that do not belong to the sidecar",
     "pass the sidecar that was recorded from the same archive",
     "Coverage would describe the operations of another model. Needs --sidecar.", Severity::warning},
    find_sidecar_mismatch};

}  // namespace whence::validation
