// The table of a comparison's page: rows and their states, what became of modules, and what a bounded page leaves out.
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "annotator/report/diff_page.h"
#include "annotator/report/diff_table.h"
#include "tests/annotator/parsed_model.h"

namespace whence {
namespace {

using report::ModuleState;

class DiffTableTest : public ::testing::Test {
 protected:
  // Parses nodes that read x: float[2,4], and gives each node, in order, the module of `modules`. "-" is none,
  // "net:a,b" the modules net.a and net.b.

  onnx_file::OnnxSummary model(const std::string& nodes, const std::vector<std::string>& modules) {
    onnx::ModelProto proto = parse_model(
        "<ir_version: 10, opset_import: [\"\" : 20, \"com.microsoft\" : 1]> agraph (float[2,4] x) => (float[2,4] y) "
        "<float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float[4] b = {1,2,3,4}> { " +
        nodes + " }");
    EXPECT_EQ(proto.graph().node_size(), static_cast<int>(modules.size()));
    for (int i = 0; i < proto.graph().node_size(); ++i) {
      const std::string& given = modules[static_cast<std::size_t>(i)];
      const std::string module = given.substr(0, given.find(':'));
      if (module != given) {
        const std::size_t comma = given.find(',');
        const std::string first = given.substr(module.size() + 1, comma - module.size() - 1);
        add_key(*proto.mutable_graph()->mutable_node(i), "pkg.whence.modules",
                nlohmann::json({module + "." + first, module + "." + given.substr(comma + 1)}).dump());
      }
      if (module != "-") add_key(*proto.mutable_graph()->mutable_node(i), "pkg.whence.module", module);

      add_key(*proto.mutable_graph()->mutable_node(i), "pkg.whence.confidence",
              module == "-" ? "unattributed" : "matched");
    }
    const std::string path = folder_ / ("m" + std::to_string(++count_) + ".onnx");
    std::ofstream(path, std::ios::binary) << proto.SerializeAsString();
    return std::move(*onnx_file::read_onnx_summary(path));
  }
  static void add_key(onnx::NodeProto& node, const std::string& key, const std::string& value) {
    onnx::StringStringEntryProto& entry = *node.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }

  void compare(onnx_file::OnnxSummary before, onnx_file::OnnxSummary after) {
    a_ = std::move(before);
    b_ = std::move(after);
    comparison_ = view::compare_models(a_, b_, nullptr);
    table_ = report::make_diff_table(comparison_, {}, {});
  }

  // Returns "MatMul fused a; Gemm fused b; Relu equal": the operator, the state, and the file of a node in only one.
  std::string rows() const {
    std::string text;
    for (const report::DiffRow& row : table_.rows) {
      const auto& node = row.b ? *comparison_.b[*row.b].node : *comparison_.a[*row.a].node;
      text += (text.empty() ? "" : "; ") + std::string(node.op_type) + " " + std::string(name_of(row.state)) +
              (row.a && row.b ? ""
               : row.a        ? " a"
                              : " b");
    }
    return text;
  }
  const report::DiffModule& at(const std::string& path) const {
    for (std::size_t i = 0; i < table_.modules.size(); ++i) {
      if (comparison_.diff.modules[i].path == path) return table_.modules[i];
    }
    throw std::out_of_range(path);
  }
  std::vector<std::string> elsewhere(const std::string& path) const {
    std::vector<std::string> paths;
    for (const std::size_t other : at(path).elsewhere) paths.push_back(*comparison_.diff.modules[other].path);
    return paths;
  }

