// lower::lower() replaces writes with new values and known values with constants, and removes constant branches and
// no-ops.
#include <gtest/gtest.h>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "tests/annotator/program_builder.h"

namespace whence {

namespace {

std::vector<std::string> targets(const Program& program) {
  std::vector<std::string> names;
  for (const Node& node : program.body.nodes) names.push_back(qualified(node));
  return names;
}

using Names = std::vector<std::string>;

Program lowered(const Program& program) {
  Failures failures;
  Diagnostics notes;
  Program result = lower::lower(program, failures, notes);
  EXPECT_TRUE(failures.empty()) << to_text(failures.front().diagnostic);
  return result;
}

// Returns the node that computes `argument` of `node`.
const Node& producer_of(const Program& program, const Node& node, const std::string& argument) {
  const ValueId id = node.find(argument)->as<ValueRef>()->id;
  for (const Node& candidate : program.body.nodes) {
    for (const ValueId output : candidate.outputs) {
      if (output == id) return candidate;
    }
  }
  throw std::runtime_error("no node computes '" + argument + "'");
}

TEST(Lower, LaterReadersUseTheResultOfAWrite) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({2}));
  const ValueId before = p.op("aten::exp", {{"self", v(y)}}, f32({2}));
  const ValueId added = p.op("aten::add_.Tensor", {{"self", v(y)}, {"other", n(1)}, {"alpha", n(1)}}, f32({2}));
  p.output(before);
  p.output(y);
  p.output(added);  // the same tensor as y
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), (Names{"aten::neg", "aten::exp", "aten::add.Tensor"}));
  const ValueId newest = program.body.nodes[2].outputs.front();
  EXPECT_EQ(program.outputs[1].value, v(newest));
  EXPECT_EQ(program.outputs[2].value, v(newest));
  EXPECT_EQ(program.body.nodes[2].origin.op, 2);
}

TEST(Lower, AWriteToAViewChangesItsBaseAndOtherViews) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({3, 4}));
  const ValueId base = p.op("aten::neg", {{"self", v(x)}}, f32({3, 4}));
  const ValueId sibling = p.op("aten::transpose.int", {{"self", v(base)}, {"dim0", n(0)}, {"dim1", n(1)}}, f32({4, 3}));
  const ValueId row = p.op("aten::select.int", {{"self", v(base)}, {"dim", n(0)}, {"index", n(1)}}, f32({4}));
  const ValueId slice =
      p.op("aten::slice.Tensor", {{"self", v(row)}, {"dim", n(0)}, {"start", n(1)}, {"end", n(3)}}, f32({2}));
  p.op("aten::mul_.Tensor", {{"self", v(slice)}, {"other", n(2)}}, f32({2}));
  p.output(base);
  p.output(sibling);
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), (Names{"aten::neg", "aten::select.int", "aten::slice.Tensor", "aten::mul.Tensor",
                                     "aten::slice_scatter", "aten::select_scatter", "aten::transpose.int"}));
  const Node& scatter = program.body.nodes[5];
  EXPECT_EQ(producer_of(program, scatter, "self").target, "aten::neg");
  EXPECT_EQ(producer_of(program, scatter, "src").target, "aten::slice_scatter");
  EXPECT_EQ(producer_of(program, program.body.nodes[6], "self").target, "aten::select_scatter");
}

TEST(Lower, ACopyWithEqualTypeNeedsNoNode) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  const ValueId source = p.op("aten::exp", {{"self", v(x)}}, f32({3}));
  const ValueId base = p.op("aten::neg", {{"self", v(x)}}, f32({2, 3}));
  const ValueId row = p.op("aten::select.int", {{"self", v(base)}, {"dim", n(0)}, {"index", n(0)}}, f32({3}));
  p.op("aten::copy_", {{"self", v(row)}, {"src", v(source)}, {"non_blocking", Argument{false}}}, f32({3}));
  p.output(base);
  EXPECT_EQ(targets(lowered(p.program)), (Names{"aten::exp", "aten::neg", "aten::select_scatter"}));
}

