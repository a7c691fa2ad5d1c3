#include "recorder/program/term.h"

#include "recorder/archive/module_tree.h"

namespace whence::recorder {

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

DType element_dtype(const PerRun<std::optional<c10::IValue>>& lists) {
  for (const auto& list : lists) {
    if (!list || list->toListRef().empty()) continue;
    const c10::IValue element = list->toListRef()[0];
    if (element.isTensor()) return dtype_of(element.toTensor());
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
              "give it the same keys, in one order, on both sides of a condition and in each iteration",
              {.stage = "read"});
}

DType dtype_of_number(const c10::IValue& number) {
  return number.isInt() ? DType::int64 : number.isDouble() ? DType::float64 : DType::boolean;
}

bool same_term(const Term& a, const Term& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Term::Kind::literal) return same_literal(*a.seen[0], *b.seen[0]);
  return a.id == b.id && a.items == b.items && a.object == b.object;
}

c10::StorageImpl* memory_of(const Term& term) {
  const auto& seen = term.seen[0];
  const bool tensor = term.is_value() && seen && seen->isTensor() && seen->toTensor().has_storage();
  return tensor ? seen->toTensor().storage().unsafeGetStorageImpl() : nullptr;
}

std::vector<const Term*> written_by(const torch::jit::Node& node, const std::vector<Term>& arguments) {
  std::vector<const Term*> written;
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr) return written;
  for (std::size_t i = 0; i < arguments.size() && i < schema->arguments().size(); ++i) {
    const auto* alias = schema->arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && memory_of(arguments[i]) != nullptr) written.push_back(&arguments[i]);
  }
  return written;
}

bool changes_first_argument(const torch::jit::Node& node) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  if (schema == nullptr || schema->arguments().empty()) return false;
  const c10::AliasInfo* alias = schema->arguments().front().alias_info();
  return alias != nullptr && alias->isWrite();
}

}  // namespace whence::recorder
