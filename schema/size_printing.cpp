// Prints sizes as text that size_text.cpp can parse.
#include <algorithm>

#include "schema/size.h"

namespace whence {

namespace {

using Kind = SizeAtom::Kind;
using Term = Size::Term;
using Names = std::function<std::string(SymbolId)>;

std::string operand_text(const Size& size, const Names& name_of) {
  const std::string text = text_of(size, name_of);
  const auto in_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return std::ranges::all_of(text, in_name) ? text : "(" + text + ")";
}

std::string text_of(const SizeAtom& atom, const Names& name_of) {
  if (atom.kind == Kind::symbol) return name_of(atom.symbol);
  if (atom.kind == Kind::floor_division) {
    return "(" + operand_text(atom.operands[0], name_of) + "//" + operand_text(atom.operands[1], name_of) + ")";
  }
  std::string text = atom.kind == Kind::minimum ? "Min" : atom.kind == Kind::maximum ? "Max" : atom.name;
  if (atom.kind == Kind::call && atom.operands.empty()) return text;
  const char* before = "(";
  for (const Size& operand : atom.operands) text += before + text_of(operand, name_of), before = ", ";
  return text + ")";
}

// Returns the text of a term without its sign: "2*batch" for -2*batch.
std::string text_of(const Term& term, const Names& name_of) {
  std::vector<std::string> factors;
  for (const auto& factor : term.factors) factors.push_back(text_of(*factor, name_of));
  std::string text = term.coefficient == 1 || term.coefficient == -1
                         ? ""
                         : std::to_string(term.coefficient).substr(term.coefficient < 0 ? 1 : 0);
  for (std::size_t i = 0; i < factors.size();) {
    std::size_t times = 1;
    while (i + times < factors.size() && *term.factors[i + times] == *term.factors[i]) ++times;
    text += (text.empty() ? "" : "*") + factors[i] + (times > 1 ? "**" + std::to_string(times) : "");
    i += times;
  }
  return text;
}

}  // namespace

std::string text_of(const Size& size, const Names& name_of) {
  if (!size.is_known()) return "?";
  std::vector<const Term*> terms;
  for (const Term& term : size.terms()) terms.push_back(&term);
  // Products with more factors come first, as in sympy.
  std::ranges::stable_sort(terms, std::greater(), [](const Term* term) { return term->factors.size(); });
  std::string text;
  const auto add = [&](bool negative, const std::string& part) {
    text += text.empty() ? (negative ? "-" : "") : negative ? " - " : " + ";
    text += part;
  };
  for (const Term* term : terms) add(term->coefficient < 0, text_of(*term, name_of));
  const std::int64_t number = size.number();
  if (number != 0 || terms.empty()) add(number < 0, std::to_string(number).substr(number < 0 ? 1 : 0));
  return text;
}

}  // namespace whence
