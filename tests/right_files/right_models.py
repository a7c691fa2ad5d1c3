"""Small models of which other tools write right files: usual layers, and operations whose results jump or overflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Model:
    """A module class or function, and example inputs by a seed."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]

    def module(self) -> nn.Module:
        """Returns the module in eval mode, with the same weights on every call."""
        torch.manual_seed(0)
        module = self.build()
        for each in module.modules():
            if isinstance(each, (nn.BatchNorm1d, nn.BatchNorm2d)):
                nn.init.normal_(each.running_mean, std=0.3)
                nn.init.uniform_(each.running_var, 0.5, 2.0)
        return module.eval()

    def example(self, seed: int = 1) -> tuple[torch.Tensor, ...]:
        torch.manual_seed(seed)
        return self.inputs()


class Step(nn.Module):
    """One function between layers."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def sequence(function: Callable[[torch.Tensor], torch.Tensor], features: int = 16) -> Model:
    """Layers around a function of features [2, 10, 16], which returns ``features`` of them."""
    return Model(lambda: nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), Step(function), nn.Linear(features, 16), nn.Tanh(),
                                       nn.Linear(16, 5)), lambda: (torch.randn(2, 10, 16),))


def image(function: Callable[[torch.Tensor], torch.Tensor], channels: int = 8) -> Model:
    """Convolutions around a function of images [2, 8, 16, 16]."""
    return Model(lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), Step(function),
                                       nn.Conv2d(channels, 8, 3, padding=1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
                                       nn.Flatten(), nn.Linear(8, 5)), lambda: (torch.randn(2, 3, 16, 16),))


class Attention(nn.Module):
    """A transformer's layer, with a mask that a caller computes from lengths."""

    def __init__(self, lowest: float) -> None:
        super().__init__()
        self.lowest = lowest
        self.norm, self.feed_norm = nn.LayerNorm(32), nn.LayerNorm(32)
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.feed = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (4, 8)).transpose(1, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        scores = self.heads(self.query(h)) @ self.heads(self.key(h)).transpose(-1, -2) / 8**0.5
        weights = torch.softmax(scores + (1 - mask[:, None, None].float()) * self.lowest, -1)
        x = x + self.out((weights @ self.heads(self.value(h))).transpose(1, 2).flatten(2))
        return x + self.feed(self.feed_norm(x))


class Tagger(nn.Module):
    """An embedding and a recurrent layer, which quantisers treat in ways of their own."""

    def __init__(self, recurrent: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.recurrent = recurrent(16, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 7)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embed(ids))[0])


class Residual(nn.Module):
    """Convolutions with a shortcut, and a squeeze-and-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.SiLU())
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.excite = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 1), nn.Sigmoid())
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = torch.relu(self.depthwise(x))
        return self.head((x + y * self.excite(y)).mean((2, 3)))


class Upsampler(nn.Module):
    """An encoder and decoder with a concatenation and a sampling grid."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.flow = nn.Conv2d(11, 2, 3, padding=1)
        self.out = nn.Conv2d(11, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.cat([x, self.up(F.gelu(self.down(x)))], 1)
        grid = torch.tanh(self.flow(h)).permute(0, 2, 3, 1)
        return self.out(F.grid_sample(h, grid, mode=self.mode, align_corners=False))


class Codebook(nn.Module):
    """The nearest entry of a table for each position: an argmin, then a lookup."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.table, self.head = nn.Linear(16, 8), nn.Embedding(32, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.project(x)
        distance = (h[:, :, None] - self.table.weight).square().sum(-1)
        return self.head(h + self.table(distance.argmin(-1)))


class Experts(nn.Module):
    """Two of four experts for each position, by the largest scores."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(16, 4), nn.Linear(16, 5)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores, chosen = torch.topk(self.gate(x), 2, -1)
        shares = torch.zeros(*x.shape[:-1], 4).scatter(-1, chosen, torch.softmax(scores, -1))
        return self.head(sum(shares[..., at:at + 1] * torch.relu(each(x)) for at, each in enumerate(self.experts)))


class LargeActivations(nn.Module):
    """A layer that some features leave with values near the largest number of float16, as language models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 5)
        with torch.no_grad():
            self.first.weight[3] *= 3000

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)))


def _mask() -> torch.Tensor:
    return (torch.arange(10) < torch.tensor([[10], [6]])).long()


MODELS = {
    "attention": Model(lambda: Attention(-1e4), lambda: (torch.randn(2, 10, 32), _mask())),
    "attention_lowest": Model(lambda: Attention(torch.finfo(torch.float32).min), lambda: (torch.randn(2, 10, 32), _mask())),
    "lstm": Model(lambda: Tagger(nn.LSTM), lambda: (torch.randint(0, 50, (2, 9)),)),
    "gru": Model(lambda: Tagger(nn.GRU), lambda: (torch.randint(0, 50, (2, 9)),)),
    "residual": Model(Residual, lambda: (torch.randn(2, 3, 16, 16),)),
    "upsampler": Model(lambda: Upsampler("bilinear"), lambda: (torch.randn(2, 3, 12, 12),)),
    "sample_nearest": Model(lambda: Upsampler("nearest"), lambda: (torch.randn(2, 3, 12, 12),)),
    "codebook": Model(Codebook, lambda: (torch.randn(2, 10, 16),)),
    "experts": Model(Experts, lambda: (torch.randn(2, 10, 16),)),
    "large_activations": Model(LargeActivations, lambda: (torch.randn(2, 10, 16),)),
    "encoder_layer": Model(lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True),
                           lambda: (torch.randn(2, 10, 32),)),
    "remainder": sequence(lambda x: torch.remainder(x * 2, 0.7)),
    "fmod": sequence(lambda x: torch.fmod(x * 3, -0.9)),
    "floor": sequence(lambda x: torch.floor(x * 4) / 4),
    "round": sequence(lambda x: torch.round(x * 8)),
    "to_ids": sequence(lambda x: F.one_hot((x[..., 0].abs() * 5).long() % 16, 16).float()),
    "bucketize": sequence(lambda x: torch.bucketize(x, torch.linspace(-2, 2, 9)).float()),
    "argsort": sequence(lambda x: torch.argsort(x, -1).float()),
    "sort": sequence(lambda x: torch.sort(x, 1)[0]),
    "compare": sequence(lambda x: torch.where(x > x.roll(1, 1), x, -1.0)),
    "log_softmax": sequence(lambda x: F.log_softmax(x * 40, -1)),
    "power": sequence(lambda x: torch.pow(2.0, x * 4)),
    "product": sequence(lambda x: x * torch.prod(x, 1, keepdim=True)),
    "reciprocal": sequence(lambda x: 1 / (x.abs() + 0.01)),
    "diagonal": sequence(lambda x: torch.diagonal(x, 1, 1, 2), features=10),
    "cumsum": sequence(lambda x: torch.cumsum(x, 1)),
    "norms": sequence(lambda x: x / x.norm(dim=-1, keepdim=True) + F.normalize(x, dim=1)),
    "clamp": sequence(lambda x: torch.clamp(x, -0.4, 0.6)),
    "max_pool": image(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True)),
    "pad": image(lambda x: F.pad(x, (1, 2, 0, 1), "reflect")),
    "shuffle": image(lambda x: F.pixel_shuffle(x, 2), channels=2),
    "nearest": image(lambda x: F.interpolate(x, scale_factor=1.7)),
    "instance_norm": image(lambda x: F.instance_norm(x)),
    "threshold": image(lambda x: (x > 0.5).float() * x),
}
