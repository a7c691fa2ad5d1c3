#include "recorder/live/trace.h"

#include "recorder/archive/module_tree.h"
#include "recorder/base/python_lock.h"
#include "recorder/base/torch_error.h"
#include "schema/result.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

constexpr std::string_view self_prefix = "__module";

// "__module.encoder.0.weight" -> "encoder.0.weight"
std::string without_self(const std::string& scope) {
  return scope.size() > self_prefix.size() ? scope.substr(self_prefix.size() + 1) : "";
}

bool is_traced_block(const jit::Node& node) {
  return node.kind() == c10::prim::TracedModuleForward || node.kind() == c10::prim::TracedFork;
}

// What the tracer computed: every size is the example's.
Type type_of(const c10::TypePtr& type) {
  if (const auto tensor = type->cast<c10::TensorType>()) {
    Type result;
    if (tensor->scalarType()) result.dtype = from_scalar_type(static_cast<int>(*tensor->scalarType()));
    if (const auto sizes = tensor->sizes().concrete_sizes()) {
      result.dims.emplace();
      for (const std::int64_t size : *sizes) result.dims->push_back({size, false, none_id});
    }
    return result;
  }
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::NumberType:  // of sizes, which is all that the tracer converts
      return {ValueKind::integer, DType::int64, std::nullopt};
    case c10::TypeKind::FloatType:
      return {ValueKind::floating, DType::float64, std::nullopt};
    case c10::TypeKind::BoolType:
      return {ValueKind::boolean, DType::boolean, std::nullopt};
    case c10::TypeKind::StringType:
      return {ValueKind::string, DType::undefined, std::nullopt};
    default:
      return {ValueKind::opaque, DType::undefined, std::nullopt};
  }
}

// Folding costs a run of the operation, so only what stays small is folded.
constexpr std::size_t largest_folded = 1 << 20;

}  // namespace

LiveTrace::LiveTrace(std::shared_ptr<jit::Graph> graph)
    : graph_(graph.get(), [held = graph](jit::Graph*) mutable { with_python_lock([&] { held.reset(); }); }) {
  cursor_ = graph_->block()->param_node();
  open_.push_back({nullptr, 0});
  call_of_block_[graph_->block()] = 0;
}

// Of the graph's inputs, those that are new: the module comes first, and the others after all of its tensors.
void LiveTrace::read_inputs() {
  for (; read_inputs_ < graph_->inputs().size(); ++read_inputs_) {
    const jit::Value* input = graph_->inputs()[read_inputs_];
    const auto type = input->type()->cast<c10::ClassType>();
    if (read_inputs_ == 0 && type && type->is_module()) {
      has_self_ = true;
      module_types_[""] = type;
      modules_.add_module("", plain_type_name(type->name()->qualifiedName()));
      attribute_of_[input] = "";
      continue;
    }
    env_[input] = new_value(*input, ValueSource::input, static_cast<std::int32_t>(inputs_.size()));
    inputs_.push_back(env_[input].id);
    input_tensors_.emplace_back();
  }
}

void LiveTrace::look() {
  read_inputs();
  for (;;) {
    jit::Node* next = cursor_->next();
    if (next->kind() == c10::prim::Return) {
      // The end of a block: of the one that is being filled, or of a call that is over.
      if (open_.size() == 1 || graph_->insertPoint()->owningBlock() == next->owningBlock()) return;
      cursor_ = open_.back().node;
      open_.pop_back();
      continue;
    }
    cursor_ = next;
    if (is_traced_block(*next)) {
      std::int32_t call = open_.back().call;
      if (next->kind() == c10::prim::TracedModuleForward) {
        calls_.push_back({call, next->s(c10::attr::scope)});
        call = static_cast<std::int32_t>(calls_.size() - 1);
      }
      open_.push_back({next, call});
      call_of_block_[next->blocks()[0]] = call;
      cursor_ = next->blocks()[0]->param_node();
      continue;
    }
    read(*next);
  }
}

void LiveTrace::see(const jit::Value* value, const at::Tensor& tensor) {
  const auto term = env_.find(value);
  if (term == env_.end() || !term->second.is_value()) return;
  const Value& row = values_[term->second.id];
  if (row.source == ValueSource::input) input_tensors_[row.index] = tensor.detach();
  if (row.source != ValueSource::parameter) return;
  LiveTensor& parameter = modules_.tensors()[row.index];
  if (parameter.data.defined()) return;
  parameter.data = tensor.detach();
  // Buffers fold (position ids, masks); parameters keep their names and stay parameters.
  if (parameter.kind == ParameterKind::parameter) return;
  term->second.seen[0] = parameter.data;
  term->second.known = true;
}

bool LiveTrace::is_data(const jit::Value* value) const {
  const auto term = env_.find(value);
  return term != env_.end() && term->second.is_value() && !term->second.known && !term->second.number;
}

