// Operations proper: recorded as nodes, and executed when there are example inputs.
#include <stdexcept>

#include "recorder/base/torch_error.h"
#include "recorder/script/evaluator.h"
#include "recorder/script/watch.h"
#include "schema/written_views.h"

namespace whence::recorder {

namespace jit = torch::jit;

namespace {

// What they return follows from a tensor's type alone, so a trace leaves no operation for them.
bool asks_type(const jit::Node& node) {
  static const std::unordered_set<std::string> names = {
      "aten::dim",        "aten::is_floating_point",
      "aten::is_complex", "aten::is_contiguous",
      "prim::dtype",      "prim::device",
      "prim::layout",     "prim::is_cuda",
      "prim::is_cpu",     "prim::is_quantized",
      "prim::is_sparse",  "prim::is_mps",
      "prim::is_meta",    "prim::requires_grad",
      "prim::type",       "prim::is_mkldnn",
      "prim::is_nested",  "prim::is_xpu",
      "prim::is_xla",
  };
  return names.count(node.kind().toQualString()) > 0;
}

// PyTorch's recurrent kernels compare neither the batch of the initial state with the input's nor the input's features
// with the weights', and leave their memory where those differ, as they do when one is a dynamic axis.
void check_recurrent_state(const jit::Node& node, const jit::Stack& stack) {
  const std::string name = node.kind().toQualString();
  if (name != "aten::lstm" && name != "aten::gru" && name != "aten::rnn_tanh" && name != "aten::rnn_relu") return;
  constexpr std::size_t most = 9;  // arguments of both forms: x, state, ..., batch_first and x, batch sizes, state, ...
  if (stack.size() < most || !stack[0].isTensor()) return;
  const at::Tensor& input = stack[0].toTensor();
  const bool packed = stack[1].isTensor() && stack[1].toTensor().scalar_type() == at::kLong;
  const c10::IValue& given = stack[packed ? 2 : 1];
  const at::Tensor state = given.isTensorList() ? given.toTensorList().get(0) : given.toTensor();
  const c10::IValue& weights = stack[packed ? 3 : 2];
  const std::int64_t features = weights.isTensorList() ? weights.toTensorList().get(0).sizes().back() : -1;
  if (features >= 0 && input.size(-1) != features) {
    throw std::invalid_argument("the weights are for " + std::to_string(features) + " features, the input has " +
                                std::to_string(input.size(-1)));
  }
  if (state.dim() != 3 || (!packed && input.dim() != 3)) return;
  const std::int64_t batch =
      packed ? stack[1].toTensor()[0].item<std::int64_t>() : input.size(stack[most - 1].toBool() ? 0 : 1);
  if (state.size(1) == batch) return;
  throw std::invalid_argument("the initial state is of batch " + std::to_string(state.size(1)) + ", the input of " +
                              std::to_string(batch));
}

// An operator of any number of arguments (aten::format) finds their number on the stack, above them.
void tell_count(const jit::Node& node, jit::Stack& stack) {
  const jit::Operator* found = node.maybeOperator();
  if (found != nullptr && found->hasOperation() && found->schema().is_vararg()) {
    stack.emplace_back(static_cast<std::int64_t>(stack.size()));
  }
}

// Operators that ONNX can split into a sequence; what is unpacked at once has to have a certain length.
bool becomes_sequence(const jit::Value& output) {
  static const std::unordered_set<std::string> splits{"aten::unbind", "aten::split", "aten::chunk"};
  const auto unpacks = [](const jit::Use& use) { return use.user->kind() == c10::prim::ListUnpack; };
  return splits.contains(output.node()->kind().toQualString()) && std::ranges::none_of(output.uses(), unpacks);
}

bool holds_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) return true;
  for (const auto& inner : type.containedTypes()) {
    if (holds_tensor(*inner)) return true;
  }
  return false;
}

}  // namespace

std::string base_name_of_value(const std::string& debug_name) {
  const std::size_t dot = debug_name.find_last_of('.');
  const bool numbered = dot != std::string::npos && dot + 1 < debug_name.size() &&
                        debug_name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return numbered ? debug_name.substr(0, dot) : debug_name;
}

