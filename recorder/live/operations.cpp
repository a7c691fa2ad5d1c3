// Converts the nodes of a live trace to terms and operations.
#include <algorithm>
#include <functional>

#include "recorder/archive/module_tree.h"
#include "recorder/live/trace.h"
#include "recorder/program/structure.h"

namespace whence::recorder::live {

namespace jit = torch::jit;

program::Term LiveTrace::new_value(const jit::Value& value, ValueSource source, std::int32_t index) {
  Value row;
  row.type = program::declared_type(value.type());
  row.source = source;
  row.index = index;
  if (value.hasDebugName()) row.name = program::base_name_of_value(value.debugName());
  return program::Term::of_value(values_.add(std::move(row)));
}

program::Term LiveTrace::term_of(const jit::Value* value, Env& env) {
  auto found = env.find(value);
  if (found == env.end() && call_of_block_.count(value->node()->owningBlock()) > 0) {
    read_inserted(*value->node());
    found = env.find(value);
  }
  if (found == env.end()) return {};
  // The tracer looks up a variable's Python name only when an operation first reads it.
  if (found->second.is_value() && value->hasDebugName()) {
    Value& row = values_[found->second.id];
    if (row.name.empty()) row.name = program::base_name_of_value(value->debugName());
  }
  return found->second;
}

program::Term LiveTrace::constant(const c10::IValue& value) {
  if (!value.isTensor()) return program::Term::literal(value);
  if (!value.toTensor().defined()) return {};
  const at::Tensor tensor = value.toTensor().detach();
  program::mark_number(tensor);
  Value row;
  row.type = {ValueKind::tensor, archive::dtype_of(tensor), program::static_dims(tensor.sizes())};
  row.source = ValueSource::constant;
  row.index = static_cast<std::int32_t>(constants_.size());
  constants_.push_back(tensor);
  program::Term term = program::Term::of_value(values_.add(std::move(row)), {tensor});
  term.known = true;
  constant_terms_.push_back(term);
  return term;
}

// Reads constants and nodes that build or unpack lists, tuples and dicts. Returns false if the node is an operation.
bool LiveTrace::read_structure(const jit::Node& node, Env& env) {
  if (const auto kind = program::built_container(node)) {
    std::vector<program::Term> items;
    for (const jit::Value* value : node.inputs()) items.push_back(term_of(value, env));
    env[node.output()] = program::Term::container(*kind, std::move(items));
    return true;
  }
  switch (node.kind()) {
    case c10::prim::Constant: {
      const auto value = jit::toIValue(node.output());
      env[node.output()] = value ? constant(*value) : program::Term();
      return true;
    }
    case c10::prim::TupleUnpack:
    case c10::prim::ListUnpack:
      return unpack(node, env);
    case c10::aten::values:  // an input that is a dict
      env[node.output()] = term_of(node.input(), env);
      return true;
    case c10::aten::Int:
    case c10::aten::ScalarImplicit: {
      // Tracing converts sizes to tensors and back around every use. PyTorch keeps these pairs only in the outermost
      // module. So does whence, so that its operations equal those of the saved archive.
      const program::Term number = term_of(node.input(), env);
      if (!number.number || is_outermost(call_of(node))) return false;
      env[node.output()] = *number.number;
      keep({}, node, false);
      operations_.back().cancels_out = true;
      return true;
    }
    default:
      return false;
  }
}

// Unpacks a list that is an operation's result or an input. Only this node shows the number and types of its elements.
bool LiveTrace::unpack(const jit::Node& node, Env& env) {
  const program::Term list = term_of(node.input(), env);
  if (!list.is_container() && !list.is_value()) return false;
  if (const auto items = program::unpacked_items(node, list)) {
    for (std::size_t i = 0; i < items->size(); ++i) env[node.outputs()[i]] = (*items)[i];
    return true;
  }
  const auto is_open = [](const Operation& each) { return each.node.list_output && each.node.outputs.empty(); };
  const auto producer = std::find_if(operations_.rbegin(), operations_.rend(), is_open);
  const bool input = list.is_value() && values_[list.id].source == ValueSource::input;
  std::vector<program::Term> items;
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    program::Term item = new_value(*node.outputs()[i], input ? ValueSource::input : ValueSource::node,
                                   input ? values_[list.id].index : none_id);
    if (input) values_[item.id].name = values_[list.id].name + "." + std::to_string(i);
    if (list.is_container() && producer != operations_.rend()) producer->node.outputs.push_back(item.id);
    env[node.outputs()[i]] = item;
    items.push_back(std::move(item));
  }
  if (list.is_container()) *list.items = items;
  env[node.input()] = program::Term::container(program::Term::Kind::list, std::move(items));
  return true;
}

Node LiveTrace::read_operation(const jit::Node& node, Env& env, bool run) {
  std::vector<program::Term> arguments;
  for (const jit::Value* value : node.inputs()) arguments.push_back(term_of(value, env));
  Node recorded = program::operation_of(node, arguments);
  const auto results = run ? compute(node, arguments) : std::nullopt;
  const bool from_sizes = results || follows_from_sizes(node, arguments);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const jit::Value& output = *node.outputs()[i];
    if (output.type()->kind() == c10::TypeKind::ListType) {
      recorded.list_output = true;
      env[&output] = program::Term::container(program::Term::Kind::list, {});
      continue;
    }
    program::Term term = new_value(output, ValueSource::node, none_id);
    if (results && !(*results)[i].isNone()) {
      term.seen[0] = (*results)[i];
      term.known = true;
      known_values_[term.id] = (*results)[i];
    }
    if (node.kind() == c10::prim::NumToTensor) term.number = std::make_shared<const program::Term>(arguments[0]);
    recorded.outputs.push_back(term.id);
    if (from_sizes) from_sizes_.insert(term.id);
    env[&output] = std::move(term);
  }
  forget_written(node, arguments);
  return recorded;
}

