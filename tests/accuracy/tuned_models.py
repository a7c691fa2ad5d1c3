"""Further models on which the matcher is tuned: batch norms with fixed statistics, which optimisers fold into
convolutions; projections of equal size, distinguished only by their consumers; values that nodes of all layers read in
the same way; and new models, in which parameters are equal."""

import copy

import torch
from torch import nn

from models.zoo import Entry, image, tokens


class FrozenNorm(nn.Module):
    """A batch norm with its statistics in buffers, computed by plain arithmetic, as in detection models."""

    def __init__(self, channels):
        super().__init__()
        for name, value in {"weight": 1.0, "bias": 0.0, "mean": 0.0, "variance": 1.0}.items():
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x):
        scale = (self.weight * (self.variance + 1e-5).rsqrt()).reshape(1, -1, 1, 1)
        return x * scale + (self.bias.reshape(1, -1, 1, 1) - self.mean.reshape(1, -1, 1, 1) * scale)


class Residual(nn.Module):
    def __init__(self, channels, inner, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, inner, 1, bias=False), FrozenNorm(inner)
        self.conv2, self.norm2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), FrozenNorm(inner)
        self.conv3, self.norm3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), FrozenNorm(4 * inner)
        self.act = nn.ReLU()
        self.shortcut = None
        if channels != 4 * inner:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * inner, 1, stride, bias=False), FrozenNorm(4 * inner))

    def forward(self, x):
        y = self.act(self.norm1(self.conv1(x)))
        y = self.act(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return self.act(y + (x if self.shortcut is None else self.shortcut(x)))


class FrozenNorms(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), FrozenNorm(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(32, 8, 1), Residual(32, 12, 2), Residual(48, 12, 1))
        self.head = nn.Linear(48, 7)

    def forward(self, pixel_values):
        return self.head(self.layers(self.stem(pixel_values)).mean((2, 3)))


def llama_equal():
    """Has as many keys as queries, so that q_proj, k_proj and v_proj have equal sizes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=300, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=4, use_cache=False))


def gpt_neox():
    """Queries and keys of every layer are multiplied with rotary positions: identical nodes in several layers."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    return GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=600, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                            num_attention_heads=4, use_cache=False))


class NewLayer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down, self.act = nn.Linear(width, 48), nn.Linear(48, width), nn.GELU()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 6
        x = self.norm1(x + self.out(scores.softmax(-1) @ self.value(x)))
        return self.norm2(x + self.down(self.act(self.up(x))))


class NewLayers(nn.Module):
    """Layers initialised like transformers', with distinct weights but equal biases and norms, and exact copies of a
    layer, as in torch.nn.TransformerEncoder. Exporters store equal tensors once."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(60, 32), nn.Linear(32, 5)
        self.layers = nn.ModuleList(NewLayer() for _ in range(2))
        self.copies = nn.ModuleList(copy.deepcopy(self.layers[1]) for _ in range(2))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, input_ids):
        x = self.table(input_ids)
        for layer in [*self.layers, *self.copies]:
            x = layer(x)
        return self.head(x)


def ids(batch, seq):
    return {"input_ids": torch.randint(0, 60, (batch, seq), generator=torch.Generator().manual_seed(3))}


MODELS = {
    entry.name: entry
    for entry in [
        Entry("frozen_norms", FrozenNorms, image("pixel_values", 64), {"batch": 1}, {"batch": 2},
              {"pixel_values": {0: "batch"}}),
        Entry("llama_equal", llama_equal, tokens(300), {"batch": 1, "seq": 12}, {"batch": 3, "seq": 7},
              {key: {0: "batch", 1: "seq"} for key in ("input_ids", "attention_mask")}),
        Entry("new_layers", NewLayers, ids, {"batch": 1, "seq": 12}, {"batch": 3, "seq": 7},
              {"input_ids": {0: "batch", 1: "seq"}}, is_new=True),
        Entry("gpt_neox", gpt_neox, tokens(600), {"batch": 1, "seq": 12}, {"batch": 3, "seq": 7},
              {key: {0: "batch", 1: "seq"} for key in ("input_ids", "attention_mask")}),
    ]
}
