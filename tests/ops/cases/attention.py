"""Attention with additive and boolean masks, fully masked rows, causal masks and shared key heads. It is decomposed
before opset 23, and an operator from then on."""

import torch
import torch.nn.functional as F

from ops.case import boolean, case, f16, f32, f64

OPSETS = (13, 20, 23)
attend = F.scaled_dot_product_attention

QUERY, KEY, VALUE = f32(2, 4, 5, 8), f32(2, 4, 7, 8, seed=1), f32(2, 4, 7, 6, seed=2)
FEW_KEYS, FEW_VALUES = f32(2, 2, 7, 8, seed=1), f32(2, 2, 7, 6, seed=2)

EMPTY_ROW = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(3)) < 0.6
EMPTY_ROW[1, 0, 2] = False
ADDITIVE = torch.zeros(2, 1, 5, 7).masked_fill(~EMPTY_ROW, -torch.inf)
BOOLEAN = torch.ones(5, 7, dtype=torch.bool).tril(1)


def with_lowest(q, k, v, keep):
    """Masks with the lowest finite number, as transformers does, so that no row becomes NaN."""
    return attend(q, k, v, attn_mask=torch.where(keep, 0.0, torch.finfo(torch.float32).min))


CASES = [
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v), QUERY, KEY, VALUE, opsets=OPSETS,
         dynamic="q:0=n,2=t k:0=n,2=s v:0=n,2=s"),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, scale=0.3), QUERY, KEY, VALUE,
         opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, scale=1.0), f32(2, 5, 8), f32(2, 7, 8),
         f32(2, 7, 8), opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v), f32(5, 8), f32(7, 8), f32(7, 8)),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), QUERY, KEY, VALUE,
         boolean(2, 4, 5, 7), opsets=OPSETS, dynamic="q:0=n,2=t k:0=n,2=s v:0=n,2=s m:0=n,2=t,3=s"),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), QUERY, KEY, VALUE,
         EMPTY_ROW, opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), QUERY, KEY, VALUE,
         ADDITIVE, opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), QUERY, KEY, VALUE,
         f32(5, 7), opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), QUERY, KEY, VALUE,
         f32(2, 1, 1, 7), opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, attn_mask=BOOLEAN), QUERY, KEY, VALUE,
         opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, attn_mask=EMPTY_ROW), QUERY, KEY, VALUE,
         opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, attn_mask=ADDITIVE), QUERY, KEY, VALUE,
         opsets=OPSETS),
    *[case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), dtype(1, 2, 5, 8),
           dtype(1, 2, 7, 8), dtype(1, 2, 7, 6), f32(1, 2, 5, 7), tolerance=close, opsets=OPSETS)
      for dtype, close in ((f64, (1e-9, 1e-9)), (f16, (2e-3, 2e-3)))],
    case("aten::scaled_dot_product_attention", with_lowest, QUERY, KEY, VALUE, boolean(2, 1, 5, 7), opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, is_causal=True), QUERY, KEY, VALUE,
         opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, is_causal=True), QUERY, KEY, VALUE,
         opsets=OPSETS, dynamic="q:0=n,2=t k:0=n,2=s v:0=n,2=s"),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, enable_gqa=True), QUERY, FEW_KEYS,
         FEW_VALUES, opsets=OPSETS, dynamic="q:0=n,2=t k:0=n,2=s v:0=n,2=s"),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m, enable_gqa=True), QUERY,
         FEW_KEYS, FEW_VALUES, boolean(2, 1, 5, 7), opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m, enable_gqa=True), QUERY,
         FEW_KEYS, FEW_VALUES, f32(2, 4, 5, 7), opsets=OPSETS),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, enable_gqa=True), QUERY, KEY, VALUE),
    case("aten::scaled_dot_product_attention", lambda q, k, v: attend(q, k, v, dropout_p=0.5), QUERY, KEY, VALUE,
         tolerance=None),
    case("aten::_scaled_dot_product_flash_attention_for_cpu",
         lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)[0], QUERY,
         f32(2, 4, 7, 8), f32(2, 4, 7, 8)),
    case("aten::scaled_dot_product_attention",
         lambda x: torch.nn.functional.scaled_dot_product_attention(*[x[:, :, x[0, 0] > 0]] * 3), f32(1, 4, 6)),
]