void LiveTrace::read(const jit::Node& node) {
  if (node.kind() == c10::prim::TracedAttr) return read_attribute(node);
  if (node.kind() == c10::prim::CallFunction || node.kind() == c10::prim::CallMethod) return call_scripted(node);
  // The tracer makes a second name of a tensor known by a view of the first.
  const jit::Node* before = node.prev();
  while (before != nullptr && (before->kind() == c10::prim::Constant || before->kind() == c10::prim::ListConstruct))
    before = before->prev();
  if (node.kind() == c10::aten::view && before != nullptr && before->kind() == c10::prim::TracedAttr &&
      env_.count(before->output()) > 0) {
    if (const auto first = attribute_of_.find(node.inputs()[0]); first != attribute_of_.end()) {
      modules_.tensors().back().tied_to = first->second;
      return;
    }
  }
  if (!read_structure(node, env_)) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    const bool stays = schema == nullptr || schema->is_mutable() || node.isNondeterministic();
    keep(read_operation(node, env_, true), node, stays);
  }
  note_makers(node);
}

// The tracer puts some conversions right behind the operation whose result they convert, where we have been already.
void LiveTrace::read_late(const jit::Node& node) {
  if (node.kind() == c10::prim::Param) return;
  const std::size_t before = operations_.size();
  read(node);
  if (operations_.size() == before || operations_.back().reads.empty()) return;
  operations_.back().after = operations_.back().reads.back();
}

// The traced module's own forward, which an ONNX export gives a block and a scope without a name.
bool LiveTrace::is_outermost(std::int32_t call) const {
  return call == 0 || (calls_[call].parent == 0 && calls_[call].scope.ends_with("::"));
}

std::int32_t LiveTrace::call_of(const jit::Node& node) const {
  const auto block = call_of_block_.find(node.owningBlock());
  return block == call_of_block_.end() ? open_.back().call : block->second;  // scripted code has blocks of its own
}

// Which operations a value comes from, through lists and tuples.
void LiveTrace::note_makers(const jit::Node& node) {
  std::vector<std::size_t> makers;
  for (const jit::Value* input : node.inputs()) {
    const auto known = makers_.find(input);
    if (known != makers_.end()) makers.insert(makers.end(), known->second.begin(), known->second.end());
  }
  if (last_kept_ == &node) {
    operations_.back().reads = std::move(makers);
    makers = {operations_.size() - 1};
  }
  for (const jit::Value* output : node.outputs()) makers_[output] = makers;
}

void LiveTrace::read_attribute(const jit::Node& node) {
  const std::string name = without_self(node.s(c10::attr::scope));
  const c10::TypePtr& type = node.output()->type();
  attribute_of_[node.output()] = name;
  if (const auto object = type->cast<c10::ClassType>(); object && object->is_module()) {
    module_types_[name] = object;
    return modules_.add_module(name, plain_type_name(object->name()->qualifiedName()));
  }
  const auto tensor_type = type->cast<c10::TensorType>();
  if (!tensor_type) return;
  LiveTensor tensor;
  tensor.name = name;
  const Type known = type_of(type);
  tensor.dtype = known.dtype;
  if (known.dims) {
    for (const Dim& dim : *known.dims) tensor.shape.push_back(dim.size);
  }
  // Whether it is a parameter or a buffer stands in the type of its module.
  const std::size_t dot = name.rfind('.');
  const auto owner = module_types_.find(dot == std::string::npos ? "" : name.substr(0, dot));
  if (owner != module_types_.end()) {
    const auto slot = owner->second->findAttributeSlot(dot == std::string::npos ? name : name.substr(dot + 1));
    if (slot) {
      tensor.kind = owner->second->is_parameter(*slot) ? ParameterKind::parameter
                    : owner->second->is_buffer(*slot)  ? ParameterKind::buffer
                                                       : ParameterKind::attribute;
    }
  }
  tensor.trainable = tensor.kind == ParameterKind::parameter && tensor_type->requires_grad();
  const Term term =
      new_value(*node.output(), ValueSource::parameter, static_cast<std::int32_t>(modules_.tensors().size()));
  values_[term.id].name = name;
  tensor.value = term.id;
  env_[node.output()] = term;
  modules_.add_tensor(std::move(tensor));
}

Term LiveTrace::new_value(const jit::Value& value, ValueSource source, std::int32_t index) {
  Value row;
  row.type = type_of(value.type());
  row.source = source;
  row.index = index;
  if (value.hasDebugName()) row.name = base_name_of_value(value.debugName());
  values_.push_back(std::move(row));
  Term term;
  term.kind = Term::Kind::value;
  term.id = static_cast<ValueId>(values_.size() - 1);
  return term;
}

