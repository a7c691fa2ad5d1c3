"""Windows whose length the model computes from a size."""

import torch

from ops.case import case, f32, i64

FUNCTIONS = {"hann": torch.hann_window, "hamming": torch.hamming_window, "blackman": torch.blackman_window,
             "bartlett": torch.bartlett_window}


def scripted(key: str, arguments: str = "", **options):
    name = key.removeprefix("aten::").split(".")[0]
    source = f"def forward(self, x):\n  return x * torch.{name}(x.size(1){arguments})"
    return case(key, source, f32(2, 5), dynamic="x:1=n",
                not_as={"double": "the window stays float32, and operations round in another order"}, **options)


CASES = [
    *(scripted(f"aten::{name}_window") for name in FUNCTIONS),
    *(scripted(f"aten::{name}_window.periodic", f", {periodic}") for name in FUNCTIONS for periodic in (True, False)),
    scripted("aten::hamming_window.periodic_alpha", ", False, 0.6"),
    scripted("aten::hamming_window.periodic_alpha_beta", ", True, 0.6, 0.3"),
    *(case(f"aten::{name}_window", f"def forward(self, x, n):\n  return torch.{name}_window(int(n.max()), "
           "dtype=torch.float64) * x", f32(1), i64(1, 4, 3)) for name in FUNCTIONS),
]
