// export_program() on small programs: collected failures, shapes, promotion, control flow, names.
#include "annotator/exporter/export.h"

#include <limits>

#include <gtest/gtest.h>

#include "annotator/convert/op_table.h"
#include "schema/result.h"
#include "tests/annotator/graph_builder.h"
#include "tests/annotator/program_builder.h"

namespace whence {

using convert::Ints;
using convert::OpTable;
using exporter::export_program;
using exporter::ExportOptions;
using graph::Graph;
using graph::GraphNode;

namespace {

using Names = std::vector<std::string>;

// Exports without simplification, so that the graph has the nodes of the converters.
Graph exported(const Program& program, int opset = 18) {
  ExportOptions options;
  options.opset = opset;
  options.simplify = false;
  Result<Graph> graph = export_program(program, options);
  if (!graph) throw Error(graph.diagnostics());
  return std::move(*graph);
}

std::optional<Ints> reshape_target(const Graph& graph) {
  for (const GraphNode& node : graph.nodes) {
    if (node.op_type == "Reshape") return graph.integers(node.inputs[1]);
  }
  return std::nullopt;
}

TEST(Export, ReportsEveryUnsupportedOperatorAtOnce) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  for (int i = 0; i < 4; ++i) p.output(p.op("aten::frobnicate", {{"self", v(x)}}, f32({2})));
  p.program.body.nodes[2].origin.stack =
      p.program.stacks.add({{"model.py", 9, "forward"}});  // the other three have one source line
  const ValueId unsupported = p.op("aten::unheard_of.Tensor", {{"self", v(x)}}, f32({2}));
  p.output(p.op("aten::relu", {{"self", v(unsupported)}}, f32({2})));  // not reported: its input is unsupported
  p.output(p.op("aten::gelu", {{"self", v(x)}, {"approximate", Argument{std::string("wild")}}}, f32({2})));
  const Result<Graph> graph = export_program(p.program, {});
  ASSERT_FALSE(graph);
  const Diagnostics& failures = graph.diagnostics();
  ASSERT_EQ(failures.size(), 3u);
  EXPECT_EQ(failures[0].where.op, "aten::frobnicate");
  EXPECT_EQ(failures[0].code, Code::no_converter);
  EXPECT_EQ(failures[0].count, 4);
  ASSERT_EQ(failures[0].more_places.size(), 1u);
  EXPECT_EQ(failures[0].more_places[0].source, "model.py:9 forward");
  EXPECT_EQ(failures[0].where.module, "layer");
  EXPECT_EQ(failures[0].where.source, "model.py:7 forward");
  EXPECT_EQ(failures[1].where.op, "aten::gelu");
  EXPECT_EQ(failures[1].code, Code::converter_refused);
  EXPECT_EQ(failures[2].where.op, "aten::unheard_of.Tensor");
  EXPECT_EQ(exit_code(failures), ExitCode::unsupported);
}

TEST(Export, UnsupportedOperatorsMayBecomeCustomNodes) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  p.output(p.op("aten::frobnicate.out", {{"self", v(x)}, {"others", list({v(x), n(3)})}, {"dim", n(1)}}, f32({5})));
  ExportOptions options;
  options.unsupported_as_domain = true;
  const Result<Graph> graph = export_program(p.program, options);
  ASSERT_TRUE(graph);
  const GraphNode& node = graph->nodes.at(0);
  EXPECT_EQ(node.domain, "whence.aten");
  EXPECT_EQ(node.op_type, "frobnicate");
  EXPECT_EQ(node.int_attribute("dim", 0), 1);
  EXPECT_EQ(std::get<std::string>(node.find("overload")->value), "out");
  EXPECT_EQ(std::get<Names>(node.find("inputs")->value), (Names{"self", "others.0", "others.1"}));
  EXPECT_EQ(graph->values[node.outputs[0]].dims->at(0), fixed(5));
}