void Evaluator::operate(const jit::Node& node, Call& call) {
  std::vector<Term> arguments;
  for (const jit::Value* value : node.inputs()) {
    arguments.push_back(term(value, call));
    if (arguments.back().is_optional()) {
      refuse(node, call, "an operator is given a tensor that is there or not, as the data has it",
             "ask before whether it is None");
    }
  }
  if (on_host(node, call, arguments)) return;

  Node recorded = operation_of(node, arguments);
  recorded.origin = origin_of(node, call);

  if (operate_quantized(node, call, arguments, recorded)) return;
  note_memory(recorded, arguments);
  refuse_write_into_list(node, call, arguments);
  refuse_write_through_passage(node, call, arguments);
  before_write(node, arguments);
  const auto results = execute(node, call, arguments);
  const bool known = result_known(node, arguments, results);
  after_write(node, arguments, known);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    PerRun<std::optional<c10::IValue>> seen;
    for (int run = 0; run < runs_; ++run) {
      if (results[run]) seen[run] = (*results[run])[i];
    }
    call.env[node.outputs()[i]] = result(*node.outputs()[i], std::move(seen), known, recorded);
  }
  note_views(node, recorded, arguments, call);
  if (node.outputs().size() == 1) note_same(node, arguments.empty() ? Term() : arguments[0], term(node.output(), call));
  if (node.kind() == c10::prim::NumToTensor) {
    call.env[node.output()].number = std::make_shared<const Term>(arguments[0]);
  }
  follow_data(arguments, recorded);
  tell_of_squeeze(node, call, recorded);
  sink_->push_back(std::move(recorded));
}

// Which reshapes are views, and which of those are written through.
void Evaluator::note_views(const jit::Node& node, const Node& recorded, const std::vector<Term>& arguments,
                           const Call& call) {
  for (const Term* written : written_by(node, arguments)) note_written_views(*sink_, written->id, views_by_strides_);
  if (!is_view_by_strides(recorded.target) || recorded.outputs.size() != 1) return;
  const auto* memory = memory_of(arguments[0]);
  if (memory != nullptr && memory == memory_of(term(node.output(), call))) {
    views_by_strides_.insert(recorded.outputs.front());
  }
}

// squeeze drops an axis where it is 1 long, so over a dynamic axis the rank of its result depends on the size. Inside a
// program it has one rank, that of the example inputs; a result of the program alone may have another (results.cpp).
void Evaluator::tell_of_squeeze(const jit::Node& node, const Call& call, const Node& recorded) {
  if (recorded.target != "aten::squeeze") return;
  const auto* input = recorded.arguments.front().value.as<ValueRef>();
  if (input == nullptr || !program_.values[input->id].type.dims) return;
  const std::vector<Dim>& dims = *program_.values[input->id].type.dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::vector<std::int64_t> axes;
  const Argument* given = recorded.find("dim");
  if (given == nullptr) {
    for (std::int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  } else if (const auto* list = given->as<ArgumentList>()) {
    for (const Argument& element : *list)
      axes.push_back(element.as<std::int64_t>() ? *element.as<std::int64_t>() : rank);
  } else if (const auto* axis = given->as<std::int64_t>()) {
    axes.push_back(*axis);
  }
  for (std::int64_t axis : axes) {
    if (axis < 0) axis += rank;
    // Where the example has 1 and another run more, the two ranks differ, and export refuses.
    if (axis >= rank || !dims[axis].dynamic || dims[axis].size == 1) continue;
    squeezed_[recorded.outputs.front()].push_back(
        {Code::baked_size,
         Severity::warning,
         "squeeze keeps axis " + std::to_string(axis) +
             ", whose size is dynamic, as it did for the example inputs; PyTorch drops it where it is 1",
         place(node, call),
         "squeeze by number the axes that are always 1, or run the result at sizes above 1 only",
         1,
         {}});
  }
}

// as_strided is the one operator whose result depends on how its argument lies in memory: where that is not the plain
// way, strides and storage offset are recorded, as an argument that is not in the schema.
void Evaluator::note_memory(Node& recorded, const std::vector<Term>& arguments) const {
  if (recorded.target != "aten::as_strided" || !arguments[0].is_value()) return;
  const auto& seen = arguments[0].seen[0];
  if (!seen || !seen->isTensor()) return;
  const at::Tensor& tensor = seen->toTensor();
  if (tensor.is_contiguous() && tensor.storage_offset() == 0) return;
  ArgumentList memory{{tensor.storage_offset()}};
  for (const std::int64_t stride : tensor.strides()) memory.push_back({stride});
  recorded.arguments.push_back({std::string(memory_argument), {std::move(memory)}});
}

// Computes at once what involves no value of the program, or asks only for a tensor's type. Nothing is recorded.
bool Evaluator::on_host(const jit::Node& node, Call& call, const std::vector<Term>& arguments) {
  for (const jit::Value* output : node.outputs()) {
    if (holds_tensor(*output->type())) return false;
  }
  const bool type_only = asks_type(node) && runs_ > 0;
  const bool deterministic = !node.isNondeterministic();
  if (!type_only) {
    for (const Term& term : arguments) {
      if (term.has_values() || term.kind == Term::Kind::object || !deterministic) return false;
    }
  }
  jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto value = host(arguments[i], node.inputs()[i]->type(), 0);
    if (!value) return false;
    stack.push_back(std::move(*value));
  }
  tell_count(node, stack);
  try {
    node.getOperation()(stack);
  } catch (const std::exception& error) {
    if (speculative()) return false;
    throw Error(Code::run_failed, torch_message(error), "give example inputs that the model accepts",
                place(node, call));
  }
  for (std::size_t i = 0; i < node.outputs().size(); ++i) call.env[node.outputs()[i]] = from_host(stack[i], "");
  return true;
}

