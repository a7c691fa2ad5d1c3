"""interpolate of dynamic sizes: at sizes at which float32 and float64 round differently, and at which ONNX Runtime's
Resize copies its input or reads different elements from PyTorch."""

import numpy as np
import onnx
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


def mismatches(kind, model, example, sizes, folder):
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
        expected, actual = model(x).numpy(), session.run(None, {"x": x.numpy()})[0]
        if expected.shape != actual.shape or not np.allclose(expected, actual, rtol=1e-3, atol=1e-3):
            wrong.append((size, expected.shape, actual.shape))
    return wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["traced", "exported"])
@pytest.mark.parametrize("options", [
    *({"scale_factor": factor, "mode": mode} for factor in (2.3, 2.1, 1.1, 0.7)
      for mode in ("nearest", "nearest-exact", "linear")),
    {"scale_factor": 2.3, "mode": "linear", "align_corners": True},
    *({"size": size, "mode": mode} for size in (5, 16) for mode in ("nearest", "nearest-exact"))], ids=str)
def test_interpolation_of_lines_equals_pytorch(kind, options, tmp_path):
    assert not mismatches(kind, Interpolate(**options), torch.zeros(1, 2, 9), [(n,) for n in LINES], tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [
    {"scale_factor": 1.1, "mode": "bilinear"}, {"scale_factor": (1.1, 2.3), "mode": "bilinear"},
    {"scale_factor": 1.1, "mode": "bicubic"}, {"scale_factor": (1.04, 1.3), "mode": "bicubic"},
    {"scale_factor": 1.1, "mode": "bilinear", "antialias": True}, {"size": (5, 9), "mode": "nearest"},
    {"scale_factor": 2.3, "mode": "bicubic", "align_corners": True}], ids=str)
def test_interpolation_of_images_equals_pytorch(options, tmp_path):
    assert not mismatches("traced", Interpolate(**options), torch.zeros(1, 2, 6, 8), IMAGES, tmp_path)


def test_a_doubled_axis_stays_a_resize(tmp_path):
    """A feature pyramid keeps its Resize, which reads the same elements as PyTorch at factor 2."""
    class Pyramid(torch.nn.Module):
        def forward(self, x):
            return F.interpolate(F.max_pool2d(x, 2, ceil_mode=True), size=x.shape[2:], mode="nearest")

    sizes = [(12, 18), (13, 19), (31, 6), (99, 57)]
    assert not mismatches("traced", Pyramid(), torch.zeros(1, 2, 12, 19), sizes, tmp_path)
    assert b"Resize" in (tmp_path / "m.onnx").read_bytes()


def paste(mask, box, height: int, width: int):
    """Resizes the mask to its box and copies it into an image, like torchvision's paste_mask_in_image."""
    w, h = max(int(box[2] - box[0] + 1), 1), max(int(box[3] - box[1] + 1), 1)
    mask = F.interpolate(mask.expand((1, 1, -1, -1)), size=(h, w), mode="bilinear", align_corners=False)[0][0]
    image = torch.zeros((height, width), dtype=mask.dtype)
    x0, x1 = max(int(box[0]), 0), min(int(box[2]) + 1, width)
    y0, y1 = max(int(box[1]), 0), min(int(box[3]) + 1, height)
    image[y0:y1, x0:x1] = mask[y0 - int(box[1]):y1 - int(box[1]), x0 - int(box[0]):x1 - int(box[0])]
    return image


class ScriptedPaste(torch.nn.Module):
    def forward(self, masks, boxes):
        boxes = boxes.to(torch.int64)
        pasted = [paste(masks[i][0], boxes[i], 20, 24) for i in range(masks.size(0))]
        return torch.stack(pasted) if len(pasted) > 0 else masks.new_empty((0, 20, 24))


@torch.jit.script_if_tracing
def paste_in_loop(masks, boxes):
    pasted = torch.zeros(0, 20, 24)
    for i in range(masks.size(0)):
        pasted = torch.cat((pasted, paste(masks[i][0], boxes[i], 20, 24)[None]))
    return pasted


class TracedPaste(torch.nn.Module):
    """Pastes in a scripted loop, as torchvision does in a trace."""

    def forward(self, masks, boxes):
        return paste_in_loop(masks, boxes.to(torch.int64))


class ResizeInBranch(torch.nn.Module):
    def forward(self, masks, boxes):
        if bool(boxes.sum() > 0):
            y = F.interpolate(masks, size=(int(boxes[0, 0]) + 2, int(boxes[0, 1]) + 3), mode="nearest")
        else:
            y = masks
        return y.sum((2, 3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("model, form", [(ScriptedPaste, "script"), (ResizeInBranch, "script"), (TracedPaste, "trace")])
def test_sizes_computed_in_a_loop_or_branch_equal_pytorch(model, form, opset, tmp_path):
    """Each box has its own size. In a body, onnx's checker needs to know the number of sizes of a Resize."""
    torch.manual_seed(0)
    masks = torch.rand(3, 1, 8, 8)
    boxes = torch.tensor([[1.0, 2, 9, 12], [3, 3, 15, 10], [0, 0, 5, 6]])
    archive = torch.jit.trace(model().eval(), (masks, boxes)) if form == "trace" else torch.jit.script(model().eval())
    archive.save(str(tmp_path / "m.pt"))
    np.savez(tmp_path / "inputs.npz", masks=masks.numpy(), boxes=boxes.numpy())
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz",
                "--opset", opset, "--dynamic", "masks:0=n", "--dynamic", "boxes:0=n")
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for n in (3, 2):
        actual = session.run(None, {"masks": masks[:n].numpy(), "boxes": boxes[:n].numpy()})[0]
        np.testing.assert_allclose(actual, model()(masks[:n], boxes[:n]).numpy(), rtol=1e-4, atol=1e-4)
