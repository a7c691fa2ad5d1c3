#include "recorder/script/composite.h"

#include <unordered_map>
#include <unordered_set>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include "recorder/archive/module_tree.h"
#include "recorder/base/torch_error.h"
#include "recorder/program/finish.h"
#include "recorder/program/term.h"
#include "schema/result.h"

namespace whence::recorder::script {

using program::Term;
namespace {

using c10::DispatchKey;

constexpr DispatchKey observer_key =
    DispatchKey::TESTING_ONLY_GenericMode;  // has the highest priority; unused in a release

const c10::Type* without_optional(const c10::Type* type) {
  while (type != nullptr && type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType().get();
  }
  return type;
}

bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
}

// Visits every tensor among the values, including those in lists; `visit` may replace it.
template <class Visit>
void for_each_tensor(torch::jit::Stack& values, const Visit& visit) {
  for (c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) {
      at::Tensor tensor = value.toTensor();
      visit(tensor);
      value = tensor;
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (at::Tensor tensor : value.toTensorVector()) {
        visit(tensor);
        list.push_back(tensor);
      }
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (std::optional<at::Tensor> tensor : value.toOptionalTensorVector()) {
        if (tensor && tensor->defined()) visit(*tensor);
        list.push_back(tensor);
      }
      value = list;
    }
  }
}

class Steps {
 public:
  Steps(const CompositeCall& call, Program& program) : call_(call), program_(program) {}

  void run();
  // Runs the steps again, and throws Error(converter_refused) if they give another result: then some kernel writes
  // unobserved, for example into a tensor that was made empty.
  void check() const;
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);
  void count_memory(std::size_t bytes);

 private:
  [[noreturn]] void refuse_size(const std::string& what) const {
    throw Error(Code::over_limit, qualified(call_.call) + ": to take it apart, PyTorch would " + what,
                "write the model without this operator, or with smaller numbers", {.stage = "decompose"});
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Code::converter_refused, qualified(call_.call) + ": " + why, "write the model without this operator",
                {.stage = "decompose"});
  }

  at::Tensor example(const Type& type, std::uint64_t seed) const;
  c10::IValue host_value(const Argument& argument, const c10::Type* type) const;

  // Returns the value of a tensor; none_id for a number from the operator's definition.
  ValueId id_of(const at::Tensor& tensor) const {
    const auto known = values_.find(tensor.unsafeGetTensorImpl());
    return known == values_.end() ? none_id : known->second;
  }
  ValueId new_value(const at::Tensor& tensor, ValueSource source);
  Argument tensor(const at::Tensor& tensor);
  Argument argument_of(const c10::IValue& value, const c10::Type* type);
  void add_results(const c10::IValue& value, Node& node);
  void refuse_unseen_writes(const c10::FunctionSchema& schema, const c10::IValue* arguments) const;

  // An observed call, to be run again.
  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack arguments;
    std::vector<ValueId> reads, writes;  // ids of the tensors in arguments and results, in order
  };

  const CompositeCall& call_;
  Program& program_;
  bool opened_ = false;
  std::size_t allocated_ = 0;  // bytes, including those that were freed
  std::vector<at::Tensor> inputs_;
  std::vector<Call> calls_;
  std::vector<at::Tensor> results_;
  std::unordered_map<ValueId, at::Tensor> before_;  // initial contents of inputs and constants
  std::unordered_set<const void*> constants_;       // memory of the constants
  std::vector<at::Tensor> alive_;                   // keeps tensors alive, so that no later tensor has their address
  std::unordered_map<const c10::TensorImpl*, ValueId> values_;
};

thread_local Steps* current = nullptr;

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (current != nullptr) return current->observe(op, keys, *stack);
  const c10::impl::ExcludeDispatchKeyGuard unobserved(observer_key);
  op.callBoxed(stack);
}

// Limits the memory: an archive may request more than any machine has, or a computation that takes too long.
void Steps::count_memory(std::size_t bytes) {
  constexpr std::size_t max_bytes = std::size_t{1} << 32, max_total = std::size_t{1} << 36;
  allocated_ += std::min(bytes, max_total);
  if (bytes > max_bytes || allocated_ > max_total)
    refuse_size("need more memory than " + std::to_string(max_bytes >> 30) + " GiB");
}