TEST(Export, KeptOperatorsStoreTheirArguments) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  p.output(p.op("aten::frobnicate.out",
                {{"self", v(x)},
                 {"others", list({Argument{}, v(x), n(3)})},
                 {"scale", Argument{0.1}},
                 {"end", Argument{-std::numeric_limits<double>::infinity()}},
                 {"dtype", Argument{DType::float16}},
                 {"device", Argument{Keyword{"cpu"}}},
                 {"flags", list({Argument{true}, Argument{false}})}},
                f32({5})));
  p.output(p.op("aten::relu", {{"self", v(x)}}, f32({2})));
  p.output(p.op("aten::add.Tensor", {{"self", v(x)}, {"other", v(x)}, {"alpha", n(1)}}, f32({2})));
  ExportOptions options;
  options.kept_operators = {"aten::frobnicate", "aten::relu.default", "aten::add.Scalar"};
  const Result<Graph> graph = export_program(p.program, options);
  ASSERT_TRUE(graph);
  EXPECT_EQ(std::get<std::string>(graph->nodes.at(0).find("arguments")->value),
            R"({"self":{"input":0},"others":[null,{"input":0},3],"scale":0.1,"end":{"number":"-inf"},)"
            R"("dtype":{"dtype":"float16"},"device":{"keyword":"cpu"},"flags":[true,false]})");
  EXPECT_EQ(graph->nodes.at(1).domain, "whence.aten");
  EXPECT_EQ(graph->nodes.at(2).domain, "");
}

TEST(Export, ArgumentsOutsideTheSchemaAreRefused) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  p.output(p.op("aten::relu", {{"self", v(x)}, {"slope", n(2)}}, f32({2})));
  EXPECT_FALSE(export_program(p.program, {}));
}

// ---- shapes -----------------------------------------------------------------------------------------------------

// view(x, [b, s, 2, 3]) of x [b, s, 6], with b and s from x.size().
TEST(Export, ReshapeCopiesUnchangedAxes) {
  ProgramBuilder p;
  const SymbolId b = p.symbol("batch", 2), s = p.symbol("seq", 5);
  const ValueId x = p.input("x", f32({named(2, b), named(5, s), fixed(6)}));
  const ValueId batch = p.op("aten::size.int", {{"self", v(x)}, {"dim", n(0)}}, integer());
  const ValueId seq = p.op("aten::size.int", {{"self", v(x)}, {"dim", n(1)}}, integer());
  p.output(p.op("aten::view", {{"self", v(x)}, {"size", list({v(batch), v(seq), n(2), n(3)})}},
                f32({named(2, b), named(5, s), fixed(2), fixed(3)})));
  const Graph graph = exported(p.program);
  EXPECT_EQ(op_types(graph), Names{"Reshape"});
  EXPECT_EQ(reshape_target(graph), (Ints{0, 0, 2, 3}));
}

TEST(Export, ReshapeInfersOneSize) {
  ProgramBuilder p;
  const SymbolId b = p.symbol("batch", 2);
  const ValueId x = p.input("x", f32({named(2, b), fixed(3), fixed(4)}));
  p.output(p.op("aten::view", {{"self", v(x)}, {"size", list({n(-1), n(4)})}}, f32({Dim{6, true, none_id}, fixed(4)})));
  const Graph graph = exported(p.program);
  EXPECT_EQ(reshape_target(graph), (Ints{-1, 4}));
}

// The sizes of adjacent axes that move to other axes come from one Shape node.
TEST(Export, MovedSizesAreComputedOnce) {
  for (const int opset : {13, 18}) {
    ProgramBuilder p;
    const SymbolId b = p.symbol("batch", 2), s = p.symbol("seq", 5);
    const ValueId x = p.input("x", f32({fixed(6), named(2, b), named(5, s)}));
    const ValueId batch = p.op("aten::size.int", {{"self", v(x)}, {"dim", n(1)}}, integer());
    const ValueId seq = p.op("aten::size.int", {{"self", v(x)}, {"dim", n(2)}}, integer());
    p.output(p.op("aten::view", {{"self", v(x)}, {"size", list({v(batch), v(seq), n(6)})}},
                  f32({named(2, b), named(5, s), fixed(6)})));
    const Graph graph = exported(p.program, opset);
    const Names expected =
        opset == 13 ? Names{"Shape", "Gather", "Concat", "Reshape"} : Names{"Shape", "Concat", "Reshape"};
    EXPECT_EQ(op_types(graph), expected);
  }
}

