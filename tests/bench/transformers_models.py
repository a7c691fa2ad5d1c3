"""Small models of transformers with random weights and example inputs, by architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers

Made = tuple[torch.nn.Module, dict[str, Any]]

_TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
         "max_position_embeddings": 64}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _text_inputs() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(3, 90, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}


def _encoder(name: str, **settings: Any) -> Callable[[], Made]:
    def make() -> Made:
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**{**_TEXT, **settings})
        return getattr(transformers, f"{name}Model")(config).eval(), _text_inputs()
    return make


def _decoder(name: str, cached: bool = True, kind: str = "ForCausalLM", **settings: Any) -> Callable[[], Made]:
    """With a cache of four tokens, unless ``cached`` is false."""
    def make() -> Made:
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**{**_TEXT, **_TOKENS, **settings})
        model = getattr(transformers, f"{name}{kind}")(config).eval()
        inputs: dict[str, Any] = _text_inputs()
        if cached:
            inputs["attention_mask"] = torch.ones(2, 11, dtype=torch.int64)
            with torch.no_grad():
                inputs["past_key_values"] = model(input_ids=torch.randint(3, 90, (2, 4)), use_cache=True).past_key_values
        return model, inputs
    return make


def _vision(name: str, size: int = 32, **settings: Any) -> Callable[[], Made]:
    def make() -> Made:
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**settings)
        return getattr(transformers, f"{name}Model")(config).eval(), {"pixel_values": torch.randn(2, 3, size, size)}
    return make


def _speech(name: str) -> Callable[[], Made]:
    def make() -> Made:
        torch.manual_seed(0)
        settings = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
                    "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
                    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
        config = getattr(transformers, f"{name}Config")(**settings)
        return getattr(transformers, f"{name}Model")(config).eval(), {"input_values": torch.randn(2, 400)}
    return make


def _whisper() -> Made:
    torch.manual_seed(0)
    config = transformers.WhisperConfig(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=100,
                                        num_mel_bins=16, max_source_positions=20, max_target_positions=32, pad_token_id=0,
                                        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    model = transformers.WhisperModel(config).eval()
    return model, {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": torch.randint(3, 90, (2, 5))}


_KEY_VALUE = {"num_key_value_heads": 2}
_PATCHES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "image_size": 32,
            "patch_size": 8}

MODELS: dict[str, Callable[[], Made]] = {
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta", pad_token_id=1),
    "electra": _encoder("Electra", embedding_size=64),
    "distilbert": _encoder("DistilBert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "mpnet": _encoder("MPNet"),
    "modernbert": _encoder("ModernBert", global_attn_every_n_layers=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                           cls_token_id=1, sep_token_id=2),
    "llama": _decoder("Llama", **_KEY_VALUE),
    "llama-prefill": _decoder("Llama", cached=False, **_KEY_VALUE),
    "mistral": _decoder("Mistral", **_KEY_VALUE, sliding_window=None),
    "qwen2": _decoder("Qwen2", **_KEY_VALUE),
    "qwen3": _decoder("Qwen3", **_KEY_VALUE, head_dim=16),
    "gemma": _decoder("Gemma", **_KEY_VALUE, head_dim=16),
    "gemma2": _decoder("Gemma2", **_KEY_VALUE, head_dim=16, query_pre_attn_scalar=16),
    "phi3": _decoder("Phi3", **_KEY_VALUE),
    "granite": _decoder("Granite", **_KEY_VALUE),
    "olmo2": _decoder("Olmo2", **_KEY_VALUE),
    "gpt2": _decoder("GPT2", kind="LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=64),
    "gpt-neox": _decoder("GPTNeoX"),
    "opt": _decoder("OPT", ffn_dim=128, word_embed_proj_dim=64),
    "vit": _vision("ViT", **_PATCHES),
    "dinov2": _vision("Dinov2", hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8),
    "swin": _vision("Swin", size=32, image_size=32, patch_size=4, embed_dim=16, depths=(2, 2), num_heads=(2, 4), window_size=4),
    "clip-vision": _vision("CLIPVision", **_PATCHES),
    "wav2vec2": _speech("Wav2Vec2"),
    "hubert": _speech("Hubert"),
    "whisper": _whisper,
}
