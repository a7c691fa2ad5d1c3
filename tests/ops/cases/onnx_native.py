"""torch.onnx.ops: ONNX's operators called in a PyTorch model."""

import torch

from ops.case import boolean, case, f32, i64


def attention(*inputs, results: int = 1, **options):
    """Returns `results` of the four results; the inputs are query, key, value, mask, past keys and past values."""
    names = ["query", "key", "value", "mask", "past_key", "past_value"][:len(inputs)]
    scope = {"call": lambda *tensors: torch.onnx.ops.attention(*tensors, **options)[:results]}
    exec(f"def forward({', '.join(names)}): return call({', '.join(names)})", scope)  # noqa: S102
    return case("onnx::Attention.opset23", scope["forward"], *inputs, opsets=(23,), not_in_traces="Python registers it",
                dynamic="query:0=batch key:0=batch value:0=batch" if len(inputs) == 3 else "")


def rotary(*inputs, **options):
    return case("onnx::RotaryEmbedding.opset23",
                lambda x, cos, sin, positions: torch.onnx.ops.rotary_embedding(x, cos, sin, positions, **options),
                *inputs, opsets=(23,), not_in_traces="Python registers it", dynamic="x:0=batch positions:0=batch")


HEADS, FEW_HEADS, ROWS = f32(2, 4, 3, 8), f32(2, 2, 5, 8), f32(2, 4, 5, 8)

CASES = [
    attention(HEADS, ROWS, ROWS),
    attention(HEADS, ROWS, ROWS, results=4),
    attention(HEADS, FEW_HEADS, FEW_HEADS, results=3),
    attention(f32(2, 3, 32), f32(2, 5, 16), f32(2, 5, 16), q_num_heads=4, kv_num_heads=2),
    attention(HEADS, ROWS, ROWS, boolean(3, 5)),
    attention(HEADS, ROWS, ROWS, f32(3, 7), f32(2, 4, 2, 8), f32(2, 4, 2, 8), results=3),
    attention(HEADS, HEADS, HEADS, is_causal=True, scale=0.25, softcap=30.0, softmax_precision=1),
    attention(HEADS, ROWS, ROWS, results=4, qk_matmul_output_mode=2),
    case("onnx::Attention.opset23", lambda q, k, v: torch.onnx.ops.attention(q, k, v)[0], HEADS, ROWS, ROWS,
         refused="since opset 23", not_in_traces="Python registers it"),
    rotary(f32(2, 3, 4, 8), f32(50, 4), f32(50, 4), i64(0, 50, 2, 4)),
    rotary(f32(2, 3, 4, 8), f32(50, 4), f32(50, 4), i64(0, 50, 2, 4), interleaved=True),
    rotary(f32(2, 4, 24), f32(50, 4), f32(50, 4), i64(0, 50, 2, 4), num_heads=3),
]
