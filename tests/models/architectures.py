"""Small models of kinds that the zoo (`zoo.py`) lacks: language models with caches, encoder-decoders, detection,
segmentation, state spaces, speech, diffusion. Every parameter has seeded noise.

    entry = ARCHITECTURES["t5"]; entry.model(), entry.inputs(entry.first), as in the zoo
"""

import torch
from torch import nn

from accuracy.further_models import BATCH, PICTURE, PICTURES, SENTENCE, SENTENCES, convnext, llama, swin, text
from models.zoo import Entry, image, tokens


class DecoderWithCache(nn.Module):
    """One step of Llama: ids [batch, seq], past keys and values [batch, heads, past, size] for each of two layers."""

    def __init__(self):
        super().__init__()
        self.decoder = llama()

    def forward(self, input_ids, key_0, value_0, key_1, value_1):
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (key, value) in enumerate(((key_0, value_0), (key_1, value_1))):
            cache.update(key, value, layer)
        result = self.decoder(input_ids=input_ids, past_key_values=cache, use_cache=True)
        layers = result.past_key_values.layers
        return result.logits, layers[0].keys, layers[0].values, layers[1].keys, layers[1].values


def step_inputs(batch: int, past: int) -> dict:
    generator = torch.Generator().manual_seed(batch * 100 + past)
    inputs = {"input_ids": torch.randint(0, 600, (batch, 1), generator=generator)}
    for name in ("key_0", "value_0", "key_1", "value_1"):
        inputs[name] = torch.randn(batch, 2, past, 16, generator=generator)
    return inputs


def t5():
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(T5Config(vocab_size=600, d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4,
                                               use_cache=False))


def translation_inputs(batch: int, seq: int) -> dict:
    generator = torch.Generator().manual_seed(batch * 100 + seq)
    return {**tokens(600)(batch, seq), "decoder_input_ids": torch.randint(0, 600, (batch, 5), generator=generator)}


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=300, num_mel_bins=20, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=20,
        max_target_positions=20, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1))


def speech_inputs(batch: int) -> dict:
    generator = torch.Generator().manual_seed(batch)
    return {"input_features": torch.randn(batch, 20, 40, generator=generator),
            "decoder_input_ids": torch.randint(3, 300, (batch, 6), generator=generator)}


def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    return MambaForCausalLM(MambaConfig(vocab_size=300, hidden_size=32, state_size=8, num_hidden_layers=2,
                                        use_cache=False))


def detr():
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic",
                            out_features=["stage2"])
    return DetrForObjectDetection(DetrConfig(
        backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, d_model=32,
        encoder_layers=1, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
        decoder_ffn_dim=48, num_queries=7))


def sam():
    from transformers import SamConfig, SamModel

    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 16,
              "output_channels": 16, "global_attn_indexes": [1], "window_size": 3, "mlp_dim": 64, "num_pos_feats": 8}
    prompt = {"hidden_size": 16, "image_size": 64, "patch_size": 16, "image_embedding_size": 4,
              "mask_input_channels": 4}
    decoder = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 32,
               "iou_head_hidden_dim": 16}
    return SamModel(SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder))


def prompted_images(batch: int) -> dict:
    generator = torch.Generator().manual_seed(batch)
    return {"pixel_values": torch.randn(batch, 3, 64, 64, generator=generator),
            "input_points": torch.rand(batch, 1, 2, 2, generator=generator) * 64}