  TemporaryFolder folder_;
  int count_ = 0;
  onnx_file::OnnxSummary a_, b_;
  view::Comparison comparison_;
  report::DiffTable table_;
};

TEST_F(DiffTableTest, ARowIsANodeOfBothFilesOrOfOne) {
  compare(model("h = Neg (x) k = Relu (x) y = Abs (h)", {"m", "m", "m"}), model("h = Neg (x) y = Abs (h)", {"m", "m"}));
  EXPECT_EQ(rows(), "Neg equal; Relu removed a; Abs equal");
  EXPECT_EQ(at("m").state, ModuleState::changed);
  EXPECT_EQ(at("").state, ModuleState::changed);
}

TEST_F(DiffTableTest, ANodeThatAbsorbedAnotherIsOneRow) {
  compare(model("h = Neg (x) k = Relu (h) y = Abs (k)", {"m", "m", "m"}), model("h = Neg (x) y = Abs (h)", {"m", "m"}));
  EXPECT_EQ(rows(), "Neg equal; Relu fused a; Abs fused");
}

TEST_F(DiffTableTest, EqualFilesHaveEqualModules) {
  compare(model("h = Neg (x) y = Relu (h)", {"m.a", "m.b"}), model("h = Neg (x) y = Relu (h)", {"m.a", "m.b"}));
  EXPECT_EQ(rows(), "Neg equal; Relu equal");
  for (const char* path : {"", "m", "m.a", "m.b"}) EXPECT_EQ(at(path).state, ModuleState::equal) << path;
}

TEST_F(DiffTableTest, AFusedModuleNamesTheModuleOfTheNodeThatReplacedIts) {
  compare(model("h = MatMul (x, w) k = Add (h, b) y = Relu (k)", {"net.a", "net.b", "net.c"}),
          model("k = Gemm (x, w, b) y = Relu (k)", {"net:a,b", "net.c"}));
  EXPECT_EQ(rows(), "MatMul fused a; Add fused a; Gemm fused b; Relu equal");
  EXPECT_EQ(at("net.b").state, ModuleState::fused);
  EXPECT_EQ(elsewhere("net.b"), (std::vector<std::string>{"net"}));
  EXPECT_EQ(at("net.a").state, ModuleState::fused);

  EXPECT_EQ(at("net.c").state, ModuleState::equal);
  EXPECT_EQ(at("net").states[static_cast<std::size_t>(report::RowState::fused)], 3);
}

TEST_F(DiffTableTest, AMovedModuleNamesItsNewPlace) {
  compare(model("h = Neg (x) y = Relu (h)", {"old.part", "kept"}), model("h = Neg (x) y = Relu (h)", {"new", "kept"}));
  EXPECT_EQ(rows(), "Neg moved; Relu equal");
  for (const char* path : {"old", "old.part", "new"}) EXPECT_EQ(at(path).state, ModuleState::moved) << path;
  EXPECT_EQ(elsewhere("old"), (std::vector<std::string>{"new"}));
  EXPECT_EQ(elsewhere("new"), (std::vector<std::string>{"old.part"}));
}

TEST_F(DiffTableTest, AnAddedModuleHasNoCounterpart) {
  compare(model("h = Neg (x) y = Relu (h)", {"m", "m"}),
          model("h = Neg (x) k = Tanh (h) y = Relu (k)", {"m", "extra.one", "m"}));
  EXPECT_EQ(at("extra").state, ModuleState::added);
  EXPECT_EQ(at("extra.one").state, ModuleState::added);
  EXPECT_EQ(at("m").state, ModuleState::equal);
}

TEST_F(DiffTableTest, AnotherShapeIsAStateOfItsOwn) {
  compare(model("h = Neg (x) y = Relu (h)", {"m", "m"}), model("h = Neg (x) y = Relu (h)", {"m", "m"}));
  const auto shape = [](const std::string& text) {
    return std::make_shared<const functions::ValueShape>(functions::ValueShape{text, {}});
  };
  functions::ValueShapes before, after;
  before["h"] = shape("float32[2,4]");
  after["h"] = shape("float32[2,8]");
  before["y"] = shape("float32[2,4]");  // unknown in the other file
  table_ = report::make_diff_table(comparison_, before, after);
  EXPECT_EQ(rows(), "Neg other shape; Relu equal");
  EXPECT_EQ(at("m").state, ModuleState::changed);
}

// Three modules of two nodes, where only the last node of the last module differs.
TEST_F(DiffTableTest, ABoundedPageKeepsWhatDiffers) {
  const std::string nodes = "a = Neg (x) c = Neg (a) d = Neg (c) e = Neg (d) f = Neg (e) y = ";
  const std::vector<std::string> modules = {"m.a", "m.a", "m.b", "m.b", "m.c", "m.c"};
  compare(model(nodes + "LeakyRelu <alpha = 0.5> (f)", modules),
          model(nodes + "LeakyRelu <alpha = 0.25> (f)", modules));
  const auto part = [&](const report::PageLimits& limits) {
    return report::part_for_page(table_, comparison_.diff, limits);
  };
  EXPECT_EQ(part({}).rows.size(), 6u);
  EXPECT_EQ(part({}).modules.size(), 5u);
  EXPECT_EQ(part({}).modules_left_out, 0u);

  const report::PagePart rows = part({.rows = 2});
  EXPECT_EQ(rows.rows, (std::vector<std::size_t>{4, 5}));  // the node that differs, and the other one of its module
  EXPECT_EQ(rows.rows_left_out, 4u);
  EXPECT_EQ(rows.differing_rows_left_out, 0u);

  const report::PagePart modules_only = part({.modules = 3});
  std::vector<std::string> paths;
  for (const std::size_t at : modules_only.modules) paths.push_back(*comparison_.diff.modules[at].path);
  EXPECT_EQ(paths, (std::vector<std::string>{"", "m", "m.c"}));
  EXPECT_EQ(modules_only.modules_left_out, 2u);
  EXPECT_EQ(modules_only.rows.size(), 2u);
  EXPECT_EQ(*modules_only.place_of(table_, 2), 1u);  // the module around m.a

  const report::PagePart none = part({.rows = 0});
  EXPECT_EQ(none.differing_rows_left_out, 1u);
}

TEST_F(DiffTableTest, ThePageCountsWhatItLeavesOut) {
  const std::string nodes = "h = Neg (x) k = Neg (h) y = ";
  const std::vector<std::string> modules = {"m.a", "m.b", "m.c"};
  compare(model(nodes + "Relu (k)", modules), model(nodes + "Elu (k)", modules));
  std::array<report::DiffSide, 2> sides;
  sides[0].model = &a_;
  sides[1].model = &b_;
  const auto tables = [&](const report::PageLimits& limits) {
    return nlohmann::json::parse(report::diff_page_data(comparison_, sides, nullptr, limits).tables);
  };
  EXPECT_EQ(tables({}).at("left_out"), (nlohmann::json{{"modules", 0}, {"rows", 0}, {"differing_rows", 0}}));
  const nlohmann::json bounded = tables({.modules = 3, .rows = 1});
  EXPECT_EQ(bounded.at("left_out"), (nlohmann::json{{"modules", 2}, {"rows", 3}, {"differing_rows", 1}}));
  EXPECT_EQ(bounded.at("modules").at("modules_left_out"), (nlohmann::json{{"1", 2}}));
  EXPECT_EQ(bounded.at("nodes"), 1);
  EXPECT_EQ(bounded.at("state_counts").at(0), 2);  // of all nodes
}

}  // namespace
}  // namespace whence
