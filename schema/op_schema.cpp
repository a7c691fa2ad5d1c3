// Parses operator schemas of the converter tables and of PyTorch's dispatcher.
// Grammar: torch/csrc/jit/frontend/function_schema_parser.cpp and schema_type_parser.cpp, PyTorch 2.13.
#include "schema/op_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "schema/result.h"

namespace whence {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  OpSchema schema() {
    OpSchema schema;
    name(schema);
    arguments(schema);
    expect("->");
    returns(schema);
    if (at_ != text_.size()) fail("the end of the schema");
    return schema;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(Code::internal,
                "operator schema '" + std::string(text_) + "': expected " + expected + " before '" +
                    std::string(text_.substr(at_, 20)) + "'",
                "correct the schema string in the operator table");
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(std::string_view token) {
    skip_space();
    return text_.substr(at_).starts_with(token);
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("'" + std::string(token) + "'");
  }
  std::string word() {
    skip_space();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  // "aten::add.Tensor": the overload follows the first dot after the namespace.
  void name(OpSchema& schema) {
    std::string full = word();
    const std::size_t space = full.find("::");
    if (space == std::string::npos) fail("a name with a namespace");
    const std::size_t dot = full.find('.', space);
    if (dot != std::string::npos) {
      schema.overload = full.substr(dot + 1);
      full.resize(dot);
    }
    schema.name = std::move(full);
  }

  void arguments(OpSchema& schema) {
    bool keyword_only = false;
    expect("(");
    while (!accept(")")) {
      if (accept("*")) {
        keyword_only = true;
      } else if (!accept("...")) {  // further arguments of any type have no names and are not listed
        SchemaArgument argument;
        argument.keyword_only = keyword_only;
        argument.type = type();
        argument.name = word();
        if (argument.name.empty()) fail("an argument name");
        if (accept("=")) argument.default_value = default_of(argument.type);
        schema.arguments.push_back(std::move(argument));
      }
      if (!accept(",") && !peek(")")) fail("',' or ')'");
    }
  }

  void returns(OpSchema& schema) {
    if (accept("...")) return;
    if (!peek("(") || tuple_type_follows()) {
      schema.returns.push_back(result());
      return;
    }
    expect("(");
    while (!accept(")")) {
      schema.returns.push_back(result());
      if (!accept(",") && !peek(")")) fail("',' or ')'");
    }
    skip_space();
  }
  SchemaArgument result() {
    SchemaArgument result;
    result.type = type();
    result.name = word();  // only some results have names
    return result;
  }

  // Returns the position of the parenthesis that closes the one at `open`.
  std::size_t closing(std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text_.size(); ++i) {
      if (text_[i] == '(') ++depth;
      if (text_[i] == ')' && --depth == 0) return i;
    }
    fail("a closing ')'");
  }
  // True for "(str, t)[]", one result that is a list of tuples; false for "(Tensor, Tensor)", two results.
  bool tuple_type_follows() {
    skip_space();
    const std::size_t end = closing(at_);
    return end + 1 < text_.size() && (text_[end + 1] == '[' || text_[end + 1] == '?');
  }
  std::string parenthesised() {
    const std::size_t start = at_;
    at_ = closing(start) + 1;
    return std::string(text_.substr(start, at_ - start));
  }

  SchemaType type() {
    SchemaType type;
    type.base = base();
    while (at_ < text_.size()) {
      if (text_[at_] == '[') {
        list(type);
      } else if (text_[at_] == '?') {
        ++at_;
        type.optional = true;
      } else if (text_[at_] == '(') {
        type.alias = alias(parenthesised());
      } else {
        break;
      }
    }
    return type;
  }

