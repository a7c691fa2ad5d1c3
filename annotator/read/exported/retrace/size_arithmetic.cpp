#include "annotator/read/exported/retrace/size_arithmetic.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace whence {
namespace {

constexpr std::size_t most_factors = 64;  // of a product that is kept apart

// An archive may say any number; what PyTorch computes of such is no matter.
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// The arguments of "Mul(Integer(8), Symbol('s0', integer=True))", as sympy's srepr writes it; empty for others.
std::vector<std::string_view> arguments_of(std::string_view expression, std::string_view function) {
  std::vector<std::string_view> found;
  if (!expression.starts_with(function) || !expression.ends_with(')')) return found;
  expression = expression.substr(function.size(), expression.size() - function.size() - 1);
  std::size_t depth = 0, begin = 0;
  for (std::size_t i = 0; i <= expression.size(); ++i) {
    const char c = i < expression.size() ? expression[i] : ',';
    if (c == '(') ++depth;
    if (c == ')' && depth > 0) --depth;
    if (c != ',' || (depth > 0 && i < expression.size())) continue;
    std::string_view argument = expression.substr(begin, i - begin);
    while (argument.starts_with(' ')) argument.remove_prefix(1);
    found.push_back(argument);
    begin = i + 1;
  }
  return found;
}

std::optional<std::int64_t> integer_of(std::string_view expression) {
  const auto arguments = arguments_of(expression, "Integer(");
  std::int64_t value = 0;
  if (arguments.size() != 1) return std::nullopt;
  const std::string_view digits = arguments.front();
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failed != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

void take_factor(TracedSize& size, std::string_view factor) {
  if (const auto value = integer_of(factor)) {
    size.number = times(size.number, *value);
    return;
  }
  const auto power = arguments_of(factor, "Pow(");
  const std::int64_t exponent = power.size() == 2 ? integer_of(power[1]).value_or(0) : 0;
  if (exponent >= 1 && exponent <= 8) {
    size.unknown.insert(size.unknown.end(), static_cast<std::size_t>(exponent), power[0]);
  } else {
    size.unknown.push_back(factor);
  }
}

// What a product is divided by another; none where that is not one again.
std::optional<TracedSize> quotient(const TracedSize& a, const TracedSize& b) {
  if (b.number == 0 || b.number == -1 || a.number % b.number != 0) return std::nullopt;
  if (!std::ranges::includes(a.unknown, b.unknown)) return std::nullopt;
  TracedSize result;
  result.number = a.number / b.number;
  std::ranges::set_difference(a.unknown, b.unknown, std::back_inserter(result.unknown));
  return result;
}

}  // namespace

TracedSize number(std::int64_t value) { return {value, {}, value, std::to_string(value)}; }

TracedSize size_of_archive(const Part& size, std::string text) {
  if (const auto value = size.maybe("as_int")) return number(value->integer());
  TracedSize result;
  result.text = std::move(text);
  const Part said = size.at("as_expr");
  const std::string_view expression = said.at("expr_str").view();
  const auto factors = arguments_of(expression, "Mul(");
  if (factors.empty() || factors.size() > most_factors) {
    take_factor(result, expression);
  } else {
    for (const std::string_view factor : factors) take_factor(result, factor);
  }
  std::ranges::sort(result.unknown);
  const auto hint = said.maybe("hint");
  if (hint && !hint->is_null()) {
    if (const auto example = hint->maybe("as_int")) result.example = example->integer();
  }
  if (result.is_number()) return number(result.number);
  return result;
}

TracedSize product(const TracedSize& a, const TracedSize& b) {
  if (a.is_number() && b.is_number()) return number(times(a.number, b.number));
  if (a.is(0) || b.is(0)) return number(0);
  TracedSize result;
  result.number = times(a.number, b.number);
  result.unknown = a.unknown;
  result.unknown.insert(result.unknown.end(), b.unknown.begin(), b.unknown.end());
  if (result.unknown.size() > most_factors) result.unknown.resize(most_factors);
  std::ranges::sort(result.unknown);
  if (a.example && b.example) result.example = times(*a.example, *b.example);
  return result;
}

std::string text_of(const std::vector<TracedSize>& shape) {
  std::string text;
  for (const TracedSize& size : shape) text += (text.empty() ? "" : ", ") + size.text;
  return "[" + text + "]";
}

void Layout::pack() {
  offset = number(0);
  strides.assign(sizes.size(), number(1));
  for (std::size_t i = sizes.size(); i-- > 1;) strides[i - 1] = product(strides[i], sizes[i]);
}

std::string SizeArithmetic::note(const char* op, std::vector<std::string> arguments) {
  FxNode node;
  node.target = std::string("operator.") + op;
  node.positional = std::move(arguments);
  return reference_to(graph_.call(std::move(node)));
}

std::string SizeArithmetic::trace(const char* op, const TracedSize& a, const TracedSize& b) {
  return note(op, {a.text, b.text});
}

// PyTorch has one node for each expression in the end (torch/fx/passes/runtime_assert.py): the first, although what
// is computed again takes a name again.
std::string SizeArithmetic::compute(const char* op, const TracedSize& a, const TracedSize& b) {
  std::string node = trace(op, a, b);
  return computed_.try_emplace(op + (" " + a.text) + " " + b.text, std::move(node)).first->second;
}

void SizeArithmetic::remember(FxId computed) {
  constexpr std::string_view python = "operator.";
  const FxNode& node = graph_.at(computed);
  if (!node.target.starts_with(python) || node.positional.size() != 2) return;
  computed_.try_emplace(node.target.substr(python.size()) + " " + node.positional[0] + " " + node.positional[1],
                        reference_to(computed));
}

void SizeArithmetic::read_instead(const std::string& computed, const std::string& same) {
  if (computed == same) return;
  each_reference(computed, [&](FxId id) { graph_.at(id).check = true; });
}

TracedSize SizeArithmetic::ask(const std::string& tensor, std::int64_t axis) {
  FxNode node;
  node.target = "aten.sym_size.int";
  node.positional = {tensor, std::to_string(axis)};
  TracedSize result = unknown_size();
  result.text = reference_to(graph_.call(std::move(node), "sym_size_int"));
  return result;
}

// `name`: "sub" where `b` is what is subtracted, with its sign changed.
TracedSize SizeArithmetic::add(const TracedSize& a, const TracedSize& b, const char* name) {
  if (a.is_number() && b.is_number()) {
    return number(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(a.number) + static_cast<std::uint64_t>(b.number)));
  }
  TracedSize result = unknown_size();
  const bool subtracted = name == std::string_view("sub");
  result.text = compute(name, a, subtracted ? number(-b.number) : b);
  if (b.is(0)) return a;
  if (a.is(0) && !subtracted) return b;
  return result;
}

