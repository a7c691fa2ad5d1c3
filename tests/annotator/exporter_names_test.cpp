// Names nodes, values and constants (annotator/exporter/names.h).
#include <gtest/gtest.h>

#include "annotator/exporter/names.h"
#include "annotator/origin/scope_path.h"
#include "tests/annotator/graph_builder.h"
#include "tests/annotator/stamped_model.h"

namespace whence {

using origin::scope_path;

namespace {

TEST(ScopePath, SplitsAtCalledModules) {
  Program program = stamped_sidecar().program;
  EXPECT_EQ(scope_path(program, root_scope), "");
  EXPECT_EQ(scope_path(program, ScopeId(1)), "/encoder");
  EXPECT_EQ(scope_path(program, ScopeId(3)), "/encoder/layer.0/query");
  EXPECT_EQ(scope_path(program, ScopeId(5)), "/head");
}

TEST(ScopePath, DoesNotDependOnTheCaller) {
  Program program = stamped_sidecar().program;
  const ScopeId called = program.scopes.add({ScopeId(1), ModuleId(4), 2});  // encoder calls head
  EXPECT_EQ(scope_path(program, called), "/head");
}

TEST(ScopePath, ComparesCompleteSegments) {
  Program program = stamped_sidecar().program;
  program.modules[ModuleId(3)].path = "encoder.layer.01";  // not a child of encoder.layer.0
  EXPECT_EQ(scope_path(program, ScopeId(3)), "/encoder/layer.01");
}

// In torchvision's ResNet, layer1 is a Sequential: it is called, and it calls its children 0, 1, ...
TEST(ScopePath, IncludesTheContainer) {
  Program program;
  for (const char* path :
       {"", "features", "features.1", "features.1.0", "features.1.0.block", "features.1.0.block.2"}) {
    Module module;
    module.path = path;
    const ModuleId id = program.modules.add(module);
    program.scopes.push_back({ScopeId(id.number() - 1), id, 0});
  }
  EXPECT_EQ(scope_path(program, ScopeId(2)), "/features/features.1");
  EXPECT_EQ(scope_path(program, ScopeId(5)), "/features/features.1/features.1.0/block/block.2");
  program.scopes[ScopeId(5)].parent = ScopeId(3);  // nothing calls block
  EXPECT_EQ(scope_path(program, ScopeId(5)), "/features/features.1/features.1.0/block.2");
}

TEST(NameNodes, NumbersRepeatedNames) {
  const Program program = stamped_sidecar().program;
  GraphBuilder g;
  auto value = g.input("x", float32, {2});
  value = g.node("Relu", {value}, {}, float32, {2}, 2);
  value = g.node("Relu", {value}, {}, float32, {2}, 3);
  value = g.node("Add", {value, g.number(1)}, {}, float32, {2}, 0);
  g.output(value, "");
  exporter::name_nodes(g.graph, program);
  EXPECT_EQ(g.graph.nodes[0].name, "/head/Relu");
  EXPECT_EQ(g.graph.nodes[1].name, "/head/Relu_1");
  EXPECT_EQ(g.graph.nodes[2].name, "/encoder/layer.0/query/Add");
  EXPECT_EQ(g.graph.values[g.graph.nodes[1].outputs[0]].name, "/head/Relu_1_output_0");
  EXPECT_EQ(g.graph.values[g.graph.inputs[0]].name, "x");
  EXPECT_EQ(g.graph.values[g.graph.outputs[0]].name, "output");
  EXPECT_EQ(g.graph.values[g.graph.initializers[0].value].name, "/encoder/layer.0/query/constant");
}

TEST(NameNodes, DoesNotChangeUserNames) {
  const Program program = stamped_sidecar().program;
  GraphBuilder g;
  const auto x = g.input("x", float32, {2});
  const auto w = g.parameter("w", {2}, {1, 2});
  g.output(g.node("Add", {x, w}, {}, float32, {2}, 0), "logits");
  g.output(g.node("Mul", {x, w}, {}, float32, {2}, 0), "");
  exporter::name_nodes(g.graph, program);
  EXPECT_EQ(g.graph.values[w].name, "w");
  EXPECT_EQ(g.graph.values[g.graph.outputs[0]].name, "logits");
  EXPECT_EQ(g.graph.values[g.graph.outputs[1]].name, "output_1");
}

}  // namespace
}  // namespace whence