// For example relative positions: coords = grid.permute(...).contiguous(); coords[0] += 1; coords[0] *= 2.
TEST(Lower, APossibleViewMayBeWrittenSeveralTimes) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  const ValueId base = p.op("aten::neg", {{"self", v(x)}}, f32({2, 3}));
  const ValueId flat = p.op("aten::reshape", {{"self", v(base)}, {"shape", list({n(6)})}}, f32({6}));
  for (const char* write : {"aten::exp_", "aten::relu_"}) {
    const ValueId part = p.op("aten::select.int", {{"self", v(flat)}, {"dim", n(0)}, {"index", n(0)}}, f32({}));
    p.op(write, {{"self", v(part)}}, f32({}));
  }
  p.output(p.op("aten::sum", {{"self", v(flat)}}, f32({})));
  EXPECT_EQ(targets(lowered(p.program)),
            (Names{"aten::neg", "aten::reshape", "aten::select.int", "aten::exp", "aten::select_scatter",
                   "aten::select.int", "aten::relu", "aten::select_scatter", "aten::sum"}));
}

TEST(Lower, AWriteToAPossibleViewIsRefusedIfTheBaseIsRead) {
  for (const bool base_is_read : {false, true}) {
    ProgramBuilder p;
    const ValueId x = p.input("x", f32({2, 3}));
    const ValueId base = p.op("aten::neg", {{"self", v(x)}}, f32({2, 3}));
    const ValueId flat = p.op("aten::reshape", {{"self", v(base)}, {"shape", list({n(6)})}}, f32({6}));
    p.op("aten::relu_", {{"self", v(flat)}}, f32({6}));
    p.output(base_is_read ? base : flat);
    Failures failures;
    Diagnostics notes;
    const Program program = lower::lower(p.program, failures, notes);
    if (!base_is_read) {
      EXPECT_TRUE(failures.empty());
      EXPECT_EQ(targets(program), (Names{"aten::neg", "aten::reshape", "aten::relu"}));
      continue;
    }
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].diagnostic.code, Code::unsupported_feature);
    EXPECT_EQ(failures[0].diagnostic.where.module, "layer");
    EXPECT_EQ(failures[0].diagnostic.where.source, "model.py:7 forward");
    EXPECT_EQ(failures[0].diagnostic.where.op, "aten::reshape");
  }
}

TEST(Lower, InPlaceOperatorsThatChangeNoElement) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  const ValueId base = p.op("aten::neg", {{"self", v(x)}}, f32({2, 3}));
  const ValueId flat = p.op("aten::flatten.using_ints", {{"self", v(base)}}, f32({6}));
  p.op("aten::dropout_", {{"self", v(flat)}, {"p", Argument{0.5}}, {"train", Argument{false}}}, f32({6}));
  p.op("aten::unsqueeze_", {{"self", v(flat)}, {"dim", n(0)}}, f32({1, 6}));
  p.output(flat);
  p.output(base);
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), (Names{"aten::neg", "aten::flatten.using_ints", "aten::unsqueeze"}));
  EXPECT_EQ(program.outputs[0].value, v(program.body.nodes[2].outputs[0]));
  EXPECT_EQ(program.outputs[1].value, v(base));
}

TEST(Lower, ABranchReturnsTheTensorsItWrites) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId condition = p.input("condition", boolean());
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({2}));
  Node& branch = p.nest("prim::If", {{"condition", v(condition)}}, {}, 2);
  p.fill(branch.blocks[0], [&] { p.op("aten::relu_", {{"self", v(y)}}, f32({2})); });
  p.output(y);
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), (Names{"aten::neg", "prim::If"}));
  const Node& lowered_branch = program.body.nodes[1];
  ASSERT_EQ(lowered_branch.outputs.size(), 1u);
  EXPECT_EQ(program.outputs[0].value, v(lowered_branch.outputs[0]));
  EXPECT_EQ(lowered_branch.blocks[0].outputs[0], v(lowered_branch.blocks[0].nodes[0].outputs[0]));
  EXPECT_EQ(lowered_branch.blocks[1].outputs[0], v(y));
}

