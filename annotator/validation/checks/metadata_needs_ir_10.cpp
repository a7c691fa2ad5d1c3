// V104: metadata of nodes, values, graphs, initializers or functions in a file whose IR version is below 10. These
// metadata_props were added with IR version 10 (onnx.proto); before that only the model had metadata.
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
    {"V104", "metadata_needs_ir_10", "elements with metadata that the file's IR version does not have",
     "raise ir_version to 10, as `whence annotate` does",
     "Metadata of nodes, values, graphs, initializers and functions was added with IR version 10; readers of older "
     "versions may drop it or refuse the file.",
     Severity::warning},
    find_metadata_needs_ir_10};

}  // namespace whence::validation
