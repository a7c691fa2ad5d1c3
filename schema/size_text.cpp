// Parses sizes and conditions in sympy's and Python's notation.
#include "schema/size_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "schema/parse_number.h"
#include "schema/path_conditions.h"

namespace whence {

namespace {

constexpr int max_depth = 60;
constexpr std::int64_t max_power = 16;
constexpr std::size_t max_constraints = 64;

bool part_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A condition in conjunctive normal form.
using Conditions = std::vector<Constraint>;

std::optional<Conditions> either(const Conditions& a, const Conditions& b) {
  if (a.size() * b.size() > max_constraints) return std::nullopt;
  Conditions result;
  for (const Constraint& one : a) {
    for (const Constraint& other : b) {
      result.push_back(one);
      result.back().any.insert(result.back().any.end(), other.any.begin(), other.any.end());
    }
  }
  return result;
}

std::optional<Conditions> refuted(const Conditions& conditions) {
  std::optional<Conditions> result = Conditions{{}};  // one constraint without comparisons, which never holds
  for (const Constraint& constraint : conditions) {
    Conditions all;
    for (const Comparison& each : constraint.any) {
      all.push_back({{{each.left, negated(each.relation), each.right}}});
    }
    result = either(*result, all);
    if (!result) return std::nullopt;
  }
  return result;
}

// A parsed expression: a size, conditions, or a quoted text.
struct Expression {
  std::optional<Size> size;
  std::optional<Conditions> conditions;
  std::optional<std::string> text;
};

// A recursive-descent parser for Python's grammar from `or` down to names. Each step returns nullopt on a syntax error.
class SizeReader {
 public:
  SizeReader(std::string_view text, const SizeNames& names) : rest_(text), names_(names) {}

  std::optional<Expression> complete_text() {
    auto expression = disjunction();
    return expression && rest().empty() ? expression : std::nullopt;
  }

