#include "recorder/script/evaluator.h"

#include <torch/csrc/jit/passes/inline_fork_wait.h>

#include "recorder/base/torch_error.h"
#include "recorder/program/finish.h"
#include "recorder/script/restore.h"
#include "schema/lost_writes.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

// Overloads compile to forward__0, forward__1.
std::string source_name(const std::string& function) {
  const std::size_t mark = function.rfind("__");
  const bool overload = mark != std::string::npos && mark > 0 && mark + 2 < function.size() &&
                        function.find_first_not_of("0123456789", mark + 2) == std::string::npos;
  return overload ? function.substr(0, mark) : function;
}

// True if it starts tasks of its own, which a Program computes where it waits for them.
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

Evaluator::Evaluator(Program& program, const ModuleTree& tree, const ExampleInputs& inputs)
    : program_(program), tree_(tree), inputs_(inputs), frames_(program), runs_(inputs.given ? inputs.runs : 0) {}

void Evaluator::run(const jit::Module& root) {
  at::NoGradGuard no_grad;
  program_.symbols = inputs_.symbols;
  program_.ran = runs_ > 0;
  program_.scopes.push_back({none_id, 0, 0});
  calls_[0] = 1;
  sink_ = &program_.body.nodes;

  jit::Function& forward = root.get_method("forward").function();
  std::vector<Term> arguments;
  Term self;
  self.kind = Term::Kind::object;
  self.object = root._ivalue();
  arguments.push_back(self);
  for (std::size_t i = 0; i < inputs_.names.size(); ++i) {
    if (inputs_.left_to_default.contains(i)) {
      arguments.push_back(from_host(inputs_.arguments[i][0], inputs_.names[i]));
      continue;
    }
    PerRun<const c10::IValue*> given{};
    for (int run = 0; run < runs_ && i < inputs_.arguments.size(); ++run) given[run] = &inputs_.arguments[i][run];
    arguments.push_back(input(given, forward.getSchema().arguments()[i + 1].type(), inputs_.names[i]));
  }
  const Term result = unpacked_output(call(forward, std::move(arguments), 0, {}));
  add_outputs(returned(result, forward.getSchema().returns().at(0).type()), "", program_.outputs);
  for (const Node* node : operations(program_)) {
    if (node->outputs.empty()) continue;
    const auto told = squeezed_.find(node->outputs.front());
    if (told != squeezed_.end()) notes_.insert(notes_.end(), told->second.begin(), told->second.end());
  }
  finish_program(program_, known_);
}

// Tensors become inputs of the program; containers are flattened; numbers, strings and None are what the example says.
Term Evaluator::input(const PerRun<const c10::IValue*>& given, const c10::TypePtr& type, const std::string& name) {
  const c10::IValue* first = given[0];
  const bool tensor = first ? first->isTensor()
                            : type->isSubtypeOf(*c10::TensorType::get()) || type->kind() == c10::TypeKind::OptionalType;
  if (tensor || first == nullptr) {
    Term term;
    term.kind = Term::Kind::value;
    term.id = new_value(name, ValueSource::input, static_cast<std::int32_t>(program_.inputs.size()));
    for (int run = 0; run < most_runs; ++run) {
      if (given[run] != nullptr) term.seen[run] = *given[run];
    }
    program_.values[term.id].type = type_of(term.seen, type);
    program_.inputs.push_back({name, term.id});
    return first != nullptr && tensor && first->toTensor().is_quantized() ? quantized_input(std::move(term), name)
                                                                          : term;
  }
  // A part of the container that each run was given.
  const auto part = [&](const std::string& key, const auto& of) {
    PerRun<c10::IValue> values;
    PerRun<const c10::IValue*> parts{};
    for (int run = 0; run < most_runs; ++run) {
      if (given[run] == nullptr) continue;
      values[run] = of(*given[run]);
      parts[run] = &values[run];
    }
    return input(parts, values[0].type(), name + "." + key);
  };
  std::vector<Term> items;
  if (first->isTuple()) {
    for (std::size_t i = 0; i < first->toTupleRef().elements().size(); ++i) {
      items.push_back(
          part(std::to_string(i), [&](const c10::IValue& whole) { return whole.toTupleRef().elements()[i]; }));
    }
    return Term::container(Term::Kind::tuple, std::move(items));
  }
  if (first->isTensorList() || first->isList()) {
    for (std::size_t i = 0; i < first->toListRef().size(); ++i) {
      items.push_back(
          part(std::to_string(i), [&](const c10::IValue& whole) { return c10::IValue(whole.toListRef()[i]); }));
    }
    return Term::container(Term::Kind::list, std::move(items));
  }
  if (first->isGenericDict()) {
    for (const auto& entry : first->toGenericDict()) {
      if (entry.key().isTensor()) {
        throw Error(Code::unsupported_feature, "input '" + name + "' is a dict whose keys are tensors",
                    "give its values under texts or numbers", {.stage = "run"});
      }
      const std::string key = entry.key().isString() ? entry.key().toStringRef() : std::to_string(items.size() / 2);
      items.push_back(Term::literal(entry.key()));
      items.push_back(part(key, [&](const c10::IValue& whole) { return whole.toGenericDict().at(entry.key()); }));
    }
    return Term::container(Term::Kind::dict, std::move(items));
  }
  if (first->isScalar() || first->isString()) {
    std::ostringstream text;
    text << *first;
    notes_.push_back(
        {Code::unsupported_feature,
         Severity::warning,
         "input '" + name + "' is not a tensor: it is kept as " + text.str() + ", and is not an input of the graph",
         {.stage = "read"},
         "let forward take a tensor, if the value is to change between runs",
         1,
         {}});
  }
  return Term::literal(*first);
}

