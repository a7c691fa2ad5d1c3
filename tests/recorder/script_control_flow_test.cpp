// The operations recorded for branches, loops and containers in scripts.
#include <gtest/gtest.h>

#include "tests/recorder/scripted_module.h"

namespace whence {
namespace {

TEST(Script, ABranchOnNumbersIsDecided) {
  const Program program = read_module(R"(
def forward(self, x):
    if x.dim() == 2:
        return torch.relu(x)
    return torch.neg(x)
)",
                                      {.inputs = {floats("x", {2, 3})}});
  EXPECT_EQ(operations_text(program), "aten::relu");
  EXPECT_EQ(output_text(program), "float32[2,3]");
}

TEST(Script, ABranchOnDataIsRecordedWithBothBlocks) {
  const Program program = read_module(R"(
def forward(self, x):
    if bool(x.sum() > 0):
        y = torch.neg(x)
    else:
        y = torch.exp(x)
    return y
)",
                                      {.inputs = {floats("x", {2, 3})}});
  EXPECT_EQ(operations_text(program), "aten::sum aten::gt.Scalar aten::Bool.Tensor prim::If[aten::neg | aten::exp]");
  EXPECT_EQ(output_text(program), "float32[2,3]");
}

TEST(Script, ALoopOverANumberIsUnrolled) {
  const Program program = read_module(R"(
def forward(self, x):
    for i in range(3):
        if i % 2 == 0:
            x = torch.relu(x)
        else:
            x = torch.neg(x)
    return x
)",
                                      {.inputs = {floats("x", {2})}});
  EXPECT_EQ(operations_text(program), "aten::relu aten::neg aten::relu");
}

TEST(Script, AWhileLoopOnNumbersIsUnrolled) {
  const Program program = read_module(R"(
def forward(self, x):
    i = 0
    while i < 5 and i * i < 6:
        x = torch.neg(x)
        i += 1
    return x
)",
                                      {.inputs = {floats("x", {2})}});
  EXPECT_EQ(operations_text(program), "aten::neg aten::neg aten::neg");  // i * i is 0, 1 and 4
}

TEST(Script, ALoopOnDataIsRecorded) {
  const Program program = read_module(R"(
def forward(self, x):
    while bool(x.sum() < 100):
        x = torch.exp(x)
    return x
)",
                                      {.inputs = {floats("x", {2})}});
  EXPECT_NE(operations_text(program).find("prim::Loop["), std::string::npos) << operations_text(program);
  EXPECT_NE(operations_text(program).find("aten::exp"), std::string::npos);
}

TEST(Script, ListsAndDictsOfKnownLengthAreNotRecorded) {
  const Program program = read_module(R"(
def forward(self, x):
    parts = [x, torch.neg(x)]
    parts.append(torch.exp(x))
    first = parts.pop(0)
    parts.insert(1, first)
    named = {"a": parts[0], "b": parts[-1]}
    named["c"] = parts[1]
    del named["b"]
    total = torch.relu(named["c"])
    for key in named:
        total = total + named[key]
    return total, len(parts), parts[1:]
)",
                                      {.inputs = {floats("x", {2})}});
  // parts is neg, x, exp; named is a: neg, c: x.
  ASSERT_EQ(operations_text(program), "aten::neg aten::exp aten::relu aten::add.Tensor aten::add.Tensor");
  const Node& relu = program.body.nodes[2];
  EXPECT_EQ(relu.find("self")->as<ValueRef>()->id, program.inputs[0].value);
  EXPECT_EQ(program.body.nodes[3].find("other")->as<ValueRef>()->id, program.body.nodes[0].outputs[0]);
  ASSERT_EQ(program.outputs.size(), 4u);  // the sum, the number, and two list elements
  EXPECT_EQ(program.outputs[1].value.as<std::int64_t>() == nullptr ? -1 : *program.outputs[1].value.as<std::int64_t>(),
            3);
  EXPECT_EQ(program.outputs[2].value.as<ValueRef>()->id, program.inputs[0].value);
  EXPECT_EQ(program.outputs[3].value.as<ValueRef>()->id, program.body.nodes[1].outputs[0]);
}

TEST(Script, TwoNamesMayShareAList) {
  const Program program = read_module(R"(
def forward(self, x):
    first = [x]
    second = first
    second.append(torch.neg(x))
    third = list(first)
    third.append(torch.exp(x))
    return first[-1]
)",
                                      {.inputs = {floats("x", {2})}});
  EXPECT_EQ(program.outputs[0].value.as<ValueRef>()->id, program.body.nodes[0].outputs[0]);
  EXPECT_EQ(program.body.nodes[0].target, "aten::neg");
}

