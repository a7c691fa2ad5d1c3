// Compiles small TorchScript modules for tests, saves them, and reads them like the command reads archives. This header
// does not include LibTorch, so that a test file compiles in a second.
//   const Program program =
//       read_module("def forward(self, x):\n  return torch.relu(x)\n", {.inputs = {floats("x", {2, 3})}});
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schema/recorder_api.h"

namespace whence {

struct ScriptedModule {
  std::vector<InputSpec> inputs = {};
  std::vector<DynamicAxis> dynamic = {};
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> buffers = {};  // float32 values 0, 1, 2, ...
};

inline InputSpec floats(const std::string& name, std::vector<std::int64_t> dims) {
  return {name, DType::float32, std::move(dims), {}, {}};
}
inline InputSpec integers(const std::string& name, std::vector<std::int64_t> dims) {
  return {name, DType::int64, std::move(dims), 0, 8};
}
inline DynamicAxis axis(const std::string& input, int at, const std::string& symbol) {
  return {input, at, symbol, 1, 0, {}};
}

// Compiles and reads a module with the methods in `source`; adds errors to `diagnostics`.
Program read_module(const std::string& source, const ScriptedModule& module, Diagnostics& diagnostics);
// Fails the test on errors.
Program read_module(const std::string& source, const ScriptedModule& module);

// Returns the targets of the operations in order, with blocks in brackets: "aten::relu prim::If[aten::neg |
// aten::exp]".
std::string operations_text(const Program& program);
// Returns the type of a value as text: "float32[batch,3]"; a size without a name is "?".
std::string type_text(const Program& program, ValueId id);
// Returns the type of output `number` as text.
std::string output_text(const Program& program, std::size_t number = 0);

}  // namespace whence
