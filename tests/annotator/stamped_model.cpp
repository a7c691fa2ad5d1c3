#include "tests/annotator/stamped_model.h"

#include "annotator/exporter/names.h"
#include "annotator/origin/keys/program.h"
#include "annotator/write/onnx_writer.h"
#include "tests/annotator/graph_builder.h"

namespace whence {

namespace keys = origin::keys;

namespace {

ModuleId module(Program& program, std::string path, std::string type, ModuleId parent) {
  Module module;
  module.path = std::move(path);
  module.type = std::move(type);
  module.parent = parent;
  return program.modules.add(std::move(module));
}

ValueId value(Program& program, std::string name, ValueSource source, std::int32_t index) {
  Value value;
  value.name = std::move(name);
  value.source = source;
  value.index = index;
  return program.values.add(std::move(value));
}

ValueId operation(Program& program, std::string target, std::string overload, std::vector<NamedArgument> arguments,
                  ScopeId scope, StackId stack = none_id) {
  Node node;
  node.target = std::move(target);
  node.overload = std::move(overload);
  node.arguments = std::move(arguments);
  node.origin.op = static_cast<std::int32_t>(program.body.nodes.size());
  node.origin.scope = scope;
  node.origin.stack = stack;
  node.outputs = {value(program, std::to_string(node.origin.op), ValueSource::node, none_id)};
  program.body.nodes.push_back(std::move(node));
  return program.body.nodes.back().outputs.front();
}

std::shared_ptr<graph::Graph> branch(const std::string& op_type, graph::GraphValueId outer) {
  GraphBuilder body;
  graph::GraphValue captured;
  captured.captured = outer;
  captured.dtype = float32;
  captured.dims = std::vector<Dim>{{2, false, none_id}, {512, false, none_id}};
  body.output(body.node(op_type, {body.graph.add_value(captured)}, {}, float32, {2, 512}, 4), "");
  return std::make_shared<graph::Graph>(std::move(body.graph));
}

}  // namespace

Sidecar stamped_sidecar() {
  Sidecar sidecar;
  Program& program = sidecar.program;
  const ModuleId root = module(program, "", "my.Model", none_id);
  const ModuleId encoder = module(program, "encoder", "my.Encoder", root);
  const ModuleId layer = module(program, "encoder.layer.0", "my.Layer", encoder);
  const ModuleId query = module(program, "encoder.layer.0.query", "torch.nn.modules.linear.Linear", layer);
  const ModuleId head = module(program, "head", "my.Head", root);
  program.scopes.push_back({});
  const ScopeId in_encoder = program.scopes.add({root_scope, encoder, 0});
  const ScopeId in_layer = program.scopes.add({in_encoder, layer, 0});
  const ScopeId in_query = program.scopes.add({in_layer, query, 0});
  const ScopeId in_head = program.scopes.add({root_scope, head, 0});
  const ScopeId in_head_again = program.scopes.add({root_scope, head, 1});
  const StackId lines =
      program.stacks.add({{"/home/me/layers.py", 8, "forward"}, {"/home/me/model.py", 30, "forward"}});
  const StackId no_lines = program.stacks.add({});
  Parameter weight;
  weight.name = "encoder.layer.0.query.weight";
  program.parameters.push_back(weight);
  const ValueId x = value(program, "x", ValueSource::input, 0);
  const ValueId w = value(program, "w", ValueSource::parameter, 0);
  program.inputs = {{"x", x}};
  const auto ref = [](ValueId id) { return Argument{ValueRef{id}}; };
  const ValueId y = operation(program, "aten::linear", "", {{"input", ref(x)}, {"weight", ref(w)}, {"bias", {None{}}}},
                              in_query, lines);
  const ValueId z = operation(program, "aten::add", "Tensor",
                              {{"self", ref(y)}, {"other", ref(y)}, {"alpha", {std::int64_t{1}}}}, in_layer, no_lines);
  const ValueId a = operation(program, "aten::relu", "", {{"self", ref(z)}}, in_head);
  const ValueId b = operation(program, "aten::relu", "", {{"self", ref(a)}}, in_head_again);
  const ValueId c = operation(program, "aten::max", "", {{"self", ref(b)}}, root_scope);
  program.outputs = {{"", ref(c)}};
  return sidecar;
}

void write_stamped_file(const std::string& path, const StampedFile& options) {
  GraphBuilder g;
  const auto x = g.input("x", float32, {2, 4});
  const auto flag = g.input("flag", DType::boolean, {});
  const auto weight = g.parameter("encoder.layer.0.query.weight", {4, 512}, std::vector<float>(2048, 1));
  auto value = g.node("MatMul", {x, weight}, {}, float32, {2, 512}, 0);
  value = g.node("Add", {value, g.number(1)}, {}, float32, {2, 512}, 0);
  const auto shape = g.node("Shape", {value}, {}, DType::int64, {2});
  g.graph.nodes.back().origin = {origin::OriginKind::shared, {0, 1}};
  value = g.node("Reshape", {value, shape}, {}, float32, {2, 512});
  g.graph.nodes.back().origin = {origin::OriginKind::fused, {1, 2}};
  value = g.node("Relu", {value}, {}, float32, {2, 512}, 3);
  g.output(g.node("If", {flag}, {{"then_branch", branch("Neg", value)}, {"else_branch", branch("Abs", value)}}, float32,
                  {2, 512}, 4));
  exporter::name_nodes(g.graph, stamped_sidecar().program);
  write::WriteOptions write;
  write.metadata = {{"author", "me"}, {std::string(keys::program), options.program}};
  write.external.always = options.external_data;
  write::write_onnx(g.graph, path, write);
}

}  // namespace whence
