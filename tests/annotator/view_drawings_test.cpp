// Draws a small file: modules as nested groups of nodes, and values as edges.
#include "annotator/view/drawing_files.h"
#include "annotator/view/node_graph.h"
#include "tests/annotator/stamped_summary.h"

namespace whence {
namespace {

class Drawings : public StampedFileTest {
 protected:
  std::string drawing_text(void (*write)(const view::NodeGraph&, const view::PutText&)) {
    const view::NodeGraph graph = view::node_graph_of(model, &sidecar.program);
    std::string text;
    write(graph, [&](std::string_view piece) { text += piece; });
    return text;
  }
};

int count_of(const std::string& text, const std::string& piece) {
  int count = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + piece.size())) ++count;
  return count;
}

TEST_F(Drawings, GraphmlHasNestedModulesWithTheirClasses) {
  const std::string text = drawing_text(view::write_graphml);
  EXPECT_EQ(count_of(text, "<graph "), count_of(text, "</graph>"));
  EXPECT_EQ(count_of(text, "<node "), count_of(text, "</node>"));
  for (const char* const type : {"my.Encoder", "my.Layer", "torch.nn.modules.linear.Linear", "my.Head"}) {
    EXPECT_EQ(count_of(text, std::string(">") + type + "</data>"), 1) << type;
  }
  const std::size_t encoder = text.find(">encoder</data>"), layer = text.find(">encoder.layer.0</data>"),
                    query = text.find(">encoder.layer.0.query</data>"), product = text.find(">MatMul</data>");
  EXPECT_TRUE(encoder < layer && layer < query && query < product) << text;
  EXPECT_GE(count_of(text, "<edge "), 4);  // MatMul to Add to Reshape to Relu to If
}

TEST_F(Drawings, DotHasAClusterForEachModule) {
  const std::string text = drawing_text(view::write_dot);
  EXPECT_TRUE(text.starts_with("digraph")) << text.substr(0, 100);
  // The root, encoder, encoder.layer, encoder.layer.0, query and head.
  EXPECT_EQ(count_of(text, "subgraph cluster_"), 6);
  EXPECT_EQ(count_of(text, "label=\"0 : Layer\""), 1);
  EXPECT_EQ(count_of(text, "{"), count_of(text, "}"));
  EXPECT_EQ(count_of(text, " -> "), 9);
  EXPECT_NE(text.find("layers.py:8 forward"), std::string::npos);
}

}  // namespace
}  // namespace whence