TEST(Lower, ALoopCarriesWrittenTensors) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({3, 2}));
  const ValueId trips = p.input("trips", integer());
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({3, 2}));
  const ValueId view = p.op("aten::select.int", {{"self", v(y)}, {"dim", n(0)}, {"index", n(0)}}, f32({2}));
  Node& loop =
      p.nest("prim::Loop", {{"max_trip_count", v(trips)}, {"condition", Argument{true}}, {"initial", list({})}}, {}, 1);
  const ValueId iteration = p.value("i", integer(), ValueSource::block_input, none_id);
  loop.blocks[0].inputs = {iteration};
  loop.blocks[0].outputs = {Argument{true}};
  p.fill(loop.blocks[0], [&] {
    const ValueId row = p.op("aten::select.int", {{"self", v(y)}, {"dim", n(0)}, {"index", v(iteration)}}, f32({2}));
    p.op("aten::relu_", {{"self", v(row)}}, f32({2}));
  });
  p.output(view);  // the view was taken before the loop and must be recomputed after it
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), (Names{"aten::neg", "prim::Loop", "aten::select.int"}));
  const Node& lowered_loop = program.body.nodes[1];
  const Block& body = lowered_loop.blocks[0];
  ASSERT_EQ(body.inputs.size(), 2u);
  EXPECT_EQ(*lowered_loop.find("initial"), list({v(y)}));
  EXPECT_EQ(*body.nodes[0].find("self"), v(body.inputs[1]));
  EXPECT_EQ(qualified(body.nodes.back()), "aten::select_scatter");
  EXPECT_EQ(body.outputs[1], v(body.nodes.back().outputs[0]));
  EXPECT_EQ(*program.body.nodes[2].find("self"), v(lowered_loop.outputs[0]));
}

// r = exp(y) if condition else y; r.relu_(). y changes only if the condition is false.
TEST(Lower, AWriteToAPossibleAliasFromABranchIsConditional) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId condition = p.input("condition", boolean());
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({2}));
  Node& branch = p.nest("prim::If", {{"condition", v(condition)}}, {f32({2})}, 2);
  const ValueId result = branch.outputs.front();
  p.fill(branch.blocks[0], [&] { branch.blocks[0].outputs = {v(p.op("aten::exp", {{"self", v(y)}}, f32({2})))}; });
  branch.blocks[1].outputs = {v(y)};
  p.op("aten::relu_", {{"self", v(result)}}, f32({2}));
  p.output(y);
  p.output(result);
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), (Names{"aten::neg", "prim::If", "aten::relu", "prim::If"}));
  const ValueId written = program.body.nodes[2].outputs[0];
  const Node& updated = program.body.nodes[3];
  EXPECT_EQ(updated.arguments[0].value, v(condition));
  EXPECT_EQ(updated.blocks[0].outputs[0], v(y));
  EXPECT_EQ(updated.blocks[1].outputs[0], v(written));
  EXPECT_EQ(program.outputs[0].value, v(updated.outputs[0]));
  EXPECT_EQ(program.outputs[1].value, v(written));
}

// h = y; loop: h.relu_(); h = exp(h). Only the first iteration changes y; a flag marks it.
TEST(Lower, AVariableThatStartsAsAnAliasGetsAFlag) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId trips = p.input("trips", integer());
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({2}));
  Node& loop =
      p.nest("prim::Loop", {{"max_trip_count", v(trips)}, {"condition", Argument{true}}, {"initial", list({v(y)})}},
             {f32({2})}, 1);
  Block& body = loop.blocks[0];
  const ValueId h = p.value("h", f32({2}), ValueSource::block_input, none_id);
  body.inputs = {p.value("i", integer(), ValueSource::block_input, none_id), h};
  p.fill(body, [&] {
    p.op("aten::relu_", {{"self", v(h)}}, f32({2}));
    body.outputs = {Argument{true}, v(p.op("aten::exp", {{"self", v(h)}}, f32({2})))};
  });
  p.output(y);
  const Program program = lowered(p.program);
  const Node& lowered_loop = program.body.nodes[1];
  const Block& lowered_body = lowered_loop.blocks[0];
  EXPECT_EQ(*lowered_loop.find("initial"), list({v(y), v(y), Argument{true}}));  // h, y, and the flag "h is y"
  ASSERT_EQ(lowered_body.nodes.size(), 3u);
  EXPECT_EQ(lowered_body.nodes[1].target, "prim::If");
  EXPECT_EQ(lowered_body.nodes[1].arguments[0].value, v(lowered_body.inputs[3]));
  EXPECT_EQ(lowered_body.outputs[2], v(lowered_body.nodes[1].outputs[0]));
  EXPECT_EQ(lowered_body.outputs[3], Argument{false});
  EXPECT_EQ(program.outputs[0].value, v(lowered_loop.outputs[1]));
}

