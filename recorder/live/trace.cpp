// Reads the nodes of a growing trace in order: inputs, calls of modules, attributes.
#include "recorder/live/trace.h"

#include "recorder/archive/module_tree.h"
#include "recorder/base/python_lock.h"
#include "schema/result.h"

namespace whence::recorder::live {

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

}  // namespace

LiveTrace::LiveTrace(std::shared_ptr<jit::Graph> graph)
    : graph_(graph.get(), [owned = graph](jit::Graph*) mutable { with_python_lock([&] { owned.reset(); }); }) {
  cursor_ = graph_->block()->param_node();
  open_.push_back({nullptr, 0});
  call_of_block_[graph_->block()] = 0;
}

// Reads new inputs of the graph. The module comes first; the tracer adds the other inputs after the module's tensors.
void LiveTrace::read_inputs() {
  for (; read_inputs_ < graph_->inputs().size(); ++read_inputs_) {
    const jit::Value* input = graph_->inputs()[read_inputs_];
    const auto type = input->type()->cast<c10::ClassType>();
    if (read_inputs_ == 0 && type && type->is_module()) {
      has_self_ = true;
      module_types_[""] = type;
      modules_.add_module("", archive::plain_type_name(type->name()->qualifiedName()));
      attribute_of_[input] = "";
      continue;
    }
    env_[input] = new_value(*input, ValueSource::input, static_cast<std::int32_t>(inputs_.size()));
    inputs_.push_back(env_[input].id);
    input_tensors_.emplace_back();
  }
}

void LiveTrace::read_new_nodes() {
  read_inputs();
  for (;;) {
    jit::Node* next = cursor_->next();
    if (next->kind() == c10::prim::Return) {
      // The end of a block: either the block is still growing, or its call has ended.
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
        if (scopes_read_ < reported_paths_.size()) calls_.back().path = reported_paths_[scopes_read_];
        ++scopes_read_;
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

void LiveTrace::note_tensor(const jit::Value* value, const at::Tensor& tensor) {
  const auto term = env_.find(value);
  if (term == env_.end() || !term->second.is_value()) return;
  const Value& row = values_[term->second.id];
  if (row.source == ValueSource::input) input_tensors_[row.index] = tensor.detach();
  if (row.source != ValueSource::parameter) return;
  LiveTensor& parameter = modules_.tensors()[row.index];
  if (parameter.data.defined()) return;
  parameter.data = tensor.detach();
  // Buffers may be folded (position ids, masks). Parameters keep their names and are not folded.
  if (parameter.kind == ParameterKind::parameter) return;
  term->second.seen[0] = parameter.data;
  term->second.known = true;
}

bool LiveTrace::is_data(const jit::Value* value) const {
  const auto term = env_.find(value);
  return term != env_.end() && term->second.is_value() && !term->second.known && !term->second.number &&
         !from_sizes_.contains(term->second.id);
}

void LiveTrace::read(const jit::Node& node) {
  if (node.kind() == c10::prim::TracedAttr) return read_attribute(node);
  if (node.kind() == c10::prim::CallFunction || node.kind() == c10::prim::CallMethod) return call_scripted(node);
  if (read_second_name(node)) return;
  if (!read_structure(node, env_)) {
    const c10::FunctionSchema* schema = node.maybeSchema();
    const bool stays = schema == nullptr || schema->is_mutable() || node.isNondeterministic();
    keep(read_operation(node, env_, true), node, stays);
  }
  note_producers(node);
}

// Reads another name of a tied tensor. The tracer records it as a view of the tensor's first name.
bool LiveTrace::read_second_name(const jit::Node& node) {
  if (node.kind() != c10::aten::view) return false;
  const jit::Node* before = node.prev();
  while (before != nullptr && (before->kind() == c10::prim::Constant || before->kind() == c10::prim::ListConstruct))
    before = before->prev();
  const auto first = attribute_of_.find(node.input(0));
  if (before == nullptr || before->kind() != c10::prim::TracedAttr || first == attribute_of_.end()) return false;
  if (!env_.contains(before->output())) return false;
  modules_.tensors().back().tied_to = first->second;
  return true;
}

// Reads a conversion that the tracer inserted directly after the operation it converts, in a part of the graph that has
// already been read.
void LiveTrace::read_inserted(const jit::Node& node) {
  if (node.kind() == c10::prim::Param) return;
  const std::size_t before = operations_.size();
  read(node);
  if (operations_.size() == before || operations_.back().reads.empty()) return;
  operations_.back().after = operations_.back().reads.back();
}

// Returns true for the traced module's own forward. An ONNX export gives it a block and a scope without a name.
bool LiveTrace::is_outermost(std::int32_t call) const {
  return call == 0 || (calls_[call].parent == 0 && calls_[call].scope.ends_with("::"));
}

std::int32_t LiveTrace::call_of(const jit::Node& node) const {
  const auto block = call_of_block_.find(node.owningBlock());
  return block == call_of_block_.end() ? open_.back().call : block->second;  // scripted code has its own blocks
}

// Notes the operations that produced the node's inputs, also through lists and tuples.
void LiveTrace::note_producers(const jit::Node& node) {
  std::vector<std::size_t> producers;
  for (const jit::Value* input : node.inputs()) {
    const auto found = producers_.find(input);
    if (found != producers_.end()) producers.insert(producers.end(), found->second.begin(), found->second.end());
  }
  if (last_kept_ == &node) {
    operations_.back().reads = std::move(producers);
    producers = {operations_.size() - 1};
  }
  for (const jit::Value* output : node.outputs()) producers_[output] = producers;
}

void LiveTrace::read_attribute(const jit::Node& node) {
  const std::string name = without_self(node.s(c10::attr::scope));
  const c10::TypePtr& type = node.output()->type();
  attribute_of_[node.output()] = name;
  if (const auto object = type->cast<c10::ClassType>(); object && object->is_module()) {
    module_types_[name] = object;
    return modules_.add_module(name, archive::plain_type_name(object->name()->qualifiedName()));
  }
  const auto tensor_type = type->cast<c10::TensorType>();
  if (!tensor_type) return;
  LiveTensor tensor;
  tensor.name = name;
  const Type declared = program::declared_type(type);
  tensor.dtype = declared.dtype;
  if (declared.dims) {
    for (const Dim& dim : *declared.dims) tensor.shape.push_back(dim.size);
  }
  // The module's type distinguishes parameters from buffers.
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
  const program::Term term =
      new_value(*node.output(), ValueSource::parameter, static_cast<std::int32_t>(modules_.tensors().size()));
  values_[term.id].name = name;
  tensor.value = term.id;
  env_[node.output()] = term;
  modules_.add_tensor(std::move(tensor));
}

}  // namespace whence::recorder::live
