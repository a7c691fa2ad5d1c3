#include "recorder/composite.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "recorder/finish.h"
#include "recorder/module_tree.h"
#include "recorder/term.h"
#include "recorder/torch_error.h"
#include "schema/result.h"

namespace whence {
namespace {

using c10::DispatchKey;

constexpr DispatchKey listening = DispatchKey::TESTING_ONLY_GenericMode;  // above every other, and free in a release

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

class Steps {
 public:
  Steps(const CompositeCall& call, Program& program) : call_(call), program_(program) {}

  void run();
  void called(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack);

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Code::converter_refused, qualified(call_.call) + ": " + why,
                "export with run_decompositions(), or write the model without this operator", {.stage = "decompose"});
  }

  at::Tensor example(const Type& type, std::uint64_t seed) const;
  c10::IValue given(const Argument& argument, const c10::Type* type) const;

  ValueId new_value(const at::Tensor& tensor, ValueSource source);
  Argument tensor(const at::Tensor& tensor);
  Argument argument_of(const c10::IValue& value, const c10::Type* type);
  void add_results(const c10::IValue& value, Node& node);

  const CompositeCall& call_;
  Program& program_;
  bool opened_ = false;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> alive_;  // so that no tensor takes the address of one that was seen
  std::unordered_map<const c10::TensorImpl*, ValueId> values_;
};

thread_local Steps* current = nullptr;

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (current != nullptr) return current->called(op, keys, *stack);
  const c10::impl::ExcludeDispatchKeyGuard unheard(listening);
  op.callBoxed(stack);
}

// ---- from the call to PyTorch's values ----------------------------------------------------------------------------

at::Tensor Steps::example(const Type& type, std::uint64_t seed) const {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : type.dims.value()) sizes.push_back(dim.size);
  const auto scalar_type = static_cast<at::ScalarType>(to_scalar_type(type.dtype));
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  if (is_floating(type.dtype)) return at::rand(sizes, generator, at::kFloat).to(scalar_type);
  return at::randint(0, 2, sizes, generator, at::kLong).to(scalar_type);
}

c10::IValue Steps::given(const Argument& argument, const c10::Type* wanted) const {
  const c10::Type* type = without_optional(wanted);
  const c10::TypeKind kind = type->kind();
  if (argument.is_none()) return {};
  if (const auto* value = argument.as<ValueRef>()) {
    if (kind != c10::TypeKind::TensorType) refuse("an argument is a number that the model computes");
    return inputs_.at(static_cast<std::size_t>(value->id));
  }
  if (kind == c10::TypeKind::ListType) {
    const auto* list_type = type->castRaw<c10::ListType>();
    const auto* items = argument.as<ArgumentList>();
    if (items == nullptr) refuse("a number stands where a list should");
    c10::impl::GenericList list(list_type->getElementType());
    for (const Argument& item : *items) list.push_back(given(item, list_type->getElementType().get()));
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
  } else if (argument.as<Keyword>() != nullptr && wanted->kind() == c10::TypeKind::OptionalType) {
    result = {};  // device, layout and memory format do not matter here
  } else {
    refuse("an argument is of a kind that cannot be passed on");
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
  const auto id = static_cast<ValueId>(program_.values.size());
  Value value;
  value.source = source;
  value.type.dtype = dtype_of(tensor);
  std::vector<Dim>& dims = value.type.dims.emplace();
  for (const std::int64_t size : tensor.sizes()) dims.push_back({size, false, none_id});
  program_.values.push_back(std::move(value));
  values_[tensor.unsafeGetTensorImpl()] = id;
  alive_.push_back(tensor);
  return id;
}

// A tensor that no call made holds a number that is written in the operator's definition.
Argument Steps::tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return {None{}};
  const auto known = values_.find(tensor.unsafeGetTensorImpl());
  if (known != values_.end()) return {ValueRef{known->second}};
  const c10::impl::ExcludeDispatchKeyGuard unheard(listening);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    const at::Scalar number = tensor.item();
    if (number.isBoolean()) return {number.toBool()};
    return number.isIntegral(false) ? Argument{number.toLong()} : Argument{number.toDouble()};
  }
  const ValueId id = new_value(tensor, ValueSource::constant);
  program_.values[id].index = program_.values[id].known = static_cast<ConstantId>(program_.constants.size());
  program_.constants.push_back({data_of(tensor), "", {}, {}});
  return {ValueRef{id}};
}

Argument Steps::argument_of(const c10::IValue& value, const c10::Type* wanted) {
  const c10::Type* type = without_optional(wanted);
  if (value.isTensor()) return tensor(value.toTensor());
  if (!value.isList()) return argument(Term::literal(value), type);
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
    refuse("it depends on the content of its arguments (" + qualified(node) + ")");
  }
}

void Steps::called(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  Node node;
  node.target = schema.name();
  node.overload = schema.overload_name();
  const bool first = !std::exchange(opened_, true);
  if (first || (!call_.convertible(qualified(node)) && is_composite(op))) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, listening), &stack);
    return;
  }
  const auto& arguments = schema.arguments();
  const std::size_t start = stack.size() - arguments.size();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    node.arguments.push_back({arguments[i].name(), argument_of(stack[start + i], arguments[i].real_type().get())});
  }
  {
    const c10::impl::ExcludeDispatchKeyGuard unheard(listening);
    op.callBoxed(&stack);
  }
  for (std::size_t i = stack.size() - schema.returns().size(); i < stack.size(); ++i) add_results(stack[i], node);
  program_.body.nodes.push_back(std::move(node));
}

void Steps::run() {
  const at::NoGradGuard no_gradients;
  const auto op = c10::Dispatcher::singleton().findSchema({call_.call.target, call_.call.overload});
  if (!op || !is_composite(*op)) return;
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    inputs_.push_back(example(call_.inputs[i], call_.seed + i));
    new_value(inputs_.back(), ValueSource::input);
  }
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const Argument* held = call_.call.find(argument.name());
    if (held == nullptr && !argument.default_value()) refuse("'" + argument.name() + "' is missing");
    stack.push_back(held == nullptr ? *argument.default_value() : given(*held, argument.real_type().get()));
  }
  {
    const c10::impl::IncludeDispatchKeyGuard heard(listening);
    op->callBoxed(&stack);
  }
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) {
      program_.outputs.push_back({"", tensor(result.toTensor())});
    } else if (result.isTensorList()) {
      for (const at::Tensor& each : result.toTensorVector()) program_.outputs.push_back({"", tensor(each)});
    } else {
      refuse("it returns something other than tensors");
    }
  }
}

}  // namespace

bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics) {
  Steps made(call, steps);
  current = &made;
  try {
    made.run();
  } catch (const Error& error) {
    diagnostics = error.diagnostics();
  } catch (const std::exception& error) {
    diagnostics.push_back({Code::converter_refused,
                           Severity::error,
                           qualified(call.call) + ": PyTorch could not run it on an example: " + torch_message(error),
                           {.stage = "decompose"},
                           "export with run_decompositions()",
                           1,
                           {}});
  }
  current = nullptr;
  return diagnostics.empty() && !steps.outputs.empty();
}

}  // namespace whence

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&whence::fallback>());
}
