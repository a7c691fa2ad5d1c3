"""Tests stft and istft with random parameters, traced and scripted: frames, hops, windows, padding, sides, lengths.
Compares each at other signal lengths and batch sizes that PyTorch accepts."""

import random

import pytest
import torch

from command import run
from ops.case import Case, case, f32
from ops.comparing import check_export, results_or_none
from ops.test_ops import export_arguments

pytestmark = pytest.mark.filterwarnings("ignore")
SEEDS = range(24)


class RoundTrip(torch.nn.Module):
    """Computes spectra of a signal, changes them and transforms them back, with a different window each way."""

    def __init__(self, draw: random.Random):
        super().__init__()
        self.frame = draw.randint(4, 20)
        self.length = draw.choice([self.frame, draw.randint(3, self.frame)])
        self.hop = draw.choice([max(self.length // 4, 1), max(self.length // 2, 1), draw.randint(1, self.length)])
        self.center = draw.random() < 0.7
        self.pad_mode = draw.choice(["reflect", "constant", "replicate", "circular"])
        self.normalized = draw.random() < 0.5
        self.onesided = draw.choice([True, False])
        self.to_complex = not self.onesided and draw.random() < 0.5
        self.extra_samples = draw.choice([None, -3, 0, 5])  # requested beyond the signal's length
        window = draw.choice([None, torch.hann_window(self.length), torch.rand(self.length)])
        self.register_buffer("window", window)
        # Positive everywhere, so that the sum of squared windows is never 0.
        self.register_buffer("inverse_window", None if draw.random() < 0.3 else torch.rand(self.length) + 0.2)

    def forward(self, x):
        z = torch.stft(x, self.frame, self.hop, self.length, self.window, self.center, self.pad_mode, self.normalized,
                       self.onesided, return_complex=True)
        z = torch.polar(z.abs() * 0.5, z.angle() + 0.1) + z * z.mean()
        length = None if self.extra_samples is None else x.size(-1) + self.extra_samples
        y = torch.istft(z, self.frame, self.hop, self.length, self.inverse_window, self.center, self.normalized,
                        self.onesided, length, self.to_complex)
        return torch.view_as_real(y) if self.to_complex else y


def random_case(seed: int) -> Case:
    """Draws parameters until PyTorch accepts them."""
    draw = random.Random(seed)
    while True:
        model = RoundTrip(draw)
        batched = draw.random() < 0.7
        row = case("aten::istft", model, f32(2, 48) if batched else f32(48), tolerance=(2e-4, 2e-4),
                   dynamic="x:0=b,1=t" if batched else "x:0=t")
        if results_or_none(model, row.tensors()) and results_or_none(model, row.tensors(row.larger(3))):
            return row


@pytest.mark.parametrize("scripted", [False, True], ids=["trace", "script"])
@pytest.mark.parametrize("seed", SEEDS)
def test_round_trip(seed: int, scripted: bool, tmp_path):
    row = random_case(seed)
    archive = tmp_path / "model.pt"
    (torch.jit.script(row.module()) if scripted else row.archive()).save(str(archive))
    run(*export_arguments(row, archive, tmp_path, 20 if seed % 3 else 17))
    check_export(row, row.module(), tmp_path / "operator.onnx")
