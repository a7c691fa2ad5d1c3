#include "tests/recorder/scripted_module.h"

#include <gtest/gtest.h>
#include <torch/script.h>

#include "tests/schema/temporary_folder.h"

extern "C" const whence::RecorderApi* whence_recorder();

namespace whence {
namespace {

std::string block_text(const Block& block) {
  std::string text;
  for (const Node& node : block.nodes) {
    text += (text.empty() ? "" : " ") + qualified(node);
    std::string blocks;
    for (const Block& inner : node.blocks) blocks += (blocks.empty() ? "" : " | ") + block_text(inner);
    if (!node.blocks.empty()) text += "[" + blocks + "]";
  }
  return text;
}

}  // namespace

Program read_module(const std::string& source, const ScriptedModule& description, Diagnostics& diagnostics) {
  const TemporaryFolder folder;
  ReadOptions options;
  options.path = folder / "scripted.pt";
  options.inputs = description.inputs;
  options.dynamic = description.dynamic;
  torch::jit::Module module("Net");
  for (const auto& [name, sizes] : description.buffers) {
    const std::int64_t count = c10::multiply_integers(sizes);
    module.register_buffer(name, torch::arange(count, torch::kFloat32).reshape(sizes));
  }
  module.define(source);
  module.save(options.path);
  Program program;
  whence_recorder()->read_torchscript(options, program, diagnostics);
  return program;
}

Program read_module(const std::string& source, const ScriptedModule& module) {
  Diagnostics diagnostics;
  Program program = read_module(source, module, diagnostics);
  for (const Diagnostic& each : diagnostics) EXPECT_NE(each.severity, Severity::error) << to_text(each);
  return program;
}

std::string operations_text(const Program& program) { return block_text(program.body); }

std::string type_text(const Program& program, ValueId id) {
  const Type& type = program.values[id].type;
  std::string text(name_of(type.dtype));
  if (!type.dims) return text;
  text += "[";
  for (const Dim& dim : *type.dims) {
    if (text.back() != '[') text += ",";
    text += !dim.dynamic ? std::to_string(dim.size) : dim.symbol == none_id ? "?" : program.symbols[dim.symbol].name;
  }
  return text + "]";
}

std::string output_text(const Program& program, std::size_t number) {
  const auto* value = program.outputs.at(number).value.as<ValueRef>();
  return value == nullptr ? "a constant" : type_text(program, value->id);
}

}  // namespace whence