// Results with another layout than strides have no bytes of their shape; a nested tensor has no shape, though its
// layout is said to be strides. Of complex numbers in half precision a Program has no dtype.
void Evaluator::refuse_without_shape(const jit::Node& node, const jit::Stack& results, const Call& call) {
  const std::string name = node.kind().toQualString();
  for (const c10::IValue& result : results) {
    if (!result.isTensor() || !result.toTensor().defined()) continue;
    if (result.toTensor().is_nested()) {
      throw Error(Code::unsupported_feature, name + " makes a nested tensor, which ONNX operators cannot take",
                  "keep the tensor padded; where PyTorch's own attention makes it, trace after "
                  "torch.backends.mha.set_fastpath_enabled(False), as whence.export does",
                  place(node, call));
    }
    if (result.toTensor().scalar_type() == at::kComplexHalf) {
      throw Error(Code::unsupported_feature,
                  name + " makes a complex tensor in half precision, which has no form in ONNX",
                  "compute with complex64", place(node, call));
    }
    if (result.toTensor().layout() == at::kStrided) continue;
    throw Error(Code::unsupported_feature, name + " makes a sparse tensor, which ONNX operators cannot take",
                "keep the tensor dense", place(node, call));
  }
}

PerRun<std::optional<std::vector<c10::IValue>>> Evaluator::execute(const jit::Node& node, Call& call,
                                                                   const std::vector<Term>& arguments) {
  PerRun<std::optional<std::vector<c10::IValue>>> results;
  const std::vector<const Term*> written = watches_.empty() ? std::vector<const Term*>() : written_by(node, arguments);
  for (int run = 0; run < runs_; ++run) {
    if (!active_[run] || !alive_[run]) continue;
    jit::Stack stack;
    bool complete = true;
    for (std::size_t i = 0; complete && i < arguments.size(); ++i) {
      auto value = host(arguments[i], node.inputs()[i]->type(), run);
      complete = value.has_value();
      if (complete) stack.push_back(std::move(*value));
    }
    if (!complete) continue;
    try {
      check_recurrent_state(node, stack);
      for (Watch* watch : watches_) watch->save(written, run);
      tell_count(node, stack);
      node.getOperation()(stack);
      results[run] = std::vector<c10::IValue>(stack.begin(), stack.end());
    } catch (const std::exception& error) {
      if (pretends_[run]) continue;
      if (run > 1) {
        alive_[run] = false;
        continue;
      }
      const Place where = place(node, call);
      if (run == 1) {
        SecondRunFailed failure(
            Code::baked_size, "the model does not run where the dynamic axes have other sizes: " + torch_message(error),
            "compute sizes from the input's shape in the model, give axes that are equal one name, or leave one out of "
            "--dynamic",
            where);
        failure.reached = program_.values.size();
        throw failure;
      }
      throw Error(Code::run_failed, "PyTorch cannot run the model on these inputs: " + torch_message(error),
                  "give inputs that the model accepts with --input or --inputs", where);
    }
    refuse_without_shape(node, stack, call);
  }
  return results;
}

