#include "recorder/script/evaluator.h"

#include <torch/csrc/jit/passes/inline_fork_wait.h>

#include "recorder/base/torch_error.h"
#include "recorder/program/finish.h"
#include "recorder/program/structure.h"
#include "recorder/script/branch.h"
#include "recorder/script/containers.h"
#include "recorder/script/input_terms.h"
#include "recorder/script/loop.h"
#include "recorder/script/results.h"

namespace whence::recorder::script {

namespace jit = torch::jit;

namespace {

// Removes the suffix of an overload, which compiles to forward__0, forward__1.
std::string source_name(const std::string& function) {
  const std::size_t mark = function.rfind("__");
  const bool overload = mark != std::string::npos && mark > 0 && mark + 2 < function.size() &&
                        function.find_first_not_of("0123456789", mark + 2) == std::string::npos;
  return overload ? function.substr(0, mark) : function;
}

// Returns true if the block starts tasks. A Program computes a task where it waits for the result.
bool forks(const jit::Block& block) {
  for (const jit::Node* node : block.nodes()) {
    if (node->kind() == c10::prim::fork) return true;
    for (const jit::Block* nested : node->blocks()) {
      if (forks(*nested)) return true;
    }
  }
  return false;
}

}  // namespace

Evaluator::Evaluator(Program& program, const archive::ModuleTree& tree, const inputs::ExampleInputs& inputs)
    : program_(program),
      inputs_(inputs),
      recording_(program, inputs),
      objects_(recording_, tree),
      quantized_(recording_, objects_),
      operations_(recording_, objects_, quantized_),
      blocks_([this](const Step& step) { carry_out(step); }) {}

std::optional<SizeFailure> Evaluator::run(const jit::Module& root) {
  try {
    evaluate(root);
  } catch (const Error& error) {
    if (!recording_.values_before_failure) throw;
    return SizeFailure{error.diagnostics(), *recording_.values_before_failure};
  }
  return std::nullopt;
}

void Evaluator::evaluate(const jit::Module& root) {
  at::NoGradGuard no_grad;
  program_.symbols = inputs_.symbols;
  program_.ran = recording_.runs.count > 0;

  jit::Function& forward = root.get_method("forward").function();
  const c10::FunctionSchema& schema = forward.getSchema();
  const Term result = quantized_.output(call(forward, arguments(root, schema), root_scope, {}));
  const Term output = converted_result(recording_, result, schema.returns().at(0).type(), operations_.squeezed);
  program::add_outputs(output, "", program_.outputs);
  Diagnostics& notes = recording_.writer.notes;
  for (const Node* node : whence::operations(program_)) {
    if (node->outputs.empty()) continue;
    const auto squeezed = operations_.squeezed.find(node->outputs.front());
    if (squeezed == operations_.squeezed.end()) continue;
    for (SettledSqueeze& each : squeezed->second) {
      notes.push_back(std::move(each.warning));
      if (each.assumed) assume(program_, *std::move(each.assumed));
    }
  }
  for (const ValueId id : recording_.mixed_ranks) recording_.values.type(id).dims.reset();
  recording_.sizes.name_derived();
  recording_.places.state(program_, inputs_);
  program::finish_program(program_, recording_.known.all());
}

std::vector<int> Evaluator::misleading_runs() const {
  std::vector<int> runs;
  for (int run = recording_.runs.count - 1; run >= inputs_.first_large_run; --run) {
    if (!recording_.runs.alive[run] && recording_.values.hides_symbol(run)) runs.push_back(run);
  }
  return runs;
}

std::optional<SizeFailure> Evaluator::check_distant_runs() const {
  const auto is_distant = [](std::int64_t size, std::int64_t first) {
    return 3 * size <= 2 * first || 2 * size >= 3 * first;
  };
  for (const SymbolId symbol : inputs_.symbol_sizes.keys() | std::views::take(inputs_.free_symbols)) {
    const auto& sizes = inputs_.symbol_sizes[symbol];
    bool distant = recording_.runs.count < 2;
    for (int run = 1; run < recording_.runs.count && !distant; ++run) {
      distant = recording_.runs.alive[run] && is_distant(sizes[run], sizes[0]);
    }
    if (distant) continue;
    const Error error(Code::baked_size,
                      "the model runs if the size '" + inputs_.symbols[symbol].name + "' is " +
                          std::to_string(sizes[0]) + " or " + std::to_string(sizes[1]) +
                          ", but not at the much larger or smaller sizes that were tried: it holds a size "
                          "of the example",
                      "compute sizes from the input's shape in the model, script it, or leave the axis out of "
                      "--dynamic",
                      {.stage = "run"});
    return SizeFailure{error.diagnostics()};
  }
  return std::nullopt;
}

// Returns the arguments of forward; the first is the module itself.
std::vector<Term> Evaluator::arguments(const jit::Module& root, const c10::FunctionSchema& schema) {
  std::vector<Term> terms{Term::of_object(root._ivalue())};
  for (std::size_t i = 0; i < inputs_.names.size(); ++i) {
    if (inputs_.defaulted_arguments.contains(i)) {
      terms.push_back(objects_.from_host(inputs_.arguments[i][0], inputs_.names[i]));
      continue;
    }
    PerRun<const c10::IValue*> values{};
    for (int run = 0; run < recording_.runs.count && i < inputs_.arguments.size(); ++run) {
      values[run] = &inputs_.arguments[i][run];
    }
    const c10::TypePtr& type = schema.arguments()[i + 1].type();
    terms.push_back(input_term(recording_, quantized_, values, type, inputs_.names[i]));
  }
  return terms;
}

Term Evaluator::call(jit::Function& function, std::vector<Term> arguments, ScopeId scope, Stack callers) {
  Call call;
  call.function = source_name(function.name());
  call.scope = scope;
  call.callers = std::move(callers);
  call.outermost = recording_.running.empty();
  auto graph = jit::toGraphFunction(function).graph();
  if (forks(*graph->block())) jit::InlineForkWait(graph);
  for (std::size_t i = 0; i < graph->inputs().size(); ++i) {
    call.env.emplace(graph->inputs()[i], i < arguments.size() ? std::move(arguments[i]) : Term());
  }
  arguments.clear();
  recording_.running.push_back(&call);
  blocks_.run(*graph->block(), call);
  recording_.running.pop_back();
  return graph->outputs().empty() ? Term() : call.term(graph->outputs()[0]);
}

// Evaluates a node, and adds its place to errors without one.
void Evaluator::carry_out(const Step& step) {
  try {
    dispatch(step);
  } catch (const Error& error) {
    Diagnostics diagnostics = error.diagnostics();
    for (Diagnostic& each : diagnostics) {
      if (each.where.source.empty()) each.where = recording_.writer.place(step);
    }
    throw Error(std::move(diagnostics));
  }
}

void Evaluator::dispatch(const Step& step) {
  const jit::Node& node = step.node;
  switch (node.kind()) {
    case c10::prim::Constant: {
      const auto value = jit::toIValue(node.output());
      if (value && value->isTensor()) program::mark_number(value->toTensor());
      return step.set_output(value ? objects_.from_host(*value, node.output()->debugName()) : Term());
    }
    case c10::prim::GetAttr:
      return step.set_output(objects_.attribute(step.in(0), node.s(c10::attr::name)));
    case c10::prim::SetAttr:
      return objects_.set_attribute(step);
    case c10::prim::CreateObject:
      return step.set_output(objects_.create(step));
    case c10::prim::CallMethod:
      return call_method(step);
    case c10::prim::CallFunction:
      return call_function(step);
    case c10::prim::If:
      return Branch(recording_, blocks_, step).carry_out();
    case c10::prim::Loop:
      return carry_out_loop(recording_, blocks_, step);
    default:
      if (!carry_out_on_host_object(recording_, step)) operations_.carry_out(step);
  }
}

void Evaluator::call_method(const Step& step) {
  const Term& object = step.in(0);
  const std::string& name = step.node.s(c10::attr::name);
  if (object.kind != Term::Kind::object) {
    refuse("method '" + name + "' is called on a value that is not a module", "trace the model instead");
  }
  jit::Function* method = object.object->type()->findMethod(name);
  if (method == nullptr || !method->isGraphFunction()) {
    refuse("method '" + name + "' of " + object.object->name() + " has no TorchScript code",
           "custom C++ classes are not supported; trace the model without them");
  }
  ScopeId scope = step.call.scope;
  const ModuleId module = objects_.module_of(object);
  // A call of forward is a call of the module. Other methods belong to the scope that calls them, unless they are
  // methods of another module.
  const bool forward = name.starts_with("forward") && name.find_first_not_of("0123456789", 7) == std::string::npos;
  if (module != none_id && (forward || program_.scopes[scope].module != module)) {
    scope = recording_.writer.enter(scope, module);
  }
  step.set_output(call(*method, step.inputs(), scope, recording_.writer.callers_of(step)));
}

void Evaluator::call_function(const Step& step) {
  jit::Function* function = program::called_function(step.node);
  if (function == nullptr) refuse("a function without TorchScript code is called", "trace the model instead");
  std::vector<Term> arguments;
  for (std::size_t i = 1; i < step.count(); ++i) arguments.push_back(step.in(i));
  step.set_output(call(*function, std::move(arguments), step.call.scope, recording_.writer.callers_of(step)));
}

}  // namespace whence::recorder::script