TEST(Lower, AnUnusedLoopVariableIsDropped) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId trips = p.input("trips", integer());
  Node& loop = p.nest("prim::Loop",
                      {{"max_trip_count", v(trips)}, {"condition", Argument{true}}, {"initial", list({v(x), v(x)})}},
                      {f32({2}), f32({2})}, 1);
  Block& body = loop.blocks[0];
  const std::vector<ValueId> results = loop.outputs;
  body.inputs = {p.value("i", integer(), ValueSource::block_input, none_id)};
  for (const char* name : {"a", "b"}) body.inputs.push_back(p.value(name, f32({2}), ValueSource::block_input, none_id));
  p.fill(body, [&] {
    body.outputs = {Argument{true}, v(p.op("aten::exp", {{"self", v(body.inputs[1])}}, f32({2}))),
                    v(p.op("aten::neg", {{"self", v(body.inputs[2])}}, f32({2})))};
  });
  p.output(results[1]);
  const Program program = lowered(p.program);
  EXPECT_EQ(*program.body.nodes[0].find("initial"), list({v(x)}));
  ASSERT_EQ(program.body.nodes[0].blocks[0].nodes.size(), 1u);
  EXPECT_EQ(program.body.nodes[0].blocks[0].nodes[0].target, "aten::neg");
}

TEST(Lower, ABranchThatReshapesAnOuterTensorIsRefused) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId condition = p.input("condition", boolean());
  const ValueId y = p.op("aten::neg", {{"self", v(x)}}, f32({2}));
  Node& branch = p.nest("prim::If", {{"condition", v(condition)}}, {}, 2);
  p.fill(branch.blocks[0], [&] { p.op("aten::unsqueeze_", {{"self", v(y)}, {"dim", n(0)}}, f32({1, 2})); });
  p.output(y);
  Failures failures;
  Diagnostics notes;
  lower::lower(p.program, failures, notes);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].diagnostic.where.op, "aten::unsqueeze_");
}

TEST(Lower, AConstantBranchIsInlined) {
  for (const bool condition_value : {false, true}) {
    ProgramBuilder p;
    const ValueId x = p.input("x", f32({2}));
    const ValueId condition = p.op("aten::gt", {}, boolean());
    p.known(condition, program::integer_scalar(condition_value ? 1 : 0, DType::boolean));
    Node& branch = p.nest("prim::If", {{"condition", v(condition)}}, {f32({2})}, 2);
    const ValueId result = branch.outputs.front();
    std::size_t side = 0;
    for (const char* op : {"aten::relu", "aten::neg"}) {
      Block& block = p.program.body.nodes.back().blocks[side++];
      p.fill(block, [&] { block.outputs = {v(p.op(op, {{"self", v(x)}}, f32({2})))}; });
    }
    p.output(result);
    EXPECT_EQ(targets(lowered(p.program)), Names{condition_value ? "aten::relu" : "aten::neg"});
  }
}

// flag, value = (True, -x) if condition else (False, None); result = relu(value) if flag else x
Program branch_on_flag(bool reads_later_node) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId condition = p.input("condition", boolean());
  Node& first = p.nest("prim::If", {{"condition", v(condition)}}, {boolean(), f32({2})}, 2);
  const ValueId flag = first.outputs[0], value = first.outputs[1];
  p.fill(first.blocks[0],
         [&] { first.blocks[0].outputs = {Argument{true}, v(p.op("aten::neg", {{"self", v(x)}}, f32({2})))}; });
  first.blocks[1].outputs = {Argument{false}, Argument{None{}}};
  const ValueId later = p.op("aten::cos", {{"self", v(value)}}, f32({2}));
  Node& second = p.nest("prim::If", {{"condition", v(flag)}}, {f32({2})}, 2);
  const ValueId result = second.outputs[0];
  const ValueId operand = reads_later_node ? later : value;
  p.fill(second.blocks[0],
         [&] { second.blocks[0].outputs = {v(p.op("aten::relu", {{"self", v(operand)}}, f32({2})))}; });
  second.blocks[1].outputs = {v(x)};
  p.output(result);
  return lowered(p.program);
}

TEST(Lower, BranchesOnOneConditionAreMerged) {
  const Program program = branch_on_flag(false);
  ASSERT_EQ(targets(program), Names{"prim::If"});
  const Node& branch = program.body.nodes[0];
  ASSERT_EQ(branch.outputs.size(), 1u);  // no output for the flag and the value
  ASSERT_EQ(branch.blocks[0].nodes.size(), 2u);
  EXPECT_EQ(branch.blocks[0].nodes[1].target, "aten::relu");
  EXPECT_EQ(*branch.blocks[0].nodes[1].find("self"), v(branch.blocks[0].nodes[0].outputs[0]));
  EXPECT_TRUE(branch.blocks[1].nodes.empty());
}

TEST(Lower, ABranchThatReadsALaterNodeIsNotMerged) {
  EXPECT_EQ(targets(branch_on_flag(true)), (Names{"prim::If", "aten::cos", "prim::If"}));
}

