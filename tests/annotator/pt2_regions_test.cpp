// The modules of a later call of a region, and the sources of an fx node. tests/export/test_shared_regions.py tests
// complete archives.
#include <gtest/gtest.h>

#include "annotator/pt2/fx_sources.h"
#include "annotator/pt2/operands.h"
#include "annotator/pt2/region_calls.h"

namespace whence::pt2 {
namespace {

using Operands = std::vector<OperandNames>;

TEST(RegionModules, AreUnchangedInTheFirstCall) {
  const RegionModules modules("layers.0");
  EXPECT_EQ(modules.at("layers.0"), "layers.0");
  EXPECT_EQ(modules.at("layers.0.fc"), "layers.0.fc");
  EXPECT_EQ(modules.at("layers.1"), std::nullopt);
}

TEST(RegionModules, FollowTheModuleOfTheCall) {
  const Operands first = {{}, {"layers.0.fc.weight"}}, here = {{}, {"layers.2.fc.weight"}};
  const RegionModules modules("layers.0", "layers.2", first, here);
  EXPECT_EQ(modules.at("layers.0"), "layers.2");
  EXPECT_EQ(modules.at("layers.0.fc"), "layers.2.fc");
  EXPECT_EQ(modules.at("layers.0.act"), "layers.2.act");
  EXPECT_EQ(modules.at("head"), std::nullopt);
}

TEST(RegionModules, OfCallsInOneModuleFollowOnlyParameters) {
  const RegionModules modules("", "", {{"a.weight"}}, {{"b.weight"}});
  EXPECT_EQ(modules.at(""), "");
  EXPECT_EQ(modules.at("a"), "b");
  EXPECT_EQ(modules.at("a.inner"), "b.inner");
  EXPECT_EQ(modules.at("acts.0"), std::nullopt);
}

TEST(RegionModules, OfARepeatedCallAreKnownWhereParametersAreEqual) {
  const RegionModules modules("block", "block", {{"block.fc.weight"}}, {{"block.fc.weight"}});
  EXPECT_EQ(modules.at("block.fc"), "block.fc");
  EXPECT_EQ(modules.at("block.act"), std::nullopt);
}

TEST(RegionModules, ThatParametersContradictAreUnknown) {
  const RegionModules modules("layers.0", "layers.2", {{"layers.0.fc.weight"}, {"layers.0.fc.bias"}},
                              {{"layers.1.fc.weight"}, {"layers.2.fc.bias"}});
  EXPECT_EQ(modules.at("layers.0"), "layers.2");
  EXPECT_EQ(modules.at("layers.0.fc"), std::nullopt);
  // A shared parameter has the names of all its modules.
  const RegionModules tied("layers.0", "layers.2", {{"layers.0.fc.weight"}},
                           {{"layers.1.fc.weight", "layers.2.fc.weight"}});
  EXPECT_EQ(tied.at("layers.0.fc"), "layers.2.fc");
}

TEST(FxSources, AreTheOperatorsOfEarlierGraphsLatestFirst) {
  const auto sources = fx_sources(
      R"([{"name":"addmm","target":"aten.addmm.default","graph_id":3,"from_node":[
          {"name":"linear_1","target":"aten.linear.default","graph_id":2,"from_node":[
           {"name":"submod","target":"wrap_with_set_grad_enabled","graph_id":1,"from_node":[]}]}]}])");
  EXPECT_EQ(sources, (std::vector<FxSource>{{"addmm", 3}, {"linear_1", 2}}));
}

TEST(FxSources, AreEmptyForOtherTexts) {
  for (const char* text :
       {"", "null", "[]", "{}", "[1]", R"([{"name":"x"}])", R"([{"name":1,"target":"aten.x","graph_id":1}])",
        R"([{"name":"x","target":"aten.x","graph_id":"1"}])", "["}) {
    EXPECT_TRUE(fx_sources(text).empty()) << text;
  }
  EXPECT_TRUE(fx_sources(std::string(10000, '[')).empty());
}

TEST(CallsOfGraphs, AreOperatorsWithTheResultsOfTheirGraph) {
  EXPECT_EQ(operands_before_call("invoke_subgraph"), 1u);
  EXPECT_EQ(operands_before_call("wrap_with_autocast"), 4u);
  EXPECT_EQ(operands_before_call("cond"), std::nullopt);
  EXPECT_NE(replacement_of("out_dtype"), replacement_of("unheard_of"));
}

}  // namespace
}  // namespace whence::pt2