// Counts the memory for tensors of this thread during its lifetime.
class CountedMemory : public c10::Allocator {
 public:
  CountedMemory() : counted_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, priority); }
  ~CountedMemory() override { c10::SetCPUAllocator(counted_, priority); }
  CountedMemory(const CountedMemory&) = delete;
  CountedMemory& operator=(const CountedMemory&) = delete;

  c10::DataPtr allocate(std::size_t bytes) override {
    if (current != nullptr) current->count_memory(bytes);
    return counted_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return counted_->raw_deleter(); }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return counted_->is_simple_data_ptr(data); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { counted_->copy_data(to, from, bytes); }

 private:
  static constexpr std::uint8_t priority = 255;
  c10::Allocator* counted_;
};

// ---- from the call to PyTorch's values ----------------------------------------------------------------------------

// The type may come from an untrusted archive.
at::Tensor Steps::example(const Type& type, std::uint64_t seed) const {
  constexpr std::int64_t max_elements = std::int64_t{1} << 28;
  if (type.dtype == DType::undefined) refuse("an argument has a dtype that whence does not know");
  std::vector<std::int64_t> sizes;
  std::int64_t elements = 1;
  for (const Dim& dim : type.dims.value()) {
    sizes.push_back(dim.size);
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(dim.size, 1), &elements) || elements > max_elements) {
      refuse("an argument is too large");
    }
  }
  const auto scalar_type = static_cast<at::ScalarType>(to_scalar_type(type.dtype));
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  if (is_floating(type.dtype)) return at::rand(sizes, generator, at::kFloat).to(scalar_type);
  if (c10::isComplexType(scalar_type)) {
    const at::Tensor real = at::rand(sizes, generator, at::kFloat);
    return at::complex(real, at::rand(sizes, generator, at::kFloat)).to(scalar_type);
  }
  return at::randint(0, 2, sizes, generator, at::kLong).to(scalar_type);
}

c10::IValue Steps::host_value(const Argument& argument, const c10::Type* declared) const {
  const c10::Type* type = without_optional(declared);
  const c10::TypeKind kind = type->kind();
  if (argument.is_none()) return {};
  if (const auto* value = argument.as<ValueRef>()) {
    if (kind != c10::TypeKind::TensorType) refuse("an argument is a number that the model computes");
    return inputs_.at(static_cast<std::size_t>(value->id.number()));
  }
  if (kind == c10::TypeKind::ListType) {
    const auto* list_type = type->castRaw<c10::ListType>();
    const auto* items = argument.as<ArgumentList>();
    if (items == nullptr) refuse("an argument is a number instead of a list");
    c10::impl::GenericList list(list_type->getElementType());
    for (const Argument& item : *items) list.push_back(host_value(item, list_type->getElementType().get()));
    return list;
  }
  c10::IValue result;
  if (const auto* integer = argument.as<std::int64_t>()) {
    result = kind == c10::TypeKind::FloatType ? c10::IValue(static_cast<double>(*integer)) : c10::IValue(*integer);
  } else if (const auto* number = argument.as<double>()) {
    result = *number;
  } else if (const auto* flag = argument.as<bool>()) {
    result = *flag;
  } else if (const auto* text = argument.as<std::string>()) {
    result = *text;
  } else if (const auto* dtype = argument.as<DType>()) {
    result = static_cast<std::int64_t>(to_scalar_type(*dtype));
  } else if (argument.as<Keyword>() != nullptr && declared->kind() == c10::TypeKind::OptionalType) {
    result = {};  // device, layout and memory format do not matter here
  } else {
    refuse("an argument has a kind that cannot be passed to PyTorch");
  }
  if (kind == c10::TypeKind::TensorType) {
    at::Tensor wrapped = c10::scalar_to_tensor(result.toScalar());
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return wrapped;
  }
  return result;
}

// ---- from PyTorch's values to steps -------------------------------------------------------------------------------