TracedSize SizeArithmetic::mul(const TracedSize& a, const TracedSize& b) {
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  TracedSize result = product(a, b);
  if (!a.is_number() || !b.is_number()) {
    const std::string node = compute("mul", a, b);
    if (result.is_number()) return result;
    result.text = node;
    each_reference(node, [&](FxId id) { products_.emplace(id, result); });
  }
  return result;
}

// The first product on the way to what was `read` that is the same, which lives on because it is read.
std::string SizeArithmetic::earlier(const TracedSize& size, const TracedSize& read) const {
  std::string found;
  std::string_view next = read.text;
  while (next.starts_with('\x01')) {
    std::size_t at = 0;
    const auto product = products_.find(read_reference(next, at));
    if (product == products_.end()) break;
    if (product->second.number == size.number && product->second.unknown == size.unknown) found = next;
    next = graph_.at(product->first).positional.front();
  }
  return found;
}

TracedSize SizeArithmetic::floordiv(const TracedSize& a, const TracedSize& b) {
  if (a.is_number() && b.is_number()) {
    return number(b.number == 0 || b.number == -1 ? 0 : a.number / b.number);
  }
  const std::string node = compute("floordiv", a, b);
  TracedSize result = quotient(a, b).value_or(TracedSize{1, {"//"}, {}, {}});
  if (result.is_number()) return number(result.number);
  if (a.example && b.example && *b.example > 0) result.example = *a.example / *b.example;
  result.text = earlier(result, a);
  if (result.text.empty()) result.text = earlier(result, b);
  if (result.text.empty()) result.text = node;
  read_instead(node, result.text);
  return result;
}

TracedSize SizeArithmetic::mod(const TracedSize& a, const TracedSize& b) {
  if (a.is_number() && b.is_number()) {
    return number(b.number == 0 || b.number == -1 ? 0 : a.number % b.number);
  }
  const std::string node = compute("mod", a, b);
  if (quotient(a, b)) return number(0);
  TracedSize result = {1, {"%"}, {}, node};
  if (a.example && b.example && *b.example > 0) result.example = *a.example % *b.example;
  return result;
}

// A size is at least 1 where PyTorch exports, so the result is the same by another name.
TracedSize SizeArithmetic::at_least_one(const TracedSize& a) {
  if (a.is_number()) return number(std::max<std::int64_t>(a.number, 1));
  FxNode node;
  node.target = "torch.sym_max";
  node.positional = {a.text, "1"};
  TracedSize result = a;
  result.text = reference_to(graph_.call(std::move(node)));
  return result;
}

std::optional<bool> SizeArithmetic::compare(const char* how, const TracedSize& a, const TracedSize& b) {
  if (!a.is_number() || !b.is_number()) trace(how, a, b);
  const bool same = a.number == b.number && a.unknown == b.unknown;
  if (!same && (!a.example || !b.example)) return std::nullopt;
  const std::int64_t left = same ? 0 : *a.example, right = same ? 0 : *b.example;
  switch (how[0]) {
    case 'e':
      return left == right;
    case 'n':
      return left != right;
    case 'l':
      return left < right;
    default:
      return left > right;
  }
}

