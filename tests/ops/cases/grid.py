"""Sampling at computed positions, some of them outside the image."""

import torch
import torch.nn.functional as F

from ops.case import between, case, f32

TOLERANCE = (1e-4, 1e-4)
IMAGE, POINTS = f32(2, 3, 5, 6), between(-1.3, 1.3, 2, 4, 7, 2)
VOLUME, POINTS_3D = f32(1, 2, 4, 5, 6), between(-1.3, 1.3, 1, 3, 4, 5, 3)


def sampled(mode, padding, align_corners, **options):
    return case("aten::grid_sampler", lambda x, g: F.grid_sample(x, g, mode, padding, align_corners), IMAGE, POINTS,
                tolerance=TOLERANCE, **options)


CASES = [
    sampled("bilinear", "zeros", False, opsets=(16, 20), dynamic="x:0=n,2=h g:0=n,1=t"),
    sampled("bilinear", "border", True),
    sampled("bilinear", "reflection", False),
    sampled("nearest", "zeros", False),
    sampled("bicubic", "border", False, opsets=(18, 20),
            not_as={"half": "PyTorch rounds the weights of sixteen pixels to half: 0.02 off its float64 result"}),
    sampled("bilinear", "zeros", False, opsets=(15,), refused="grid_sampler over 2 axes"),
    case("aten::grid_sampler", lambda x, g: F.grid_sample(x, g, align_corners=False), VOLUME, POINTS_3D, opsets=(20,),
         tolerance=TOLERANCE),
    case("aten::grid_sampler", lambda x, g: F.grid_sample(x, g, align_corners=False), VOLUME, POINTS_3D, opsets=(18,),
         refused="grid_sampler over 3 axes"),
    case("aten::grid_sampler_2d", lambda x, g: torch.grid_sampler_2d(x, g, 0, 0, True), IMAGE, POINTS,
         tolerance=TOLERANCE),
    case("aten::grid_sampler_3d", lambda x, g: torch.grid_sampler_3d(x, g, 1, 1, False), VOLUME, POINTS_3D,
         opsets=(20,), tolerance=TOLERANCE),
    case("aten::affine_grid_generator", lambda t: F.affine_grid(t, [2, 3, 4, 5], False), f32(2, 2, 3), opsets=(18, 20)),
    case("aten::affine_grid_generator", lambda t: F.affine_grid(t, [2, 3, 4, 1], True), f32(2, 2, 3), opsets=(18, 20)),
    case("aten::affine_grid_generator", lambda t: F.affine_grid(t, [1, 3, 2, 4, 5], False), f32(1, 3, 4),
         opsets=(18, 20)),
]