ValueId Steps::new_value(const at::Tensor& tensor, ValueSource source) {
  const auto id = ValueId(program_.values.size());
  Value value;
  value.source = source;
  value.type.dtype = archive::dtype_of(tensor);
  std::vector<Dim>& dims = value.type.dims.emplace();
  for (const std::int64_t size : tensor.sizes()) dims.push_back({size, false, none_id});
  program_.values.push_back(std::move(value));
  values_[tensor.unsafeGetTensorImpl()] = id;
  alive_.push_back(tensor);
  return id;
}

// Returns the argument for a tensor. A tensor that no observed call made is a number in the operator's definition.
Argument Steps::tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return {None{}};
  const auto known = values_.find(tensor.unsafeGetTensorImpl());
  if (known != values_.end()) return {ValueRef{known->second}};
  const c10::impl::ExcludeDispatchKeyGuard unobserved(observer_key);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    const at::Scalar number = tensor.item();
    if (number.isBoolean()) return {number.toBool()};
    return number.isIntegral(false) ? Argument{number.toLong()} : Argument{number.toDouble()};
  }
  const ValueId id = new_value(tensor, ValueSource::constant);
  before_.emplace(id, tensor.detach().clone());
  if (tensor.has_storage()) constants_.insert(tensor.storage().unsafeGetStorageImpl());
  program_.values[id].known = program_.constants.add({program::data_of(tensor), "", {}, {}});
  program_.values[id].index = program_.values[id].known.number();
  return {ValueRef{id}};
}

Argument Steps::argument_of(const c10::IValue& value, const c10::Type* declared) {
  const c10::Type* type = without_optional(declared);
  if (value.isTensor()) return tensor(value.toTensor());
  if (!value.isList()) return program::argument(Term::literal(value), type);
  const c10::Type* element =
      type->kind() == c10::TypeKind::ListType ? type->castRaw<c10::ListType>()->getElementType().get() : nullptr;
  ArgumentList list;
  for (const c10::IValue& item : value.toListRef()) list.push_back(argument_of(item, element));
  return {std::move(list)};
}

void Steps::add_results(const c10::IValue& value, Node& node) {
  if (value.isTensor()) {
    node.outputs.push_back(new_value(value.toTensor(), ValueSource::node));
  } else if (value.isTensorList()) {
    node.list_output = true;
    for (const at::Tensor& each : value.toTensorVector()) {
      node.outputs.push_back(new_value(each, ValueSource::node));
    }
  } else {
    // Not converter_refused, after which the caller tries another decomposition: each one needs the content.
    throw Error(Code::unsupported_feature,
                qualified(call_.call) + ": it depends on the content of its arguments (" + qualified(node) + ")",
                "write the model without this operator", {.stage = "decompose"});
  }
}

void Steps::observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  Node node;
  node.target = schema.name();
  node.overload = schema.overload_name();
  const bool first = !std::exchange(opened_, true);
  if (first || (!call_.convertible(qualified(node)) && is_composite(op))) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, observer_key), &stack);
    return;
  }
  constexpr std::size_t max_steps = 100000;
  if (calls_.size() >= max_steps) refuse_size("take more than " + std::to_string(max_steps) + " steps");
  const auto& arguments = schema.arguments();
  const std::size_t start = stack.size() - arguments.size();
  Call call{op, {stack.begin() + static_cast<std::ptrdiff_t>(start), stack.end()}, {}, {}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    node.arguments.push_back({arguments[i].name(), argument_of(stack[start + i], arguments[i].real_type().get())});
  }
  refuse_unseen_writes(schema, call.arguments.data());
  for_each_tensor(call.arguments, [&](const at::Tensor& tensor) { call.reads.push_back(id_of(tensor)); });
  {
    const c10::impl::ExcludeDispatchKeyGuard unobserved(observer_key);
    op.callBoxed(&stack);
  }
  for (std::size_t i = stack.size() - schema.returns().size(); i < stack.size(); ++i) add_results(stack[i], node);
  call.writes = node.outputs;
  calls_.push_back(std::move(call));
  program_.body.nodes.push_back(std::move(node));
}

