"""Bugs of onnxruntime.transformers.optimizer, which fuses the layers of transformers. Its step is a fusion."""

import torch
from torch import nn

from bug import Bug
from roads import torchscript

LAST = ("onnxruntime==1.32.0",)
FUSIONS = "https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/python/tools/transformers/"


def fuse(without=(), heads=4, size=16):
    """Returns a writer that exports a model and fuses it as a BERT, without some fusions."""

    def write(model, inputs, path):
        from onnxruntime.transformers import optimizer
        from onnxruntime.transformers.fusion_options import FusionOptions

        torchscript(opset_version=17)(model, inputs, path)
        options = FusionOptions("bert")
        for name in without:
            setattr(options, name, False)
        done = optimizer.optimize_model(str(path), "bert", num_heads=heads, hidden_size=size, opt_level=0,
                                        optimization_options=options)
        done.save_model_to_file(str(path))

    return write


class SlotAttention(nn.Module):
    """Attention in which the queries compete for the inputs: the weights of each input add up to one."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.out = nn.Linear(size, size)

    def forward(self, x):
        b, t, d = x.shape
        layers = (self.query, self.key, self.value)
        query, key, value = (layer(x).view(b, t, self.heads, -1).transpose(1, 2) for layer in layers)
        weights = (query @ key.transpose(-1, -2) / 2).softmax(-2)
        return self.out((weights @ value).transpose(1, 2).reshape(b, t, d))


class Slots(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(12, 16)
        self.norm = nn.LayerNorm(16)
        self.attention = SlotAttention(16, 4)
        self.norm_after = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.norm_last = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.norm(self.encode(x))
        x = self.norm_after(x + self.attention(x))
        return self.head(self.norm_last(x + self.mlp(x)))


def patches():
    return (3 * torch.randn(2, 6, 12),)


BUGS = [
    Bug("onnxruntime-fusion-softmax",
        "attention with a softmax over the queries becomes one with a softmax over the keys",
        FUSIONS + "fusion_attention.py", LAST, LAST, Slots, patches, fuse(), "attention", "aten::softmax",
        fuse(("enable_attention",)), step="FusionAttention", tolerance=1e-3),
]
