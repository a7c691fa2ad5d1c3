// Computes a size with operations of a graph. The caller provides functions that read a length and add a node.
#pragma once

#include <functional>
#include <optional>

#include "schema/size.h"

namespace whence {

template <class Value>
struct SizeSteps {
  std::function<std::optional<Value>(SymbolId)> length;  // nullopt if it cannot be read
  std::function<Value(std::int64_t)> literal;
  // Adds a node for aten::add, aten::mul, aten::floordiv, prim::min or prim::max of two integers.
  std::function<Value(const char* target, const Value& a, const Value& b)> compute;

  // Returns nullopt if a length cannot be read or if the size contains a call, which has no operator.
  std::optional<Value> number(const Size& size) const {
    if (!size.is_known()) return std::nullopt;
    std::optional<Value> sum;
    for (const Size::Term& term : size.terms()) {
      std::optional<Value> product;
      for (const auto& factor : term.factors) {
        const auto each = number(*factor);
        if (!each) return std::nullopt;
        product = product ? compute("aten::mul", *product, *each) : *each;
      }
      if (term.coefficient != 1) product = compute("aten::mul", *product, literal(term.coefficient));
      sum = sum ? compute("aten::add", *sum, *product) : *product;
    }
    if (!sum) return literal(size.number());
    return size.number() == 0 ? sum : compute("aten::add", *sum, literal(size.number()));
  }

 private:
  std::optional<Value> number(const SizeAtom& atom) const {
    if (atom.kind == SizeAtom::Kind::symbol) return length(atom.symbol);
    if (atom.kind == SizeAtom::Kind::call) return std::nullopt;
    const char* target = atom.kind == SizeAtom::Kind::floor_division ? "aten::floordiv"
                         : atom.kind == SizeAtom::Kind::minimum      ? "prim::min"
                                                                     : "prim::max";
    std::optional<Value> result;
    for (const Size& operand : atom.operands) {
      const auto each = number(operand);
      if (!each) return std::nullopt;
      result = result ? compute(target, *result, *each) : *each;
    }
    return result;
  }
};

}  // namespace whence
