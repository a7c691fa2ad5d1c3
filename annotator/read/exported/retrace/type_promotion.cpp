#include "annotator/read/exported/retrace/type_promotion.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>

#include "schema/flat_map.h"

namespace whence {
namespace {

enum class Kind : std::uint8_t {
  plain,     // as what the arguments are promoted to
  to_float,  // the same, but no integer
  compared,  // the same, but no half precision
  reduced,   // the same, but no half precision, of which the result is again
  added_up,  // the same, but integers of 64 bits, or as `dtype` says
  truth,     // as truth values
};

struct Promotion {
  std::string_view op;
  Kind kind;
  std::size_t first, last;  // arguments that are promoted
};

using enum Kind;

// Operators that take one argument as it is, such as relu, are left out.
constexpr auto promotions = std::to_array<Promotion>({
    {"abs", reduced, 0, 0},
    {"acos", to_float, 0, 0},
    {"acosh", to_float, 0, 0},
    {"add", plain, 0, 1},
    {"addcdiv", to_float, 0, 2},
    {"addcmul", plain, 0, 2},
    {"addr", plain, 0, 2},
    {"all", truth, 0, 0},
    {"amax", reduced, 0, 0},
    {"amin", reduced, 0, 0},
    {"any", truth, 0, 0},
    {"asin", to_float, 0, 0},
    {"asinh", to_float, 0, 0},
    {"atan", to_float, 0, 0},
    {"atan2", to_float, 0, 1},
    {"atanh", to_float, 0, 0},
    {"bitwise_and", plain, 0, 1},
    {"bitwise_left_shift", plain, 0, 1},
    {"bitwise_or", plain, 0, 1},
    {"bitwise_right_shift", plain, 0, 1},
    {"bitwise_xor", plain, 0, 1},
    {"clamp", plain, 0, 2},
    {"clamp_max", plain, 0, 1},
    {"clamp_min", plain, 0, 1},
    {"copysign", to_float, 0, 1},
    {"cos", to_float, 0, 0},
    {"cosh", to_float, 0, 0},
    {"cumprod", added_up, 0, 0},
    {"cumsum", added_up, 0, 0},
    {"deg2rad", to_float, 0, 0},
    {"digamma", to_float, 0, 0},
    {"div", to_float, 0, 1},
    {"dot", plain, 0, 1},
    {"eq", compared, 0, 1},
    {"erf", to_float, 0, 0},
    {"erfc", to_float, 0, 0},
    {"erfinv", to_float, 0, 0},
    {"exp", to_float, 0, 0},
    {"exp2", to_float, 0, 0},
    {"expm1", to_float, 0, 0},
    {"fill", plain, 0, 0},
    {"floor_divide", plain, 0, 1},
    {"fmax", plain, 0, 1},
    {"fmin", plain, 0, 1},
    {"fmod", plain, 0, 1},
    {"gcd", plain, 0, 1},
    {"ge", compared, 0, 1},
    {"gt", compared, 0, 1},
    {"heaviside", plain, 0, 1},
    {"huber_loss", plain, 0, 1},
    {"hypot", plain, 0, 1},
    {"i0", to_float, 0, 0},
    {"igamma", to_float, 0, 1},
    {"igammac", to_float, 0, 1},
    {"isfinite", compared, 0, 0},
    {"isinf", compared, 0, 0},
    {"isnan", compared, 0, 0},
    {"isneginf", compared, 0, 0},
    {"isposinf", compared, 0, 0},
    {"isreal", compared, 0, 0},
    {"l1_loss", reduced, 0, 1},
    {"lcm", plain, 0, 1},
    {"le", compared, 0, 1},
    {"lerp", plain, 0, 2},
    {"lgamma", to_float, 0, 0},
    {"log", to_float, 0, 0},
    {"log10", to_float, 0, 0},
    {"log1p", to_float, 0, 0},
    {"log2", to_float, 0, 0},
    {"logaddexp", plain, 0, 1},
    {"logaddexp2", plain, 0, 1},
    {"logical_and", compared, 0, 1},
    {"logical_not", compared, 0, 0},
    {"logical_or", compared, 0, 1},
    {"logical_xor", compared, 0, 1},
    {"logit", to_float, 0, 0},
    {"logsumexp", to_float, 0, 0},
    {"lt", compared, 0, 1},
    {"maximum", plain, 0, 1},
    {"minimum", plain, 0, 1},
    {"mse_loss", reduced, 0, 1},
    {"mul", plain, 0, 1},
    {"ne", compared, 0, 1},
    {"nextafter", plain, 0, 1},
    {"poisson_nll_loss", to_float, 0, 1},
    {"prelu", plain, 0, 1},
    {"prod", added_up, 0, 0},
    {"rad2deg", to_float, 0, 0},
    {"reciprocal", to_float, 0, 0},
    {"remainder", plain, 0, 1},
    {"rsqrt", to_float, 0, 0},
    {"sigmoid", to_float, 0, 0},
    {"signbit", compared, 0, 0},
    {"sin", to_float, 0, 0},
    {"sinc", to_float, 0, 0},
    {"sinh", to_float, 0, 0},
    {"smooth_l1_loss", reduced, 0, 1},
    {"sqrt", to_float, 0, 0},
    {"std", reduced, 0, 0},
    {"sub", plain, 0, 1},
    {"sum", added_up, 0, 0},
    {"tan", to_float, 0, 0},
    {"tanh", to_float, 0, 0},
    {"true_divide", to_float, 0, 1},
    {"var", reduced, 0, 0},
    {"vdot", plain, 0, 1},
    {"where", plain, 1, 2},
    {"xlogy", to_float, 0, 1},
});
static_assert(std::ranges::is_sorted(promotions, {}, &Promotion::op));

const Promotion* promotion_of(std::string_view target) {
  constexpr std::string_view aten = "aten.";
  if (!target.starts_with(aten)) return nullptr;
  target.remove_prefix(aten.size());
  const auto found = std::ranges::lower_bound(promotions, target.substr(0, target.find('.')), {}, &Promotion::op);
  return found != promotions.end() && target.starts_with(found->op) && target.size() > found->op.size() &&
                 target[found->op.size()] == '.'
             ? &*found
             : nullptr;
}

struct Operand {
  DType dtype = DType::undefined;
  enum class Weight : std::uint8_t { number, without_axes, with_axes } weight = Weight::number;
};

// nullopt for what is neither tensor nor number.
std::optional<Operand> operand_of(const FxGraph& graph, const std::string& text) {
  if (text.empty() || text.front() == '[' || text == "None") return std::nullopt;
  if (text == "True" || text == "False") return Operand{DType::boolean};
  if (text.front() == '\x01') {
    FxId id = -1;
    each_reference(text, [&](FxId read) { id = read; });
    const FxNode& node = graph.at(id);
    if (node.dtype == DType::undefined) return Operand{DType::int64};  // a size
    if (node.rank < 0) return Operand{node.dtype};                     // a number that follows from sizes
    return Operand{node.dtype, node.rank > 0 ? Operand::Weight::with_axes : Operand::Weight::without_axes};
  }
  if (text.ends_with('j') || text.ends_with("j)")) return Operand{DType::complex64};
  const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  const bool number = whole || std::isdigit(static_cast<unsigned char>(text.back())) != 0 || text.ends_with("inf") ||
                      text.ends_with("nan");
  if (!number) return std::nullopt;
  return Operand{whole ? DType::int64 : DType::float32};
}

int category(DType dtype) { return dtype == DType::boolean ? 0 : is_integral(dtype) ? 1 : is_floating(dtype) ? 2 : 3; }

// Of the highest category, what has axes decides, then tensors without, then numbers.
DType promoted(const std::vector<Operand>& operands, Kind kind) {
  int highest = 0;
  for (const Operand& operand : operands) highest = std::max(highest, category(operand.dtype));
  DType result = DType::undefined;
  for (const auto weight : {Operand::Weight::with_axes, Operand::Weight::without_axes, Operand::Weight::number}) {
    for (const Operand& operand : operands) {
      if (operand.weight != weight || category(operand.dtype) != highest) continue;
      result = result == DType::undefined ? operand.dtype : promote(result, operand.dtype);
    }
    if (result != DType::undefined) break;
  }
  if (kind == truth) return DType::boolean;
  if (kind == to_float && highest < 2) return DType::float32;
  if (kind == added_up && highest < 2) return DType::int64;
  return result;
}

// In which it is computed.
DType computed_as(DType promoted, Kind kind) {
  const bool wide = kind == compared || kind == reduced || kind == added_up;
  return wide && (promoted == DType::float16 || promoted == DType::bfloat16) ? DType::float32 : promoted;
}

DType stated_dtype(const FxNode& node) {
  for (const auto& [name, text] : node.keywords) {
    if (name == "dtype" && text.starts_with("torch.")) return parse_dtype(text).value_or(DType::undefined);
  }
  return DType::undefined;
}

// The overload that takes tensors where numbers were.
std::string of_tensors(const std::string& target) {
  if (target.starts_with("aten.where.")) return "aten.where.self";
  const std::size_t overload = target.rfind('.');
  const bool takes_numbers = target.substr(overload + 1).starts_with("Scalar") || target.starts_with("aten.clamp");
  return takes_numbers ? target.substr(0, overload) + ".Tensor" : target;
}

// A quotient that is rounded stays what it is of.
Kind kind_of(const Promotion& promotion, const FxNode& node) {
  const bool rounded = std::ranges::any_of(
      node.keywords, [](const auto& given) { return given.first == "rounding_mode" && given.second != "None"; });
  return rounded ? plain : promotion.kind;
}

constexpr const char* cast_name = "convert_element_type_default";

FxNode cast_to(DType dtype, std::string argument) {
  FxNode cast;
  cast.target = "prims.convert_element_type.default";
  cast.positional = {std::move(argument)};
  cast.keywords = {{"dtype", "torch." + std::string(name_of(dtype))}};
  cast.dtype = dtype;
  cast.alive = true;
  return cast;
}

// Casts what it is given; its result too, where that is computed in more precision: the cast, or -1.
FxId promote_node(FxGraph& graph, FxId id, const Promotion& promotion) {
  std::vector<Operand> operands;
  const auto each = [&](auto visit) {
    const std::size_t count = graph.at(id).positional.size();
    for (std::size_t i = promotion.first; i <= promotion.last && i < count; ++i) {
      if (const auto operand = operand_of(graph, graph.at(id).positional[i])) visit(i, *operand);
    }
  };
  each([&](std::size_t, const Operand& operand) { operands.push_back(operand); });
  const Kind kind = kind_of(promotion, graph.at(id));
  const DType stated = kind == added_up ? stated_dtype(graph.at(id)) : DType::undefined;
  const DType result = stated == DType::undefined ? promoted(operands, kind) : stated;
  const DType wanted = computed_as(result, kind);
  if (wanted == DType::undefined) return -1;
  bool changed = false;
  each([&](std::size_t i, const Operand& operand) {
    if (operand.dtype == wanted) return;
    const bool number = operand.weight == Operand::Weight::number;
    FxNode cast = cast_to(wanted, graph.at(id).positional[i]);
    if (number) cast.target = "aten.scalar_tensor.default";
    const std::string name = number ? "scalar_tensor_default" : cast_name;
    graph.at(id).positional[i] = reference_to(graph.call(std::move(cast), name));
    changed = true;
  });
  if (!changed) return -1;
  graph.at(id).target = of_tensors(graph.at(id).target);
  const bool cast_back = kind == reduced || (kind == added_up && stated == DType::undefined);
  if (!cast_back || wanted == result) return -1;
  FxNode cast = cast_to(result, reference_to(id));
  cast.rank = graph.at(id).rank;
  return graph.call(std::move(cast), cast_name);
}

}  // namespace

void promote_types(FxGraph& graph) {
  const FxId end = graph.size();  // casts come behind it
  FlatMap<FxId, FxId> casts;      // by what they are of, whose readers read them
  const auto kept = [&](FxId node) {
    const auto cast = casts.find(node);
    return cast == casts.end() ? node : cast->second;
  };
  for (FxId id = 0; id < end; ++id) {
    if (!graph.at(id).alive) continue;
    if (!casts.empty()) graph.replace_arguments(id, kept);
    const Promotion* promotion = promotion_of(graph.at(id).target);
    const FxId cast = promotion == nullptr ? -1 : promote_node(graph, id, *promotion);
    if (cast >= 0) casts.emplace(id, cast);
  }
  graph.replace_results(kept);
}

}  // namespace whence
