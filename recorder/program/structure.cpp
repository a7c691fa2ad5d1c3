#include "recorder/program/structure.h"

namespace whence::recorder::program {

namespace jit = torch::jit;

std::optional<Term::Kind> built_container(const jit::Node& node) {
  switch (node.kind()) {
    case c10::prim::ListConstruct:
      return Term::Kind::list;
    case c10::prim::TupleConstruct:
      return Term::Kind::tuple;
    case c10::prim::DictConstruct:
      return Term::Kind::dict;
    default:
      return std::nullopt;
  }
}

std::shared_ptr<const std::vector<Term>> unpacked_items(const jit::Node& node, const Term& input) {
  if (node.kind() != c10::prim::ListUnpack && node.kind() != c10::prim::TupleUnpack) return nullptr;
  if (!input.is_container() || input.items->size() != node.outputs().size()) return nullptr;
  return input.items;
}

std::optional<bool> same_object(const Term& a, const Term& b) {
  if (a.kind == Term::Kind::none || b.kind == Term::Kind::none) return a.kind == b.kind;
  if (!a.is_value() || !b.is_value()) return std::nullopt;
  return a.id == b.id;
}

jit::Function* called_method(const jit::Node& node) {
  const auto type = node.input(0)->type()->cast<c10::ClassType>();
  jit::Function* method = type ? type->findMethod(node.s(c10::attr::name)) : nullptr;
  return method != nullptr && method->isGraphFunction() ? method : nullptr;
}

jit::Function* called_function(const jit::Node& node) {
  const auto type = node.input(0)->type()->cast<c10::FunctionType>();
  return type && type->function()->isGraphFunction() ? type->function() : nullptr;
}

}  // namespace whence::recorder::program
