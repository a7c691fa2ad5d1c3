"""Models on which the matcher is not tuned: architectures that the zoo lacks, with the zoo's noise in every parameter.

They are in the corpus (`make accuracy`) but not in the quick set, and expose rules that help only the zoo.
"""

import torch
from torch import nn

from models.zoo import Entry, image, tokens


def albert():
    """All layers share one layer's parameters: the same module is called repeatedly."""
    from transformers import AlbertConfig, AlbertModel

    return AlbertModel(AlbertConfig(vocab_size=800, embedding_size=32, hidden_size=64, num_hidden_layers=3,
                                    num_attention_heads=4, intermediate_size=96))


def llama():
    """Rotary positions, RMS norms, grouped queries, gated feed-forward."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=600, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, use_cache=False))


def t5_encoder():
    """All layers use the relative positions that the first layer computes."""
    from transformers import T5Config, T5EncoderModel

    return T5EncoderModel(T5Config(vocab_size=600, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4))


def convnext():
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[16, 32], depths=[2, 2], num_stages=2,
                                                         num_labels=10))


def swin():
    """Shifted windows: rolls, partitions, many reshapes."""
    from transformers import SwinConfig, SwinForImageClassification

    return SwinForImageClassification(SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2],
                                                 num_heads=[2, 4], window_size=4, num_labels=10))


def segformer():
    """Attention over sequences shortened by strided convolutions. Each layer turns maps into sequences and back."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return SegformerForSemanticSegmentation(SegformerConfig(
        depths=[1, 1], hidden_sizes=[16, 32], num_encoder_blocks=2, sr_ratios=[4, 2], num_attention_heads=[1, 2],
        patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=24, num_labels=6))


def mobilevit():
    """Inverted residuals, and transformers over patches unfolded from maps."""
    from transformers import MobileViTConfig, MobileViTForImageClassification

    return MobileViTForImageClassification(MobileViTConfig(
        image_size=64, hidden_sizes=[32, 48, 64], neck_hidden_sizes=[16, 16, 24, 32, 40, 48, 64], num_labels=6))


def regnet():
    """Grouped convolutions with squeeze and excitation, each with a norm that can be folded."""
    from transformers import RegNetConfig, RegNetForImageClassification

    return RegNetForImageClassification(RegNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64],
                                                     depths=[1, 2, 1, 1], groups_width=8, num_labels=6))


class Squeeze(nn.Module):
    """Squeeze and excitation (Hu et al. 2018)."""

    def __init__(self, channels):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.expand(torch.relu(self.reduce(x.mean((2, 3), keepdim=True)))))


class Branches(nn.Module):
    """Inception-like: equal parallel branches, grouped and dilated convolutions, an attention over channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.branches = nn.ModuleList(nn.Sequential(nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8), nn.Hardswish(),
                                                    nn.Conv2d(8, 8, 3, padding=d, dilation=d)) for d in (1, 1, 2))
        self.gate = Squeeze(24)
        self.norm = nn.GroupNorm(4, 24)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5))

    def forward(self, pixel_values):
        x = self.stem(pixel_values)
        x = torch.cat([branch(x) for branch in self.branches], 1)
        return self.head(self.norm(self.gate(x)))


class Speech(nn.Module):
    """Convolutions over time, a GRU, torch's attention layer, and two heads on a shared trunk."""

    def __init__(self):
        super().__init__()
        # With the fast path, a trace would contain one fused kernel, and an export modules that are never called.
        torch.backends.mha.set_fastpath_enabled(False)
        self.embedding = nn.Embedding(200, 32)
        self.conv = nn.Sequential(nn.Conv1d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv1d(32, 32, 3, padding=1))
        self.gru = nn.GRU(32, 16, bidirectional=True, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.start, self.end = nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, input_ids):
        x = self.conv(self.embedding(input_ids).transpose(1, 2)).transpose(1, 2)
        x = self.encoder(self.gru(x)[0])
        return self.start(x).squeeze(-1), self.end(x).squeeze(-1)


def text(entry_tokens):
    return {key: {0: "batch", 1: "seq"} for key in entry_tokens}


SENTENCE, SENTENCES, PICTURE, PICTURES = {"batch": 1, "seq": 12}, {"batch": 3, "seq": 7}, {"batch": 1}, {"batch": 2}
BATCH = {"pixel_values": {0: "batch"}}

MODELS = {
    entry.name: entry
    for entry in [
        Entry("albert", albert, tokens(800), SENTENCE, SENTENCES, text(["input_ids", "attention_mask"])),
        Entry("llama", llama, tokens(600), SENTENCE, SENTENCES, text(["input_ids", "attention_mask"])),
        Entry("t5_encoder", t5_encoder, tokens(600), SENTENCE, SENTENCES, text(["input_ids", "attention_mask"])),
        Entry("convnext", convnext, image("pixel_values", 32), PICTURE, PICTURES, BATCH),
        Entry("swin", swin, image("pixel_values", 32), PICTURE, PICTURES, BATCH),
        Entry("segformer", segformer, image("pixel_values", 64), PICTURE, PICTURES, BATCH),
        Entry("mobilevit", mobilevit, image("pixel_values", 64), PICTURE, PICTURES, BATCH),
        Entry("regnet", regnet, image("pixel_values", 64), PICTURE, PICTURES, BATCH),
        Entry("branches", Branches, image("pixel_values", 32), PICTURE, PICTURES, BATCH),
        Entry("speech", Speech, tokens(200, masked=False), {"batch": 2, "seq": 12}, SENTENCES, text(["input_ids"])),
    ]
}
