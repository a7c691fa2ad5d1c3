// The state of a scripted module, and the inputs that are generated for it.
#include <gtest/gtest.h>

#include "tests/recorder/scripted_module.h"

namespace whence {
namespace {

bool has_note(const Diagnostics& notes, Code code) {
  return std::ranges::any_of(notes, [&](const Diagnostic& note) { return note.code == code; });
}

TEST(ScriptState, BuffersAreReadByName) {
  const Program program = read_module("def forward(self, x):\n    return x + self.scale * self.scale\n",
                                      {.inputs = {floats("x", {3})}, .buffers = {{"scale", {3}}}});
  ASSERT_EQ(operations_text(program), "aten::mul.Tensor aten::add.Tensor");
  ASSERT_EQ(program.parameters.size(), 1u);
  EXPECT_EQ(program.parameters[ParameterId(0)].name, "scale");
  EXPECT_EQ(program.parameters[ParameterId(0)].kind, ParameterKind::buffer);
  const ValueId read = program.body.nodes[0].find("self")->as<ValueRef>()->id;
  EXPECT_EQ(program.values[read].source, ValueSource::parameter);
}

TEST(ScriptState, AWriteToABufferIsRecorded) {
  const Program program = read_module("def forward(self, x):\n    self.count.add_(1)\n    return x + self.count\n",
                                      {.inputs = {floats("x", {3})}, .buffers = {{"count", {3}}}});
  EXPECT_EQ(operations_text(program), "aten::add_.Scalar aten::add.Tensor");
}

TEST(ScriptState, InputsHaveTheRequestedDtype) {
  const Program program = read_module("def forward(self, x, mask):\n    return torch.where(mask, x, -x)\n",
                                      {.inputs = {integers("x", {3}), {"mask", DType::boolean, {3}, {}, {}}}});
  EXPECT_EQ(type_text(program, program.inputs[0].value), "int64[3]");
  EXPECT_EQ(type_text(program, program.inputs[1].value), "bool[3]");
  EXPECT_EQ(output_text(program), "int64[3]");
}

TEST(ScriptState, MismatchedInputsAreRefused) {
  Diagnostics diagnostics;
  read_module("def forward(self, x):\n    return x\n", {.inputs = {floats("y", {3})}}, diagnostics);
  EXPECT_TRUE(has_note(diagnostics, Code::input_mismatch));
  diagnostics.clear();
  read_module("def forward(self, x):\n    return x @ x\n", {.inputs = {floats("x", {2, 3})}}, diagnostics);
  EXPECT_TRUE(has_note(diagnostics, Code::run_failed));
}

}  // namespace
}  // namespace whence
