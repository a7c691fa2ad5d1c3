#include "annotator/view/model_explorer_mapping.h"

#include <span>

#include "annotator/view/model_explorer.h"
#include "schema/json_text.h"

namespace whence::view {

namespace {

using Ids = std::vector<std::string>;

std::string id_list(const Ids& ids, std::span<const std::size_t> nodes) {
  std::string text;
  for (const std::size_t node : nodes) text += (text.empty() ? "" : ",") + quoted_json(ids[node]);
  return "[" + text + "]";
}

class MappingWriter {
 public:
  MappingWriter(const Comparison& comparison, const NodeGraph& graph_a, const NodeGraph& graph_b, const PutText& put)
      : comparison_(comparison), ids_a_(viewer_ids(graph_a)), ids_b_(viewer_ids(graph_b)), put_(put) {}

  void write() {
    put_(R"({"type":"sync_navigation","showDiffHighlights":true,"mappingEntries":[)");
    std::vector<bool> in_fusion(ids_b_.size());
    for (const NodePairs::Fusion& fusion : comparison_.pairs.fusions) {
      entry(id_list(ids_a_, fusion.a), id_list(ids_b_, fusion.b));
      for (const std::size_t b : fusion.b) in_fusion[b] = true;
    }
    for (const auto& [a, b] : comparison_.pairs.pairs) {
      if (!in_fusion[b]) entry(id_list(ids_a_, {&a, 1}), id_list(ids_b_, {&b, 1}));
    }
    const std::string absent_a = absent(comparison_.diff.file_a), absent_b = absent(comparison_.diff.file_b);
    for (const std::size_t a : comparison_.pairs.removed) entry(id_list(ids_a_, {&a, 1}), absent_b);
    for (const std::size_t b : comparison_.pairs.added) entry(absent_a, id_list(ids_b_, {&b, 1}));
    put_("]}\n");
  }

 private:
  static std::string absent(const std::string& file) { return "[" + quoted_json("(not in " + file + ")") + "]"; }

  void entry(const std::string& left, const std::string& right) {
    put_((first_ ? "" : ",\n") + (R"({"leftNodeIds":)" + left) + R"(,"rightNodeIds":)" + right + "}");
    first_ = false;
  }

  const Comparison& comparison_;
  Ids ids_a_, ids_b_;
  const PutText& put_;
  bool first_ = true;
};

}  // namespace

void write_mapping(const Comparison& comparison, const NodeGraph& graph_a, const NodeGraph& graph_b,
                   const PutText& put) {
  MappingWriter(comparison, graph_a, graph_b, put).write();
}

}  // namespace whence::view
