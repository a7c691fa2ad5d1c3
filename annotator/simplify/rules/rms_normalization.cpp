// x -> Pow(2) -> ReduceMean -> Add(eps) -> Sqrt -> Reciprocal -> Mul with x        before; also Mul(x, x), Div by Sqrt
// x -> RMSNormalization(1)                                                         after
// and
// x -> Cast(float32) -> RMSNormalization(1) -> Cast back                           before
// x -> RMSNormalization(1)                                                         after: it computes in 32 bits
// and
// x -> RMSNormalization(1) -> Mul by w                                             before
// x -> RMSNormalization(w)                                                         after
// Condition: float32, the mean is over the last axes, which have fixed sizes; w does not broadcast x, and nothing else
// reads the unscaled result. In 16 bits, squares may overflow that do not overflow in the operator; in 64 bits, eps
// would be rounded. Origins: joined.
#include <algorithm>

#include "annotator/convert/weights.h"
#include "annotator/simplify/operands.h"
#include "annotator/simplify/rule.h"
#include "annotator/simplify/sizes.h"

namespace whence::simplify {

using graph::GraphNode;
using graph::GraphValueId;

namespace {

using Sizes = std::vector<std::int64_t>;

// The operands of a commutative node in one order.
struct Operands {
  GraphValueId first, second;
};

std::vector<Operands> both_orders(const GraphNode& node) {
  return {{node.inputs[0], node.inputs[1]}, {node.inputs[1], node.inputs[0]}};
}

bool is_square_of(const Rewriter& r, GraphValueId square, GraphValueId x) {
  const GraphNode* node = r.producer(square);
  if (node == nullptr || node->inputs.size() != 2 || node->inputs[0] != x) return false;
  if (is(*node, "Mul")) return node->inputs[1] == x;
  const TensorData* exponent = is(*node, "Pow") ? r.constant(node->inputs[1]) : nullptr;
  return exponent != nullptr && program::single_number(*exponent) == 2.0;
}

// mean(x^2) + eps over the last `axes` axes.
struct MeanSquare {
  GraphValueId x;
  std::size_t axes;
  double epsilon;
  origin::NodeOrigin origin;
};

// Returns the number of last axes that a node reduces with keepdims; 0 if it reduces other axes.
std::size_t last_axes_reduced(const Rewriter& r, const GraphNode& mean) {
  const auto& dims = r.value(mean.inputs[0]).dims;
  if (!dims || mean.inputs.size() < 2 || mean.int_attribute("keepdims", 1) == 0) return 0;
  auto axes = r.integers(mean.inputs[1]);
  if (!axes || axes->empty()) return 0;
  const auto rank = static_cast<std::int64_t>(dims->size());
  for (std::int64_t& axis : *axes) axis = axis < 0 ? axis + rank : axis;
  std::ranges::sort(*axes);
  for (std::size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != rank - static_cast<std::int64_t>(axes->size() - i)) return 0;
  }
  return axes->size();
}

std::optional<MeanSquare> mean_square(const Rewriter& r, GraphValueId value, GraphValueId x) {
  const GraphNode* sum = r.producer(value, "Add");
  const auto shifted = sum != nullptr ? with_number(r, *sum) : std::nullopt;
  const GraphNode* mean = shifted ? r.producer(shifted->x, "ReduceMean") : nullptr;
  if (mean == nullptr || !is_square_of(r, mean->inputs[0], x)) return std::nullopt;
  const std::size_t axes = last_axes_reduced(r, *mean);
  if (axes == 0) return std::nullopt;
  const GraphNode& square = *r.producer(mean->inputs[0]);
  return MeanSquare{x, axes, shifted->number, joined(joined(square.origin, mean->origin), sum->origin)};
}

// Matches x / sqrt(mean(x^2) + eps) in each of its common forms.
std::optional<MeanSquare> normalized(const Rewriter& r, const GraphNode& node) {
  if (node.inputs.size() != 2) return std::nullopt;
  const auto under_root = [&](GraphValueId root, GraphValueId x) -> std::optional<MeanSquare> {
    const GraphNode* sqrt = r.producer(root, "Sqrt");
    auto found = sqrt != nullptr ? mean_square(r, sqrt->inputs[0], x) : std::nullopt;
    if (found) found->origin = joined(found->origin, sqrt->origin);
    return found;
  };
  if (is(node, "Div")) return under_root(node.inputs[1], node.inputs[0]);
  for (const auto [x, factor] : both_orders(node)) {
    const GraphNode* reciprocal = r.producer(factor, "Reciprocal");
    auto found = reciprocal != nullptr ? under_root(reciprocal->inputs[0], x) : std::nullopt;
    if (!found) continue;
    found->origin = joined(found->origin, reciprocal->origin);
    return found;
  }
  return std::nullopt;
}

std::optional<Sizes> last_sizes(const Rewriter& r, GraphValueId x, std::size_t axes) {
  Sizes sizes;
  const std::vector<Dim>& dims = *r.value(x).dims;
  for (auto dim = dims.end() - static_cast<std::ptrdiff_t>(axes); dim != dims.end(); ++dim) {
    if (!dim->is_static()) return std::nullopt;
    sizes.push_back(dim->size);
  }
  return sizes;
}

bool is_unscaled(const Rewriter& r, const GraphNode& norm) {
  const TensorData* scale = r.constant(norm.inputs[1]);
  if (scale == nullptr || r.is_parameter(norm.inputs[1])) return false;
  const auto elements = program::Elements::of(*scale);
  if (!elements) return false;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    if (elements->number(i) != 1) return false;
  }
  return true;
}

