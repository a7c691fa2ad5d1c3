#include "annotator/pt2/size_expression.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace whence::pt2 {
namespace {

constexpr int deepest = 50;

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Function(argument, ..., keyword=value), 'text', 12; each piece becomes text on its way up.
class Tree {
 public:
  explicit Tree(std::string_view text) : rest_(text) {}

  std::optional<std::string> parse() {
    auto text = expression(0);
    return text && rest_.empty() ? text : std::nullopt;
  }

 private:
  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  std::string_view word() {
    std::size_t end = 0;
    while (end < rest_.size() && (in_name(rest_[end]) || (end == 0 && rest_[end] == '-'))) ++end;
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found;
  }

  std::optional<std::string> expression(int depth) {
    if (depth > deepest) return std::nullopt;
    if (take("'")) {
      const std::size_t quote = rest_.find('\'');
      if (quote == std::string_view::npos || quote == 0) return std::nullopt;  // no piece of an expression is empty
      const std::string text(rest_.substr(0, quote));
      rest_.remove_prefix(quote + 1);
      return text;
    }
    const std::string name(word());
    if (name.empty()) return std::nullopt;
    if (!take("(")) return name;
    std::vector<std::string> arguments;
    while (!take(")")) {
      if (!arguments.empty() && !take(", ")) return std::nullopt;
      auto argument = expression(depth + 1);
      if (!argument) return std::nullopt;
      if (take("=")) {  // an assumption such as integer=True
        if (word().empty()) return std::nullopt;
        continue;
      }
      arguments.push_back(std::move(*argument));
    }
    return written(name, arguments);
  }

  // Has terms outside of all parentheses.
  static bool is_sum(const std::string& text) {
    int open = 0;
    for (const char c : text) {
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (c == ' ' && open == 0) return true;
    }
    return false;
  }
  static std::string factor(const std::string& text) { return is_sum(text) ? "(" + text + ")" : text; }

  // An operand of what binds more tightly than a product: a name or a number, or in parentheses.
  static std::string operand(const std::string& text) {
    return std::ranges::all_of(text, in_name) ? text : "(" + text + ")";
  }

  static std::optional<std::string> written(const std::string& name, const std::vector<std::string>& arguments) {
    if (arguments.empty()) return std::nullopt;
    if (name == "Symbol" || name == "Integer") return arguments.front();
    if (name == "Add") return sum(arguments);
    if (name == "Mul") return product(arguments);
    const bool two = arguments.size() == 2;
    if (two && name == "Rational") return arguments[0] + "/" + arguments[1];
    if (two && name == "Pow") return operand(arguments[0]) + "**" + operand(arguments[1]);
    if (two && (name == "FloorDiv" || name == "CleanDiv")) {
      return "(" + operand(arguments[0]) + "//" + operand(arguments[1]) + ")";
    }
    return name + "(" + joined(arguments, ", ") + ")";
  }

  static std::string joined(const std::vector<std::string>& arguments, std::string_view separator) {
    std::string text;
    for (const std::string& argument : arguments) {
      if (!text.empty()) text += separator;
      text += argument;
    }
    return text;
  }

  static std::string sum(const std::vector<std::string>& terms) {
    std::string text;
    for (const std::string& term : terms) {
      const bool negative = term.front() == '-';
      if (!text.empty()) text += negative ? " - " : " + ";
      text += negative && !text.empty() ? term.substr(1) : term;
    }
    return text;
  }

  static std::string product(const std::vector<std::string>& factors) {
    const bool negated = factors.size() > 1 && factors.front() == "-1";
    std::string text;
    for (std::size_t i = negated ? 1 : 0; i < factors.size(); ++i) {
      if (!text.empty()) text += "*";
      text += factor(factors[i]);
    }
    return negated ? "-" + text : text;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::string> size_expression(std::string_view tree) { return Tree(tree).parse(); }

std::string renamed(const std::string& expression, std::string_view from, std::string_view to) {
  std::string text;
  for (std::size_t start = 0; start < expression.size();) {
    std::size_t end = start;
    while (end < expression.size() && in_name(expression[end])) ++end;
    if (end == start) {
      text += expression[start++];
      continue;
    }
    const std::string_view word = std::string_view(expression).substr(start, end - start);
    text += word == from ? to : word;
    start = end;
  }
  return text;
}

}  // namespace whence::pt2
