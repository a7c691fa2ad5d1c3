// Replaces composite operators with their definitions if they have no converter or if the converter refuses. The tests
// supply the definitions instead of PyTorch.
#include <gtest/gtest.h>

#include "annotator/exporter/export.h"
#include "tests/annotator/program_builder.h"

namespace whence {

using exporter::export_program;
using exporter::ExportOptions;

namespace {

using Names = std::vector<std::string>;

Names operators(const graph::Graph& graph) {
  Names names;
  for (const graph::GraphNode& node : graph.nodes) names.push_back(node.op_type);
  return names;
}

// The definition of an operator with one tensor argument. Each step uses the result of the previous step.
struct Definition {
  std::vector<std::string> steps;
  std::size_t result;  // 0: the argument, 1: the first step's result, ...
};

// Exports with these definitions, and counts the requests for the definition of each operator.
struct Composites {
  std::map<std::string, Definition> definitions;
  std::map<std::string, int> requests = {};

  Result<graph::Graph> exported(const Program& program) {
    ExportOptions options;
    options.trace_composite = [&](const CompositeCall& call, Program& steps, Diagnostics&) {
      ++requests[qualified(call.call)];
      const auto definition = definitions.find(qualified(call.call));
      if (definition == definitions.end()) return false;
      ProgramBuilder p;
      std::vector<ValueId> values{p.input("x", call.inputs.front())};
      for (const std::string& step : definition->second.steps) {
        values.push_back(p.op(step, {{"self", v(values.back())}}, call.inputs.front()));
      }
      p.output(values[definition->second.result]);
      steps = std::move(p.program);
      return true;
    };
    return export_program(program, options);
  }
};

TEST(Composites, AreNotRequestedIfAllOperatorsHaveConverters) {
  ProgramBuilder p;
  p.output(p.op("aten::relu", {{"self", v(p.input("x", f32({2, 3})))}}, f32({2, 3})));
  Composites composites{{{"aten::relu", {{"aten::neg"}, 1}}}};
  EXPECT_EQ(operators(*composites.exported(p.program)), (Names{"Relu"}));
  EXPECT_TRUE(composites.requests.empty());
}

TEST(Composites, AreNotRequestedIfUnused) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  p.op("aten::twice", {{"self", v(x)}}, f32({2, 3}));
  p.output(p.op("aten::relu", {{"self", v(x)}}, f32({2, 3})));
  Composites composites{{{"aten::twice", {{"aten::neg"}, 1}}}};
  EXPECT_EQ(operators(*composites.exported(p.program)), (Names{"Relu"}));
  EXPECT_TRUE(composites.requests.empty());
}

TEST(Composites, HaveTheOriginOfTheCall) {
  ProgramBuilder p;
  p.output(p.op("aten::twice", {{"self", v(p.input("x", f32({2, 3})))}}, f32({2, 3})));
  const Result<graph::Graph> graph = Composites{{{"aten::twice", {{"aten::neg", "aten::exp"}, 2}}}}.exported(p.program);
  ASSERT_EQ(operators(*graph), (Names{"Neg", "Exp"}));
  for (const graph::GraphNode& node : graph->nodes) EXPECT_EQ(node.origin.ops, std::vector<std::int32_t>{0});
}

// x' = exp(x); y = part(x'), a view of x'; y.neg_(); return x', exp(y)   ->   x' also becomes neg(exp(x))
TEST(Composites, MayReturnViewsThatTheProgramChanges) {
  ProgramBuilder p;
  const ValueId x = p.op("aten::exp", {{"self", v(p.input("x", f32({2, 3})))}}, f32({2, 3}));
  const ValueId y = p.op("aten::part", {{"self", v(x)}}, f32({2, 3}));
  p.op("aten::neg_", {{"self", v(y)}}, f32({2, 3}));
  p.output(x);
  p.output(p.op("aten::exp", {{"self", v(y)}}, f32({2, 3})));
  const Result<graph::Graph> graph = Composites{{{"aten::part", {{"aten::detach"}, 1}}}}.exported(p.program);
  ASSERT_EQ(operators(*graph), (Names{"Exp", "Neg", "Exp"}));
  EXPECT_EQ(graph->outputs.front(), graph->nodes[1].outputs.front());
}

// x' = exp(x); change_(x'), defined as x'.neg_(); return x'   ->   neg(exp(x))
TEST(Composites, MayWriteToTheirArguments) {
  ProgramBuilder p;
  const ValueId x = p.op("aten::exp", {{"self", v(p.input("x", f32({2, 3})))}}, f32({2, 3}));
  p.op("aten::change_", {{"self", v(x)}}, f32({2, 3}));
  p.output(x);
  EXPECT_EQ(operators(*Composites{{{"aten::change_", {{"aten::neg_"}, 0}}}}.exported(p.program)),
            (Names{"Exp", "Neg"}));
}

TEST(Composites, AreRefusedByNameIfAStepIsUnsupported) {
  ProgramBuilder p;
  p.output(p.op("aten::twice", {{"self", v(p.input("x", f32({2, 3})))}}, f32({2, 3})));
  const Result<graph::Graph> graph =
      Composites{{{"aten::twice", {{"aten::neg", "aten::unknown"}, 2}}}}.exported(p.program);
  ASSERT_FALSE(graph);
  ASSERT_EQ(graph.diagnostics().size(), 1);
  EXPECT_EQ(graph.diagnostics().front().code, Code::no_converter);
  EXPECT_EQ(graph.diagnostics().front().message, "aten::twice");
}

// A composite that fails does not prevent the replacement of another composite.
TEST(Composites, AreReplacedIfOthersFail) {
  ProgramBuilder p;
  const ValueId h = p.op("aten::twice", {{"self", v(p.input("x", f32({2, 3})))}}, f32({2, 3}));
  p.output(p.op("aten::half", {{"self", v(h)}}, f32({2, 3})));
  Composites composites{{{"aten::twice", {{"aten::unknown"}, 1}}, {"aten::half", {{"aten::neg"}, 1}}}};
  const Result<graph::Graph> graph = composites.exported(p.program);
  ASSERT_FALSE(graph);
  ASSERT_EQ(graph.diagnostics().size(), 1);
  EXPECT_EQ(graph.diagnostics().front().message, "aten::twice");
}

}  // namespace
}  // namespace whence