// Returns the unscaled normalization that computes `value` if `value` has only one reader; otherwise nullptr.
const GraphNode* sole_unscaled(const Rewriter& r, GraphValueId value) {
  const GraphNode* norm = r.producer(value, "RMSNormalization");
  return norm != nullptr && r.use_count(value) == 1 && !r.is_output(value) && is_unscaled(r, *norm) ? norm : nullptr;
}

// Returns true if `scale` has exactly the normalised axes, so that it does not broadcast x.
bool scales_last_axes(const Rewriter& r, GraphValueId scale, const GraphNode& norm) {
  const TensorData& ones = *r.constant(norm.inputs[1]);
  const auto sizes = r.static_dims(scale);
  return sizes && r.value(scale).dtype == ones.dtype && *sizes == ones.shape;
}

GraphNode scaled_by(const GraphNode& norm, GraphValueId x, GraphValueId scale, origin::NodeOrigin origin) {
  GraphNode node = make_node("RMSNormalization", {x, scale}, std::move(origin));
  node.attributes = norm.attributes;
  return node;
}

Outcome normalization(Rewriter& r, const GraphNode& last) {
  const auto found = normalized(r, last);
  if (!found) return no_match();
  if (r.value(found->x).dtype != DType::float32) return refused("the mean of squares does not have 32 bits");
  const auto sizes = last_sizes(r, found->x, found->axes);
  if (!sizes) return refused("a normalised axis has a dynamic size");
  const origin::NodeOrigin origin = joined(found->origin, last.origin);
  const GraphValueId result = last.outputs[0];
  const GraphValueId ones = r.constant(convert::filled(*sizes, 1, DType::float32), origin);
  GraphNode node = make_node("RMSNormalization", {found->x, ones}, origin);
  node.attributes = {{"axis", -static_cast<std::int64_t>(found->axes)},
                     {"epsilon", static_cast<float>(found->epsilon)}};
  r.replace_with(result, std::move(node));
  return changed();
}

// Removes casts around the operator, which computes in 32 bits itself.
Outcome without_casts(Rewriter& r, const GraphNode& back) {
  const GraphNode* norm = sole_unscaled(r, back.inputs[0]);
  const GraphNode* to = norm != nullptr ? r.producer(norm->inputs[0], "Cast") : nullptr;
  if (to == nullptr) return no_match();
  const DType dtype = r.value(to->inputs[0]).dtype;
  const bool narrow = dtype == DType::float16 || dtype == DType::bfloat16;
  if (!narrow || r.value(back.outputs[0]).dtype != dtype) return no_match();
  const GraphNode before = *norm;
  const origin::NodeOrigin origin = joined(joined(to->origin, norm->origin), back.origin);
  const GraphValueId x = to->inputs[0], result = back.outputs[0];
  const GraphValueId ones = r.constant(convert::filled(r.constant(norm->inputs[1])->shape, 1, dtype), origin);
  r.replace_with(result, scaled_by(before, x, ones, origin));
  return changed();
}

Outcome scale(Rewriter& r, const GraphNode& product) {
  for (const auto [value, factor] : both_orders(product)) {
    const GraphNode* norm = sole_unscaled(r, value);
    if (norm == nullptr || !scales_last_axes(r, factor, *norm)) continue;
    r.replace_with(product.outputs[0], scaled_by(*norm, norm->inputs[0], factor, joined(norm->origin, product.origin)));
    return changed();
  }
  return no_match();
}

}  // namespace

Outcome rms_normalization(Rewriter& rewriter, std::int32_t index) {
  const GraphNode& node = rewriter.node(index);
  if (!rewriter.writes("RMSNormalization")) return no_match();
  if (is(node, "Cast")) return without_casts(rewriter, node);
  if (is(node, "Div")) return normalization(rewriter, node);
  if (!is(node, "Mul")) return no_match();
  Outcome outcome = normalization(rewriter, node);
  return outcome.kind == Outcome::Kind::no_match ? scale(rewriter, node) : outcome;
}

}  // namespace whence::simplify