 private:
  std::string_view rest() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front())) != 0) rest_.remove_prefix(1);
    return rest_;
  }

  bool take(std::string_view expected) {
    if (!rest().starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  bool take_word(std::string_view word) {
    const std::string_view text = rest();
    return text.starts_with(word) && (text.size() == word.size() || !part_of_word(text[word.size()])) && take(word);
  }

  // ---- conditions -------------------------------------------------------------------------------------------------

  std::optional<Expression> disjunction() {
    if (++depth_ > max_depth) return std::nullopt;
    auto left = conjunction();
    while (left && take_word("or")) {
      const auto right = conjunction();
      if (!right || !left->conditions || !right->conditions) return std::nullopt;
      left = of(either(*left->conditions, *right->conditions));
    }
    --depth_;
    return left;
  }

  std::optional<Expression> conjunction() {
    auto left = negation();
    while (left && take_word("and")) {
      auto right = negation();
      if (!right || !left->conditions || !right->conditions) return std::nullopt;
      left->conditions->insert(left->conditions->end(), right->conditions->begin(), right->conditions->end());
      if (left->conditions->size() > max_constraints) return std::nullopt;
    }
    return left;
  }

  std::optional<Expression> negation() {
    if (!take_word("not")) return comparison();
    if (++depth_ > max_depth) return std::nullopt;
    const auto inner = negation();
    --depth_;
    return inner && inner->conditions ? of(refuted(*inner->conditions)) : std::nullopt;
  }

  std::optional<Relation> relation() {
    constexpr std::array<std::pair<std::string_view, Relation>, 6> relations{{{"==", Relation::equal},
                                                                              {"!=", Relation::different},
                                                                              {"<=", Relation::at_most},
                                                                              {">=", Relation::at_least},
                                                                              {"<", Relation::less},
                                                                              {">", Relation::greater}}};
    for (const auto& [sign, relation] : relations) {
      if (take(sign)) return relation;
    }
    return std::nullopt;
  }

  // A chain 2 <= x < 5 means both comparisons.
  std::optional<Expression> comparison() {
    auto left = sum();
    std::optional<Conditions> all;
    while (left) {
      const auto relation = this->relation();
      if (!relation) break;
      auto right = sum();
      if (!right || !left->size || !right->size) return std::nullopt;
      if (!all) all.emplace();
      all->push_back({{{*left->size, *relation, *right->size}}});
      left = std::move(right);
    }
    return all ? of(std::move(all)) : left;
  }

  // ---- sizes ------------------------------------------------------------------------------------------------------

  static std::optional<Expression> of(std::optional<Conditions> conditions) {
    return conditions ? std::optional(Expression{{}, std::move(conditions), {}}) : std::nullopt;
  }
  static std::optional<Expression> of(Size size) { return Expression{std::move(size), {}, {}}; }

  std::optional<Expression> sum() {
    auto left = product();
    while (left && left->size) {
      const bool plus = take("+");
      if (!plus && !take("-")) break;
      const auto right = product();
      if (!right || !right->size) return std::nullopt;
      left = of(plus ? *left->size + *right->size : *left->size - *right->size);
    }
    return left;
  }

  std::optional<Expression> product() {
    auto left = signed_factor();
    while (left && left->size) {
      const std::string_view text = rest();
      if (text.starts_with("**")) return std::nullopt;
      const auto operation = take("//") ? '/' : take("*") ? '*' : take("%") ? '%' : take("/") ? ':' : ' ';
      if (operation == ' ') break;
      const auto right = signed_factor();
      if (!right || !right->size) return std::nullopt;
      const Size &a = *left->size, &b = *right->size;
      left = of(operation == '/'   ? floor_div(a, b)
                : operation == '*' ? a * b
                : operation == '%' ? modulo(a, b)
                                   : Size::call("IntTrueDiv", {a, b}));
    }
    return left;
  }

  std::optional<Expression> signed_factor() {
    if (!take("-")) return take("+") ? signed_factor() : power();
    if (++depth_ > max_depth) return std::nullopt;
    const auto inner = signed_factor();
    --depth_;
    return inner && inner->size ? of(Size(-1) * *inner->size) : std::nullopt;
  }

  std::optional<Expression> power() {
    auto base = atom();
    if (!base || !base->size || !take("**")) return base;
    const auto exponent = signed_factor();
    return exponent && exponent->size ? of(raised(*base->size, *exponent->size)) : std::nullopt;
  }

  static Size raised(const Size& base, const Size& exponent) {
    const std::int64_t times = exponent.integer().value_or(-1);
    if (times < 0 || times > max_power) return Size::call("FloatPow", {base, exponent});
    Size product = 1;
    for (std::int64_t i = 0; i < times; ++i) product = product * base;
    return product;
  }

  std::optional<Expression> atom() {
    if (take("(")) {
      auto inner = disjunction();
      return inner && take(")") ? inner : std::nullopt;
    }
    const std::string_view text = rest();
    if (text.empty()) return std::nullopt;
    if (text.front() == '\'') return quoted();
    return std::isdigit(static_cast<unsigned char>(text.front())) != 0 ? number() : named();
  }

  std::optional<Expression> quoted() {
    const std::size_t end = rest_.find('\'', 1);
    if (end == std::string_view::npos) return std::nullopt;
    Expression read{{}, {}, std::string(rest_.substr(1, end - 1))};
    rest_.remove_prefix(end + 1);
    return read;
  }

  std::optional<Expression> number() {
    std::size_t end = 0;
    while (end < rest_.size() && (part_of_word(rest_[end]) || rest_[end] == '.' ||
                                  ((rest_[end] == '-' || rest_[end] == '+') && rest_[end - 1] == 'e'))) {
      ++end;
    }
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end);
    if (is_digits(text)) {
      const auto integer = parse_number<std::int64_t>(text);
      return of(integer ? Size(*integer) : Size::unknown());
    }
    return parse_number<double>(text) ? of(Size::call(text, {})) : std::nullopt;
  }

  // Parses a name with attributes, indices and empty calls, as guards write an axis: L['x'][0].size()[1].
  std::string path() {
    std::size_t end = 0;
    const auto skip_name = [&] {
      while (end < rest_.size() && part_of_word(rest_[end])) ++end;
    };
    skip_name();
    while (end > 0 && end < rest_.size()) {
      const std::string_view next = rest_.substr(end);
      if (next.starts_with("()")) {
        end += 2;
      } else if (next.front() == '[' && next.find(']') != std::string_view::npos) {
        end += next.find(']') + 1;
      } else if (next.front() == '.') {
        ++end;
        skip_name();
      } else {
        break;
      }
    }
    const std::string found(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return found;
  }

  std::optional<Expression> named() {
    const std::string name = path();
    if (name.empty() || name == "and" || name == "or" || name == "not") return std::nullopt;
    if (name == "True" || name == "true") return of(Conditions{});
    if (name == "False" || name == "false") return of(Conditions{{}});
    if (take("(")) return function(name);
    const auto size = names_(name);
    return size ? of(*size) : std::nullopt;
  }

  std::optional<Expression> function(std::string name) {
    std::vector<Expression> arguments;
    for (bool first = true; !take(")"); first = false) {
      if (!first && !take(",")) return std::nullopt;
      if (take_keyword()) continue;
      auto argument = disjunction();
      if (!argument) return std::nullopt;
      arguments.push_back(std::move(*argument));
    }
    for (const std::string_view module : {"math.", "torch.", "sympy."}) {
      if (name.starts_with(module)) name.erase(0, module.size());
    }
    if (arguments.size() == 1 && arguments[0].text) return of_text(name, *arguments[0].text);
    std::vector<Size> sizes;
    for (const Expression& each : arguments) {
      if (each.conditions) return of_conditions(name, arguments);
      if (!each.size) return std::nullopt;
      sizes.push_back(*each.size);
    }
    return sizes.empty() ? std::nullopt : computed(name, std::move(sizes));
  }

  // Skips an assumption such as integer=True, which is not needed here.
  bool take_keyword() {
    const std::string_view text = rest();
    std::size_t end = 0;
    while (end < text.size() && part_of_word(text[end])) ++end;
    if (end == 0 || text.substr(end, 1) != "=" || text.substr(end, 2) == "==") return false;
    rest_.remove_prefix(end + 1);
    end = 0;
    while (end < rest_.size() && part_of_word(rest_[end])) ++end;
    rest_.remove_prefix(end);
    return end > 0;
  }

  std::optional<Expression> of_text(const std::string& function, const std::string& text) const {
    if (function == "Float") {
      const std::size_t sign = text.starts_with('-') ? 1 : 0;
      SizeReader digits(std::string_view(text).substr(sign), names_);
      if (text.size() == sign || std::isdigit(static_cast<unsigned char>(text[sign])) == 0) return std::nullopt;
      const auto read = digits.number();
      return read && digits.rest_.empty() ? of(sign == 1 ? Size(-1) * *read->size : *read->size) : std::nullopt;
    }
    if (function != "Symbol" && function != "Dummy") return std::nullopt;
    const auto size = names_(text);
    return size ? of(*size) : std::nullopt;
  }

  static std::optional<Expression> of_conditions(const std::string& function,
                                                 const std::vector<Expression>& arguments) {
    std::optional<Conditions> result;
    for (const Expression& each : arguments) {
      if (!each.conditions) return std::nullopt;
      if (!result) {
        result = each.conditions;
      } else if (function == "Or") {
        result = either(*result, *each.conditions);
      } else {
        result->insert(result->end(), each.conditions->begin(), each.conditions->end());
      }
      if (!result || result->size() > max_constraints) return std::nullopt;
    }
    if (function == "Not" && arguments.size() == 1) return of(refuted(*result));
    return function == "And" || function == "Or" ? of(std::move(result)) : std::nullopt;
  }

  static std::optional<Expression> computed(const std::string& name, std::vector<Size> operands) {
    const Size& first = operands.front();
    if (name == "Integer" && operands.size() == 1) return of(first);
    if (name == "Add" || name == "Mul") {
      Size result = name == "Add" ? 0 : 1;
      for (const Size& each : operands) result = name == "Add" ? result + each : result * each;
      return of(std::move(result));
    }
    if (name == "Max" || name == "max" || name == "Min" || name == "min") {
      return of(name[1] == 'a' ? maximum(operands) : minimum(operands));
    }
    if (operands.size() == 2) {
      const Size& second = operands.back();
      constexpr std::array<std::pair<std::string_view, Relation>, 12> relations{
          {{"Eq", Relation::equal},
           {"Equality", Relation::equal},
           {"Ne", Relation::different},
           {"Unequality", Relation::different},
           {"Lt", Relation::less},
           {"StrictLessThan", Relation::less},
           {"Le", Relation::at_most},
           {"LessThan", Relation::at_most},
           {"Gt", Relation::greater},
           {"StrictGreaterThan", Relation::greater},
           {"Ge", Relation::at_least},
           {"GreaterThan", Relation::at_least}}};
      for (const auto& [word, relation] : relations) {
        if (name == word) return of(Conditions{{{{first, relation, second}}}});
      }
      if (name == "FloorDiv" || name == "CleanDiv") return of(floor_div(first, second));
      if (name == "Mod" || name == "PythonMod") return of(modulo(first, second));
      if (name == "CeilDiv") return of(Size(-1) * floor_div(Size(-1) * first, second));
      if (name == "Pow" || name == "PowByNatural") return of(raised(first, second));
      if (name == "Rational") return of(Size::call("IntTrueDiv", std::move(operands)));
    }
    // Maps Python's names to the names that torch.export archives use.
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> words{
        {{"trunc", "TruncToInt"}, {"floor", "FloorToInt"}, {"ceil", "CeilToInt"}, {"sym_float", "ToFloat"}}};
    const auto* word = std::ranges::find(words, name, &std::pair<std::string_view, std::string_view>::first);
    return of(Size::call(word == words.end() ? name : std::string(word->second), std::move(operands)));
  }

  std::string_view rest_;
  const SizeNames& names_;
  int depth_ = 0;
};

bool compare(std::int64_t a, Relation relation, std::int64_t b) {
  switch (relation) {
    case Relation::equal:
      return a == b;
    case Relation::different:
      return a != b;
    case Relation::less:
      return a < b;
    case Relation::at_most:
      return a <= b;
    case Relation::greater:
      return a > b;
    case Relation::at_least:
      return a >= b;
  }
  return false;
}

std::string_view sign_of(Relation relation) {
  switch (relation) {
    case Relation::equal:
      return " == ";
    case Relation::different:
      return " != ";
    case Relation::less:
      return " < ";
    case Relation::at_most:
      return " <= ";
    case Relation::greater:
      return " > ";
    case Relation::at_least:
      return " >= ";
  }
  return " ";
}

}  // namespace

std::optional<Size> read_size(std::string_view text, const SizeNames& names) {
  auto expression = SizeReader(text, names).complete_text();
  return expression ? std::move(expression->size) : std::nullopt;
}

std::optional<std::vector<Constraint>> read_constraints(std::string_view text, const SizeNames& names) {
  auto expression = SizeReader(text, names).complete_text();
  return expression ? std::move(expression->conditions) : std::nullopt;
}

std::optional<bool> holds(const Constraint& constraint, const SymbolNumbers& numbers) {
  bool all_known = true;
  for (const Comparison& each : constraint.any) {
    const auto left = value_of(each.left, numbers), right = value_of(each.right, numbers);
    if (!left || !right) {
      all_known = false;
    } else if (compare(*left, each.relation, *right)) {
      return true;
    }
  }
  return all_known ? std::optional(false) : std::nullopt;
}

std::string text_of(const Constraint& constraint, const std::function<std::string(SymbolId)>& name_of) {
  std::string text;
  for (const Comparison& each : constraint.any) {
    if (!text.empty()) text += " or ";
    text += text_of(each.left, name_of) + std::string(sign_of(each.relation)) + text_of(each.right, name_of);
  }
  return text.empty() ? "False" : text;
}

}  // namespace whence
