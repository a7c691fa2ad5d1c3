#include "recorder/program/term.h"

#include "recorder/archive/module_tree.h"

namespace whence::recorder::program {

c10::TypePtr without_optional(c10::TypePtr type) {
  while (type && type->kind() == c10::TypeKind::OptionalType)
    type = type->expect<c10::OptionalType>()->getElementType();
  return type;
}

Node operation_of(const torch::jit::Node& node, const std::vector<Term>& arguments) {
  Node recorded;
  recorded.target = node.kind().toQualString();
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema != nullptr) recorded.overload = schema->overload_name();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool named = schema != nullptr && i < schema->arguments().size();
    recorded.arguments.push_back({named ? schema->arguments()[i].name() : "arg" + std::to_string(i),
                                  argument(arguments[i], named ? schema->arguments()[i].real_type().get() : nullptr)});
  }
  return recorded;
}

void add_outputs(const Term& term, const std::string& name, std::vector<ProgramOutput>& outputs) {
  const auto below = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
  switch (term.kind) {
    case Term::Kind::none:
    case Term::Kind::unset:
    case Term::Kind::object:
      return;
    case Term::Kind::optional:
      throw Error(Code::internal, "an optional result is not a value of the program",
                  "please report this with the model", {.stage = "read"});
    case Term::Kind::literal:
    case Term::Kind::value:
      outputs.push_back({name, argument(term, nullptr)});
      return;
    case Term::Kind::dict:
      for (std::size_t i = 0; i + 1 < term.items->size(); i += 2) {
        const c10::IValue key = (*term.items)[i].settled().value_or(c10::IValue());
        add_outputs((*term.items)[i + 1], below(key.isString() ? key.toStringRef() : std::to_string(i / 2)), outputs);
      }
      return;
    case Term::Kind::list:
    case Term::Kind::tuple:
      if (term.is_sequence()) {
        outputs.push_back({name, argument(term, nullptr)});
        return;
      }
      // Elements of the outermost tuple have no names of their own.
      for (std::size_t i = 0; i < term.items->size(); ++i) {
        add_outputs((*term.items)[i], name.empty() ? "" : name + "." + std::to_string(i), outputs);
      }
      return;
  }
}