Term Evaluator::call(jit::Function& function, std::vector<Term> arguments, ScopeId scope, Stack callers) {
  Call call;
  call.function = source_name(function.name());
  call.scope = scope;
  call.callers = std::move(callers);
  call.outermost = running_.empty();
  auto code = jit::toGraphFunction(function).graph();
  if (forks(*code->block())) jit::InlineForkWait(code);
  const jit::Graph& graph = *code;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    call.env.emplace(graph.inputs()[i], i < arguments.size() ? std::move(arguments[i]) : Term());
  }
  arguments.clear();
  running_.push_back(&call);
  run_block(*graph.block(), call);
  running_.pop_back();
  if (graph.outputs().empty()) return {};
  return term(graph.outputs()[0], call);
}

const Evaluator::LastUses& Evaluator::last_uses(const jit::Block& block) {
  const auto known = last_uses_.find(&block);
  if (known != last_uses_.end()) return known->second;
  std::unordered_map<const jit::Value*, const jit::Node*> last;
  const std::function<void(const jit::Node*, const jit::Node*)> note = [&](const jit::Node* node,
                                                                           const jit::Node* owner) {
    for (const jit::Value* value : node->inputs()) last[value] = owner;
    for (const jit::Block* inner : node->blocks()) {
      for (const jit::Node* nested : inner->nodes()) note(nested, owner);
      for (const jit::Value* value : inner->outputs()) last[value] = owner;
    }
  };
  for (const jit::Node* node : block.nodes()) note(node, node);
  for (const jit::Value* value : block.outputs()) last.erase(value);
  LastUses uses;
  for (const auto& [value, node] : last) {
    if (value->node()->owningBlock() == &block) uses[node].push_back(value);
  }
  return last_uses_.emplace(&block, std::move(uses)).first->second;
}

bool Evaluator::last_used_by(const jit::Node& node, const jit::Value& value) {
  const LastUses& uses = last_uses(*node.owningBlock());
  const auto found = uses.find(&node);
  return found != uses.end() && std::ranges::find(found->second, &value) != found->second.end();
}

// What only the block itself knows, once it is left.
void Evaluator::forget(const jit::Block& block, Call& call) {
  for (const jit::Value* input : block.inputs()) call.env.erase(input);
  for (const jit::Value* output : block.outputs()) {
    if (output->node()->owningBlock() == &block) call.env.erase(output);
  }
}

void Evaluator::run_block(const jit::Block& block, Call& call) {
  const LastUses& uses = last_uses(block);
  for (const jit::Node* node : block.nodes()) {
    step_at(*node, call);
    // What the runs computed is let go as soon as nothing reads it, as in an ordinary run.
    const auto done = uses.find(node);
    if (done == uses.end()) continue;
    for (const jit::Value* value : done->second) call.env.erase(value);
  }
}

// A Python number that was traced, as in `ids * 0.5`, is a 0-d tensor of the archive. PyTorch marks it as a number when
// it runs the archive, so that it does not decide the result's dtype; here every operator runs by itself.
static void mark_number(const c10::IValue& constant) {
  if (!constant.isTensor() || !constant.toTensor().defined() || constant.toTensor().dim() != 0) return;
  const c10::ScalarType type = constant.toTensor().scalar_type();
  if (type == c10::kDouble || type == c10::kLong || type == c10::kBool || type == c10::kComplexDouble) {
    constant.toTensor().unsafeGetTensorImpl()->set_wrapped_number(true);
  }
}

// An error that does not know of a place happened here.
void Evaluator::step_at(const jit::Node& node, Call& call) {
  try {
    step(node, call);
  } catch (const SecondRunFailed&) {
    throw;  // has its place, and is more than its text
  } catch (const Error& error) {
    Diagnostics told = error.diagnostics();
    for (Diagnostic& each : told) {
      if (each.where.source.empty()) each.where = place(node, call);
    }
    throw Error(std::move(told));
  }
}

