// Sizes derived from dynamic axes through the operations and integers of a script.
#include <gtest/gtest.h>

#include "schema/size_text.h"
#include "tests/recorder/scripted_module.h"

namespace whence {
namespace {

// Returns the type of the only output of a script on x: float32[n,6].
std::string result_of(const std::string& body) {
  const Program program =
      read_module("def forward(self, x):\n" + body, {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}});
  return output_text(program);
}

TEST(ScriptSizes, FollowThroughOperations) {
  EXPECT_EQ(result_of("    return torch.relu(x)\n"), "float32[n,6]");
  EXPECT_EQ(result_of("    return x.t().reshape(-1, 2)\n"), "float32[3*n,2]");
  EXPECT_EQ(result_of("    return torch.cat([x, x[1:]])\n"), "float32[2*n - 1,6]");
  EXPECT_EQ(result_of("    return x.unfold(1, 3, 2)\n"), "float32[n,2,3]");
  EXPECT_EQ(result_of("    return x[:, 1:5:2]\n"), "float32[n,2]");
  EXPECT_EQ(result_of("    return x.sum(1, keepdim=True) + torch.zeros(6)\n"), "float32[n,6]");
}

TEST(ScriptSizes, FollowThroughIntegers) {
  EXPECT_EQ(result_of("    return torch.zeros(2 * x.size(0) + 1)\n"), "float32[2*n + 1]");
  EXPECT_EQ(result_of("    k = x.shape[0] - 1\n    return torch.ones(k * k, len(x.shape))\n"),
            "float32[n**2 - 2*n + 1,2]");
  EXPECT_EQ(result_of("    return torch.zeros(x.numel() // x.size(0))\n"), "float32[6]");
  EXPECT_EQ(result_of("    k = 0\n    for i in range(3):\n        k += x.size(0)\n    return torch.zeros(k)\n"),
            "float32[3*n]");
}

TEST(ScriptSizes, FollowThroughSplitsViewsAndLoops) {
  EXPECT_EQ(result_of("    y, z = x.split(4, 1)\n    return z\n"), "float32[n,2]");
  EXPECT_EQ(result_of("    return x.split(2, 0)[0]\n"), "float32[Min(2, n),6]");
  EXPECT_EQ(result_of("    return x.view(2, -1)\n"), "float32[2,3*n]");
  EXPECT_EQ(result_of("    return torch.rot90(x)\n"), "float32[6,n]");
  EXPECT_EQ(
      result_of(
          "    h = torch.zeros(6)\n    for i in range(x.size(0)):\n        h = torch.tanh(h + x[i])\n    return h\n"),
      "float32[6]");
}

TEST(ScriptSizes, DataDependentSizesHaveNoName) {
  EXPECT_EQ(result_of("    return x[x[:, 0] > 0]\n"), "float32[?,6]");
  EXPECT_EQ(result_of("    return x.nonzero()\n"), "int64[?,2]");
  EXPECT_EQ(result_of("    k = int(x.sum())\n    return torch.zeros(k * k + 1)\n"), "float32[?]");
}

TEST(ScriptSizes, ABranchOnADynamicSizeIsRecorded) {
  const Program program = read_module(R"(
def forward(self, x):
    if x.size(0) > 3:
        return torch.neg(x)
    return torch.exp(x)
)",
                                      {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}});
  EXPECT_EQ(operations_text(program), "aten::size.int aten::gt.int prim::If[aten::neg | aten::exp]");
  EXPECT_EQ(output_text(program), "float32[n,6]");
}

// Reads a script on x: float32[n,6] that returns `result`; returns its notes.
Diagnostics notes_on(const std::string& result, Program& program) {
  Diagnostics notes;
  program = read_module("def forward(self, x):\n    return " + result + "\n",
                        {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}}, notes);
  return notes;
}

TEST(ScriptSizes, ASqueezeOfADynamicAxisIsDecidedAndReported) {
  const auto name_of = [](SymbolId) { return std::string("n"); };
  Program program;
  Diagnostics notes = notes_on("torch.relu(x.squeeze(0)).sum(-1)", program);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].code, Code::baked_size);
  EXPECT_EQ(output_text(program), "float32[n]");
  ASSERT_EQ(program.constraints.size(), 1u);  // at 1, PyTorch's result has a different rank
  EXPECT_EQ(text_of(program.constraints[0], name_of), "n != 1");
  notes = notes_on("torch.relu(x[:1].squeeze(0))", program);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(output_text(program), "float32[6]");
  notes = notes_on("torch.relu(x.squeeze(1))", program);  // no effect: the size is 6
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(output_text(program), "float32[n,6]");
}

// Returns the types of the tensors whose layouts do not follow from the rules of operators.
std::vector<std::string> stated_places(const std::string& body) {
  const Program program =
      read_module("def forward(self, x):\n" + body, {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}});
  EXPECT_TRUE(program.placed);
  std::vector<std::string> stated;
  for (const StatedPlace& each : program.places) stated.push_back(type_text(program, each.value));
  return stated;
}

TEST(ScriptPlaces, FollowFromTheRulesOfViews) {
  EXPECT_TRUE(stated_places("    y = torch.relu(x)\n    return y.t()[1:, ::2].unsqueeze(0), y.view(-1)\n").empty());
  EXPECT_TRUE(stated_places("    return x.t().contiguous(), x.expand(2, -1, -1), x.split(2, 1)\n").empty());
}

TEST(ScriptSizes, ASizeFixedByABufferIsRefused) {
  Diagnostics diagnostics;
  read_module("def forward(self, x):\n    return x + self.table\n",
              {.inputs = {floats("x", {4, 6})}, .dynamic = {axis("x", 0, "n")}, .buffers = {{"table", {4, 6}}}},
              diagnostics);
  ASSERT_FALSE(diagnostics.empty());
  EXPECT_EQ(exit_code(diagnostics), ExitCode::unsupported) << to_text(diagnostics.front());
}

}  // namespace
}  // namespace whence