std::string base_name_of_value(const std::string& debug_name) {
  const std::size_t dot = debug_name.find_last_of('.');
  const bool numbered = dot != std::string::npos && dot + 1 < debug_name.size() &&
                        debug_name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return numbered ? debug_name.substr(0, dot) : debug_name;
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
  const c10::TypePtr declared = without_optional(type);
  switch (term.kind) {
    case Term::Kind::none:
    case Term::Kind::unset:
      return c10::IValue();
    case Term::Kind::optional: {
      const auto flag = host(term.flag(), c10::BoolType::get(), run);
      if (!flag) return std::nullopt;
      if (!flag->toBool()) return c10::IValue();
      return host(term.content(), declared, run);
    }
    case Term::Kind::literal:
      return term.seen[0];
    case Term::Kind::object:
      return c10::IValue(term.object);
    case Term::Kind::value:
      return term.seen[run];
    case Term::Kind::list: {
      if (term.is_sequence()) return term.items->front().seen[run];
      const c10::TypePtr element = declared && declared->kind() == c10::TypeKind::ListType
                                       ? declared->expect<c10::ListType>()->getElementType()
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
      const auto types = declared ? declared->containedTypes() : c10::ArrayRef<c10::TypePtr>();
      for (std::size_t i = 0; i < term.items->size(); ++i) {
        auto value = host((*term.items)[i], i < types.size() ? types[i] : nullptr, run);
        if (!value) return std::nullopt;
        elements.push_back(std::move(*value));
      }
      return c10::IValue(c10::ivalue::Tuple::create(std::move(elements)));
    }
    case Term::Kind::dict: {
      if (!declared || declared->kind() != c10::TypeKind::DictType) return std::nullopt;
      const auto dict_type = declared->expect<c10::DictType>();
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

std::optional<torch::jit::Stack> host_arguments(const torch::jit::Node& node, const std::vector<Term>& arguments,
                                                int run) {
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto value = host(arguments[i], node.inputs()[i]->type(), run);
    if (!value) return std::nullopt;
    stack.push_back(std::move(*value));
  }
  return stack;
}

void mark_number(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() != 0) return;
  const c10::ScalarType type = tensor.scalar_type();
  if (type == c10::kDouble || type == c10::kLong || type == c10::kBool || type == c10::kComplexDouble) {
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
}

Type declared_type(const c10::TypePtr& type) {
  switch (type ? type->kind() : c10::TypeKind::AnyType) {
    case c10::TypeKind::TensorType: {
      Type result;
      const auto tensor = type->expect<c10::TensorType>();
      if (tensor->scalarType()) result.dtype = from_scalar_type(static_cast<int>(*tensor->scalarType()));
      if (const auto sizes = tensor->sizes().concrete_sizes()) result.dims = static_dims(*sizes);
      return result;
    }
    case c10::TypeKind::IntType:
    case c10::TypeKind::NumberType:  // almost always a size, the only number that the tracer converts
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

DType element_dtype(const RunValues& lists) {
  for (const auto& list : lists) {
    if (!list || list->toListRef().empty()) continue;
    const c10::IValue element = list->toListRef()[0];
    if (element.isTensor()) return archive::dtype_of(element.toTensor());
    return element.isInt() ? DType::int64 : element.isDouble() ? DType::float64 : DType::boolean;
  }
  return DType::undefined;
}

c10::TypePtr item_type(const c10::TypePtr& container, std::size_t i) {
  if (!container) return nullptr;
  if (container->kind() == c10::TypeKind::OptionalType) {
    return i == 0 ? c10::TypePtr(c10::BoolType::get()) : container->expect<c10::OptionalType>()->getElementType();
  }
  const auto inner = container->containedTypes();
  if (inner.empty()) return nullptr;
  if (container->kind() == c10::TypeKind::DictType) return inner[i % 2];
  return i < inner.size() ? inner[i] : inner.back();
}

void check_same_keys(const Term& a, const Term& b) {
  bool same = a.items->size() == b.items->size();
  for (std::size_t i = 0; same && i < a.items->size(); i += 2) {
    const auto one = (*a.items)[i].settled(), other = (*b.items)[i].settled();
    same = one && other && same_literal(*one, *other);
  }
  if (same) return;
  throw Error(Code::unsupported_feature, "which keys a dict has, or their order, depends on data",
              "use the same keys in the same order on both sides of a condition and in each iteration",
              {.stage = "read"});
}

std::vector<Dim> static_dims(c10::IntArrayRef sizes) {
  std::vector<Dim> dims;
  for (const std::int64_t size : sizes) dims.push_back({size, false, none_id});
  return dims;
}

DType dtype_of_number(const c10::IValue& number) {
  return number.isInt() ? DType::int64 : number.isDouble() ? DType::float64 : DType::boolean;
}

bool same_term(const Term& a, const Term& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Term::Kind::literal) return same_literal(*a.seen[0], *b.seen[0]);
  return a.id == b.id && a.items == b.items && a.object == b.object;
}

c10::StorageImpl* memory_of(const Term& term, int run) {
  const auto& seen = term.seen[run];
  const bool tensor = term.is_value() && seen && seen->isTensor() && seen->toTensor().has_storage();
  return tensor ? seen->toTensor().storage().unsafeGetStorageImpl() : nullptr;
}

std::vector<c10::StorageImpl*> memories_of(const Term& term) {
  std::vector<c10::StorageImpl*> memories;
  for (int run = 0; run < max_runs; ++run) {
    c10::StorageImpl* memory = memory_of(term, run);
    if (memory != nullptr && std::ranges::find(memories, memory) == memories.end()) memories.push_back(memory);
  }
  return memories;
}

std::vector<const Term*> written_by(const torch::jit::Node& node, const std::vector<Term>& arguments) {
  std::vector<const Term*> written;
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr) return written;
  for (std::size_t i = 0; i < arguments.size() && i < schema->arguments().size(); ++i) {
    const auto* alias = schema->arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && !memories_of(arguments[i]).empty()) written.push_back(&arguments[i]);
  }
  return written;
}

bool changes_first_argument(const torch::jit::Node& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || schema->arguments().empty()) return false;
  const c10::AliasInfo* alias = schema->arguments().front().alias_info();
  return alias != nullptr && alias->isWrite();
}

}  // namespace whence::recorder::program
