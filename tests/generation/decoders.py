"""Small language models with random weights: every common kind of attention, position encoding and cache.

    DECODERS["llama"]() -> a transformers model in eval mode, which does not repeat one token twenty times
"""

import torch

VOCABULARY, WIDTH, LAYERS = 211, 32, 2
SIZES = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 96, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": None, "initializer_range": 0.4}


def _small(name: str, **changes):
    import transformers

    torch.manual_seed(len(name))
    sizes = {key: value for key, value in {**SIZES, **changes}.items() if value is not ...}
    base = name.removesuffix("ForCausalLM").removesuffix("LMHeadModel").removesuffix("ForConditionalGeneration")
    model = getattr(transformers, name)(getattr(transformers, base + "Config")(**sizes)).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def gpt2():
    return _small("GPT2LMHeadModel", n_embd=WIDTH, n_layer=LAYERS, n_head=4, n_positions=96)


def t5():
    # T5 scales its embeddings down itself and has no initializer_range.
    return _small("T5ForConditionalGeneration", d_model=WIDTH, d_kv=8, d_ff=48, num_layers=LAYERS, num_heads=4,
                 decoder_start_token_id=0, initializer_factor=3.0, **dict.fromkeys(
                     ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                      "max_position_embeddings", "initializer_range"), ...))


def whisper():
    return _small("WhisperForConditionalGeneration", num_mel_bins=20, d_model=WIDTH, encoder_layers=LAYERS,
                 decoder_layers=LAYERS, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                 decoder_ffn_dim=48, max_source_positions=20, max_target_positions=64, decoder_start_token_id=1,
                 init_std=0.4, suppress_tokens=None, begin_suppress_tokens=None, **dict.fromkeys(
                     ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                      "max_position_embeddings", "initializer_range"), ...))


def qwen2_vl():
    """Expects position ids of shape [3, batch, sequence]: time, height and width."""
    text = {**SIZES, "num_key_value_heads": 2, "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
    return _small("Qwen2VLForConditionalGeneration", text_config=text, vision_config={
        "depth": 1, "embed_dim": 16, "hidden_size": WIDTH, "num_heads": 2, "mlp_ratio": 2}, **dict.fromkeys(SIZES, ...))


def granite_hybrid():
    """Has a state-space layer and an attention layer, each followed by experts."""
    return _small("GraniteMoeHybridForCausalLM", num_key_value_heads=2, mamba_n_heads=8, mamba_d_head=8,
                  mamba_d_state=4, mamba_n_groups=1, mamba_chunk_size=4, layer_types=["mamba", "attention"],
                  num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=48)


def minimax():
    """Has linear attention, which processes the tokens in blocks, and full attention."""
    return _small("MiniMaxForCausalLM", num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1,
                  block_size=4, layer_types=["linear_attention", "full_attention"])


DECODERS = {
    "llama": lambda: _small("LlamaForCausalLM", num_key_value_heads=2),
    "qwen3": lambda: _small("Qwen3ForCausalLM", num_key_value_heads=2, head_dim=8),
    "gemma": lambda: _small("GemmaForCausalLM", num_key_value_heads=1, head_dim=8),
    "mistral": lambda: _small("MistralForCausalLM", num_key_value_heads=2, sliding_window=7),
    "phi": lambda: _small("PhiForCausalLM"),
    "gpt2": gpt2,
    "gpt_neox": lambda: _small("GPTNeoXForCausalLM"),
    "falcon": lambda: _small("FalconForCausalLM", alibi=False, new_decoder_architecture=False, multi_query=True),
    "falcon_alibi": lambda: _small("FalconForCausalLM", alibi=True, new_decoder_architecture=False, multi_query=False),
    "mixtral": lambda: _small("MixtralForCausalLM", num_key_value_heads=2, num_local_experts=4),
    "mamba": lambda: _small("MambaForCausalLM", state_size=4, num_attention_heads=..., intermediate_size=...,
                           max_position_embeddings=...),
}
ENCODER_DECODERS = {"t5": t5, "whisper": whisper}
