"""interpolate of dynamic sizes, at sizes where float32 rounds otherwise than float64, where ONNX Runtime's Resize copies,
and where it reads other elements than PyTorch."""

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import command

LINES = (2, 3, 7, 10, 13, 30, 50, 60, 97, 100, 120, 300)
IMAGES = ((6, 8), (40, 7), (7, 40), (2, 3), (60, 45), (14, 30), (50, 21))


class Interpolate(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return F.interpolate(x, **self.options)


def sizes_that_differ(kind, model, example, sizes, folder):
    axes = range(2, example.dim())
    path = folder / ("m.pt2" if kind == "exported" else "m.pt")
    if kind == "exported":
        dims = [None, None] + [torch.export.Dim.DYNAMIC for _ in axes]
        torch.export.save(torch.export.export(model, (example,), dynamic_shapes=(dims,)), path)
        options = []
    else:
        torch.jit.trace(model, (example,)).save(str(path))
        torch.save((example,), folder / "inputs.pt")
        options = ["--inputs", folder / "inputs.pt", "--dynamic", "x:" + ",".join(f"{axis}=s{axis}" for axis in axes)]
    command.run("export", path, "-o", folder / "m.onnx", *options)
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    wrong = []
    for size in sizes:
        x = torch.randn(*example.shape[:2], *size, generator=torch.Generator().manual_seed(sum(size)))
        want, got = model(x).numpy(), session.run(None, {"x": x.numpy()})[0]
        if want.shape != got.shape or not np.allclose(want, got, rtol=1e-3, atol=1e-3):
            wrong.append((size, want.shape, got.shape))
    return wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["traced", "exported"])
@pytest.mark.parametrize("options", [
    *({"scale_factor": factor, "mode": mode} for factor in (2.3, 2.1, 1.1, 0.7)
      for mode in ("nearest", "nearest-exact", "linear")),
    {"scale_factor": 2.3, "mode": "linear", "align_corners": True},
    *({"size": size, "mode": mode} for size in (5, 16) for mode in ("nearest", "nearest-exact"))], ids=str)
def test_lines(kind, options, tmp_path):
    assert not sizes_that_differ(kind, Interpolate(**options), torch.zeros(1, 2, 9), [(n,) for n in LINES], tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [
    {"scale_factor": 1.1, "mode": "bilinear"}, {"scale_factor": (1.1, 2.3), "mode": "bilinear"},
    {"scale_factor": 1.1, "mode": "bicubic"}, {"scale_factor": (1.04, 1.3), "mode": "bicubic"},
    {"scale_factor": 1.1, "mode": "bilinear", "antialias": True}, {"size": (5, 9), "mode": "nearest"},
    {"scale_factor": 2.3, "mode": "bicubic", "align_corners": True}], ids=str)
def test_images(options, tmp_path):
    assert not sizes_that_differ("traced", Interpolate(**options), torch.zeros(1, 2, 6, 8), IMAGES, tmp_path)


def test_an_axis_that_doubles_is_resized(tmp_path):
    """A pyramid of features keeps its Resize, which reads the same there."""

    class Pyramid(torch.nn.Module):
        def forward(self, x):
            return F.interpolate(F.max_pool2d(x, 2, ceil_mode=True), size=x.shape[2:], mode="nearest")

    sizes = [(12, 18), (13, 19), (31, 6), (99, 57)]
    assert not sizes_that_differ("traced", Pyramid(), torch.zeros(1, 2, 12, 19), sizes, tmp_path)
    assert b"Resize" in (tmp_path / "m.onnx").read_bytes()
