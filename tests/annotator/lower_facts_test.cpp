// Single lowering passes, and the queries that they make on a program.
#include <gtest/gtest.h>

#include "annotator/lower/composites.h"
#include "annotator/lower/overlaps.h"
#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "annotator/lower/written_state.h"
#include "schema/place.h"
#include "tests/annotator/program_builder.h"

namespace whence {
namespace {

using Sizes = std::vector<Size>;

MemoryPlace place_at(std::int64_t offset, const Sizes& sizes, const Sizes& strides) {
  return {ValueId(0), offset, sizes, strides};
}

TEST(LowerOverlaps, AnElementwiseWriteMayReadItsTarget) {
  const Program program;
  const MemoryPlace row = place_at(0, {4}, {1}), later = place_at(1, {4}, {1}), disjoint = place_at(4, {4}, {1});
  EXPECT_TRUE(lower::reads_what_it_overwrites(program, row, later, true));  // y[:-1] = y[1:]
  EXPECT_TRUE(lower::reads_what_it_overwrites(program, row, row, false));
  EXPECT_FALSE(lower::reads_what_it_overwrites(program, row, row, true));
  EXPECT_FALSE(lower::reads_what_it_overwrites(program, row, disjoint, false));
  // Even and odd elements do not overlap.
  EXPECT_FALSE(lower::reads_what_it_overwrites(program, place_at(0, {4}, {2}), place_at(1, {4}, {2}), false));
}

TEST(LowerOverlaps, ABroadcastSourceIsReadManyTimes) {
  const Program program;
  const MemoryPlace matrix = place_at(0, {3, 4}, {4, 1});
  EXPECT_TRUE(lower::reads_what_it_overwrites(program, matrix, place_at(0, {4}, {1}), true));  // y += y[0]
  EXPECT_FALSE(lower::reads_what_it_overwrites(program, place_at(0, {1, 4}, {4, 1}), place_at(0, {4}, {1}), true));
  EXPECT_TRUE(lower::reads_what_it_overwrites(program, matrix, place_at(0, {3, 1}, {4, 1}), true));
  EXPECT_TRUE(lower::reads_what_it_overwrites(program, matrix, place_at(0, {3, 4}, {1, 3}), true));
}

TEST(LowerOverlaps, SizesComeFromTheExample) {
  ProgramBuilder p;
  const SymbolId symbol = p.symbol("n", 4);
  const Size length = Size::symbol(symbol);
  const MemoryPlace first = place_at(0, {length}, {1});
  const MemoryPlace second{ValueId(0), length, {length}, {1}};
  EXPECT_FALSE(lower::reads_what_it_overwrites(p.program, first, second, false));
  EXPECT_TRUE(lower::reads_what_it_overwrites(p.program, first, {ValueId(0), length - 1, {length}, {1}}, false));
  EXPECT_FALSE(lower::reads_what_it_overwrites(p.program, first, {ValueId(0), Size::unknown(), {length}, {1}}, false));
}

TEST(LowerState, FindsTheLastWriteToAParameterOrInput) {
  ProgramBuilder p;
  const float zeros[4] = {};
  const ValueId x = p.input("x", f32({4}));
  const ValueId w = p.parameter("w", {DType::float32, {4}, Bytes::copy_of(zeros, sizeof zeros)});
  const ValueId local = p.op("aten::neg", {{"self", v(x)}}, f32({4}));
  p.op("aten::add_.Tensor", {{"self", v(local)}, {"other", n(1)}, {"alpha", n(1)}}, f32({4}));  // not reported
  p.op("aten::add_.Tensor", {{"self", v(w)}, {"other", n(1)}, {"alpha", n(1)}}, f32({4}));
  const ValueId part =
      p.op("aten::slice.Tensor", {{"self", v(w)}, {"dim", n(0)}, {"start", n(0)}, {"end", n(2)}}, f32({2}));
  const ValueId last = p.op("aten::mul_.Tensor", {{"self", v(part)}, {"other", n(2)}}, f32({2}));
  const auto states = lower::written_state(p.program);
  ASSERT_EQ(states.size(), 1u);
  EXPECT_EQ(states[0].state, w);
  EXPECT_EQ(states[0].holds, last);
}

// neg(x) [n, 2] if c else flatten(x) [4]. `condition` is the value of c in the example.
std::optional<Program> program_with_example_ranks(std::optional<bool> condition, std::vector<Dim> first,
                                                  Diagnostics& notes) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({named(2, p.symbol("n", 2)), fixed(2)}));
  const ValueId c = p.input("c", boolean());
  std::vector<NamedArgument> arguments = {{"condition", v(c)}};
  if (condition) arguments.push_back({std::string(example_argument), Argument{*condition}});
  Node& branch = p.nest("prim::If", arguments, {{ValueKind::tensor, DType::float32, std::nullopt}}, 2);
  std::vector<Block> blocks(2);
  p.fill(blocks[0], [&] { blocks[0].outputs = {v(p.op("aten::neg", {{"self", v(x)}}, f32(first)))}; });
  p.fill(blocks[1], [&] { blocks[1].outputs = {v(p.op("aten::flatten", {{"self", v(x)}}, f32({4})))}; });
  branch.blocks = blocks;
  p.output(branch.outputs.front());
  return lower::with_example_ranks(p.program, notes);
}

