"""Quantising, dequantising and both in sequence. Inputs include values outside the range."""

import torch

from ops.case import between, case, per_run

aten = torch.ops.aten
VERBS = (("quantize", "quantize_per_tensor"), ("dequantize", "dequantize.self"))
QUANTIZED = "torch.export does not support quantized tensors"
X = between(-3, 3, 2, 3, 4)
SCALE, ZERO = torch.tensor([0.02]), torch.tensor([3])
SCALES, ZEROS = torch.tensor([0.01, 0.5, 0.02]), torch.tensor([0, 5, -7])


def fake(low, high, scale=0.0173, zero=2):
    return lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high)


CASES = [
    case("aten::fake_quantize_per_tensor_affine", fake(0, 255), X, opsets=(13, 20)),
    case("aten::fake_quantize_per_tensor_affine", fake(-128, 127), X),
    case("aten::fake_quantize_per_tensor_affine", fake(0, 127), X),
    case("aten::fake_quantize_per_tensor_affine", fake(-8, 7, 0.3, -1), X),
    case("aten::fake_quantize_per_tensor_affine", fake(-1000, 1000), X),
    case("aten::fake_quantize_per_tensor_affine.tensor_qparams",
         lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 255), X, SCALE, ZERO.int()),
    case("aten::fake_quantize_per_channel_affine",
         lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127), X, SCALES, ZEROS.int()),
    case("aten::fake_quantize_per_channel_affine",
         lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -1000, 1000), X, SCALES, ZEROS.int()),
    case("aten::fake_quantize_per_tensor_affine_cachemask",
         lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.02, 3, 0, 255)[0], X),
    case("aten::fake_quantize_per_channel_affine_cachemask",
         lambda x, s, z: aten.fake_quantize_per_channel_affine_cachemask(x, s, z, 1, 0, 255)[0], X, SCALES,
         ZEROS.abs().int()),
    case("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
         lambda x, s, z, on: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s, z, on, 0, 255)[0], X,
         SCALE, ZERO.int(), per_run(torch.tensor([1]), torch.tensor([0]))),
    case("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
         lambda x, s, z, on: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(x, s, z, on, 0, 255)[0], X,
         SCALE, ZERO.int(), torch.tensor([0])),
    case("aten::fake_quantize_per_tensor_affine_cachemask",
         lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, 0.02, 3, 0, 255), X, refused="the mask"),
    # TorchScript has quantized tensors; the recorder expresses them with quantized_decomposed's operators.
    *(case(f"quantized_decomposed::{verb}_per_tensor",
           lambda x, zero=zero, dtype=dtype: torch.quantize_per_tensor(x, 0.0173, zero, dtype).dequantize(), X,
           dynamic="x:0=n", opsets=(13, 20), recorded_as=f"aten::{recorded}", not_in_archives=QUANTIZED)
      for verb, recorded in VERBS for zero, dtype in ((128, torch.quint8), (-5, torch.qint8), (0, torch.qint32))),
    *(case(f"quantized_decomposed::{verb}_per_tensor.tensor",
           lambda x, s, z: torch.quantize_per_tensor(x, s, z, torch.quint8).dequantize(), X, SCALE, ZERO,
           recorded_as=f"aten::{recorded.replace('_tensor', '_tensor.tensor_qparams')}",
           not_in_archives=QUANTIZED) for verb, recorded in VERBS),
    *(case(f"quantized_decomposed::{verb}_per_channel",
           lambda x: torch.quantize_per_channel(x, SCALES, ZEROS, 1, torch.qint8).dequantize(), X,
           recorded_as=f"aten::{recorded.replace('_tensor', '_channel')}",
           not_in_archives=QUANTIZED) for verb, recorded in VERBS),
]
