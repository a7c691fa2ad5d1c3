#include "tests/schema/sample_program.h"

#include <limits>

#include "schema/place.h"

namespace whence {
namespace {

template <class T>
TensorData scalar(DType dtype, T value) {
  return {.dtype = dtype, .shape = {}, .bytes = Bytes::copy_of(&value, sizeof value)};
}

Parameter weight() {
  Parameter weight;
  weight.name = "block.linear.weight";
  weight.aliases = {"again.linear.weight"};
  weight.trainable = true;
  weight.data.dtype = DType::float32;
  weight.data.shape = {4, 3};
  weight.data.bytes = Bytes::left_out(48).stored_in("/somewhere/model.pt", 512);
  weight.member = "model/data/0";
  weight.digests.content = "0123456789abcdef0123456789abcdef";
  weight.digests.transposed = "fedcba9876543210fedcba9876543210";
  weight.sketch = {127, 0, -127, 5};
  return weight;
}

Parameter running_mean() {
  Parameter buffer;
  buffer.name = "mean";
  buffer.kind = ParameterKind::buffer;
  buffer.persistent = false;
  buffer.data.dtype = DType::float64;
  buffer.data.shape = {0};
  return buffer;
}

Module module(std::string path, std::string type, ModuleId parent, const std::vector<int>& children, int level) {
  Module module;
  module.path = std::move(path);
  module.type = std::move(type);
  module.parent = parent;
  for (const int child : children) module.children.push_back(ModuleId(child));
  module.level = level;
  module.parameters_total = module.parameters_trainable = 12;
  return module;
}

void add_modules(Program& program) {
  program.modules.push_back(module("", "my.Model", none_id, {1}, 0));
  program.modules.push_back(module("block", "my.Block", root_module, {2}, 1));
  program.modules.push_back(module("block.linear", "torch.nn.modules.linear.Linear", ModuleId(1), {}, 2));
  const ModuleId block(1), linear(2);
  program.modules[root_module].own_parameters = {ParameterId(1)};
  program.modules[block].aliases = {"again"};
  program.modules[linear].standard = true;
  program.modules[linear].own_parameters = {ParameterId(0)};
  program.scopes.push_back({});
  for (const int call : {0, 1}) {
    const ScopeId outer = program.scopes.add({root_scope, block, call});
    program.scopes.push_back({outer, linear, call});
  }
  program.stacks.items() = {{{"model.py", 12, "forward", "y = self.linear(x)"}, {"model.py", 30, "forward"}},
                            {{"model.py", 31, ""}}};
}

Value value(std::string name, DType dtype, std::optional<std::vector<Dim>> dims, ValueSource source = ValueSource::node,
            std::int32_t index = none_id) {
  return {std::move(name), {ValueKind::tensor, dtype, std::move(dims)}, source, index, none_id};
}

void add_values(Program& program) {
  const SymbolId first(0);
  const Size batch_size = Size::symbol(first);
  const Dim batch{2, true, first};
  const Dim free{5, true, none_id};
  program.symbols.items() = {{"batch", 2, 1, std::nullopt, SymbolKind::axis, Size::unknown()},
                             {"2*batch + 1", 5, {}, {}, SymbolKind::derived, batch_size * 2 + 1}};
  program.constraints = {{{{batch_size, Relation::at_most, 8}, {batch_size, Relation::equal, 16}}}};
  program.values.push_back(value("x", DType::float32, {{batch, Dim{3}}}, ValueSource::input, 0));
  program.values.push_back(value("w", DType::float32, {{Dim{4}, Dim{3}}}, ValueSource::parameter, 0));
  program.values.push_back(value("y", DType::float32, {{batch, Dim{4}}}));
  program.values.push_back(value("z", DType::undefined, std::nullopt));
  program.values.push_back(value("c", DType::int64, std::vector<Dim>{}, ValueSource::constant, 0));
  program.values.push_back(value("i", DType::int64, {{free}}, ValueSource::block_input));
  program.values.push_back(value("out", DType::float32, {{batch, Dim{}}}));
  program.values.push_back(value("z", DType::float32, {{batch, Dim{}}}));
  program.placed = true;
  const Size length = local_symbol({ValueId(5), 0});
  program.places = {{ValueId(2), MemoryPlace{ValueId(2), 0, {batch_size, 4}, {1, batch_size}}},
                    {ValueId(3), std::nullopt},
                    {ValueId(5), MemoryPlace{ValueId(0), Size::unknown(), {length}, {length * 2}}}};
  program.values[ValueId(4)].type.kind = ValueKind::integer;
  program.values[ValueId(4)].known = ConstantId(0);
}

void add_constants(Program& program) {
  const std::string large(5000, '\1');
  program.constants.push_back({.data = scalar<std::int64_t>(DType::int64, -7), .name = "c", .ops = {}});
  program.constants.push_back({.data = {DType::uint8, {50, 100}, Bytes::owned(large)}, .name = "mask", .ops = {0, 2}});
}

Node node(std::string target, std::string overload, std::vector<NamedArgument> arguments,
          const std::vector<int>& outputs, std::int32_t op, int scope, StackId stack) {
  Node node;
  node.target = std::move(target);
  node.overload = std::move(overload);
  node.arguments = std::move(arguments);
  for (const int output : outputs) node.outputs.push_back(ValueId(output));
  node.origin = {op, ScopeId(scope), stack, "%" + std::to_string(op)};
  return node;
}

// Adds linear(x, w), an If around an operator with every kind of argument, and unbind.
void add_operations(Program& program) {
  const auto ref = [](int id) { return Argument{ValueRef{ValueId(id)}}; };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Node inner = node("aten::everything", "overload",
                    {{"none", {None{}}},
                     {"int", {std::numeric_limits<std::int64_t>::min()}},
                     {"float", {1.0}},
                     {"tiny", {4.9406564584124654e-324}},
                     {"negative_zero", {-0.0}},
                     {"infinite", {-infinity}},
                     {"flag", {true}},
                     {"text", {std::string("a\n\"\u00e9\"")}},
                     {"dtype", {DType::bfloat16}},
                     {"layout", {Keyword{"strided"}}},
                     {"complex", {ComplexNumber{0.5, infinity}}},
                     {"empty", {ArgumentList{}}},
                     {"nested", {ArgumentList{{ArgumentList{ref(2), {None{}}}}, {std::int64_t{1}}, {2.5}}}}},
                    {3}, 2, 4, StackId(1));
  Node branch = node("prim::If", "", {{"condition", ref(4)}}, {6}, 1, 1, none_id);
  Block then_block{.inputs = {ValueId(5)}, .nodes = {}, .outputs = {ref(3)}};
  then_block.nodes.push_back(std::move(inner));
  branch.blocks.push_back(std::move(then_block));
  branch.blocks.push_back({.inputs = {}, .nodes = {}, .outputs = {ref(2)}});
  program.body.nodes.push_back(
      node("aten::linear", "", {{"input", ref(0)}, {"weight", ref(1)}, {"bias", {None{}}}}, {2}, 0, 2, StackId(0)));
  program.body.nodes.push_back(std::move(branch));
  program.body.nodes.push_back(node("aten::unbind", "int", {{"self", ref(6)}}, {3, 7}, 3, 0, StackId(0)));
  program.body.nodes.back().list_output = true;
  program.body.nodes.front().origin.text =
      "%linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default]()";
}

}  // namespace

Sidecar sample_sidecar() {
  Sidecar sidecar;
  Program& program = sidecar.program;
  program.source = {"torchscript", "model.pt", 1234, "00112233445566778899aabbccddeeff"};
  program.producer = "whence 0.1.0, PyTorch 2.13.0";
  program.ran = true;
  program.parameters.items() = {weight(), running_mean()};
  add_modules(program);
  add_values(program);
  add_constants(program);
  add_operations(program);
  program.inputs = {{"x", ValueId(0)}};
  program.outputs = {{"logits", {ValueRef{ValueId(6)}}}, {"", {std::int64_t{3}}}};
  program.signature.inputs = {{"PARAMETER", "p_w", "block.linear.weight", std::nullopt},
                              {"BUFFER", "b_mean", "mean", false},
                              {"USER_INPUT", "x", std::nullopt, std::nullopt}};
  program.signature.outputs = {{"USER_OUTPUT", "out", std::nullopt, std::nullopt}};
  sidecar.bindings = {{"model.onnx", "ffeeddccbbaa99887766554433221100", 18, 2}};
  return sidecar;
}

}  // namespace whence
