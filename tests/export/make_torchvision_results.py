"""Writes torchvision_results.pt: calls of torchvision's operators with torchvision's results.

    pip install torchvision; python tests/export/make_torchvision_results.py

The file is a list of (operator, arguments, results). test_detection.py reads it, so the tests need no torchvision.
"""

from pathlib import Path

import torch
import torchvision  # noqa: F401, registers the operators

PATH = Path(__file__).with_name("torchvision_results.pt")


def boxes(count: int, generator: torch.Generator) -> torch.Tensor:
    corners = torch.rand(count, 2, generator=generator) * 12 - 2
    return torch.cat([corners, corners + torch.rand(count, 2, generator=generator) * 9], 1)


def calls() -> list[tuple]:
    generator = torch.Generator().manual_seed(3)
    rand = lambda *sizes: torch.rand(*sizes, generator=generator) * 4 - 2  # noqa: E731
    regions = torch.cat([torch.tensor([[0.0], [1], [1], [0], [1]]), boxes(5, generator)], 1)
    images = rand(2, 12, 8, 9)
    cases = [("nms", [boxes(40, generator), rand(40).round(decimals=1), limit]) for limit in (0.0, 0.3, 0.7)]
    for dtype in (torch.float32, torch.float64):
        x, rois = images.to(dtype), regions.to(dtype)
        for ratio in (-1, 2):
            cases += [("roi_align", [x, rois, 0.75, 3, 2, ratio, aligned]) for aligned in (False, True)]
            cases.append(("ps_roi_align", [x, rois, 0.75, 2, 3, ratio]))
        cases.append(("roi_pool", [x, rois, 0.75, 3, 2]))
    for masked in (True, False):
        mask = rand(2, 12, 4, 9) if masked else torch.zeros(2, 1)
        cases.append(("deform_conv2d", [images, rand(6, 6, 3, 2), rand(2, 24, 4, 9), mask, rand(6), 2, 1, 1, 1, 1,
                                        2, 2, 2, masked]))
    return cases


if __name__ == "__main__":
    results = []
    for name, arguments in calls():
        result = getattr(torch.ops.torchvision, name)(*arguments)
        results.append((name, arguments, list(result) if isinstance(result, tuple) else [result]))
    torch.save(results, PATH)
