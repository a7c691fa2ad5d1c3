// export_forms() returns several graphs of a program, each equal to that of a separate export_program().
#include <gtest/gtest.h>

#include "annotator/convert/tracked_opset.h"
#include "annotator/exporter/export.h"
#include "schema/result.h"
#include "tests/annotator/program_builder.h"

namespace whence {

using convert::TrackedOpset;
using exporter::export_forms;
using exporter::export_program;
using exporter::ExportedForm;
using exporter::ExportForm;
using exporter::ExportOptions;
using graph::Attribute;
using graph::Graph;
using graph::GraphNode;

namespace {

// Lists the operators with their inputs, attributes and bodies. Values are written as numbers.
std::string text_of(const Graph& graph) {
  std::string text;
  for (const GraphNode& node : graph.nodes) {
    text += node.op_type + "(";
    for (const auto input : node.inputs) text += std::to_string(input) + ",";
    for (const Attribute& attribute : node.attributes) {
      text += attribute.name + "#" + std::to_string(attribute.value.index()) + ",";
      if (const auto* number = std::get_if<std::int64_t>(&attribute.value)) text += std::to_string(*number);
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute.value)) text += "{" + text_of(**body) + "}";
    }
    text += ")->";
    for (const auto output : node.outputs) text += std::to_string(output) + ",";
    text += "\n";
  }
  for (const auto& initializer : graph.initializers) {
    const std::string& name = graph.values[initializer.value].name;
    text += name.starts_with("/") ? "" : name;
    text += ";" + std::to_string(initializer.value) + "\n";
  }
  return text;
}

void expect_equal_exports(const Program& program, const std::vector<ExportForm>& forms) {
  const std::vector<ExportedForm> exported = export_forms(program, {}, forms);
  ASSERT_EQ(exported.size(), forms.size());
  for (std::size_t i = 0; i < forms.size(); ++i) {
    ExportOptions options;
    options.opset = forms[i].opset;
    options.simplify = forms[i].simplify;
    options.operators = forms[i].operators;
    options.keep_bfloat16 = true;
    const Result<Graph> single = export_program(program, options);
    ASSERT_TRUE(single);
    EXPECT_EQ(text_of(*exported[i].graph), text_of(*single)) << i;
  }
}

// relu has the same form at every opset. The axes of mean became an input in opset 18.
ProgramBuilder relu_then(const std::string& operation) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  const ValueId h = p.op("aten::relu", {{"self", v(x)}}, f32({2, 3}));
  if (operation == "mean") {
    p.output(p.op("aten::mean.dim", {{"self", v(h)}, {"dim", list({n(1)})}, {"keepdim", Argument{true}}}, f32({2, 1})));
  } else if (operation == "gelu") {
    p.output(p.op("aten::gelu", {{"self", v(h)}}, f32({2, 3})));
  } else {
    p.output(p.op("aten::neg", {{"self", v(h)}}, f32({2, 3})));
  }
  return p;
}

TEST(ExportForms, ShareAGraphIfTheOpsetChangesNothing) {
  const ProgramBuilder p = relu_then("neg");
  const auto forms = export_forms(p.program, {}, {{18, false}, {28, false}, {13, false}});
  EXPECT_EQ(forms[0].graph, forms[1].graph);
  EXPECT_EQ(forms[0].graph, forms[2].graph);
}

TEST(ExportForms, DifferIfTheOpsetMatters) {
  const ProgramBuilder p = relu_then("mean");
  const auto forms = export_forms(p.program, {}, {{18, false}, {28, false}, {13, false}, {17, false}});
  EXPECT_EQ(forms[0].graph, forms[1].graph);
  EXPECT_NE(forms[0].graph, forms[2].graph);
  EXPECT_EQ(forms[2].graph, forms[3].graph);
}

TEST(ExportForms, EqualSeparateExports) {
  for (const char* operation : {"neg", "mean", "gelu"}) {
    const ProgramBuilder p = relu_then(operation);
    expect_equal_exports(p.program, {{18, false},
                                     {18, true},
                                     {24, true, operators::OperatorForms::plain},
                                     {24, true, operators::OperatorForms::fused},
                                     {28, false},
                                     {13, false},
                                     {20, true}});
  }
}