TEST(LowerRanks, ResultsHaveTheRankOfTheExample) {
  Diagnostics notes;
  const auto program = program_with_example_ranks(true, {named(2, SymbolId(0)), fixed(2)}, notes);
  ASSERT_TRUE(program);
  const Node& branch = program->body.nodes.front();
  ASSERT_TRUE(program->values[branch.outputs.front()].type.dims);
  EXPECT_EQ(program->values[branch.outputs.front()].type.dims->size(), 2u);
  // The other branch returns an empty tensor, whose dynamic axis has size 0.
  const Node& reshape = branch.blocks[1].nodes.back();
  EXPECT_EQ(reshape.target, "aten::reshape");
  EXPECT_EQ(*reshape.find("shape")->as<ArgumentList>(), (ArgumentList{n(0), n(2)}));
  EXPECT_EQ(branch.blocks[1].outputs.front(), v(reshape.outputs.front()));
  EXPECT_EQ(branch.blocks[0].nodes.size(), 1u);
  EXPECT_EQ(notes.size(), 1u);
}

TEST(LowerRanks, ResultsAreUnchangedWithoutAnExampleOrAnEmptyAxis) {
  Diagnostics notes;
  EXPECT_FALSE(program_with_example_ranks(std::nullopt, {named(2, SymbolId(0)), fixed(2)}, notes));
  EXPECT_FALSE(program_with_example_ranks(true, {fixed(2), fixed(2)}, notes));  // no axis can be empty
  EXPECT_FALSE(program_with_example_ranks(true, {fixed(4)}, notes));            // the ranks are equal
  EXPECT_TRUE(notes.empty());
}

TEST(LowerConstants, EmptyTensorsNeedNoOperation) {
  const auto node_count = [](const Type& type) {
    ProgramBuilder p;
    const ValueId x = p.input("x", f32({named(2, p.symbol("n", 2)), fixed(3)}));
    const ValueId slice =
        p.op("aten::slice.Tensor", {{"self", v(x)}, {"dim", n(1)}, {"start", n(0)}, {"end", n(0)}}, type);
    p.output(p.op("aten::relu", {{"self", v(slice)}}, type));
    Failures failures;
    Diagnostics notes;
    return lower::lower(p.program, failures, notes).body.nodes.size();
  };
  EXPECT_EQ(node_count(f32({3, 0})), 0u);
  EXPECT_EQ(node_count(f32({named(2, SymbolId(0)), fixed(0)})), 2u);  // the number of rows is dynamic
  EXPECT_EQ(node_count(f32({3, 1})), 2u);
  EXPECT_EQ(node_count(tensor(DType::undefined, {3, 0})), 2u);  // the dtype is unknown
}

// Decomposes aten::twice(x) into an addition and a reshape to the sizes of the example.
Program decomposed(ProgramBuilder& p, Failures& failures) {
  const lower::TraceComposite trace = [](const CompositeCall& call, Program& steps, Diagnostics&) {
    if (call.call.target != "aten::twice") return false;
    ProgramBuilder builder;
    Type type = call.inputs.front();
    const ValueId x = builder.input("x", type);
    const ValueId sum = builder.op("aten::add.Tensor", {{"self", v(x)}, {"other", v(x)}, {"alpha", n(1)}}, type);
    Type flat = type;
    flat.dims = std::vector<Dim>{fixed((*type.dims)[0].size * (*type.dims)[1].size)};
    builder.output(builder.op("aten::reshape", {{"self", v(sum)}, {"shape", list({n((*flat.dims)[0].size)})}}, flat));
    steps = std::move(builder.program);
    return true;
  };
  Diagnostics notes;
  lower::Composites composites{trace, {"aten::twice"}};
  lower::Lowering lowering{p.program, failures, notes};
  lowering.composites = &composites;
  lower::decompose_composites(lowering);
  failures = composites.refused;
  return p.program;
}

TEST(LowerComposites, StepsReplaceTheOperator) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  p.output(p.op("aten::twice", {{"self", v(x)}}, f32({6})));
  Failures failures;
  const Program program = decomposed(p, failures);
  EXPECT_TRUE(failures.empty());
  ASSERT_EQ(program.body.nodes.size(), 2u);
  EXPECT_EQ(program.body.nodes[0].target, "aten::add");
  EXPECT_EQ(program.body.nodes[0].find("self")->as<ValueRef>()->id, x);
  EXPECT_EQ(program.body.nodes[0].origin.op, 0);  // both come from aten::twice
  EXPECT_EQ(program.body.nodes[1].origin.op, 0);
  EXPECT_EQ(program.outputs[0].value, v(program.body.nodes[1].outputs.front()));
}

TEST(LowerComposites, AnExampleSizeBecomesTheAxis) {
  ProgramBuilder p;
  const SymbolId rows = p.symbol("n", 2);
  const ValueId x = p.input("x", f32({named(2, rows), fixed(3)}));
  p.output(p.op("aten::twice", {{"self", v(x)}}, f32({Dim{6, true, none_id}})));
  Failures failures;
  const Program program = decomposed(p, failures);
  ASSERT_TRUE(failures.empty()) << to_text(failures.front().diagnostic);
  ASSERT_GE(program.body.nodes.size(), 2u);
  EXPECT_EQ(program.body.nodes[0].target == "aten::add" || program.body.nodes[0].target == "aten::size", true);
  for (const Node& node : program.body.nodes) {
    if (node.target != "aten::add") continue;
    const std::vector<Dim>& dims = *program.values[node.outputs.front()].type.dims;
    EXPECT_EQ(dims[0].symbol, rows);  // not 2
    EXPECT_FALSE(dims[1].dynamic);
    EXPECT_EQ(dims[1].size, 3);
  }
  const Argument* shape = program.body.nodes.back().find("shape");
  ASSERT_NE(shape, nullptr);
  EXPECT_EQ(shape->as<ArgumentList>()->front().as<std::int64_t>(), nullptr);  // computed, not 6
}

}  // namespace
}  // namespace whence