void LiveTrace::keep(Node node, const jit::Node& from, bool stays) {
  last_kept_ = &from;
  const auto source = from.sourceRange().source();
  if (source) by_source_[source.get()] = operations_.size();
  operations_.push_back({std::move(node), call_of(from), from.sourceRange(), {}, std::nullopt, stays, false});
}

namespace {

// Folding costs a run of the operation, so only small results are folded.
constexpr std::int64_t largest_folded = 1 << 20;

bool stays_small(const jit::Value& output) {
  if (output.type()->kind() == c10::TypeKind::ListType) return false;
  const auto tensor = output.type()->cast<c10::TensorType>();
  return !tensor || (tensor->numel() && *tensor->numel() * 8 <= static_cast<std::size_t>(largest_folded));
}

bool is_settled(const program::Term& term) {
  if (!term.items) return term.settled().has_value();
  return std::ranges::all_of(*term.items, is_settled);
}

// Returns the size or number of elements that an aten::size or aten::numel node reads from a tensor with these sizes;
// none if the axis is unknown or out of range.
std::optional<std::int64_t> size_read_by(const jit::Node& node, const std::vector<program::Term>& arguments,
                                         const std::vector<Dim>& dims) {
  static const auto numel = c10::Symbol::fromQualString("aten::numel");  // a constant of LibTorch only since 2.10
  if (node.kind() == numel) {
    std::int64_t count = 1;
    for (const Dim& dim : dims) count *= dim.size;
    return count;
  }
  const auto axis = arguments[1].settled();
  if (!axis || !axis->isInt()) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const std::int64_t at = axis->toInt() < 0 ? axis->toInt() + rank : axis->toInt();
  if (at < 0 || at >= rank) return std::nullopt;
  return dims[static_cast<std::size_t>(at)].size;
}

bool reads_size(const jit::Node& node, const std::vector<program::Term>& arguments) {
  static const auto numel = c10::Symbol::fromQualString("aten::numel");
  const std::size_t count = node.kind() == c10::aten::size ? 2 : node.kind() == numel ? 1 : 0;
  return count > 0 && arguments.size() == count && arguments[0].is_value();
}

}  // namespace

// Returns the results if they depend only on the example's sizes and on constants.
std::optional<std::vector<c10::IValue>> LiveTrace::compute(const jit::Node& node,
                                                           const std::vector<program::Term>& arguments) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || schema->is_mutable() || node.isNondeterministic()) return std::nullopt;
  if (!node.kind().is_aten() && !node.kind().is_prim()) return std::nullopt;  // a custom operator may do anything
  if (reads_size(node, arguments)) {
    const auto& dims = values_[arguments[0].id].type.dims;
    const auto size = dims ? size_read_by(node, arguments, *dims) : std::nullopt;
    return size ? std::optional(std::vector<c10::IValue>{*size}) : std::nullopt;
  }
  if (node.kind().toQualString() == std::string("aten::empty")) return std::nullopt;
  if (!std::ranges::all_of(arguments, is_settled)) return std::nullopt;
  // Large results are cheaper to compute than to store.
  if (!std::ranges::all_of(node.outputs(), [](const jit::Value* output) { return stays_small(*output); })) {
    return std::nullopt;
  }
  auto stack = program::host_arguments(node, arguments, 0);
  if (!stack) return std::nullopt;
  try {
    node.getOperation()(*stack);
  } catch (const std::exception&) {
    return std::nullopt;  // it is recorded as an operation instead
  }
  return std::vector<c10::IValue>(stack->begin(), stack->end());
}

// Returns true if the node's results depend only on sizes and constants. Unlike compute(), includes in-place writes
// such as `n *= x.shape[1]`, after which the value of n is unknown.
bool LiveTrace::follows_from_sizes(const jit::Node& node, const std::vector<program::Term>& arguments) const {
  if (node.isNondeterministic() || (!node.kind().is_aten() && !node.kind().is_prim())) return false;
  const std::function<bool(const program::Term&)> follows = [&](const program::Term& term) {
    if (term.items) return std::ranges::all_of(*term.items, follows);
    return term.settled().has_value() || (term.is_value() && from_sizes_.contains(term.id));
  };
  return std::ranges::all_of(arguments, follows);
}

// Marks all values that share memory with a written tensor as unknown.
void LiveTrace::forget_written(const jit::Node& node, const std::vector<program::Term>& arguments) {
  for (const program::Term* written : program::written_by(node, arguments)) {
    if (!written->known) continue;
    const auto shares = [&](const c10::IValue& value) {
      return value.isTensor() && value.toTensor().has_storage() &&
             value.toTensor().storage().is_alias_of(written->seen[0]->toTensor().storage());
    };
    std::erase_if(known_values_, [&](const auto& entry) { return shares(entry.second); });
    for (auto& [value, term] : env_) {
      if (term.known && term.seen[0] && shares(*term.seen[0])) term.known = false;
    }
  }
}

}  // namespace whence::recorder::live
