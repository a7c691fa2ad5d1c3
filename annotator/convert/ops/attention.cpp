// scaled_dot_product_attention: softmax(query key^T * scale + mask) value.
// query [*, heads, L, E], key [*, heads, S, E], value [*, heads, S, Ev]. A mask broadcasts to [*, heads, L, S]; it
// marks the kept scores (boolean) or is added to the scores (floating). A fully masked row gives zeros, as in PyTorch
// 2.5 and newer. ONNX has Attention since opset 23; for older opsets it is decomposed.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "annotator/convert/axes.h"
#include "annotator/convert/dropout.h"
#include "annotator/convert/mask_values.h"
#include "annotator/convert/ops/families.h"
#include "annotator/program/number_range.h"
#include "schema/element_count.h"

namespace whence::convert {
namespace {

// Causal masks of up to this many elements are stored as constants; larger ones are computed by the graph.
constexpr std::int64_t kLargestConstantMask = std::int64_t{1} << 22;

struct Attention {
  Val query, key, value, mask;
  double scale = 1;
  Val divisor = absent;  // divides the queries if the head size is known only at run time
  bool causal = false;
  double dropout = 0;
};

Attention read(Ctx& c, std::string_view mask_argument = "attn_mask") {
  Attention attention;
  attention.query = c.tensor("query"), attention.key = c.tensor("key"), attention.value = c.tensor("value");
  attention.mask = c.optional_tensor(mask_argument);
  attention.causal = c.flag("is_causal");
  attention.dropout = c.number("dropout_p");
  if (c.has("scale")) {
    attention.scale = c.number("scale");
  } else if (const auto size = c.static_dim(attention.query, -1), of_key = c.static_dim(attention.key, -1);
             size || of_key) {
    attention.scale = 1.0 / std::sqrt(static_cast<double>(size ? *size : *of_key));
  } else {
    attention.divisor = c.emit("Sqrt", {c.cast(c.dim_of(attention.query, -1), c.dtype(attention.query))});
  }
  return attention;
}

// ---- the operator -----------------------------------------------------------------------------------------------

// Attention lets several query heads share a head of keys and values; otherwise it does not broadcast them.
bool shapes_fit_operator(Ctx& c, const Attention& attention) {
  if (c.rank(attention.query) != 4 || c.rank(attention.key) != 4 || c.rank(attention.value) != 4) return false;
  const auto &query = c.dims(attention.query), &key = c.dims(attention.key), &value = c.dims(attention.value);
  if (query[0] != key[0] || key[0] != value[0] || key[1] != value[1]) return false;
  if (query[1] == key[1]) return true;
  const auto heads = c.static_dim(attention.query, 1), key_heads = c.static_dim(attention.key, 1);
  return heads && key_heads && *key_heads != 0 && *heads % *key_heads == 0;
}

// Attention multiplies queries and keys by the square root of the scale. It takes batches of heads; ONNX Runtime takes
// masks with full last two axes, and dtypes of up to 32 bits.
bool operator_serves(Ctx& c, const Attention& attention) {
  if (!c.writes("Attention") || c.output_dtype() == DType::float64 || attention.dropout != 0 ||
      !(attention.scale > 0) || !shapes_fit_operator(c, attention))
    return false;
  const auto& query = c.dims(attention.query);
  const auto& key = c.dims(attention.key);
  if (!attention.mask) return true;
  if (const DType mask = c.dtype(attention.mask); mask != DType::boolean && mask != c.output_dtype()) return false;
  const auto& mask = c.dims(attention.mask);
  return mask.size() >= 2 && mask.size() <= 4 && mask[mask.size() - 2] == query[2] && mask.back() == key[2];
}

// ONNX Runtime gives zeros for a mask row that holds only the lowest finite number. PyTorch gives zeros only for rows
// of -inf; half of the lowest number masks as well.
Val without_lowest_rows(Ctx& c, Val mask) {
  const DType dtype = c.dtype(mask);
  if (!may_fill_row_with_lowest(c, mask)) return mask;
  const double lowest = -program::greatest_finite(dtype);
  const Val is_lowest = c.emit("Equal", {mask, c.constant_number(lowest, dtype)});
  return c.typed(c.emit("Where", {is_lowest, c.constant_number(lowest / 2, dtype), mask}), dtype);
}

Val attention_operator(Ctx& c, const Attention& attention) {
  Attributes attributes;
  if (attention.causal) attributes.push_back({"is_causal", 1});
  if (c.has("scale")) attributes.push_back({"scale", static_cast<float>(attention.scale)});
  std::vector<Val> inputs{attention.query, attention.key, attention.value};
  if (attention.mask) inputs.push_back(without_lowest_rows(c, attention.mask));
  return c.emit("Attention", std::move(inputs), std::move(attributes));
}

// ---- decomposed -------------------------------------------------------------------------------------------------

Val scaled(Ctx& c, const Attention& attention, Val query) {
  if (attention.divisor) return c.emit("Div", {query, attention.divisor});
  return attention.scale == 1 ? query : c.emit("Mul", {query, c.constant_number(attention.scale, c.output_dtype())});
}

Val swap_last_two(Ctx& c, Val x, int rank) { return c.transpose(x, exchanged_axes(rank, rank - 2, rank - 1)); }

// scores where column <= row, -inf elsewhere
Val mask_causally(Ctx& c, Val scores, const Attention& attention) {
  const DType dtype = c.output_dtype();
  const Val minus_infinity = c.constant_number(-std::numeric_limits<double>::infinity(), dtype);
  const auto rows = c.static_dim(attention.query, -2), columns = c.static_dim(attention.key, -2);
  if (rows && columns && whence::element_count(Ints{*rows, *columns}) <= kLargestConstantMask) {
    std::string keep(static_cast<std::size_t>(*rows * *columns), '\0');
    for (std::int64_t row = 0; row < *rows; ++row) {
      for (std::int64_t column = 0; column <= row && column < *columns; ++column) keep[row * *columns + column] = 1;
    }
    const Val mask = c.constant_tensor({DType::boolean, {*rows, *columns}, Bytes::owned(std::move(keep))});
    return c.emit("Where", {mask, scores, minus_infinity});
  }
  const Val height = c.dim_of(attention.query, -2), width = c.dim_of(attention.key, -2);
  if (c.opset() < 14) {  // before Trilu
    const Val zero = c.constant_int(0), one = c.constant_int(1);
    const Val row = c.unsqueeze(c.emit("Range", {zero, height, one}), {1});
    const Val keep = c.emit("LessOrEqual", {c.emit("Range", {zero, width, one}), row});
    return c.emit("Where", {keep, scores, minus_infinity});
  }
  TensorData fill = *c.constant(minus_infinity);
  fill.shape = {1};
  const Val block = c.emit("ConstantOfShape", {c.to_vector({height, width})}, {{"value", fill}});
  return c.emit("Add", {scores, c.emit("Trilu", {block, c.constant_int(1)})});
}

// softmax of the masked scores, with zeros for fully masked rows.
Val probabilities(Ctx& c, Val scores, Val mask, const Attention& attention) {
  const DType dtype = c.output_dtype();
  const Attributes over_last{{"axis", -1}};
  if (attention.causal) return c.emit("Softmax", {mask_causally(c, scores, attention)}, over_last);
  if (!mask) return c.emit("Softmax", {scores}, over_last);

  const bool zero_rows = may_mask_whole_row(c, attention.mask);
  if (c.dtype(attention.mask) == DType::boolean) {
    const Val minus_infinity = c.constant_number(-std::numeric_limits<double>::infinity(), dtype);
    const Val result = c.emit("Softmax", {c.emit("Where", {mask, scores, minus_infinity})}, over_last);
    // The result at masked positions is 0 already, or NaN in a row of -inf.
    return zero_rows ? c.emit("Where", {mask, result, c.constant_number(0, dtype)}) : result;
  }
  const auto [left, right] = c.promoted(c.typed(scores, dtype), mask);  // a mask may have another dtype
  const Val result = c.typed(c.emit("Softmax", {c.emit("Add", {left, right})}, over_last), c.dtype(left));
  const Val zero = c.constant_number(0, c.dtype(left));
  return c.cast(zero_rows ? c.typed(c.emit("Where", {c.emit("IsNaN", {result}), zero, result}), c.dtype(left)) : result,
                dtype);
}

Val plain_attention(Ctx& c, const Attention& attention) {
  const Val query = scaled(c, attention, attention.query);
  const Val scores = c.emit("MatMul", {query, swap_last_two(c, attention.key, c.rank(attention.key))});
  const Val weights = probabilities(c, scores, attention.mask, attention);
  return c.emit("MatMul", {training_dropout(c, weights, attention.dropout), attention.value});
}

// Several query heads share each key and value head. Query heads are split into [kv heads, group], so that MatMul
// broadcasts keys and values over the group without copying them.
Val grouped_attention(Ctx& c, Attention attention, std::int64_t key_heads, std::int64_t group) {
  const int rank = c.rank(attention.query);
  const auto split = [&](Val x) {  // [*, kv heads * group, a, b] -> [*, kv heads, group, a, b]
    std::vector<Size> shape;
    for (int axis = 0; axis < c.rank(x); ++axis) {
      if (axis == c.rank(x) - 3) {
        shape.insert(shape.end(), {Size{key_heads}, Size{group}});
      } else if (const auto size = c.static_dim(x, axis)) {
        shape.emplace_back(*size);
      } else {
        shape.emplace_back(c.dim_of(x, axis));
      }
    }
    return c.reshape(x, shape);
  };
  const Val query = scaled(c, attention, split(attention.query));
  const Val key = swap_last_two(c, c.unsqueeze(attention.key, {rank - 2}), rank + 1);
  Val mask = attention.mask;
  if (mask && c.rank(mask) >= 3) {
    mask = c.static_dim(mask, -3) == std::int64_t{1} ? c.unsqueeze(mask, {c.rank(mask) - 2}) : split(mask);
  }
  const Val weights = probabilities(c, c.emit("MatMul", {query, key}), mask, attention);
  const Val value = c.unsqueeze(attention.value, {rank - 2});
  return c.reshape_to_output(c.emit("MatMul", {training_dropout(c, weights, attention.dropout), value}));
}

// Repeats each head of x [*, shared_heads, S, E] until there are `heads`.
Val repeated_heads(Ctx& c, Val x, std::int64_t heads) {
  const int axis = c.rank(x) - 3;
  const auto shared_heads = c.static_dim(x, axis);
  if (!shared_heads)
    c.refuse("enable_gqa with a dynamic number of heads is not supported", "keep the axis of the heads fixed");
  if (*shared_heads == heads) return x;
  c.expect(*shared_heads > 0 && heads % *shared_heads == 0,
           "the number of query heads must be a multiple of the number of shared heads");
  Ints indices(c.table_size({heads}));
  for (std::int64_t head = 0; head < heads; ++head)
    indices[static_cast<std::size_t>(head)] = head / (heads / *shared_heads);
  return c.emit("Gather", {x, c.constant_ints(indices)}, {{"axis", axis}});
}

Val attend(Ctx& c, Attention attention) {
  if (operator_serves(c, attention)) return attention_operator(c, attention);
  const bool may_group = c.schema().find("enable_gqa") && c.flag("enable_gqa");
  if (!may_group) return plain_attention(c, attention);
  const auto heads = c.static_dim(attention.query, -3), key_heads = c.static_dim(attention.key, -3);
  if (!heads || !key_heads)
    c.refuse("enable_gqa with a dynamic number of heads is not supported", "keep the axis of the heads fixed");
  c.expect(*key_heads > 0 && *heads % *key_heads == 0,
           "the number of query heads must be a multiple of the number of key heads");
  if (*heads != *key_heads && c.static_dim(attention.value, -3) == key_heads)
    return grouped_attention(c, attention, *key_heads, *heads / *key_heads);
  attention.key = repeated_heads(c, attention.key, *heads);
  attention.value = repeated_heads(c, attention.value, *heads);
  return plain_attention(c, attention);
}

void scaled_dot_product_attention(Ctx& c) { c.yield(attend(c, read(c))); }

// The fused kernels also return tensors for the backward pass, which are not made.
void fused_attention(Ctx& c, std::string_view mask_argument) {
  std::vector<Val> results(c.schema().returns.size(), absent);
  results.front() = attend(c, read(c, mask_argument));
  c.yield(results);
}

void fused_attention_mask(Ctx& c) { fused_attention(c, "attn_mask"); }

const OpEntry kAttention[] = {
    {"aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
     "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     scaled_dot_product_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
     "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
     fused_attention_mask},
};

}  // namespace

OpFamily attention_ops() { return kAttention; }

}  // namespace whence::convert