TEST(Lower, OperatorsWithoutEffectAreRemoved) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2, 3}));
  ValueId y = p.op("aten::dropout", {{"input", v(x)}, {"p", Argument{0.5}}, {"train", Argument{false}}}, f32({2, 3}));
  y = p.op("aten::contiguous", {{"self", v(y)}}, f32({2, 3}));
  y = p.op("aten::to.dtype", {{"self", v(y)}, {"dtype", Argument{DType::float32}}}, f32({2, 3}));
  y = p.op("aten::view", {{"self", v(y)}, {"size", list({n(2), n(3)})}}, f32({2, 3}));
  y = p.op("aten::dropout", {{"input", v(y)}, {"p", Argument{0.5}}, {"train", Argument{true}}}, f32({2, 3}));
  p.output(y);
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), Names{"aten::dropout"});
  EXPECT_EQ(*program.body.nodes[0].find("input"), v(x));
}

TEST(Lower, AKnownResultOfAWriteBecomesAConstant) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId zeros = p.op("aten::zeros", {}, f32({2}));
  const ValueId ones = p.op("aten::add_.Tensor", {{"self", v(zeros)}, {"other", n(1)}, {"alpha", n(1)}}, f32({2}));
  p.known(ones, {DType::float32, {2}, Bytes::copy_of("\0\0\x80\x3f\0\0\x80\x3f", 8)});
  p.output(p.op("aten::add.Tensor", {{"self", v(x)}, {"other", v(ones)}}, f32({2})));
  EXPECT_EQ(targets(lowered(p.program)), Names{"aten::add.Tensor"});
}

TEST(Lower, KnownValuesNeedNoOperations) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId mask = p.op("aten::ones", {}, f32({2}));
  const ValueId tril = p.op("aten::tril", {{"self", v(mask)}}, f32({2}));
  p.known(tril, {DType::float32, {2}, Bytes::copy_of("\0\0\0\0\0\0\0\0", 8)});
  p.output(p.op("aten::add.Tensor", {{"self", v(x)}, {"other", v(tril)}}, f32({2})));
  const Program program = lowered(p.program);
  EXPECT_EQ(targets(program), Names{"aten::add.Tensor"});
  EXPECT_EQ(program.values[tril].source, ValueSource::constant);
  EXPECT_EQ(p.program.values[tril].source, ValueSource::node) << "the caller's program must not change";
}

TensorData zeros(DType dtype, std::vector<std::int64_t> shape) {
  TensorData data{dtype, std::move(shape), {}};
  data.bytes = Bytes::owned(std::string(static_cast<std::size_t>(data.element_count()) * size_of(dtype), '\0'));
  return data;
}

// weight.to(float32) is four times as large as int8. The second case adds a reader of the weight.
TEST(Lower, AKnownTensorThatEnlargesTheFileIsComputed) {
  for (const DType dtype : {DType::int8, DType::float64}) {
    ProgramBuilder p;
    const ValueId x = p.input("x", f32({4, 100}));
    const ValueId weight = p.parameter("weight", zeros(dtype, {4, 100}));
    const ValueId wide =
        p.op("aten::to.dtype", {{"self", v(weight)}, {"dtype", Argument{DType::float32}}}, f32({4, 100}));
    p.known(wide, zeros(DType::float32, {4, 100}));
    p.output(p.op("aten::add.Tensor", {{"self", v(x)}, {"other", v(wide)}}, f32({4, 100})));
    const Names computed{"aten::to.dtype", "aten::add.Tensor"}, folded{"aten::add.Tensor"};
    EXPECT_EQ(targets(lowered(p.program)), dtype == DType::int8 ? computed : folded);
    p.output(weight);
    EXPECT_EQ(targets(lowered(p.program)), computed) << "the weight has a second reader";
  }
}

TEST(Lower, TensorsStayOperationsIfFoldingIsOff) {
  ProgramBuilder p;
  const ValueId x = p.input("x", f32({2}));
  const ValueId ones = p.op("aten::ones", {}, f32({2}));
  p.known(ones, zeros(DType::float32, {2}));
  p.output(p.op("aten::add.Tensor", {{"self", v(x)}, {"other", v(ones)}}, f32({2})));
  Failures failures;
  Diagnostics notes;
  EXPECT_EQ(targets(lower::lower(p.program, failures, notes, {}, false)), (Names{"aten::ones", "aten::add.Tensor"}));
}

}  // namespace
}  // namespace whence