void Evaluator::step(const jit::Node& node, Call& call) {
  switch (node.kind()) {
    case c10::prim::Constant: {
      const auto value = jit::toIValue(node.output());
      if (value) mark_number(*value);
      call.env[node.output()] = value ? from_host(*value, node.output()->debugName()) : Term();
      return;
    }
    case c10::prim::GetAttr:
      call.env[node.output()] = attribute(term(node.input(), call), node.s(c10::attr::name));
      return;
    case c10::prim::SetAttr:
      return set_attribute(node, call);
    case c10::prim::CallMethod:
      return call_method(node, call);
    case c10::prim::CallFunction:
      return call_function(node, call);
    case c10::prim::If:
      return branch(node, call);
    case c10::prim::Loop:
      return loop(node, call);
    default:
      if (!structural(node, call)) operate(node, call);
  }
}

void Evaluator::set_attribute(const jit::Node& node, const Call& call) {
  const Term& object = term(node.inputs()[0], call);
  const std::string& name = node.s(c10::attr::name);
  const auto made = made_at_.find(object.object.get());
  const int depth = made == made_at_.end() ? 0 : made->second;
  const std::pair key(object.object.get(), name);
  if (!attributes_.contains(key)) {
    const Term before = attribute(object, name);
    attributes_.insert_or_assign(key, Term::container(Term::Kind::tuple, {before}, depth));
  }
  const Term changed = attributes_.at(key);
  if (made == made_at_.end()) notes_.push_back(lost_write(WrittenTo::attribute, name, place(node, call)));
  note_change(node, call, changed, c10::TupleType::create({node.inputs()[1]->type()}));
  changed.items->front() = term(node.inputs()[1], call);
}

Stack Evaluator::callers_of(const jit::Node& node, const Call& call) {
  Stack callers;
  if (auto site = frames_.call_site(node, call.function)) callers.push_back(std::move(*site));
  callers.insert(callers.end(), call.callers.begin(), call.callers.end());
  return callers;
}

void Evaluator::call_method(const jit::Node& node, Call& caller) {
  const Term object = term(node.inputs()[0], caller);
  const std::string& name = node.s(c10::attr::name);
  if (object.kind != Term::Kind::object) {
    refuse(node, caller, "method '" + name + "' is called on a value that is not a module", "trace the model instead");
  }
  jit::Function* method = object.object->type()->findMethod(name);
  if (method == nullptr || !method->isGraphFunction()) {
    refuse(node, caller, "method '" + name + "' of " + object.object->name() + " has no TorchScript code",
           "custom C++ classes are not supported; trace the model without them");
  }
  std::vector<Term> arguments;
  for (const jit::Value* value : node.inputs()) arguments.push_back(term(value, caller));

  ScopeId scope = caller.scope;
  const ModuleId module = tree_.module_of(object.object.get());
  // A module's forward is a call of the module. Other methods are part of whatever runs, unless they belong to
  // another module than the one that is running.
  const bool forward = name.rfind("forward", 0) == 0 && name.find_first_not_of("0123456789", 7) == std::string::npos;
  if (module != none_id && (forward || program_.scopes[scope].module != module)) {
    program_.scopes.push_back({caller.scope, module, calls_[module]++});
    scope = static_cast<ScopeId>(program_.scopes.size() - 1);
  }
  caller.env[node.output()] = call(*method, std::move(arguments), scope, callers_of(node, caller));
}

void Evaluator::call_function(const jit::Node& node, Call& caller) {
  const auto type = node.inputs()[0]->type()->cast<c10::FunctionType>();
  if (!type || !type->function()->isGraphFunction()) {
    refuse(node, caller, "a function without TorchScript code is called", "trace the model instead");
  }
  std::vector<Term> arguments;
  for (std::size_t i = 1; i < node.inputs().size(); ++i) arguments.push_back(term(node.inputs()[i], caller));
  caller.env[node.output()] = call(*type->function(), std::move(arguments), caller.scope, callers_of(node, caller));
}

Term Evaluator::attribute(const Term& object, const std::string& name) {
  if (object.kind != Term::Kind::object) return {};
  const auto changed = attributes_.find({object.object.get(), name});
  if (changed != attributes_.end()) return changed->second.items->front();
  const c10::IValue value = object.object->getAttr(name);
  if (value.isTensor() && value.toTensor().defined()) {
    const ParameterId id = tree_.parameter_of(object.object.get(), name);
    if (id != none_id) return parameter(id, value.toTensor());
  }
  const ModuleId module = tree_.module_of(object.object.get());
  const std::string path = module == none_id ? "" : program_.modules[module].path;
  Restore depth(depth_);
  depth_ = 0;
  Term made = from_host(value, path.empty() ? name : path + "." + name);
  // Who changes a list or dict changes it for all who read the attribute.
  if (made.items) attributes_.emplace(std::pair(object.object.get(), name), Term::container(Term::Kind::tuple, {made}));
  return made;
}