TEST(Export, ASharedSizeBelongsToAllReaders) {
  ProgramBuilder p;
  const SymbolId b = p.symbol("batch", 2);
  const ValueId x = p.input("x", f32({named(2, b), fixed(3)}));
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({named(2, b), fixed(3)}));
  for (const ValueId operand : {x, y}) {
    const ValueId size = p.op("aten::size.int", {{"self", v(operand)}, {"dim", n(0)}}, integer());
    p.output(size);
  }
  const Graph graph = exported(p.program);
  const auto shape = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [](const GraphNode& node) { return node.op_type == "Shape"; });
  ASSERT_NE(shape, graph.nodes.end());
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                          [](const GraphNode& node) { return node.op_type == "Shape"; }),
            1);
  EXPECT_EQ(shape->origin.kind, origin::OriginKind::shared);
  EXPECT_EQ(shape->origin.ops, (std::vector<std::int32_t>{1, 2}));
}

// ---- promotion --------------------------------------------------------------------------------------------------

TEST(Export, PromotesLikePyTorch) {
  const struct {
    const char* rule;
    Type self;
    Argument other;  // a literal; none for a tensor of `other_type`
    Type other_type;
    DType result;  // torch.result_type
    int casts;     // Cast nodes; casts of constants are folded
  } rows[] = {
      {"a Python float does not widen", tensor(DType::float16, {2}), Argument{0.5}, {}, DType::float16, 0},
      {"a Python float makes integers the default dtype",
       tensor(DType::int64, {2}),
       Argument{0.5},
       {},
       DType::float32,
       1},
      {"a Python int does not widen", tensor(DType::int32, {2}), n(3), {}, DType::int32, 0},
      {"a 0-d tensor does not widen", f32({2}), {}, tensor(DType::float64, std::vector<Dim>{}), DType::float32, 1},
      {"tensors widen", f32({2}), {}, tensor(DType::float64, {2}), DType::float64, 1},
      {"a higher category wins", tensor(DType::int64, {2}), {}, tensor(DType::float16, {2}), DType::float16, 1},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.rule);
    ProgramBuilder p;
    const ValueId self = p.input("self", row.self);
    Argument other = row.other;
    if (other.is_none()) {
      other = v(p.input("other", row.other_type));
    }
    p.output(p.op("aten::mul.Tensor", {{"self", v(self)}, {"other", other}}, tensor(row.result, {2})));
    const Graph graph = exported(p.program);
    EXPECT_EQ(graph.values[graph.outputs[0]].dtype, row.result);
    EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                            [](const GraphNode& node) { return node.op_type == "Cast"; }),
              row.casts);
    for (const GraphNode& node : graph.nodes) {
      if (node.op_type != "Mul") continue;
      for (const graph::GraphValueId input : node.inputs) EXPECT_EQ(graph.values[input].dtype, row.result);
    }
  }
}

// ---- control flow -----------------------------------------------------------------------------------------------

TEST(Export, BranchesReadOuterValues) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId condition = p.input("condition", boolean());
  const ValueId y = p.op("aten::exp", {{"self", v(x)}}, f32({2}));
  const ValueId result = p.nest("prim::If", {{"condition", v(condition)}}, {f32({2})}, 2).outputs.front();
  Block& then_block = p.program.body.nodes.back().blocks[0];
  p.fill(then_block, [&] { then_block.outputs = {v(p.op("aten::relu", {{"self", v(y)}}, f32({2})))}; });
  p.program.body.nodes.back().blocks[1].outputs = {v(y)};
  p.output(result);
  const Graph graph = exported(p.program);
  EXPECT_EQ(op_types(graph), (Names{"Exp", "If"}));
  const Graph& then_body = *std::get<std::shared_ptr<Graph>>(graph.nodes[1].find("then_branch")->value);
  const Graph& else_body = *std::get<std::shared_ptr<Graph>>(graph.nodes[1].find("else_branch")->value);
  EXPECT_EQ(then_body.outer, &graph);
  EXPECT_EQ(op_types(then_body), Names{"Relu"});
  EXPECT_EQ(op_types(else_body), Names{"Identity"});
  EXPECT_EQ(then_body.values[then_body.nodes[0].inputs[0]].captured, graph.nodes[0].outputs[0]);
}

