// Writes a report as Markdown and as the data of its page.
#include <nlohmann/json.hpp>

#include "annotator/report/report.h"
#include "tests/annotator/stamped_summary.h"

namespace whence {
namespace {

class ReportText : public StampedFileTest {
 protected:
  report::Report make() {
    auto result = report::make_report(path, &sidecar.program, {});
    EXPECT_TRUE(result) << (result ? "" : to_text(result.diagnostics().front()));
    return std::move(*result);
  }
};

// Returns the count in the header of a packed column.
std::string count_of_column(const std::string& packed, const std::string& name) {
  const std::size_t at = packed.find("id=\"whence-column-" + name + "\"");
  const std::size_t count = packed.find("data-count=\"", at);
  return at == std::string::npos ? "none" : packed.substr(count + 12, packed.find('"', count + 12) - count - 12);
}

TEST_F(ReportText, FiguresOfModulesIncludeTheirChildren) {
  const report::Report report = make();
  ASSERT_EQ(report.operations.size(), 8u);
  // MatMul of [2,4] by [4,512], then elementwise operators on 1024 elements. Shape and Reshape count as 0.
  EXPECT_EQ(report.operations[0], 2 * 2 * 512 * 4);
  EXPECT_EQ(report.operations[1], 1024);
  EXPECT_EQ(report.operations[2], 0);
  EXPECT_EQ(report.operations[3], 0);
  EXPECT_EQ(report.operations[4], 1024);
  const auto& rows = report.graph.tree.rows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].path == "encoder.layer.0.query") {
      EXPECT_EQ(report.figures[row].operations, 8192 + 1024);
      EXPECT_EQ(report.figures[row].coverage.total(), 2);
    }
    if (rows[row].path == "head") {
      EXPECT_EQ(report.figures[row].coverage.total(), 2);
    }
  }
}

TEST_F(ReportText, ThePageHasARowForEveryNode) {
  const report::PageData data = report::page_data(make());
  const auto tables = nlohmann::json::parse(data.tables);
  EXPECT_EQ(tables.at("nodes"), 8);
  std::set<std::string> operators;
  for (const auto& name : tables.at("operators")) operators.insert(name.get<std::string>());
  EXPECT_TRUE(operators.contains("MatMul") && operators.contains("If") && operators.contains("Neg"));
  for (const char* const column :
       {"nodes-op", "nodes-module", "nodes-state", "nodes-call", "nodes-source", "nodes-operations"}) {
    EXPECT_EQ(count_of_column(data.packed, column), "8") << column;
  }
}

TEST_F(ReportText, MarkdownNamesModulesAndTheirCoverage) {
  const std::string text = report::to_markdown(make());
  EXPECT_TRUE(text.starts_with("## `stamped.onnx`\n\n8 nodes\n")) << text;
  // Four nodes: MatMul, Add, the helper, which has only an ancestor module, and the node fused with the head.
  EXPECT_NE(text.find("| `encoder` | `Encoder` | 4 | 75.0 % | 0 | 9,216 |"), std::string::npos) << text;
  EXPECT_NE(text.find("| `Shape` | 1 | 0.0 % |"), std::string::npos) << text;
}

}  // namespace
}  // namespace whence