TEST(Script, AListOfDynamicLengthIsASequence) {
  const Program program = read_module(R"(
def forward(self, x):
    parts = [x]
    if bool(x.sum() > 0):
        parts.append(torch.neg(x))
    return torch.cat(parts)
)",
                                      {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}});
  EXPECT_EQ(operations_text(program),
            "aten::sum aten::gt.Scalar aten::Bool.Tensor "
            "prim::If[aten::neg prim::ListConstruct | prim::ListConstruct] aten::cat");
}

TEST(Script, AListOfEqualLengthInBothBranchesIsNotASequence) {
  const Program program = read_module(R"(
def forward(self, x):
    first = [x]
    second = first
    if bool(x.sum() > 0):
        first.append(torch.neg(x))
    else:
        second.append(torch.exp(x))
    return second[-1]
)",
                                      {.inputs = {floats("x", {4, 6})}});
  EXPECT_EQ(operations_text(program), "aten::sum aten::gt.Scalar aten::Bool.Tensor prim::If[aten::neg | aten::exp]");
}

TEST(Script, ANestedListIsShared) {
  const Program program = read_module(R"(
def forward(self, x):
    inner = [x]
    outer = [inner]
    if bool(x.sum() > 0):
        inner.append(torch.neg(x))
    return outer[0][-1]
)",
                                      {.inputs = {floats("x", {4, 6})}});
  EXPECT_EQ(operations_text(program),
            "aten::sum aten::gt.Scalar aten::Bool.Tensor prim::If[aten::neg prim::ListConstruct | prim::ListConstruct] "
            "aten::__getitem__.t");
}

TEST(Script, AListFilledInALoopOverASizeIsASequence) {
  const Program program = read_module(R"(
def forward(self, x):
    rows: List[Tensor] = []
    for i in range(x.size(0)):
        rows.append(torch.neg(x[i]))
    return torch.stack(rows)
)",
                                      {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}});
  EXPECT_EQ(operations_text(program),
            "aten::size.int prim::ListConstruct prim::Loop[aten::select.int aten::neg aten::append.t] aten::stack");
}

TEST(Script, OutputsAreFlattenedAndNamedAfterDictKeys) {
  const Program program = read_module(R"(
def forward(self, x):
    return [x, torch.neg(x)], {"a": (x, torch.exp(x))}, [1, 2]
)",
                                      {.inputs = {floats("x", {2})}});
  std::vector<std::string> names;
  for (const ProgramOutput& output : program.outputs) names.push_back(output.name);
  ASSERT_GE(names.size(), 4u);
  EXPECT_EQ(names[2], "a.0");
  EXPECT_EQ(names[3], "a.1");
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(output_text(program, i), "float32[2]");
}

TEST(Script, QuantizedTensorsBecomeQuantizeDequantizePairs) {
  const auto operations = [](const std::string& scale) {
    return operations_text(read_module("def forward(self, x):\n    q = torch.quantize_per_tensor(x, " + scale +
                                           ", 3, 13)\n    return torch.dequantize(torch.relu(q))\n",
                                       {.inputs = {floats("x", {2, 3})}}));
  };
  const std::string quantize = "quantized_decomposed::quantize_per_tensor",
                    dequantize = "quantized_decomposed::dequantize_per_tensor";
  EXPECT_EQ(operations("0.5"), quantize + " " + dequantize + " aten::relu " + quantize + " " + dequantize);
  // A data-dependent scale is a tensor.
  const std::string computed = operations("float(x.sum())");
  EXPECT_NE(computed.find(quantize + ".tensor"), std::string::npos) << computed;
}

TEST(Script, MethodsAreInlinedWithTheirDefaults) {
  const Program program = read_module(R"(
def scaled(self, x, by: float = 2.0):
    return x * by

def forward(self, x):
    return self.scaled(self.scaled(x), 3.0)
)",
                                      {.inputs = {floats("x", {2})}});
  ASSERT_EQ(operations_text(program), "aten::mul.Scalar aten::mul.Scalar");
  EXPECT_EQ(*program.body.nodes[0].find("other")->as<double>(), 2.0);
  EXPECT_EQ(*program.body.nodes[1].find("other")->as<double>(), 3.0);
}

TEST(Script, OperationsHaveStacksWithTheInnermostFrameFirst) {
  const Program program = read_module(
      "def inner(self, x):\n    return torch.neg(x)\n\n"
      "def forward(self, x):\n    return self.inner(x)\n",
      {.inputs = {floats("x", {2})}});
  ASSERT_EQ(program.body.nodes.size(), 1u);
  const Stack& stack = program.stacks[program.body.nodes[0].origin.stack];
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_NE(stack[0].function.find("inner"), std::string::npos);
  EXPECT_NE(stack[1].function.find("forward"), std::string::npos);
}

}  // namespace
}  // namespace whence
