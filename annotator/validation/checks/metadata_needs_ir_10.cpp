// V104: metadata of nodes, values, graphs, initializers or functions in a file whose IR version is below 10, which has
// none (onnx.proto: metadata_props were added with IR version 10). Only the model itself had metadata before.
#include "annotator/validation/checks.h"
#include "annotator/validation/walk.h"

namespace whence::validation {

namespace {

constexpr std::int64_t first_ir_with_metadata = 10;

std::vector<FindingItem> find_metadata_needs_ir_10(const CheckContext& context) {
  if (context.model.ir_version >= first_ir_with_metadata) return {};
  const std::string version = "IR version " + std::to_string(context.model.ir_version);
  std::vector<FindingItem> items;
  walk_metadata(context.model, [&](const onnx_file::OnnxProperties& metadata, const std::string& owner) {
    if (!metadata.empty()) items.push_back({owner, version});
  });
  return items;
}

}  // namespace

const Check metadata_needs_ir_10_check = {
    {"V104", "metadata_needs_ir_10", "things with metadata in a file whose IR version has none",
     "raise ir_version to 10: `whence annotate` does",
     "Metadata of nodes, values, graphs, initializers and functions came with IR version 10; readers of older versions "
     "may drop it or refuse the file.",
     Severity::warning},
    find_metadata_needs_ir_10};

}  // namespace whence::validation
