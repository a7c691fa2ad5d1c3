"""Archives that call torchvision's operators are exported without torchvision installed."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
import ops.cases.detection  # noqa: F401, registers the operators for tracing

CALLS = torch.load(Path(__file__).with_name("torchvision_results.pt"))


class Constant(torch.nn.Module):
    """Calls an operator on constants; the recorder computes the result, which becomes a constant of the file."""

    def __init__(self, name: str, arguments: list):
        super().__init__()
        self.name, self.arguments = name, arguments

    def forward(self, x):
        results = getattr(torch.ops.torchvision, self.name)(*self.arguments)
        return (x + 1, *(results if isinstance(results, tuple) else [results]))


@pytest.mark.parametrize("index", range(len(CALLS)), ids=[f"{index}-{call[0]}" for index, call in enumerate(CALLS)])
def test_the_recorder_computes_torchvisions_results(index, tmp_path):
    name, arguments, expected = CALLS[index]
    torch.jit.trace(Constant(name, arguments), torch.zeros(2), check_trace=False).save(tmp_path / "call.pt")
    command.run("export", tmp_path / "call.pt", "-o", tmp_path / "call.onnx")
    assert name not in str([node.op_type for node in onnx.load(tmp_path / "call.onnx").graph.node])
    results = onnxruntime.InferenceSession(tmp_path / "call.onnx").run(None, {"x": np.zeros(2, np.float32)})[1:]
    for actual, reference in zip(results, expected, strict=True):
        assert actual.dtype == reference.numpy().dtype and actual.shape == tuple(reference.shape)
        np.testing.assert_allclose(actual, reference.numpy(), rtol=1e-5, atol=1e-5)


class Detector(torch.nn.Module):
    """A two-stage detector: boxes and scores of a grid, non-maximum suppression, then a score of each region."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.box, self.score = (torch.nn.Conv2d(*sizes, 3, 2, 1) for sizes in ((3, 8), (8, 4), (8, 1)))
        self.head = torch.nn.Linear(8 * 4, 5)

    def forward(self, image):
        features = self.body(image).relu()
        corners, sizes = self.box(features).abs().flatten(2)[0].T.chunk(2, 1)
        cells = torch.arange(len(corners))[:, None]
        corners = corners + torch.cat([cells % 8, cells // 8], 1)
        boxes = torch.cat([corners, corners + sizes + 1], 1)
        selected = torch.ops.torchvision.nms(boxes, self.score(features).flatten(), 0.2)
        regions = torch.cat([boxes.new_zeros(selected.shape[0], 1), boxes[selected]], 1)
        pooled = torch.ops.torchvision.roi_align(features, regions, 1.0, 2, 2, 2, False)
        return boxes[selected], self.head(pooled.flatten(1)).softmax(-1)


@pytest.mark.parametrize("make", [torch.jit.script, lambda model: torch.jit.trace(model, IMAGE)], ids=["script", "trace"])
def test_a_detector_finds_different_boxes_in_different_images(make, tmp_path):
    model = Detector().eval()
    make(model).save(tmp_path / "detector.pt")
    torch.save((IMAGE,), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "detector.pt", "-o", tmp_path / "detector.onnx", "--inputs", tmp_path / "inputs.pt")
    session = onnxruntime.InferenceSession(tmp_path / "detector.onnx")
    lengths = set()
    for seed in range(4):
        other = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) * (seed + 1)
        expected = model(other)
        for actual, reference in zip(session.run(None, {"image": other.numpy()}), expected, strict=True):
            np.testing.assert_allclose(actual, reference.detach().numpy(), rtol=1e-4, atol=1e-4)
        lengths.add(len(expected[0]))
    assert len(lengths) > 1, "every image has the same number of boxes, so the test proves nothing"


IMAGE = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(9))


class ComputedScale(torch.nn.Module):
    """Computes the scale of a feature map from its size and the image size, as torchvision's poolers do."""

    def forward(self, image, boxes):
        features = torch.nn.functional.avg_pool2d(image, 4)
        scale = 2 ** float((torch.tensor(features.shape[-2]) / torch.tensor(image.shape[-2])).log2().round())
        regions = torch.cat([boxes.new_zeros(boxes.shape[0], 1), boxes], 1)
        means = torch.ops.torchvision.roi_align(features, regions, scale, 2, 2, 2, True)
        parts = torch.ops.torchvision.ps_roi_align(features, regions, scale, 2, 2, 2)[0]
        return means, parts, torch.ops.torchvision.roi_pool(features, regions, scale, 2, 2)[0]


def test_region_scale_is_computed_by_the_model(tmp_path):
    torch.jit.script(ComputedScale()).save(tmp_path / "levels.pt")
    boxes = torch.tensor([[0.0, 0, 15, 15], [4, 8, 30, 20], [9.5, 2.5, 19, 31]])
    torch.save((torch.rand(1, 4, 32, 40), boxes), tmp_path / "inputs.pt")
    command.run("export", tmp_path / "levels.pt", "-o", tmp_path / "levels.onnx", "--inputs", tmp_path / "inputs.pt",
                "--dynamic", "image:2=h,3=w", "--dynamic", "boxes:0=n")
    session = onnxruntime.InferenceSession(tmp_path / "levels.onnx")
    for height, width, count in [(32, 40, 3), (64, 36, 2), (36, 80, 1)]:
        image = torch.rand(1, 4, height, width, generator=torch.Generator().manual_seed(height))
        expected = ComputedScale()(image, boxes[:count])
        results = session.run(None, {"image": image.numpy(), "boxes": boxes[:count].numpy()})
        for actual, reference in zip(results, expected, strict=True):
            np.testing.assert_allclose(actual, reference.numpy(), rtol=1e-4, atol=1e-4)