class TimeResidual(nn.Module):
    """A residual block of a diffusion model: the time embedding shifts the features (Ho et al. 2020)."""

    def __init__(self, inner, outer, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(time, outer)
        self.norm2, self.conv2 = nn.GroupNorm(4, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(nn.functional.silu(self.norm1(x)))
        h = h + self.time(nn.functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(nn.functional.silu(self.norm2(h)))


class CrossAttention(nn.Module):
    """Pixels [N, C, H, W] attend to each other and to a text [N, T, D] (Rombach et al. 2022)."""

    def __init__(self, channels, context, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, channels)
        self.to_q, self.to_out = nn.Linear(channels, channels, bias=False), nn.Linear(channels, channels)
        self.to_k, self.to_v = (nn.Linear(context, channels, bias=False) for _ in range(2))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, context):
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.split(self.to_q(pixels)), self.split(self.to_k(context)), self.split(self.to_v(context))
        attended = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.to_out(attended).transpose(1, 2).unflatten(2, x.shape[2:])


class DiffusionUNet(nn.Module):
    """A latent diffusion UNet: sample [N, 3, H, W], timestep [N], text [N, T, 12] -> noise [N, 3, H, W]."""

    def __init__(self):
        super().__init__()
        self.time_embedding = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.conv_in = nn.Conv2d(3, 8, 3, padding=1)
        self.down_blocks = nn.ModuleList([TimeResidual(8, 8, 32), TimeResidual(8, 16, 32)])
        self.downsample = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.mid_attention, self.mid_block = CrossAttention(16, 12), TimeResidual(16, 16, 32)
        self.up_blocks = nn.ModuleList([TimeResidual(32, 16, 32), TimeResidual(24, 8, 32)])
        self.upsample = nn.Conv2d(16, 16, 3, padding=1)
        self.norm_out, self.conv_out = nn.GroupNorm(4, 8), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, sample, timestep, text):
        frequencies = torch.exp(torch.arange(8, dtype=torch.float32) * -0.8)
        angles = timestep[:, None].float() * frequencies[None]
        time = self.time_embedding(torch.cat([angles.sin(), angles.cos()], -1))
        first = self.down_blocks[0](self.conv_in(sample), time)
        second = self.down_blocks[1](self.downsample(first), time)
        x = self.mid_block(self.mid_attention(second, text), time)
        x = self.up_blocks[0](torch.cat([x, second], 1), time)
        x = self.upsample(nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up_blocks[1](torch.cat([x, first], 1), time)
        return self.conv_out(nn.functional.silu(self.norm_out(x)))


def diffusion_inputs(batch: int) -> dict:
    generator = torch.Generator().manual_seed(batch)
    return {"sample": torch.randn(batch, 3, 16, 16, generator=generator),
            "timestep": torch.randint(0, 1000, (batch,), generator=generator),
            "text": torch.randn(batch, 5, 12, generator=generator)}


def batch_of(*names: str) -> dict:
    return {name: {0: "batch"} for name in names}


ONE, TWO = {"batch": 1}, {"batch": 2}
CACHE = {name: {0: "batch", 2: "past"} for name in ("key_0", "value_0", "key_1", "value_1")}

ARCHITECTURES = {
    entry.name: entry
    for entry in [
        Entry("llama", llama, tokens(600), SENTENCE, SENTENCES, text(["input_ids", "attention_mask"])),
        Entry("llama_with_cache", DecoderWithCache, step_inputs, {"batch": 2, "past": 6}, {"batch": 3, "past": 9},
              {**batch_of("input_ids"), **CACHE}),
        Entry("t5", t5, translation_inputs, SENTENCE, SENTENCES,
              {**text(["input_ids", "attention_mask"]), **batch_of("decoder_input_ids")}),
        Entry("whisper", whisper, speech_inputs, TWO, {"batch": 3}, batch_of("input_features", "decoder_input_ids")),
        Entry("mamba", mamba, tokens(300, masked=False), {"batch": 2, "seq": 9}, {"batch": 3, "seq": 9},
              batch_of("input_ids")),
        Entry("swin", swin, image("pixel_values", 32), PICTURE, PICTURES, BATCH),
        Entry("convnext", convnext, image("pixel_values", 32), PICTURE, PICTURES, BATCH),
        Entry("detr", detr, image("pixel_values", 64), TWO, {"batch": 3}, BATCH),
        Entry("sam", sam, prompted_images, ONE, TWO, batch_of("pixel_values", "input_points")),
        Entry("diffusion_unet", DiffusionUNet, diffusion_inputs, TWO, {"batch": 3},
              batch_of("sample", "timestep", "text")),
    ]
}