// The term for one result, and its values among the node's outputs. Lists become one value an element.
Term Evaluator::result(const jit::Value& output, PerRun<std::optional<c10::IValue>> seen, bool known, Node& node) {
  const std::string name = base_name_of_value(output.debugName());
  const auto found = std::find_if(seen.begin(), seen.end(), [](const auto& value) { return value.has_value(); });
  const c10::IValue* first = found == seen.end() ? nullptr : &**found;
  if (first != nullptr && first->isNone()) return {};
  std::size_t count = 0;
  bool list = output.type()->kind() == c10::TypeKind::ListType;
  if (list && first != nullptr && first->isList()) {
    count = first->toListRef().size();
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const auto& value) { return value && value->toListRef().size() != count; })) {
      if (becomes_sequence(output)) return sequence_result(std::move(seen), node);
      throw Error(Code::baked_size, "the number of results of " + qualified(node) + " depends on a dynamic size",
                  "leave that axis out of --dynamic", {.stage = "read", .op = qualified(node)});
    }
  } else if (list) {
    list = false;  // not run: only unpacking says how many there are
    for (const auto& use : output.uses()) {
      if (use.user->kind() != c10::prim::ListUnpack) continue;
      count = use.user->outputs().size();
      list = true;
    }
  }
  if (!list) {
    Term term;
    term.kind = Term::Kind::value;
    term.id = new_value(name, ValueSource::node, none_id);
    term.known = known;
    term.seen = std::move(seen);
    program_.values[term.id].type = type_of(term.seen, output.type());
    if (known && term.seen[0]) {
      const c10::IValue& value = *term.seen[0];
      known_.emplace(term.id, value);
      if (value.isTensor() && value.toTensor().has_storage()) {
        known_in_[value.toTensor().storage().unsafeGetStorageImpl()].push_back(term.id);
      }
    }
    node.outputs.push_back(term.id);
    return term;
  }
  node.list_output = true;
  std::vector<Term> items;
  for (std::size_t i = 0; i < count; ++i) {
    PerRun<std::optional<c10::IValue>> element;
    for (int run = 0; run < runs_; ++run) {
      if (seen[run]) element[run] = seen[run]->toListRef().at(i);
    }
    Term term;
    term.kind = Term::Kind::value;
    term.id = new_value(name, ValueSource::node, none_id);
    term.known = known || (node.target == "aten::size" && element[0] && static_size(node, i));
    term.seen = element;
    program_.values[term.id].type = type_of(element, output.type()->containedTypes().at(0));
    if (term.known && element[0]) known_.emplace(term.id, *element[0]);
    node.outputs.push_back(term.id);
    items.push_back(std::move(term));
  }
  return Term::container(Term::Kind::list, std::move(items), depth_);
}

// A list of tensors with as many elements as the data or a dynamic size has it.
Term Evaluator::sequence_result(PerRun<std::optional<c10::IValue>> seen, Node& node) {
  Term whole;
  whole.kind = Term::Kind::value;
  whole.sequence = true;
  whole.id = new_sequence(seen, DType::undefined);
  for (const auto& list : seen) {
    for (const c10::IValue& element : list ? list->toListRef() : c10::ArrayRef<c10::IValue>()) {
      Term each;
      each.kind = Term::Kind::value;
      each.seen[0] = element;
      note_element(each);
    }
  }
  whole.seen = std::move(seen);
  node.outputs.push_back(whole.id);
  return Term::container(Term::Kind::list, {std::move(whole)}, depth_);
}

