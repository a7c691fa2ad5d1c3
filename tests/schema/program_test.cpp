// Queries and digest of a Program.
#include "schema/program.h"

#include <gtest/gtest.h>

#include "tests/schema/sample_program.h"

namespace whence {
namespace {

TEST(Program, OperationsAreInExecutionOrder) {
  const Program program = sample_sidecar().program;
  const auto nodes = operations(program);
  ASSERT_EQ(nodes.size(), 4u);
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i]->origin.op, static_cast<std::int32_t>(i));
  EXPECT_EQ(qualified(*nodes[0]), "aten::linear");
  EXPECT_EQ(qualified(*nodes[3]), "aten::unbind.int");
  EXPECT_EQ(*nodes[0]->find("weight"), Argument{ValueRef{ValueId(1)}});
  EXPECT_EQ(nodes[0]->find("alpha"), nullptr);
}

TEST(Program, CommonAncestorIsTheDeepestCommonScope) {
  const Program program = sample_sidecar().program;
  // 0 root; 1 block, first call; 2 its linear; 3 block, second call; 4 its linear
  const std::pair<std::vector<int>, int> rows[] = {{{}, 0},     {{2}, 2},      {{2, 2}, 2}, {{1, 2}, 1},
                                                   {{2, 1}, 1}, {{2, 4}, 0},   {{3, 4}, 3}, {{4, 3, 4}, 3},
                                                   {{4, 0}, 0}, {{2, 1, 3}, 0}};
  for (const auto& [numbers, expected] : rows) {
    std::vector<ScopeId> scopes;
    for (const int number : numbers) scopes.emplace_back(number);
    EXPECT_EQ(common_ancestor(program, scopes), ScopeId(expected)) << ::testing::PrintToString(numbers);
  }
}

TEST(Program, DigestIdentifiesARecording) {
  const Program program = sample_sidecar().program;
  const std::string digest = program_digest(program);
  EXPECT_EQ(digest.size(), 32u);
  Program renamed = program;
  renamed.producer = "another whence";
  renamed.source.file = "renamed.pt";
  renamed.values[ValueId(0)].name = "renamed";
  EXPECT_EQ(program_digest(renamed), digest);

  Program changed = program;
  changed.body.nodes[1].blocks[0].nodes[0].overload = "changed";
  EXPECT_NE(program_digest(changed), digest);
  changed = program;
  changed.body.nodes[0].origin.scope = ScopeId(4);
  EXPECT_NE(program_digest(changed), digest);
  changed = program;
  changed.parameters[ParameterId(0)].name += "2";
  EXPECT_NE(program_digest(changed), digest);
}

TEST(TensorData, ElementCountIsTheProductOfTheShape) {
  EXPECT_EQ((TensorData{DType::float32, {}, {}}).element_count(), 1);
  EXPECT_EQ((TensorData{DType::float32, {2, 0, 3}, {}}).element_count(), 0);
  EXPECT_EQ((TensorData{DType::float32, {2, 5, 3}, {}}).element_count(), 30);
}

}  // namespace
}  // namespace whence