// ---- what ATen asks of tensors ------------------------------------------------------------------------------------

TracedSize SizeArithmetic::element_count(const std::vector<TracedSize>& sizes) {
  TracedSize count = number(1);
  for (const TracedSize& size : sizes) count = mul(count, size);
  return count;
}

// _compute_contiguous_sym's first question (c10/core/Contiguity.h), which suffices where the answer is yes.
std::optional<bool> SizeArithmetic::contiguous_or_unknown(const Layout& tensor, const TracedSize& count) {
  if (or_false("eq", count, number(0))) return true;
  TracedSize expected = number(1), at_least = number(1);
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    const TracedSize &size = tensor.sizes[i], &stride = tensor.strides[i];
    if (or_false("eq", size, number(1))) continue;
    if (or_true("ne", stride, expected) && or_true("ne", stride, at_least)) return std::nullopt;
    at_least = mul(at_least, at_least_one(size));
    expected = mul(expected, size);
  }
  return true;
}

// SymbolicShapeMeta::compute_contiguous: else an expression is built that says it, and where all sizes have examples
// the strides are compared as plain numbers would be.
bool SizeArithmetic::contiguous(const Layout& tensor, const TracedSize& count) {
  if (!tensor.known()) return false;
  const auto symbolic = [](const TracedSize& size) { return !size.is_number(); };
  const bool traced = std::ranges::any_of(tensor.sizes, symbolic) || std::ranges::any_of(tensor.strides, symbolic);
  if (const auto said = contiguous_or_unknown(tensor, count)) return *said;
  if (!traced) return false;
  compare("eq", count, number(0));
  TracedSize expected = number(1);
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    compare("eq", tensor.sizes[i], number(1));
    compare("eq", tensor.strides[i], expected);
    expected = mul(expected, tensor.sizes[i]);
  }
  const auto open = [](const TracedSize& size) { return !size.example; };
  if (std::ranges::any_of(tensor.sizes, open) || std::ranges::any_of(tensor.strides, open)) return false;
  if (or_false("eq", count, number(0))) return true;
  expected = number(1);
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (or_false("eq", tensor.sizes[i], number(1))) continue;
    if (or_true("ne", tensor.strides[i], expected)) return false;
    expected = mul(expected, tensor.sizes[i]);
  }
  return true;
}

// at::infer_size_dv (ATen/InferSize.h).
void SizeArithmetic::infer(std::vector<TracedSize>& shape, const TracedSize& count) {
  TracedSize rest = number(1);
  TracedSize* open = nullptr;
  for (TracedSize& size : shape) {
    if (or_false("eq", size, number(-1))) {
      open = &size;
      continue;
    }
    compare("gt", size, number(-1));
    rest = mul(rest, size);
  }
  if (open == nullptr) {
    compare("eq", count, rest);
    return;
  }
  if (rest.is(0)) return;
  compare("gt", rest, number(0));
  compare("eq", mod(count, rest), number(0));
  compare("eq", count, rest);
  compare("ne", rest, number(0));
  *open = floordiv(count, rest);
}

// at::detail::computeStride (ATen/TensorUtils.cpp).
bool SizeArithmetic::viewable(const Layout& tensor, const std::vector<TracedSize>& shape) {
  const std::vector<TracedSize>&sizes = tensor.sizes, &strides = tensor.strides;
  if (!tensor.known()) return false;
  if (sizes.empty()) return true;
  if (or_false("eq", element_count(sizes), number(0))) return true;
  std::size_t left = shape.size();  // sizes of the view that are not seen yet
  TracedSize base = strides.back(), elements = number(1), seen = number(1);
  for (std::size_t axis = sizes.size(); axis-- > 0;) {
    elements = mul(elements, sizes[axis]);
    const bool ends = axis == 0 || (or_true("ne", sizes[axis - 1], number(1)) &&
                                    or_true("ne", strides[axis - 1], mul(elements, base)));
    if (!ends) continue;
    while (left > 0 && (or_false("lt", seen, elements) || or_false("eq", shape[left - 1], number(1)))) {
      mul(seen, base);
      seen = mul(seen, shape[--left]);
    }
    if (or_true("ne", seen, elements)) return false;
    if (axis == 0) break;
    base = strides[axis - 1];
    elements = seen = number(1);
  }
  return left == 0;
}

void SizeArithmetic::broadcast_to(const std::vector<TracedSize>& shape, const std::vector<TracedSize>& other) {
  std::vector<TracedSize> common(std::max(shape.size(), other.size()), number(1));
  for (const auto* each : {&shape, &other}) {
    for (std::size_t i = 1; i <= each->size(); ++i) {
      const TracedSize& size = (*each)[each->size() - i];
      TracedSize& so_far = common[common.size() - i];
      if (or_false("eq", size, so_far)) continue;
      if (or_false("eq", so_far, number(1))) {
        compare("lt", size, number(0));
        so_far = size;
      }
      if (!or_false("eq", size, number(1))) compare("eq", so_far, size);
    }
  }
}

}  // namespace whence
