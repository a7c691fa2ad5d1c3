// Finds the nodes of a runtime's layers by name.
#include "annotator/profile/node_finder.h"
#include "tests/annotator/stamped_summary.h"

namespace whence {
namespace {

using profile::ProfileRule;
using Numbers = std::vector<std::size_t>;

class ProfileNodes : public StampedFileTest {
 protected:
  void SetUp() override {
    StampedFileTest::SetUp();
    graph_ = view::node_graph_of(model, &sidecar.program);
  }
  std::string module_of(std::string_view name, std::string_view op_type, ProfileRule rule) {
    const profile::NodeFinder finder(graph_, metadata::NameAge::present);
    const profile::FoundNode match = finder.find(name, op_type);
    EXPECT_EQ(match.rule, rule) << name;
    same_operator_ = match.same_operator;
    return match.row ? graph_.tree.rows[*match.row].path : "none";
  }
  Numbers listed(std::string_view name) { return profile::NodeFinder(graph_, metadata::NameAge::present).listed(name); }

  view::NodeGraph graph_;
  bool same_operator_ = true;
};

TEST_F(ProfileNodes, AreFoundByNameWithOrWithoutSuffix) {
  EXPECT_EQ(module_of("/encoder/layer.0/query/MatMul", "MatMul", ProfileRule::name), "encoder.layer.0.query");
  EXPECT_TRUE(same_operator_);
  EXPECT_EQ(module_of("/encoder/layer.0/query/MatMul", "FusedMatMul", ProfileRule::name), "encoder.layer.0.query");
  EXPECT_FALSE(same_operator_);
  EXPECT_EQ(module_of("/encoder/layer.0/query/MatMul/MatMulAddFusion", "Gemm", ProfileRule::derived),
            "encoder.layer.0.query");
  EXPECT_EQ(module_of("/encoder/layer.0/query/MatMul_1", "MatMul", ProfileRule::none), "none");  // a different node
  EXPECT_EQ(module_of("missing", "MatMul", ProfileRule::none), "none");
}

TEST_F(ProfileNodes, InListsAreAlsoFoundByResultsAndWithoutDots) {
  EXPECT_EQ(listed("/encoder/layer.0/query/Add"), Numbers{1});
  EXPECT_EQ(listed("/encoder/layer.0/query/MatMul_output_0"), Numbers{0});
  EXPECT_EQ(listed("/encoder/layer.0/query/Add/fused"), Numbers{1});
  EXPECT_EQ(listed("/encoder/layer_0/query/MatMul"), Numbers{0});
  EXPECT_EQ(listed("/encoder/layer_1/query/MatMul"), Numbers{});
}

}  // namespace
}  // namespace whence
