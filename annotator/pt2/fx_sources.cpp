#include "annotator/pt2/fx_sources.h"

#include "schema/json_document.h"

namespace whence::pt2 {
namespace {

bool is_operator(std::string_view target) { return target.starts_with("aten.") || target.starts_with("prims."); }

}  // namespace

std::vector<FxSource> fx_sources(std::string_view from_node) {
  const auto document = JsonDocument::parse(from_node);
  if (!document) return {};
  std::vector<FxSource> sources;
  std::vector<JsonValue> level = {document->root()};
  while (!level.empty()) {
    std::vector<JsonValue> earlier;
    for (const JsonValue& list : level) {
      for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
        const auto name = list[i].find("name"), graph = list[i].find("graph_id"), before = list[i].find("from_node");
        const auto target = list[i].find("target");
        const bool complete =
            name && name->is_string() && target && target->is_string() && graph && graph->kind() == JsonKind::integer;
        if (!complete) return {};
        if (is_operator(target->text())) sources.push_back({std::string(name->text()), graph->integer()});
        if (before) earlier.push_back(*before);
      }
    }
    level = std::move(earlier);
  }
  return sources;
}

}  // namespace whence::pt2
