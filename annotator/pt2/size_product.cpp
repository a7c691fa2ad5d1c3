#include "annotator/pt2/size_product.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace whence::pt2 {

namespace {

constexpr int deepest_product = 16;         // trees within trees; sympy has products and powers in one level
constexpr std::int64_t highest_power = 16;  // written as factors
constexpr std::size_t most_factors = 64;

// The arguments of `name(a, b)`; none for other text.
std::vector<std::string_view> arguments_of(std::string_view tree, std::string_view name) {
  std::vector<std::string_view> arguments;
  if (!tree.starts_with(name) || !tree.ends_with(')') || tree.substr(name.size(), 1) != "(") return arguments;
  const std::string_view inside = tree.substr(name.size() + 1, tree.size() - name.size() - 2);
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= inside.size(); ++at) {
    if (at == inside.size() || (depth == 0 && inside[at] == ',')) {
      std::string_view argument = inside.substr(start, at - start);
      while (argument.starts_with(' ')) argument.remove_prefix(1);
      arguments.push_back(argument);
      start = at + 1;
    } else {
      depth += inside[at] == '(' ? 1 : inside[at] == ')' ? -1 : 0;
    }
  }
  return arguments;
}

std::optional<std::int64_t> integer_of(std::string_view tree) {
  const auto arguments = arguments_of(tree, "Integer");
  const std::string_view text = arguments.size() == 1 ? arguments.front() : tree;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<SizeProduct> read(std::string_view tree, int depth) {
  if (depth > deepest_product) return std::nullopt;
  if (const auto number = integer_of(tree)) return SizeProduct{*number, {}};
  std::optional<SizeProduct> product = SizeProduct{};
  if (const auto factors = arguments_of(tree, "Mul"); !factors.empty()) {
    for (const std::string_view each : factors) {
      const auto factor = read(each, depth + 1);
      product = product && factor ? multiplied(*product, *factor) : std::nullopt;
    }
    return product;
  }
  if (const auto power = arguments_of(tree, "Pow"); power.size() == 2) {
    const auto times = integer_of(power[1]);
    const auto base = read(power[0], depth + 1);
    if (base && times && *times > 0 && *times <= highest_power) {
      for (std::int64_t i = 0; i < *times && product; ++i) product = multiplied(*product, *base);
      return product;
    }
  }
  if (const auto either = arguments_of(tree, "Max"); either.size() == 2) {
    for (const std::size_t i : {0, 1}) {
      if (integer_of(either[i]) == 1) return read(either[1 - i], depth + 1);
    }
  }
  return SizeProduct{1, {std::string(tree)}};
}

}  // namespace

std::optional<SizeProduct> multiplied(const SizeProduct& one, const SizeProduct& other) {
  SizeProduct product;
  if (__builtin_mul_overflow(one.number, other.number, &product.number)) return std::nullopt;
  if (one.factors.size() + other.factors.size() > most_factors) return std::nullopt;
  std::ranges::merge(one.factors, other.factors, std::back_inserter(product.factors));
  return product;
}

std::optional<SizeProduct> size_product(std::string_view tree) { return read(tree, 0); }

}  // namespace whence::pt2
