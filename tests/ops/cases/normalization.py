"""Norms with and without weights, at opsets with and without ONNX's operator."""

import torch
import torch.nn.functional as F
from torch import nn

from ops.case import between, case, f32

TOLERANCE = (1e-4, 1e-4)


def norm(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


def seeded(module: nn.Module) -> nn.Module:
    """Sets weights and statistics to values other than 0 and 1."""
    generator = torch.Generator().manual_seed(7)
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            tensor.data = torch.rand(tensor.shape, generator=generator) + 0.5
    return module


def weight_normed(module: nn.Module) -> nn.Module:
    """Runs the module once, so that its computed weight can be copied."""
    nn.utils.weight_norm(module).requires_grad_(False)(torch.zeros(1, module.in_features))
    return module


class WeightNorm(nn.Module):
    """Computes the weight from inputs, so that it cannot be folded."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, v, g):
        return torch._weight_norm(v, g, self.dim)


NATIVE_BATCH = torch.ops.aten.native_batch_norm
NO_TRAINING = torch.ops.aten._native_batch_norm_legit_no_training

CASES = [
    norm("aten::batch_norm", seeded(nn.BatchNorm2d(3)), f32(2, 3, 4, 5), dynamic="input:0=n,2=h", opsets=(13, 20)),
    norm("aten::batch_norm", seeded(nn.BatchNorm1d(3, affine=False)), f32(4, 3)),
    norm("aten::batch_norm", seeded(nn.BatchNorm3d(2, eps=0.1)), f32(1, 2, 3, 4, 5)),
    norm("aten::batch_norm", seeded(nn.BatchNorm2d(3, track_running_stats=False)), f32(2, 3, 4, 5),
         dynamic="input:0=n"),
    norm("aten::batch_norm", lambda x, m, v: F.batch_norm(x, m, v), f32(4, 3, 2), f32(3), between(0.5, 1.5, 3),
         dynamic="x:1=c m:0=c v:0=c"),
    norm("aten::batch_norm", lambda x, m, v: F.batch_norm(x, m, v, training=True), f32(4, 3, 2), f32(3),
         between(0.5, 2, 3)),
    norm("aten::native_batch_norm", lambda x, m, v: NATIVE_BATCH(x, None, None, m, v, False, 0.1, 1e-5)[0],
         f32(2, 3, 4), f32(3), between(0.5, 2, 3)),
    norm("aten::_native_batch_norm_legit_no_training",
         lambda x, w, b, m, v: NO_TRAINING(x, w, b, m, v, 0.1, 1e-5)[0], f32(2, 3, 4), f32(3), f32(3), f32(3),
         between(0.5, 2, 3)),
    norm("aten::layer_norm", seeded(nn.LayerNorm(6)), f32(2, 3, 6), dynamic="input:0=n,1=t", opsets=(13, 17, 20)),
    norm("aten::layer_norm", seeded(nn.LayerNorm((3, 6), bias=False)), f32(2, 3, 6), opsets=(13, 20)),
    norm("aten::layer_norm", nn.LayerNorm(6, elementwise_affine=False, eps=0.1), f32(2, 3, 6), opsets=(13, 20)),
    norm("aten::layer_norm", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), f32(2, 3, 6),
         dynamic="x:0=n,2=f", opsets=(13, 20)),
    norm("aten::layer_norm", lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), f32(2, 3, 6),
         dynamic="x:1=t,2=f"),
    norm("aten::native_layer_norm", lambda x, w, b: torch.native_layer_norm(x, [6], w, b, 1e-5), f32(2, 3, 6), f32(6),
         f32(6)),
    norm("aten::native_layer_norm", lambda x, w, b: torch.native_layer_norm(x, [6], w, b, 1e-5)[0], f32(2, 3, 6),
         f32(6), f32(6), opsets=(13, 20)),
    norm("aten::native_layer_norm", lambda x: torch.native_layer_norm(x, [6], None, None, 1e-5), f32(2, 3, 6),
         opsets=(13,), refused="the statistics of layer_norm need opset 17"),
    norm("aten::rms_norm", seeded(nn.RMSNorm(6, eps=1e-3)), f32(2, 3, 6), dynamic="x:0=n", opsets=(13, 20, 23)),
    norm("aten::rms_norm", lambda x: F.rms_norm(x, (3, 6)), f32(2, 3, 6), opsets=(20, 23)),
    norm("aten::rms_norm", lambda x: F.rms_norm((x * 1e-2).half(), (6,)), f32(2, 3, 6), opsets=(13, 20, 23)),
    norm("aten::rms_norm", lambda x: F.rms_norm((x * 1e-2).bfloat16(), (6,)).float(), f32(2, 3, 6), opsets=(20, 23)),
    norm("aten::_fused_rms_norm", lambda x, w: torch.ops.aten._fused_rms_norm(x, [6], w, 1e-5)[0], f32(2, 3, 6), f32(6)),
    norm("aten::group_norm", seeded(nn.GroupNorm(2, 4)), f32(2, 4, 3, 5), dynamic="input:0=n,2=h",
         opsets=(13, 20, 21, 23)),
    norm("aten::_native_batch_norm_legit.no_stats",
         lambda x: torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)[0], f32(2, 4, 3)),
    norm("aten::_native_batch_norm_legit.no_stats",
         lambda x, w, b: torch.ops.aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)[0], f32(1, 8, 3, 5),
         f32(8), f32(8, seed=1)),
    norm("aten::_native_batch_norm_legit.no_stats",
         lambda x: torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), f32(1, 4, 6)),
    norm("aten::group_norm", nn.GroupNorm(1, 4, affine=False), f32(2, 4, 5), opsets=(20, 21)),
    norm("aten::group_norm", seeded(nn.GroupNorm(4, 4)), f32(3, 4), opsets=(20,)),
    norm("aten::native_group_norm",
         lambda x, w, b: torch.ops.aten.native_group_norm(x, w, b, 2, 4, 15, 2, 1e-5)[0], f32(2, 4, 3, 5), f32(4),
         f32(4)),
    norm("aten::instance_norm", seeded(nn.InstanceNorm2d(3, affine=True)), f32(2, 3, 4, 5), dynamic="input:0=n,3=w"),
    norm("aten::instance_norm", nn.InstanceNorm1d(3), f32(2, 3, 6)),
    norm("aten::instance_norm", seeded(nn.InstanceNorm2d(3, track_running_stats=True)), f32(2, 3, 4, 5)),
    norm("aten::_weight_norm", WeightNorm(0), f32(4, 3, 2), f32(4, 1, 1), opsets=(13, 20)),
    norm("aten::_weight_norm", WeightNorm(-1), f32(4, 3), f32(1)),
    norm("aten::_weight_norm", weight_normed(nn.Linear(3, 4)), f32(2, 3)),
    norm("aten::_weight_norm_interface", lambda v, g: torch._weight_norm_interface(v, g, 0)[0], f32(4, 3), f32(4, 1)),
    norm("aten::native_batch_norm", lambda x, m, v: NATIVE_BATCH(x, None, None, m, v, True, 0.1, 1e-5), f32(2, 3, 4),
         torch.zeros(3), torch.ones(3), not_in_archives="torch.export records the write to its statistics"),
    norm("aten::native_batch_norm", lambda x, m, v: NATIVE_BATCH(x, None, None, m, v, False, 0.1, 1e-5), f32(2, 3, 4),
         torch.zeros(3), torch.ones(3)),
    norm("aten::_native_batch_norm_legit_functional",
         lambda x, m, v: torch.ops.aten._native_batch_norm_legit_functional(x, None, None, m, v, True, 0.1, 1e-5),
         f32(2, 3, 4), torch.zeros(3), torch.ones(3), dynamic="x:0=n"),
    norm("aten::_native_batch_norm_legit_functional",
         lambda x, m, v: torch.ops.aten._native_batch_norm_legit_functional(x, None, None, m, v, False, 0.1, 1e-5),
         f32(2, 3, 4), torch.zeros(3), torch.ones(3)),
    norm("aten::_batch_norm_with_update_functional",
         lambda x, m, v: torch.ops.aten._batch_norm_with_update_functional(x, None, None, m, v, 0.1, 1e-5),
         f32(2, 3, 4), torch.zeros(3), torch.ones(3), not_in_archives="torch.export fails on it"),
    norm("aten::native_group_norm", lambda x: torch.ops.aten.native_group_norm(x, None, None, 2, 4, 15, 2, 1e-5),
         f32(2, 4, 3, 5)),
]
