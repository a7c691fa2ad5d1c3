// y = _transformer_encoder_layer_fwd(x, ...)   ->   linear, attention, linear, add, layer_norm, ...
// Decomposes operators that ATen runs as one kernel and that ONNX expresses in several steps. The steps carry the
// origin of the operator and use the same converters as if the model had called them. When a program is recorded, the
// steps become operations of their own, in the submodules that the kernel bypassed.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "annotator/lower/compose.h"
#include "annotator/lower/pipeline.h"
#include "schema/program_walk.h"
#include "schema/result.h"

namespace whence::lower {

const Argument& Compose::argument(std::string_view name) const {
  static const Argument none;
  const Argument* given = composite_.find(name);
  return given == nullptr ? none : *given;
}

std::int64_t Compose::integer(std::string_view name) const {
  if (const auto known = known_integer(program_, argument(name))) return *known;
  refuse("'" + std::string(name) + "' is not known at export", "pass it as a constant");
}

double Compose::number(std::string_view name) const {
  if (const auto* number = argument(name).as<double>()) return *number;
  return static_cast<double>(integer(name));
}

const std::vector<Dim>& Compose::dims(const Argument& value, std::size_t least) const {
  const auto* reference = value.as<ValueRef>();
  if (reference == nullptr || !program_.values[reference->id].type.dims) {
    refuse("the shape of an argument is unknown", "pass example inputs with --input or --inputs");
  }
  const std::vector<Dim>& dims = *program_.values[reference->id].type.dims;
  if (dims.size() < least) {
    refuse("expected at least " + std::to_string(least) + " axes, got " + std::to_string(dims.size()),
           "save the model again; PyTorch refuses this too");
  }
  return dims;
}

DType Compose::dtype(const Argument& value) const {
  const auto* reference = value.as<ValueRef>();
  return reference == nullptr ? DType::undefined : program_.values[reference->id].type.dtype;
}

Argument Compose::add(std::string_view target, std::vector<NamedArgument> arguments, DType dtype,
                      std::vector<Dim> dims) {
  const std::size_t dot = target.find('.');
  Node node;
  node.target = std::string(target.substr(0, dot));
  if (dot != std::string_view::npos) node.overload = std::string(target.substr(dot + 1));
  node.arguments = std::move(arguments);
  node.origin = composite_.origin;
  node.origin.scope = scope_;
  Value value;
  value.name = node.target.substr(node.target.find("::") + 2) + "." + std::to_string(program_.values.size());
  value.type.dtype = dtype;
  value.type.dims = std::move(dims);
  const ValueId id = program_.values.add(std::move(value));
  node.outputs = {id};
  nodes_.push_back(std::move(node));
  return {ValueRef{id}};
}

Compose::ModuleScope::ModuleScope(Compose& compose, const Argument& weight)
    : compose_(compose), before_(compose.scope_) {
  const Program& program = compose.program_;
  const auto* reference = weight.as<ValueRef>();
  if (reference == nullptr || program.values[reference->id].source != ValueSource::parameter) return;
  const auto parameter = ParameterId(program.values[reference->id].index);
  const std::string& outer = program.module_path(compose.composite_.origin.scope);
  for (const ModuleId id : program.modules.keys()) {
    const Module& module = program.modules[id];
    const bool below = outer.empty() || module.path.starts_with(outer + ".");
    if (below && std::ranges::find(module.own_parameters, parameter) != module.own_parameters.end()) {
      compose.scope_ = compose.scope_inside(id);
      return;
    }
  }
}

// Returns the scope of the call of `module` inside the composite. Modules in between get no scope: like in any
// recording, only called modules have one.
ScopeId Compose::scope_inside(ModuleId module) {
  std::int32_t call = 0;
  for (const ScopeId id : program_.scopes.keys()) {
    if (program_.scopes[id].module != module) continue;
    if (program_.scopes[id].parent == composite_.origin.scope) return id;
    ++call;
  }
  return program_.scopes.add({composite_.origin.scope, module, call});
}

void Compose::refuse(const std::string& why, const std::string& remedy) const {
  throw Error(Code::converter_refused, qualified(composite_) + ": " + why, remedy,
              program::place_of(program_, composite_, "lower"));
}

namespace {

const std::unordered_map<std::string, Composition>& compositions() {
  static const std::unordered_map<std::string, Composition> table{
      {"aten::_native_multi_head_attention", native_multi_head_attention},
      {"aten::_transformer_encoder_layer_fwd", transformer_encoder_layer_fwd},
  };
  return table;
}

class Decomposer {
 public:
  explicit Decomposer(Lowering& lowering)
      : program_(lowering.program), failures_(lowering.failures), untouched_(lowering.untouched) {}

  void run() {
    used_ = program::values_read(program_);
    program::expand_nodes(program_, replaced_, [&](const Node& node, std::vector<Node>& to) {
      const auto composition = compositions().find(qualified(node));
      return composition != compositions().end() && program::named_in(untouched_, qualified(node)) == nullptr &&
             compose(node, composition->second, to);
    });
  }

 private:
  bool compose(const Node& node, Composition composition, std::vector<Node>& to) {
    std::vector<bool> used;
    for (const ValueId output : node.outputs) used.push_back(used_.contains(output));
    Compose steps(program_, node);
    try {
      const std::vector<Argument> results = composition(steps, used);
      for (Node& step : steps.take()) to.push_back(std::move(step));
      for (std::size_t i = 0; i < results.size() && i < node.outputs.size(); ++i) {
        if (!results[i].is_none()) replaced_.emplace(node.outputs[i], results[i]);
      }
      return true;
    } catch (const Error& error) {
      add_failures(failures_, node, error);
      return false;
    }
  }

  Program& program_;
  Failures& failures_;
  const std::set<std::string>& untouched_;
  std::unordered_set<ValueId> used_;
  program::Replacements replaced_;
};

bool composite(const Node& node) { return compositions().contains(qualified(node)); }

// Renumbers operations in program order and updates the constants that refer to them.
void renumber(Program& program) {
  std::int32_t next = 0;
  std::unordered_map<std::int32_t, std::int32_t> first_of;  // by the old number
  each_node(program.body, [&](Node& node) {
    first_of.emplace(node.origin.op, next);
    node.origin.op = next++;
  });
  for (Constant& constant : program.constants) {
    for (std::int32_t& op : constant.ops) op = first_of[op];
  }
}

}  // namespace

void decompose(Lowering& lowering) {
  if (program::any_node(lowering.program.body, composite)) Decomposer(lowering).run();
}

void write_out_kernels(Program& program) {
  if (!program::any_node(program.body, composite)) return;
  Failures ignored;
  Diagnostics notes;
  Lowering lowering{program, ignored, notes};
  Decomposer(lowering).run();
  renumber(program);
}

}  // namespace whence::lower
