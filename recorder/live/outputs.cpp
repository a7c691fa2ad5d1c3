// Finds the outputs of a trace. The graph has them only after the tracer has moved every module call into a method of
// its own, with new nodes. A new node refers to the same source text as the node it replaces. The tracer makes one
// source text for each node, so it identifies the operation that was read during recording.
#include "recorder/live/trace.h"
#include "recorder/program/structure.h"

namespace whence::recorder::live {

namespace jit = torch::jit;

void LiveTrace::end() {
  if (ended_) return;
  ended_ = true;
  for (const jit::Value* input : graph_->inputs()) names_at_end_.push_back(input->debugName());
  reached_end_ = !graph_->outputs().empty();
  std::vector<Env> callers(1);
  for (const jit::Value* output : graph_->outputs()) {
    const auto term = resolve(output, callers);
    if (!term) reached_end_ = false;  // scripted code after the last recorded operation produced it
    if (term) program::add_outputs(*term, "", outputs_);
  }
  // Later calls need only the names of the graph's inputs.
  env_.clear();
}

// Returns the result of the operation or scripted call with the source text of the value's node.
std::optional<program::Term> LiveTrace::resolve_by_source(const jit::Value& value) const {
  const jit::Node* producer =
      value.node()->kind() == c10::prim::ListUnpack ? value.node()->input()->node() : value.node();
  const auto source = producer->sourceRange().source();
  if (!source) return std::nullopt;
  const auto operation = by_source_.find(source.get());
  if (operation != by_source_.end() && operations_[operation->second].node.target == producer->kind().toQualString()) {
    const std::vector<ValueId>& outputs = operations_[operation->second].node.outputs;
    if (value.offset() < outputs.size()) return program::Term::of_value(outputs[value.offset()]);
    return std::nullopt;
  }
  const auto scripted = scripted_results_.find(source.get());
  return scripted == scripted_results_.end() ? std::nullopt : std::optional(scripted->second);
}

// Returns the term of a value of the finished graph. `callers` holds the parameters of each entered method.
std::optional<program::Term> LiveTrace::resolve(const jit::Value* value, std::vector<Env>& callers) {
  if (const auto passed = callers.back().find(value); passed != callers.back().end()) return passed->second;
  const jit::Node* node = value->node();
  if (node->kind() == c10::prim::Param) {
    const auto input = env_.find(value);
    return input == env_.end() ? std::nullopt : std::optional<program::Term>(input->second);
  }
  if (const auto kind = program::built_container(*node)) {
    std::vector<program::Term> items;
    for (const jit::Value* item : node->inputs()) {
      auto term = resolve(item, callers);
      if (!term) return std::nullopt;
      items.push_back(std::move(*term));
    }
    return program::Term::container(*kind, std::move(items));
  }
  switch (node->kind()) {
    case c10::prim::Constant: {
      const auto constant = jit::toIValue(value);
      if (!constant || constant->isNone()) return program::Term();
      if (!constant->isTensor()) return program::Term::literal(*constant);
      for (const program::Term& term : constant_terms_) {  // the node is a copy, but its tensor is the original
        if (term.seen[0]->toTensor().is_alias_of(constant->toTensor())) return term;
      }
      return std::nullopt;
    }
    case c10::prim::TupleUnpack: {
      const auto tuple = resolve(node->input(), callers);
      if (tuple && tuple->is_container() && value->offset() < tuple->items->size())
        return (*tuple->items)[value->offset()];
      return std::nullopt;
    }
    default:
      break;
  }
  if (const auto term = resolve_by_source(*value)) return term;
  // PyTorch writes contiguous() of a contiguous tensor into the trace and runs no operation.
  if (node->kind() == c10::aten::contiguous) return resolve(node->input(0), callers);
  if (node->kind() != c10::prim::CallMethod) return std::nullopt;
  jit::Function* method = program::called_method(*node);
  if (method == nullptr) return std::nullopt;
  const jit::Graph& graph = *jit::toGraphFunction(*method).graph();
  Env parameters;
  for (std::size_t i = 1; i < graph.inputs().size() && i < node->inputs().size(); ++i) {
    if (auto term = resolve(node->inputs()[i], callers)) parameters[graph.inputs()[i]] = std::move(*term);
  }
  callers.push_back(std::move(parameters));
  auto result = graph.outputs().empty() ? std::nullopt : resolve(graph.outputs()[0], callers);
  callers.pop_back();
  return result;
}

}  // namespace whence::recorder::live
