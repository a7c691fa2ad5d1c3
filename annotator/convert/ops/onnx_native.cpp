// torch.onnx.ops: ONNX's own operators, called by a model. PyTorch computes them like ONNX and names them after the
// opset that introduced them: onnx::Attention.opset23.
#include <string>
#include <utility>

#include "annotator/convert/ops/families.h"

namespace whence::convert {
namespace {

void need_opset_23(Ctx& c) {
  if (c.opset() >= 23) return;
  c.refuse("ONNX has this operator since opset 23",
           "use --opset 23, or archive the program after run_decompositions(torch.onnx.ops.aten_decompositions())");
}

// Attributes as in the operator's schema; default values are left out.
class OwnAttributes {
 public:
  explicit OwnAttributes(Ctx& c) : c_(c) {}

  void flag(const char* name) {
    if (c_.flag(name)) list_.push_back({name, std::int64_t{1}});
  }
  void integer(const char* name) {
    if (!c_.has(name)) return;
    if (const std::int64_t value = c_.integer(name); value != 0) list_.push_back({name, value});
  }
  void number(const char* name) {
    if (!c_.has(name)) return;
    if (const double value = c_.number(name); value != 0) list_.push_back({name, static_cast<float>(value)});
  }
  Attributes take() { return std::move(list_); }

 private:
  Ctx& c_;
  Attributes list_;
};

// x [N, heads, L, E] or [N, L, heads * E], rotated by angles; the caches hold their cosines and sines.
void rotary_embedding(Ctx& c) {
  need_opset_23(c);
  OwnAttributes attributes(c);
  attributes.flag("interleaved");
  attributes.integer("num_heads");
  attributes.integer("rotary_embedding_dim");
  c.yield(c.emit("RotaryEmbedding",
                 {c.tensor("x"), c.tensor("cos_cache"), c.tensor("sin_cache"), c.optional_tensor("position_ids")},
                 attributes.take()));
}

// Yields the result, the keys and values including past ones, and the product of queries and keys.
void attention(Ctx& c) {
  need_opset_23(c);
  OwnAttributes attributes(c);
  attributes.flag("is_causal");
  for (const char* name : {"kv_num_heads", "q_num_heads", "qk_matmul_output_mode"}) attributes.integer(name);
  attributes.number("scale");
  attributes.number("softcap");
  attributes.integer("softmax_precision");
  int results = 4;
  while (results > 1 && !c.result_used(results - 1)) --results;
  std::vector<Val> outputs = c.emit_many("Attention",
                                         {c.tensor("Q"), c.tensor("K"), c.tensor("V"), c.optional_tensor("attn_mask"),
                                          c.optional_tensor("past_key"), c.optional_tensor("past_value")},
                                         attributes.take(), results);
  outputs.resize(4, absent);
  c.yield(outputs);
}

const OpEntry kOnnxNative[] = {
    {"onnx::Attention.opset23(Tensor Q, Tensor K, Tensor V, Tensor? attn_mask=None, Tensor? past_key=None, Tensor? "
     "past_value=None, *, bool is_causal=False, SymInt kv_num_heads=0, SymInt q_num_heads=0, SymInt "
     "qk_matmul_output_mode=0, float? scale=None, float softcap=0., SymInt? softmax_precision=None) -> (Tensor, "
     "Tensor, "
     "Tensor, Tensor)",
     attention},
    {"onnx::RotaryEmbedding.opset23(Tensor x, Tensor cos_cache, Tensor sin_cache, Tensor? position_ids=None, *, bool "
     "interleaved=False, SymInt num_heads=0, SymInt rotary_embedding_dim=0) -> Tensor",
     rotary_embedding},
};

}  // namespace

OpFamily onnx_native_ops() { return kOnnxNative; }

}  // namespace whence::convert