Argument argument(const Term& term, const c10::Type* type) {
  if (type != nullptr && type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType().get();
  }
  switch (term.kind) {
    case Term::Kind::none:
    case Term::Kind::unset:
    case Term::Kind::optional:
    case Term::Kind::object:
      return {None{}};
    case Term::Kind::value:
      return {ValueRef{term.id}};
    case Term::Kind::list:
    case Term::Kind::tuple:
    case Term::Kind::dict: {
      if (term.is_sequence()) return {ValueRef{term.items->front().id}};
      const c10::Type* element = type != nullptr && type->kind() == c10::TypeKind::ListType
                                     ? type->castRaw<c10::ListType>()->getElementType().get()
                                     : nullptr;
      ArgumentList list;
      for (const Term& item : *term.items) list.push_back(argument(item, element));
      return {std::move(list)};
    }
    case Term::Kind::literal:
      break;
  }
  const c10::IValue& value = *term.seen[0];
  if (value.isInt()) {
    switch (type == nullptr ? c10::TypeKind::IntType : type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return {from_scalar_type(static_cast<int>(value.toInt()))};
      case c10::TypeKind::LayoutType: {
        std::ostringstream name;
        name << static_cast<c10::Layout>(value.toInt());
        return {Keyword{name.str()}};
      }
      case c10::TypeKind::MemoryFormatType: {
        std::ostringstream name;
        name << static_cast<c10::MemoryFormat>(value.toInt());
        return {Keyword{name.str()}};
      }
      default:
        return {value.toInt()};
    }
  }
  if (value.isDouble()) return {value.toDouble()};
  if (value.isBool()) return {value.toBool()};
  if (value.isString()) return {value.toStringRef()};
  if (value.isDevice()) return {Keyword{value.toDevice().str()}};
  if (value.isComplexDouble()) return {ComplexNumber{value.toComplexDouble().real(), value.toComplexDouble().imag()}};
  return {None{}};
}

std::optional<c10::IValue> host(const Term& term, const c10::TypePtr& type, int run) {
  c10::TypePtr wanted = type;
  while (wanted && wanted->kind() == c10::TypeKind::OptionalType)
    wanted = wanted->expect<c10::OptionalType>()->getElementType();
  switch (term.kind) {
    case Term::Kind::none:
    case Term::Kind::unset:
      return c10::IValue();
    case Term::Kind::optional: {
      const auto given = host(term.given(), c10::BoolType::get(), run);
      if (!given) return std::nullopt;
      if (!given->toBool()) return c10::IValue();
      return host(term.content(), wanted, run);
    }
    case Term::Kind::literal:
      return term.seen[0];
    case Term::Kind::object:
      return c10::IValue(term.object);
    case Term::Kind::value:
      return term.seen[run];
    case Term::Kind::list: {
      if (term.is_sequence()) return term.items->front().seen[run];
      const c10::TypePtr element = wanted && wanted->kind() == c10::TypeKind::ListType
                                       ? wanted->expect<c10::ListType>()->getElementType()
                                       : c10::AnyType::get();
      c10::impl::GenericList list(element);
      for (const Term& item : *term.items) {
        auto value = host(item, element, run);
        if (!value) return std::nullopt;
        list.push_back(std::move(*value));
      }
      return c10::IValue(list);
    }
    case Term::Kind::tuple: {
      std::vector<c10::IValue> elements;
      const auto types = wanted ? wanted->containedTypes() : c10::ArrayRef<c10::TypePtr>();
      for (std::size_t i = 0; i < term.items->size(); ++i) {
        auto value = host((*term.items)[i], i < types.size() ? types[i] : nullptr, run);
        if (!value) return std::nullopt;
        elements.push_back(std::move(*value));
      }
      return c10::IValue(c10::ivalue::Tuple::create(std::move(elements)));
    }
    case Term::Kind::dict: {
      if (!wanted || wanted->kind() != c10::TypeKind::DictType) return std::nullopt;
      const auto dict_type = wanted->expect<c10::DictType>();
      c10::impl::GenericDict dict(dict_type->getKeyType(), dict_type->getValueType());
      for (std::size_t i = 0; i + 1 < term.items->size(); i += 2) {
        auto key = host((*term.items)[i], dict_type->getKeyType(), run);
        auto value = host((*term.items)[i + 1], dict_type->getValueType(), run);
        if (!key || !value) return std::nullopt;
        dict.insert(*key, *value);
      }
      return c10::IValue(dict);
    }
  }
  return std::nullopt;
}

}  // namespace whence::recorder
