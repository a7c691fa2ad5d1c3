"""interpolate by size and by factor, with and without aligned corners, to a single pixel, antialiased; overloads."""

import torch
import torch.nn.functional as F

from ops.case import case, f32, u8

TOLERANCE = (1e-4, 1e-4)
LINE, IMAGE, VOLUME = f32(2, 3, 10), f32(2, 3, 8, 10), f32(1, 2, 4, 5, 6)
aten = torch.ops.aten


def resized(key, input, mode, **options):
    """Calls F.interpolate; passes `size`, `scale_factor`, `align_corners` and `antialias` from the options."""
    arguments = {name: options.pop(name) for name in ("size", "scale_factor", "align_corners", "antialias",
                                                       "recompute_scale_factor") if name in options}
    return case(key, lambda x: F.interpolate(x, mode=mode, **arguments), input, tolerance=TOLERANCE, **options)


def overload(key, function, input):
    return case(key, function, input, tolerance=TOLERANCE)


CASES = [
    case("aten::_upsample_bilinear2d_aa", lambda x: aten._upsample_bilinear2d_aa(x, (3, 3), False, 1.7, 0.9),
         f32(2, 3, 10, 20)),
    case("aten::upsample_bilinear2d", lambda x: aten.upsample_bilinear2d(x, (3, 3), True, 1.7, 0.9), f32(2, 3, 10, 20)),
    case("aten::upsample_nearest1d", lambda x: aten.upsample_nearest1d(x, (9,), 0.5), f32(2, 3, 10),
         refused="larger than its scale factor gives"),
    overload("aten::upsample_nearest1d.vec", lambda x: aten.upsample_nearest1d.vec(x, None, [1.7]), LINE),
    resized("aten::upsample_nearest2d.vec", IMAGE, "nearest", scale_factor=2, dynamic="x:0=n,2=h,3=w",
            opsets=(13, 20)),
    resized("aten::upsample_nearest2d.vec", IMAGE, "nearest", scale_factor=(1.7, 0.6), dynamic="x:0=n"),
    resized("aten::upsample_nearest2d.vec", IMAGE, "nearest", size=(13, 5), dynamic="x:0=n,2=h", opsets=(13, 20)),
    resized("aten::upsample_nearest2d.vec", IMAGE, "nearest", scale_factor=1.7, recompute_scale_factor=True),
    # sizes at which Resize reads different elements from PyTorch: 14 to 4, 60 to 16, a factor of 0.3
    resized("aten::upsample_nearest2d.vec", f32(2, 2, 14, 60), "nearest", size=(4, 16), dynamic="x:0=n", opsets=(13, 20)),
    resized("aten::upsample_nearest2d.vec", f32(1, 2, 14, 21), "nearest", size=(4, 9), dynamic="x:3=w"),
    resized("aten::upsample_nearest2d.vec", f32(1, 2, 34, 41), "nearest", scale_factor=0.3, dynamic="x:2=h,3=w",
            opsets=(13, 20)),
    resized("aten::_upsample_nearest_exact2d.vec", f32(1, 2, 62, 14), "nearest-exact", size=(49, 9)),
    resized("aten::_upsample_nearest_exact2d.vec", f32(1, 2, 34, 41), "nearest-exact", scale_factor=0.7, dynamic="x:2=h,3=w"),
    # PyTorch maps these axes by their factor in sequences and volumes, but not in images
    resized("aten::upsample_nearest1d.vec", f32(1, 2, 8), "nearest", scale_factor=1.1),
    resized("aten::_upsample_nearest_exact1d.vec", f32(1, 2, 8), "nearest-exact", scale_factor=1.1),
    resized("aten::upsample_nearest3d.vec", f32(1, 2, 3, 5, 4), "nearest", scale_factor=(1.1, 2.1, 1.5)),
    resized("aten::upsample_bicubic2d.vec", f32(3, 2, 8, 8), "bicubic", scale_factor=1.1, dynamic="x:0=n"),  # ONNX Runtime would copy
    case("aten::upsample_bilinear2d.vec", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear").float(),
         u8(0, 255, 1, 2, 5, 6), tolerance=(0, 1)),
    resized("aten::upsample_bicubic2d.vec", u8(0, 255, 1, 2, 5, 6), "bicubic", scale_factor=2,
            refused="bicubic sampling of bytes"),
    # PyTorch maps these axes by their factor in large images
    resized("aten::upsample_nearest2d.vec", f32(1, 2, 120, 7), "nearest", scale_factor=1.1),
    resized("aten::upsample_nearest2d.vec", f32(1, 2, 200, 3), "nearest", scale_factor=1.04),
    resized("aten::upsample_nearest2d.vec", f32(1, 2, 60, 3), "nearest", scale_factor=2.3,
            not_as={"double": "PyTorch computes positions in float64 for float64 images, otherwise in float32"}),
    # PyTorch maps neither an axis that keeps its size nor one that doubles by its factor
    resized("aten::upsample_nearest2d.vec", f32(1, 2, 3, 4), "nearest", scale_factor=(2.3, 1.2)),
    resized("aten::upsample_bilinear2d.vec", f32(1, 2, 4, 5), "bilinear", scale_factor=(1.2, 1.7), align_corners=False),
    resized("aten::upsample_nearest3d.vec", VOLUME, "nearest", scale_factor=2),
    overload("aten::_upsample_nearest_exact1d.vec", lambda x: aten._upsample_nearest_exact1d.vec(x, None, [0.7]), LINE),
    resized("aten::_upsample_nearest_exact2d.vec", IMAGE, "nearest-exact", scale_factor=0.6),
    resized("aten::_upsample_nearest_exact3d.vec", VOLUME, "nearest-exact", size=(3, 7, 9)),
    overload("aten::upsample_linear1d.vec", lambda x: aten.upsample_linear1d.vec(x, None, False, [1.7]), LINE),
    resized("aten::upsample_linear1d", LINE, "linear", size=13, align_corners=True),
    resized("aten::upsample_bilinear2d.vec", IMAGE, "bilinear", size=(13, 15), align_corners=False,
            dynamic="x:0=n,3=w", opsets=(13, 20)),
    resized("aten::upsample_bilinear2d.vec", IMAGE, "bilinear", size=(5, 15), align_corners=True),
    resized("aten::upsample_bilinear2d.vec", IMAGE, "bilinear", size=1),
    resized("aten::upsample_bilinear2d.vec", IMAGE, "bilinear", scale_factor=2, align_corners=True,
            dynamic="x:0=n,2=h,3=w"),
    resized("aten::upsample_bilinear2d.vec", IMAGE, "bilinear", scale_factor=0.7),
    case("aten::upsample_bilinear2d.vec", lambda x, y: F.interpolate(x, y.shape[2:], mode="bilinear"), IMAGE,
         f32(1, 1, 5, 12), dynamic="x:0=n,2=a,3=b y:2=h,3=w", tolerance=TOLERANCE),
    resized("aten::upsample_trilinear3d.vec", VOLUME, "trilinear", size=(3, 7, 9), align_corners=True),
    resized("aten::upsample_bicubic2d.vec", IMAGE, "bicubic", size=(13, 15), align_corners=True),
    resized("aten::upsample_bicubic2d.vec", IMAGE, "bicubic", scale_factor=1.7, dynamic="x:0=n,2=h"),
    resized("aten::upsample_bicubic2d.vec", IMAGE, "bicubic", size=(3, 20)),
    resized("aten::_upsample_bilinear2d_aa.vec", IMAGE, "bilinear", size=(5, 15), antialias=True),
    resized("aten::_upsample_bilinear2d_aa.vec", IMAGE, "bilinear", size=(5, 15), antialias=True, opsets=(17,),
            refused="antialiased resizing"),
    resized("aten::_upsample_bicubic2d_aa.vec", IMAGE, "bicubic", size=(5, 15), antialias=True),
    resized("aten::_upsample_bicubic2d_aa.vec", IMAGE, "bicubic", size=(5, 15), antialias=True, align_corners=True,
            refused="antialiased resizing with align_corners"),
    overload("aten::upsample_nearest1d", lambda x: aten.upsample_nearest1d(x, [7]), LINE),
    overload("aten::upsample_nearest2d", lambda x: aten.upsample_nearest2d(x, [13, 6], 1.7, 0.6), IMAGE),
    overload("aten::upsample_nearest3d", lambda x: aten.upsample_nearest3d(x, [3, 7, 9]), VOLUME),
    overload("aten::_upsample_nearest_exact1d", lambda x: aten._upsample_nearest_exact1d(x, [7]), LINE),
    overload("aten::_upsample_nearest_exact2d", lambda x: aten._upsample_nearest_exact2d(x, [13, 6]), IMAGE),
    overload("aten::_upsample_nearest_exact3d", lambda x: aten._upsample_nearest_exact3d(x, [3, 7, 9]), VOLUME),
    overload("aten::upsample_linear1d", lambda x: aten.upsample_linear1d(x, [17], False, 1.7), LINE),
    overload("aten::upsample_bilinear2d", lambda x: aten.upsample_bilinear2d(x, [13, 6], False), IMAGE),
    overload("aten::upsample_trilinear3d", lambda x: aten.upsample_trilinear3d(x, [3, 7, 9], False), VOLUME),
    overload("aten::upsample_bicubic2d", lambda x: aten.upsample_bicubic2d(x, [13, 6], False), IMAGE),
    overload("aten::_upsample_bilinear2d_aa", lambda x: aten._upsample_bilinear2d_aa(x, [13, 6], False), IMAGE),
    overload("aten::_upsample_bicubic2d_aa", lambda x: aten._upsample_bicubic2d_aa(x, [13, 6], False), IMAGE),
]
