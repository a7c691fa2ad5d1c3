// Builds small programs for tests, in the order of execution:
//   ProgramBuilder p;
//   ValueId x = p.input("x", f32({2, 3}));
//   p.output(p.op("aten::relu", {{"self", v(x)}}, f32({2, 3})));
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "annotator/program/tensor_values.h"
#include "schema/module_rows.h"
#include "schema/program.h"

namespace whence {

inline Argument v(ValueId id) { return Argument{ValueRef{id}}; }
inline Argument n(std::int64_t value) { return Argument{value}; }
inline Argument list(std::vector<Argument> elements) { return Argument{ArgumentList(std::move(elements))}; }

inline Dim fixed(std::int64_t size) { return {size, false, none_id}; }
inline Dim named(std::int64_t size, SymbolId symbol) { return {size, true, symbol}; }

inline Type tensor(DType dtype, std::vector<Dim> dims) { return {ValueKind::tensor, dtype, std::move(dims)}; }
inline Type tensor(DType dtype, std::initializer_list<int> sizes) {
  std::vector<Dim> dims;
  for (const int size : sizes) dims.push_back(fixed(size));
  return tensor(dtype, std::move(dims));
}
inline Type f32(std::initializer_list<int> sizes) { return tensor(DType::float32, sizes); }
inline Type f32(std::vector<Dim> dims) { return tensor(DType::float32, std::move(dims)); }
inline Type integer() { return {ValueKind::integer, DType::int64, std::nullopt}; }
inline Type boolean() { return {ValueKind::boolean, DType::boolean, std::nullopt}; }

class ProgramBuilder {
 public:
  // Adds the root module and its child "layer". The call of "layer" is scope 1.
  ProgramBuilder() {
    program.modules.push_back({});
    const ModuleId layer = add_module(program, "layer", "", root_module);
    program.modules[root_module].children = {layer};
    program.scopes.push_back({});
    layer_scope_ = program.scopes.add({root_scope, layer, 0});
    stack_ = program.stacks.add({{"model.py", 7, "forward"}});
    program.ran = true;
  }

  SymbolId symbol(const std::string& name, std::int64_t example) {
    return program.symbols.add({name, example, {}, {}});
  }

  ValueId input(const std::string& name, Type type) {
    const auto index = static_cast<std::int32_t>(program.inputs.size());
    const ValueId id = value(name, std::move(type), ValueSource::input, index);
    program.inputs.push_back({name, id});
    return id;
  }

  ValueId parameter(const std::string& name, TensorData data) {
    Type type = tensor(data.dtype, std::vector<Dim>());
    for (const std::int64_t size : data.shape) type.dims->push_back(fixed(size));
    Parameter new_parameter;
    new_parameter.name = name;
    new_parameter.data = std::move(data);
    const ParameterId id = program.parameters.add(std::move(new_parameter));
    return value(name, std::move(type), ValueSource::parameter, id.number());
  }

  // Adds an operation of module "layer" with one result.
  ValueId op(const std::string& key, std::vector<NamedArgument> arguments, Type type) {
    return ops(key, std::move(arguments), {std::move(type)}).front();
  }

  std::vector<ValueId> ops(const std::string& key, std::vector<NamedArgument> arguments, std::vector<Type> types) {
    Node node;
    const std::size_t dot = key.find('.');
    node.target = key.substr(0, dot);
    if (dot != std::string::npos) node.overload = key.substr(dot + 1);
    node.arguments = std::move(arguments);
    for (Type& type : types) node.outputs.push_back(value("v", std::move(type), ValueSource::node, none_id));
    node.origin = {next_op_++, layer_scope_, stack_, "node"};
    const std::vector<ValueId> outputs = node.outputs;
    nodes->push_back(std::move(node));
    return outputs;
  }

  // Marks a value as known.
  void known(ValueId id, TensorData content) {
    program.values[id].known = program.constants.add({.data = std::move(content), .name = "", .ops = {}});
  }

  ValueId value(const std::string& name, Type type, ValueSource source, std::int32_t index) {
    Value new_value;
    new_value.name = name + "_" + std::to_string(program.values.size());
    new_value.type = std::move(type);
    new_value.source = source;
    new_value.index = index;
    return program.values.add(std::move(new_value));
  }

  void output(ValueId id, const std::string& name = "") { program.outputs.push_back({name, v(id)}); }

  // Adds a node with nested blocks. fill() adds operations to a block.
  Node& nest(const std::string& target, std::vector<NamedArgument> arguments, std::vector<Type> types,
             std::size_t blocks) {
    ops(target, std::move(arguments), std::move(types));
    Node& node = nodes->back();
    node.blocks.resize(blocks);
    return node;
  }
  template <class Fill>
  void fill(Block& block, Fill&& fill) {
    std::vector<Node>* enclosing = std::exchange(nodes, &block.nodes);
    fill();
    nodes = enclosing;
  }

  Program program;

 private:
  std::vector<Node>* nodes = &program.body.nodes;
  std::int32_t next_op_ = 0;
  ScopeId layer_scope_;
  StackId stack_;
};

}  // namespace whence