TEST(Export, LoopsCarryValues) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId trips = p.input("trips", integer());
  const std::vector<NamedArgument> arguments{
      {"max_trip_count", v(trips)}, {"condition", Argument{true}}, {"initial", list({v(x)})}};
  const ValueId result = p.nest("prim::Loop", arguments, {f32({2})}, 1).outputs.front();
  const ValueId iteration = p.value("i", integer(), ValueSource::block_input, none_id);
  const ValueId carried = p.value("carried", f32({2}), ValueSource::block_input, none_id);
  Block& body = p.program.body.nodes.back().blocks[0];
  body.inputs = {iteration, carried};
  p.fill(body, [&] {
    const ValueId next = p.op("aten::add.Tensor", {{"self", v(carried)}, {"other", v(iteration)}}, f32({2}));
    body.outputs = {Argument{true}, v(next)};
  });
  p.output(result);
  const Graph graph = exported(p.program);
  ASSERT_EQ(op_types(graph), Names{"Loop"});
  EXPECT_EQ(graph.nodes[0].inputs.size(), 3u);
  const Graph& loop = *std::get<std::shared_ptr<Graph>>(graph.nodes[0].find("body")->value);
  EXPECT_EQ(loop.inputs.size(), 3u);
  EXPECT_EQ(loop.outputs.size(), 2u);
  EXPECT_EQ(op_types(loop), (Names{"Cast", "Add", "Identity"}));
}

// ---- interface --------------------------------------------------------------------------------------------------

TEST(Export, TiedParametersAreOneInitializer) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId w = p.parameter("layer.weight", program::number_scalar(2, DType::float32));
  const ValueId y = p.op("aten::mul.Tensor", {{"self", v(x)}, {"other", v(w)}}, f32({2}));
  p.output(p.op("aten::mul.Tensor", {{"self", v(y)}, {"other", v(w)}}, f32({2})));
  const Graph graph = exported(p.program);
  ASSERT_EQ(graph.initializers.size(), 1u);
  EXPECT_EQ(graph.values[graph.initializers[0].value].name, "layer.weight");
  EXPECT_TRUE(graph.initializers[0].parameter);
}

TEST(Export, EveryOutputHasANode) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  p.output(x, "x");
  p.output(x);
  p.program.outputs.push_back({"nothing", Argument{None{}}});
  p.program.outputs.push_back({"count", n(7)});
  const Graph graph = exported(p.program);
  EXPECT_EQ(op_types(graph), (Names{"Identity", "Identity", "Identity"}));
  ASSERT_EQ(graph.outputs.size(), 3u);
  EXPECT_EQ(graph.values[graph.outputs[0]].name, "x_1");
  EXPECT_EQ(graph.values[graph.outputs[2]].dtype, DType::int64);
  EXPECT_TRUE(graph.values[graph.outputs[2]].dims->empty());
}

TEST(Export, NamesAndOpsetAreChecked) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  p.output(p.op("aten::relu", {{"self", v(x)}}, f32({2})));
  const auto code = [&](const ExportOptions& options) {
    const Result<Graph> graph = export_program(p.program, options);
    return graph ? ExitCode::ok : exit_code(graph.diagnostics());
  };
  EXPECT_EQ(code({}), ExitCode::ok);
  ExportOptions options;
  options.opset = 12;
  EXPECT_EQ(code(options), ExitCode::usage);
  options = {};
  options.input_names = {"a", "b"};
  EXPECT_EQ(code(options), ExitCode::usage);
  options = {};
  options.output_names = {"x"};
  EXPECT_EQ(code(options), ExitCode::usage);
  options.output_names = {"y"};
  const Result<Graph> graph = export_program(p.program, options);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->values[graph->outputs[0]].name, "y");
}

TEST(OpTable, EverySchemaParsesUnderItsKey) {
  OpTable& table = OpTable::get();
  const Names keys = table.keys();
  EXPECT_GT(keys.size(), 400u);
  for (const std::string& key : keys) {
    ASSERT_NE(table.find(key), nullptr);
    EXPECT_EQ(table.schema(key)->key(), key);
    const std::string name = key.substr(0, key.find('.'));
    EXPECT_FALSE(name.ends_with('_') && !name.ends_with("__")) << name << ": in-place operators are lowered";
  }
  EXPECT_EQ(table.find("aten::frobnicate"), nullptr);
}

}  // namespace
}  // namespace whence