Term LiveTrace::term_of(const jit::Value* value, Env& env) {
  auto found = env.find(value);
  if (found == env.end() && call_of_block_.count(value->node()->owningBlock()) > 0) {
    read_late(*value->node());
    found = env.find(value);
  }
  if (found == env.end()) return {};
  // The tracer asks for a variable's Python name when an operation first reads it.
  if (found->second.is_value() && value->hasDebugName()) {
    Value& row = values_[found->second.id];
    if (row.name.empty()) row.name = base_name_of_value(value->debugName());
  }
  return found->second;
}

Term LiveTrace::constant(const c10::IValue& value) {
  if (!value.isTensor()) return Term::literal(value);
  if (!value.toTensor().defined()) return {};
  const at::Tensor tensor = value.toTensor().detach();
  // A Python number in an expression; it must not decide the result's dtype when it is folded.
  const auto type = tensor.scalar_type();
  if (tensor.dim() == 0 &&
      (type == at::kDouble || type == at::kLong || type == at::kBool || type == at::kComplexDouble))
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  Value row;
  row.type.dtype = dtype_of(tensor);
  row.type.dims.emplace();
  for (const std::int64_t size : tensor.sizes()) row.type.dims->push_back({size, false, none_id});
  row.source = ValueSource::constant;
  row.index = static_cast<std::int32_t>(constants_.size());
  values_.push_back(std::move(row));
  constants_.push_back(tensor);
  Term term;
  term.kind = Term::Kind::value;
  term.id = static_cast<ValueId>(values_.size() - 1);
  term.seen[0] = tensor;
  term.known = true;
  constant_terms_.push_back(term);
  return term;
}

// Nodes that build or take apart lists, tuples and dicts, and constants. False: the node is an operation.
bool LiveTrace::read_structure(const jit::Node& node, Env& env) {
  const auto all = [&] {
    std::vector<Term> items;
    for (const jit::Value* value : node.inputs()) items.push_back(term_of(value, env));
    return items;
  };
  switch (node.kind()) {
    case c10::prim::Constant: {
      const auto value = jit::toIValue(node.output());
      env[node.output()] = value ? constant(*value) : Term();
      return true;
    }
    case c10::prim::ListConstruct:
      env[node.output()] = Term::container(Term::Kind::list, all());
      return true;
    case c10::prim::TupleConstruct:
      env[node.output()] = Term::container(Term::Kind::tuple, all());
      return true;
    case c10::prim::DictConstruct:
      env[node.output()] = Term::container(Term::Kind::dict, all());
      return true;
    case c10::prim::TupleUnpack:
    case c10::prim::ListUnpack: {
      const Term whole = term_of(node.input(), env);
      if (!whole.is_container() && !whole.is_value()) return false;
      if (whole.is_container() && whole.items->size() == node.outputs().size()) {
        for (std::size_t i = 0; i < node.outputs().size(); ++i) env[node.outputs()[i]] = (*whole.items)[i];
        return true;
      }
      // How many elements a list has, and what they are, is first said here: of an operation's result, or of an input.
      Operation* producer = nullptr;
      for (auto at = operations_.rbegin(); whole.is_container() && at != operations_.rend() && !producer; ++at) {
        if (at->node.list_output && at->node.outputs.empty()) producer = &*at;
      }
      std::vector<Term> items;
      for (std::size_t i = 0; i < node.outputs().size(); ++i) {
        const bool input = whole.is_value() && values_[whole.id].source == ValueSource::input;
        Term item = new_value(*node.outputs()[i], input ? ValueSource::input : ValueSource::node,
                              input ? values_[whole.id].index : none_id);
        if (input) values_[item.id].name = values_[whole.id].name + "." + std::to_string(i);
        if (producer != nullptr) producer->node.outputs.push_back(item.id);
        env[node.outputs()[i]] = item;
        items.push_back(std::move(item));
      }
      if (whole.is_container()) *whole.items = items;
      env[node.input()] = Term::container(Term::Kind::list, std::move(items));
      return true;
    }
    case c10::aten::values:  // of an input that is a dict
      env[node.output()] = term_of(node.input(), env);
      return true;
    case c10::aten::Int:
    case c10::aten::ScalarImplicit: {
      // Tracing turns sizes into tensors and back around every use. PyTorch keeps these pairs in the outermost module
      // only; so do we, that our operations are those of the archive that the trace becomes.
      const Term number = term_of(node.input(), env);
      if (!number.number || is_outermost(call_of(node))) return false;
      env[node.output()] = *number.number;
      keep({}, node, false);
      operations_.back().passed_over = true;
      return true;
    }
    default:
      return false;
  }
}