Term Evaluator::parameter(ParameterId id, const at::Tensor& tensor) {
  const auto made = parameters_.find(id);
  if (made != parameters_.end()) return made->second;
  Term term;
  term.kind = Term::Kind::value;
  term.id = new_value(program_.parameters[id].name, ValueSource::parameter, id);
  // Programs write into buffers; what is exported is what the archive holds, so each run gets a copy of its own.
  const bool written_at_times = program_.parameters[id].kind != ParameterKind::parameter;
  for (int run = 0; run < runs_; ++run) term.seen[run] = written_at_times ? tensor.clone() : tensor;
  program_.values[term.id].type = type_of(term.seen, c10::TensorType::get());
  // Buffers fold (position ids, masks); parameters keep their names and stay parameters.
  term.known = runs_ > 0 && program_.parameters[id].kind != ParameterKind::parameter;
  parameters_.emplace(id, term);
  return term;
}

Term Evaluator::constant(const at::Tensor& tensor, const std::string& name) {
  const auto made = constants_.find(tensor.unsafeGetTensorImpl());
  if (made != constants_.end()) return made->second;
  Constant row;
  row.name = name;
  row.data.dtype = dtype_of(tensor);
  row.data.shape = tensor.sizes().vec();
  const at::Tensor dense = tensor.detach().contiguous();
  row.data.bytes = Bytes::copy_of(dense.const_data_ptr(), dense.nbytes());
  Term term;
  term.kind = Term::Kind::value;
  term.id = new_value(name, ValueSource::constant, static_cast<std::int32_t>(program_.constants.size()));
  term.seen[0] = tensor;
  for (int run = 1; run < runs_; ++run) term.seen[run] = tensor.clone();
  term.known = true;
  program_.values[term.id].type = type_of(term.seen, c10::TensorType::get());
  program_.constants.push_back(std::move(row));
  kept_.push_back(tensor);
  constants_.emplace(tensor.unsafeGetTensorImpl(), term);
  return term;
}

Term Evaluator::from_host(const c10::IValue& value, const std::string& name) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return {};
    const ParameterId id = tree_.parameter_of(value.toTensor());
    return id == none_id ? constant(value.toTensor(), name) : parameter(id, value.toTensor());
  }
  if (value.isObject()) {
    Term term;
    term.kind = Term::Kind::object;
    term.object = value.toObject();
    return term;
  }
  std::vector<Term> items;
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) items.push_back(from_host(element, name));
    return Term::container(Term::Kind::tuple, std::move(items), depth_);
  }
  if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) items.push_back(from_host(element, name));
    return Term::container(Term::Kind::list, std::move(items), depth_);
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      items.push_back(Term::literal(entry.key()));
      items.push_back(from_host(entry.value(), name));
    }
    return Term::container(Term::Kind::dict, std::move(items), depth_);
  }
  return Term::literal(value);
}

const Term& Evaluator::term(const jit::Value* value, const Call& call) const {
  const auto found = call.env.find(value);
  if (found == call.env.end()) {
    throw Error(Code::internal, "value %" + value->debugName() + " is read before it is set", "please report the model",
                {.stage = "read"});
  }
  return found->second;
}

Place Evaluator::place(const jit::Node& node, const Call& call) {
  Place place;
  place.stage = "read";
  place.module = program_.module_path(call.scope);
  place.has_module = true;
  place.op = node.kind().toQualString();
  if (!node.outputs().empty()) place.node = node.outputs()[0]->debugName();
  // A value without a name of its own has a number, which says nothing to a reader.
  if (place.node.find_first_not_of("0123456789") == std::string::npos) place.node.clear();
  const StackId stack = frames_.stack_of(node, call.function, call.callers);
  if (stack != none_id) {
    place.source = source_place(program_.stacks[stack].front());
  }
  return place;
}

Origin Evaluator::origin_of(const jit::Node& node, const Call& call) {
  Origin origin;
  origin.scope = call.scope;
  origin.stack = frames_.stack_of(node, call.function, call.callers);
  origin.basis = SourceFrames::basis(node);
  if (!node.outputs().empty()) origin.name = base_name_of_value(node.outputs()[0]->debugName());
  return origin;
}

void Evaluator::refuse(const jit::Node& node, const Call& call, const std::string& why, const std::string& remedy) {
  throw Error(Code::unsupported_feature, first_line(why), remedy, place(node, call));
}

}  // namespace whence::recorder