// Refuses a write to a tensor that no observed call made: its previous contents are unknown. Refuses a write that
// enlarges an empty part of another tensor, as in fft_fftfreq: it changes the memory after that part.
void Steps::refuse_unseen_writes(const c10::FunctionSchema& schema, const c10::IValue* arguments) const {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite() || !arguments[i].isTensor()) continue;
    const at::Tensor& tensor = arguments[i].toTensor();
    if (tensor.has_storage() && constants_.contains(tensor.storage().unsafeGetStorageImpl())) {
      refuse("it writes to a tensor of unknown contents (" + schema.name() + ")");
    }
    const bool in_other_memory = tensor.numel() == 0 && tensor.has_storage() && tensor.storage().nbytes() > 0;
    if (in_other_memory) refuse("it writes beyond the end of a tensor (" + schema.name() + ")");
  }
}

void Steps::check() const {
  const at::NoGradGuard no_gradients;
  const c10::impl::ExcludeDispatchKeyGuard unobserved(observer_key);
  std::unordered_map<ValueId, at::Tensor> values;
  for (const auto& [id, tensor] : before_) values.emplace(id, tensor.clone());
  for (const Call& call : calls_) {
    if (call.op.hasTag(at::Tag::nondeterministic_seeded)) return;
    torch::jit::Stack stack = call.arguments;
    auto read = call.reads.begin();
    for_each_tensor(stack, [&](at::Tensor& tensor) {
      const ValueId id = *read++;
      if (id != none_id) tensor = values.at(id);
    });
    call.op.callBoxed(&stack);
    auto write = call.writes.begin();
    for_each_tensor(stack, [&](at::Tensor& tensor) {
      // Fills uninitialized tensors with a number, so that results that depend on their contents differ.
      if (call.op.schema().name().find("empty") != std::string::npos) tensor.fill_(113);
      values[*write++] = tensor;
    });
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const auto* step = program_.outputs[i].value.as<ValueRef>();
    if (step == nullptr) continue;
    const at::Tensor actual = values.at(step->id).resolve_conj().resolve_neg();
    const at::Tensor expected = results_[i].resolve_conj().resolve_neg();
    const bool same = actual.sizes() == expected.sizes() && actual.scalar_type() == expected.scalar_type() &&
                      (actual.is_quantized() || at::allclose(actual, expected, 1e-3, 1e-5, /*equal_nan=*/true));
    if (!same) refuse("some of its steps cannot be observed: the others give another result");
  }
}

void Steps::run() {
  const at::NoGradGuard no_gradients;
  const auto op = c10::Dispatcher::singleton().findSchema({call_.call.target, call_.call.overload});
  if (!op || !is_composite(*op)) return;
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    inputs_.push_back(example(call_.inputs[i], call_.seed + i));
    before_.emplace(new_value(inputs_.back(), ValueSource::input), inputs_.back().clone());
  }
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const Argument* held = call_.call.find(argument.name());
    if (held == nullptr && !argument.default_value()) refuse("'" + argument.name() + "' is missing");
    stack.push_back(held == nullptr ? *argument.default_value() : host_value(*held, argument.real_type().get()));
  }
  {
    const c10::impl::IncludeDispatchKeyGuard observed(observer_key);
    op->callBoxed(&stack);
  }
  for (const c10::IValue& result : stack) {
    if (!result.isTensor() && !result.isTensorList()) refuse("it returns something other than tensors");
  }
  for_each_tensor(stack, [&](const at::Tensor& each) {
    results_.push_back(each);
    program_.outputs.push_back({"", tensor(each)});
  });
}

}  // namespace

bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics) {
  Steps composite(call, steps);
  const CountedMemory counted;
  current = &composite;
  try {
    composite.run();
    composite.check();
  } catch (const Error& error) {
    diagnostics = error.diagnostics();
  } catch (const std::exception& error) {
    diagnostics.push_back({Code::converter_refused,
                           Severity::error,
                           qualified(call.call) + ": PyTorch could not run it on an example: " + torch_message(error),
                           {.stage = "decompose"},
                           "write the model without this operator",
                           1,
                           {}});
  }
  current = nullptr;
  const bool does_something = !steps.outputs.empty() || !steps.body.nodes.empty();  // foreach_add_ returns nothing
  return diagnostics.empty() && does_something;
}

}  // namespace whence::recorder::script

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&whence::recorder::script::fallback>());
}