Node LiveTrace::read_operation(const jit::Node& node, Env& env, bool run) {
  std::vector<Term> arguments;
  for (const jit::Value* value : node.inputs()) arguments.push_back(term_of(value, env));
  Node recorded = operation_of(node, arguments);
  recorded.origin.scope = call_of(node);
  const auto results = run ? compute(node, arguments) : std::nullopt;
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const jit::Value& output = *node.outputs()[i];
    if (output.type()->kind() == c10::TypeKind::ListType) {
      recorded.list_output = true;
      env[&output] = Term::container(Term::Kind::list, {});
      continue;
    }
    Term term = new_value(output, ValueSource::node, none_id);
    if (results && !(*results)[i].isNone()) {
      term.seen[0] = (*results)[i];
      term.known = true;
      known_[term.id] = (*results)[i];
    }
    if (node.kind() == c10::prim::NumToTensor) term.number = std::make_shared<const Term>(arguments[0]);
    recorded.outputs.push_back(term.id);
    env[&output] = std::move(term);
  }
  forget_written(node, arguments);
  return recorded;
}

void LiveTrace::keep(Node node, const jit::Node& from, bool stays) {
  last_kept_ = &from;
  const auto source = from.sourceRange().source();
  if (source) by_source_[source.get()] = operations_.size();
  operations_.push_back({std::move(node), from.sourceRange(), {}, std::nullopt, stays, false});
}

// The results, where they follow from the example's sizes and from constants alone.
std::optional<std::vector<c10::IValue>> LiveTrace::compute(const jit::Node& node, const std::vector<Term>& arguments) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || schema->is_mutable() || node.isNondeterministic()) return std::nullopt;
  if (!node.kind().is_aten() && !node.kind().is_prim()) return std::nullopt;  // what it does, only its author knows
  if (node.kind() == c10::aten::size && arguments.size() == 2 && arguments[0].is_value()) {
    const auto& dims = values_[arguments[0].id].type.dims;
    const auto axis = arguments[1].settled();
    if (!dims || !axis || !axis->isInt()) return std::nullopt;
    const auto rank = static_cast<std::int64_t>(dims->size());
    const std::int64_t at = axis->toInt() < 0 ? axis->toInt() + rank : axis->toInt();
    if (at < 0 || at >= rank) return std::nullopt;
    return std::vector<c10::IValue>{(*dims)[static_cast<std::size_t>(at)].size};
  }
  static const auto numel = c10::Symbol::fromQualString("aten::numel");  // a constant of LibTorch only since 2.10
  if (node.kind() == numel && arguments.size() == 1 && arguments[0].is_value()) {
    const auto& dims = values_[arguments[0].id].type.dims;
    if (!dims) return std::nullopt;
    std::int64_t count = 1;
    for (const auto& dim : *dims) count *= dim.size;
    return std::vector<c10::IValue>{count};
  }
  if (node.kind().toQualString() == std::string("aten::empty")) return std::nullopt;
  const std::function<bool(const Term&)> settled = [&](const Term& term) {
    if (!term.items) return term.kind == Term::Kind::none || term.settled().has_value();
    return std::all_of(term.items->begin(), term.items->end(), settled);
  };
  if (!std::all_of(arguments.begin(), arguments.end(), settled)) return std::nullopt;
  for (const jit::Value* output : node.outputs()) {  // what is large is cheaper to compute than to store
    const auto tensor = output->type()->cast<c10::TensorType>();
    if (output->type()->kind() == c10::TypeKind::ListType) return std::nullopt;
    if (tensor && (!tensor->numel() || *tensor->numel() * 8 > largest_folded)) return std::nullopt;
  }
  jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto value = host(arguments[i], node.inputs()[i]->type(), 0);
    if (!value) return std::nullopt;
    stack.push_back(std::move(*value));
  }
  try {
    node.getOperation()(stack);
  } catch (const std::exception&) {
    return std::nullopt;  // it is recorded as an operation, which it is
  }
  return std::vector<c10::IValue>(stack.begin(), stack.end());
}

// A write changes everything that shares the memory: none of it is known from then on.
void LiveTrace::forget_written(const jit::Node& node, const std::vector<Term>& arguments) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || !schema->is_mutable()) return;
  for (std::size_t i = 0; i < arguments.size() && i < schema->arguments().size(); ++i) {
    const auto* alias = schema->arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !arguments[i].is_value() || !arguments[i].known) continue;
    const auto& seen = arguments[i].seen[0];
    if (!seen || !seen->isTensor() || !seen->toTensor().has_storage()) continue;
    const auto shares = [&](const c10::IValue& value) {
      return value.isTensor() && value.toTensor().has_storage() &&
             value.toTensor().storage().is_alias_of(seen->toTensor().storage());
    };
    std::erase_if(known_, [&](const auto& entry) { return shares(entry.second); });
    for (auto& [value, term] : env_) {
      if (term.known && term.seen[0] && shares(*term.seen[0])) term.known = false;
    }
  }
}

}  // namespace whence::recorder
