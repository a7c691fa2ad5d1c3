// The fast path of torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer, which a trace under no_grad
// records as one fused kernel each. Follows aten/src/ATen/native/transformers/{attention,transformer}.cpp, PyTorch
// 2.13.
#include <algorithm>
#include <cmath>
#include <utility>

#include "annotator/lower/compose.h"

namespace whence::lower {
namespace {

Argument linear(Compose& c, const Argument& x, const Argument& weight, const Argument& bias) {
  std::vector<Dim> dims = c.dims(x, 1);
  dims.back() = c.dims(weight, 1).front();
  return c.add("aten::linear", {{"input", x}, {"weight", weight}, {"bias", bias}}, c.dtype(x), std::move(dims));
}

Argument plus(Compose& c, const Argument& a, const Argument& b) {
  return c.add("aten::add.Tensor", {{"self", a}, {"other", b}, {"alpha", {std::int64_t{1}}}}, c.dtype(a), c.dims(a));
}

Argument transposed(Compose& c, const Argument& x, std::int64_t a, std::int64_t b) {
  std::vector<Dim> dims = c.dims(x, static_cast<std::size_t>(std::max(a, b)) + 1);
  std::swap(dims[static_cast<std::size_t>(a)], dims[static_cast<std::size_t>(b)]);
  return c.add("aten::transpose.int", {{"self", x}, {"dim0", {a}}, {"dim1", {b}}}, c.dtype(x), std::move(dims));
}

// Extracts queries, keys or values: [batch, length, 3, heads, size] -> [batch, heads, length, size].
Argument projection(Compose& c, const Argument& all, std::int64_t which) {
  std::vector<Dim> dims = c.dims(all, 3);
  dims.erase(dims.begin() + 2);
  return transposed(
      c, c.add("aten::select.int", {{"self", all}, {"dim", {std::int64_t{2}}}, {"index", {which}}}, c.dtype(all), dims),
      1, 2);
}

// Returns the mask of positions to keep, broadcasting to [batch, heads, length, length]; None without a mask. The
// kernels drop positions that are nonzero in their mask. Its shape by mask_type: 0 is [length, length], 1 is [batch,
// length], 2 is [batch, heads, length, length].
Argument keep_mask(Compose& c) {
  const Argument& mask = c.argument("mask");
  if (mask.is_none()) return {};
  std::vector<Dim> dims = c.dims(mask);
  Argument keep = c.dtype(mask) == DType::boolean
                      ? c.add("aten::logical_not", {{"self", mask}}, DType::boolean, dims)
                      : c.add("aten::eq.Scalar", {{"self", mask}, {"other", {0.0}}}, DType::boolean, dims);
  const bool per_key = !c.argument("mask_type").is_none() && c.integer("mask_type") == 1;
  if (per_key) c.dims(mask, 1);
  for (int added = 0; per_key && added < 2; ++added) {
    dims.insert(dims.begin() + 1, fixed(1));
    keep = c.add("aten::unsqueeze", {{"self", keep}, {"dim", {std::int64_t{1}}}}, DType::boolean, dims);
  }
  return keep;
}

// Computes softmax(query key^T / sqrt(size)) over the positions to keep, [batch, heads, length, length].
Argument attention_weights(Compose& c, const Argument& query, const Argument& key, const Argument& keep) {
  std::vector<Dim> dims = c.dims(query, 3);
  const double scale = 1 / std::sqrt(static_cast<double>(dims.back().size));
  const Argument scaled = c.add("aten::mul.Scalar", {{"self", query}, {"other", {scale}}}, c.dtype(query), dims);
  dims.back() = dims[2];
  Argument scores =
      c.add("aten::matmul", {{"self", scaled}, {"other", transposed(c, key, 2, 3)}}, c.dtype(query), dims);
  if (!keep.is_none()) {
    const Argument drop = c.add("aten::logical_not", {{"self", keep}}, DType::boolean, c.dims(keep));
    scores = c.add("aten::masked_fill.Scalar", {{"self", scores}, {"mask", drop}, {"value", {-INFINITY}}},
                   c.dtype(query), dims);
  }
  return c.add("aten::softmax.int", {{"self", scores}, {"dim", {std::int64_t{-1}}}, {"dtype", {None{}}}},
               c.dtype(query), dims);
}

struct Attention {
  Argument result;   // [batch, length, embedding]
  Argument weights;  // None unless requested
};

Attention attend(Compose& c, const Argument& x, std::int64_t heads, bool weights_used) {
  const std::vector<Dim> in = c.dims(x);
  const DType dtype = c.dtype(x);
  if (in.size() != 3 || !in[2].is_static()) {
    c.refuse("the input is not [batch, length, embedding] with a fixed embedding", "keep the last axis fixed");
  }
  if (heads <= 0 || in[2].size % heads != 0) {
    c.refuse("the embedding size is not divisible by the number of heads",
             "save the model again; PyTorch refuses this too");
  }
  const Compose::ModuleScope attention(c, c.argument("qkv_weight"));
  const std::int64_t size = in[2].size / heads;
  const Argument flat = linear(c, x, c.argument("qkv_weight"), c.argument("qkv_bias"));
  const Argument split = c.add(
      "aten::unflatten.int",
      {{"self", flat}, {"dim", {std::int64_t{-1}}}, {"sizes", {ArgumentList{{std::int64_t{3}}, {heads}, {size}}}}},
      dtype, {in[0], in[1], fixed(3), fixed(heads), fixed(size)});
  const Argument query = projection(c, split, 0), key = projection(c, split, 1), value = projection(c, split, 2);
  const Argument keep = keep_mask(c);
  Attention output;
  Argument heads_out;
  if (weights_used) {
    output.weights = attention_weights(c, query, key, keep);
    heads_out = c.add("aten::matmul", {{"self", output.weights}, {"other", value}}, dtype, c.dims(query));
  } else {
    heads_out = c.add("aten::scaled_dot_product_attention",
                      {{"query", query}, {"key", key}, {"value", value}, {"attn_mask", keep}}, dtype, c.dims(query));
  }
  const Argument joined =
      c.add("aten::flatten.using_ints", {{"self", transposed(c, heads_out, 1, 2)}, {"start_dim", {std::int64_t{2}}}},
            dtype, in);
  output.result = linear(c, joined, c.argument("proj_weight"), c.argument("proj_bias"));
  return output;
}

Argument layer_norm(Compose& c, const Argument& x, std::string_view number) {
  const std::string suffix(number);
  const Compose::ModuleScope norm(c, c.argument("norm_weight_" + suffix));
  return c.add("aten::layer_norm",
               {{"input", x},
                {"normalized_shape", {ArgumentList{{c.dims(x, 1).back().size}}}},
                {"weight", c.argument("norm_weight_" + suffix)},
                {"bias", c.argument("norm_bias_" + suffix)},
                {"eps", {c.number("eps")}}},
               c.dtype(x), c.dims(x));
}

// Applies a linear layer that is a module of its own.
Argument linear_module(Compose& c, const Argument& x, const Argument& weight, const Argument& bias) {
  const Compose::ModuleScope layer(c, weight);
  return linear(c, x, weight, bias);
}

Argument feed_forward(Compose& c, const Argument& x) {
  const Argument hidden = linear_module(c, x, c.argument("ffn_weight_1"), c.argument("ffn_bias_1"));
  const char* activation = c.integer("use_gelu") != 0 ? "aten::gelu" : "aten::relu";
  const Argument active = c.add(activation, {{"self", hidden}}, c.dtype(hidden), c.dims(hidden));
  return linear_module(c, active, c.argument("ffn_weight_2"), c.argument("ffn_bias_2"));
}

}  // namespace

std::vector<Argument> native_multi_head_attention(Compose& c, const std::vector<bool>& used) {
  const Argument& query = c.argument("query");
  if (query != c.argument("key") || query != c.argument("value")) {
    c.refuse("query, key and value differ",
             "switch the fused kernels off: torch.backends.mha.set_fastpath_enabled(False)");
  }
  const Attention output = attend(c, query, c.integer("num_head"), used[1]);
  if (!used[1] || c.integer("average_attn_weights") == 0) return {output.result, output.weights};
  std::vector<Dim> dims = c.dims(output.weights);
  dims.erase(dims.begin() + 1);
  return {output.result, c.add("aten::mean.dim", {{"self", output.weights}, {"dim", {ArgumentList{{std::int64_t{1}}}}}},
                               c.dtype(query), std::move(dims))};
}

std::vector<Argument> transformer_encoder_layer_fwd(Compose& c, const std::vector<bool>&) {
  const Argument& source = c.argument("src");
  const std::int64_t heads = c.integer("num_heads");
  if (c.integer("norm_first") != 0) {
    const Argument middle = plus(c, source, attend(c, layer_norm(c, source, "1"), heads, false).result);
    return {plus(c, middle, feed_forward(c, layer_norm(c, middle, "2")))};
  }
  const Argument middle = layer_norm(c, plus(c, source, attend(c, source, heads, false).result), "1");
  return {layer_norm(c, plus(c, middle, feed_forward(c, middle)), "2")};
}

}  // namespace whence::lower