  std::string base() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '(') return parenthesised();  // a tuple, kept as written
    std::string name = word();
    if (name.empty()) fail("a type");
    constexpr std::array with_parameters{"Dict", "Future", "Await", "RRef", "Union"};
    if (at_ < text_.size() && text_[at_] == '(' &&
        std::find(with_parameters.begin(), with_parameters.end(), name) != with_parameters.end()) {
      return name + parenthesised();
    }
    // Treats symbolic sizes as sizes: whether a size is dynamic depends on the value, not on the operator.
    if (name == "SymInt") return "int";
    if (name == "SymFloat") return "float";
    if (name == "SymBool") return "bool";
    return name;
  }

  void list(SchemaType& type) {
    expect("[");
    const std::string size = word();
    expect("]");
    if (type.list) type.base += type.optional_element ? "?[]" : "[]";  // list of lists: append the inner list to base
    type.list = true;
    type.list_size = std::atoi(size.c_str());
    type.optional_element = std::exchange(type.optional, false);
  }

  // "(a! -> b)" -> "a!"
  static std::string alias(const std::string& text) {
    std::string inner = text.substr(1, text.size() - 2);
    inner = inner.substr(0, inner.find("->"));
    inner.erase(std::remove(inner.begin(), inner.end(), ' '), inner.end());
    return inner;
  }

  Argument default_of(const SchemaType& type) {
    if (accept("None")) return {None{}};
    if (!type.list) return scalar_default(type.base);
    ArgumentList list;
    if (accept("[")) {
      while (!accept("]")) {
        list.push_back(scalar_default(type.base));
        if (!accept(",") && !peek("]")) fail("',' or ']'");
      }
    } else {  // "int[2] stride=1" means [1, 1]
      list.assign(static_cast<std::size_t>(std::max(type.list_size, 1)), scalar_default(type.base));
    }
    return {std::move(list)};
  }

  Argument scalar_default(const std::string& base) {
    skip_space();
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return {quoted()};
    const std::size_t start = at_;
    if (accept("True")) return {true};
    if (accept("False")) return {false};
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    std::string token(text_.substr(start, at_ - start));
    token += word();
    // word() stops before the sign of an exponent: "1e" "-05".
    if (!token.empty() && token.back() == 'e' && is_number_start(token) && (peek("-") || peek("+"))) {
      token += text_[at_++];
      token += word();
    }
    if (token.empty()) fail("a default value");
    return is_number(token) ? number(base, token) : keyword(base, token);
  }

  static bool is_number_start(std::string_view token) {
    if (token.starts_with('-') || token.starts_with('+')) token.remove_prefix(1);
    return !token.empty() && (std::isdigit(static_cast<unsigned char>(token.front())) != 0 || token.front() == '.');
  }
  static bool is_number(std::string_view token) {
    return is_number_start(token) || token == "inf" || token == "-inf" || token == "nan";
  }

  Argument number(const std::string& base, const std::string& token) {
    const bool integral = token.find_first_of(".en") == std::string::npos;  // "n": inf and nan
    if (!integral || base == "float") return {std::strtod(token.c_str(), nullptr)};
    const std::int64_t value = std::strtoll(token.c_str(), nullptr, 10);
    if (base == "ScalarType") return {from_scalar_type(static_cast<int>(value))};
    if (base == "MemoryFormat") return {Keyword{memory_format(value)}};
    return {value};
  }

  // c10/core/MemoryFormat.h
  std::string memory_format(std::int64_t value) const {
    constexpr std::array names{"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
    if (value < 0 || value >= std::ssize(names)) fail("a memory format");
    return names[static_cast<std::size_t>(value)];
  }

  Argument keyword(const std::string& base, const std::string& token) {
    if (base == "ScalarType") {
      if (const auto dtype = parse_dtype(token)) return {*dtype};
      fail("a dtype");
    }
    // native_functions.yaml writes reductions by name (aten/src/ATen/core/Reduction.h).
    if (base == "int" && token == "Mean") return {std::int64_t{1}};
    if (base == "int" && token == "Sum") return {std::int64_t{2}};
    if (base == "int" || base == "bool" || base == "str") fail("a value of type " + base);
    return {Keyword{token}};
  }

  std::string quoted() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) c = unescaped(text_[at_++]);
      value += c;
    }
    if (at_ == text_.size()) fail("a closing quote");
    ++at_;
    return value;
  }
  static char unescaped(char c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      default:
        return c;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

const SchemaArgument* OpSchema::find(std::string_view argument) const {
  const auto found = std::find_if(arguments.begin(), arguments.end(),
                                  [&](const SchemaArgument& candidate) { return candidate.name == argument; });
  return found == arguments.end() ? nullptr : &*found;
}

OpSchema parse_op_schema(std::string_view text) { return Parser(text).schema(); }

}  // namespace whence