TEST(ExportForms, DifferIfAnOperatorGainsAType) {
  ProgramBuilder p;
  const ValueId x = p.input("x", tensor(DType::bfloat16, {2, 3}));
  p.output(p.op("aten::sin", {{"self", v(x)}}, tensor(DType::bfloat16, {2, 3})));
  const auto forms = export_forms(p.program, {}, {{18, false}, {13, false}, {28, false}, {22, false}});
  EXPECT_EQ(forms[0].graph, forms[1].graph);
  EXPECT_NE(forms[0].graph, forms[2].graph);  // Sin accepts bfloat16 from opset 22 on
  EXPECT_EQ(forms[2].graph, forms[3].graph);
  EXPECT_EQ(forms[0].graph->nodes.size(), 3U);
  EXPECT_EQ(forms[2].graph->nodes.size(), 1U);
  expect_equal_exports(p.program, {{18, false}, {13, false}, {28, false}});
}

TEST(ExportForms, MapTheValuesOfTheProgram) {
  const ProgramBuilder p = relu_then("mean");
  for (const ExportedForm& form : export_forms(p.program, {}, {{18, false}, {18, true}})) {
    const auto graph_value = form.values->at(p.program.body.nodes[0].outputs[0]);
    EXPECT_EQ(form.graph->nodes.at(0).outputs.at(0), graph_value);
  }
}

TEST(ExportForms, ThrowTheErrorsOfTheExport) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  p.output(p.op("aten::frobnicate", {{"self", v(x)}}, f32({2})));
  EXPECT_THROW(export_forms(p.program, {}, {{18, false}}), Error);
  EXPECT_THROW(export_forms(relu_then("neg").program, {}, {{12, false}}), Error);
}

TEST(TrackedOpset, DetectsOpsetsWithOtherAnswers) {
  const TrackedOpset opset(18);
  EXPECT_TRUE(opset.same_at(13) && opset.same_at(28));
  EXPECT_TRUE(opset >= 15);
  EXPECT_FALSE(opset.same_at(14));
  EXPECT_TRUE(opset.same_at(15) && opset.same_at(28));
  EXPECT_TRUE(opset < 21);
  EXPECT_FALSE(opset.same_at(21));
  EXPECT_TRUE(opset.same_at(20));
  EXPECT_EQ(opset.answer([](int version) { return version % 2; }), 0);
  EXPECT_FALSE(opset.same_at(17));
  EXPECT_TRUE(opset.same_at(16));
}

TEST(Graph, ClonesItsBodies) {
  auto body = std::make_shared<Graph>();
  body->outputs.push_back(body->add_value({}));
  Graph graph;
  graph.inputs.push_back(graph.add_value({}));
  const auto output = graph.add_value({});
  GraphNode node;
  node.op_type = "If";
  node.inputs = graph.inputs;
  node.outputs = {output};
  node.attributes.push_back({"then_branch", body});
  graph.add_node(std::move(node));
  graph.outputs.push_back(output);
  const Graph copy = graph.clone();
  EXPECT_EQ(text_of(copy), text_of(graph));
  const auto& clone_body = std::get<std::shared_ptr<Graph>>(copy.nodes[0].attributes[0].value);
  EXPECT_NE(clone_body, body);
  EXPECT_EQ(clone_body->outer, &copy);
  EXPECT_EQ(body->outer, &graph);
}

std::vector<std::string> op_types(const Graph& graph) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes) names.push_back(node.op_type);
  return names;
}

// Only in the literal form, operators without effect and operators with known results become nodes.
TEST(ExportForms, LiteralFormsHaveEveryOperator) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  const ValueId sliced = p.op("aten::slice.Tensor", {{"self", v(x)}, {"dim", n(0)}, {"start", n(0)}}, f32({2, 3}));
  const ValueId padded = p.op("aten::constant_pad_nd", {{"self", v(sliced)}, {"pad", list({n(0), n(0)})}}, f32({2, 3}));
  const ValueId repeated = p.op("aten::repeat", {{"self", v(padded)}, {"repeats", list({n(1), n(1)})}}, f32({2, 3}));
  const ValueId ones = p.op("aten::ones_like", {{"self", v(x)}}, f32({2, 3}));
  p.known(ones, program::number_scalar(1, DType::float32));
  p.output(p.op("aten::mul.Tensor", {{"self", v(repeated)}, {"other", v(ones)}}, f32({2, 3})));
  const auto forms = export_forms(p.program, {}, {{18, false}, {.opset = 18, .simplify = false, .literal = true}});
  EXPECT_EQ(op_types(*forms[0].graph), (std::vector<std::string>{"Mul"}));
  const std::vector<std::string> literal = op_types(*forms[1].graph);
  for (const char* name : {"Slice", "Pad", "Identity", "Mul"}) EXPECT_EQ(std::ranges::count(literal, name), 1) << name;
}

}  // namespace
}  // namespace whence
