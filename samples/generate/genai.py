"""Writes genai_config.json for ONNX Runtime GenAI, and generates with the package."""

import json
from pathlib import Path


def write_config(model, program, folder: Path) -> None:
    """Writes genai_config.json from the names in the exported file and the sizes in the model's configuration."""
    config, inputs = model.config, [each.name for each in program.model_proto.graph.input]
    heads = config.num_attention_heads
    decoder = {
        "filename": program.path.name,
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "hidden_size": config.hidden_size,
        "num_attention_heads": heads,
        "num_key_value_heads": getattr(config, "num_key_value_heads", None) or heads,
        "head_size": getattr(config, "head_dim", None) or config.hidden_size // heads,
        "num_hidden_layers": config.num_hidden_layers,
        "inputs": {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in inputs} | {
            "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
        "outputs": {"logits": "logits", "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value"},
    }
    written = {
        "model": {"type": "decoder", "vocab_size": config.vocab_size, "context_length": config.max_position_embeddings,
                  "bos_token_id": token(config.bos_token_id, 0), "eos_token_id": token(config.eos_token_id, 0),
                  "pad_token_id": token(config.pad_token_id, token(config.eos_token_id, 0)), "decoder": decoder},
        # The file returns longer caches than it takes, so GenAI cannot use one buffer for both.
        "search": {"do_sample": False, "past_present_share_buffer": False,
                   "max_length": config.max_position_embeddings},
    }
    (folder / "genai_config.json").write_text(json.dumps(written, indent=2) + "\n")


def token(number, instead: int) -> int:
    return instead if number is None else number


def generate(folder: Path, prompt, steps: int) -> list[list[int]]:
    """Returns the new tokens of each row of ``prompt``, which has no padding. Raises ImportError without onnxruntime-genai."""
    import onnxruntime_genai

    model = onnxruntime_genai.Model(str(folder))
    length = prompt.shape[1] + steps
    parameters = onnxruntime_genai.GeneratorParams(model)
    parameters.set_search_options(max_length=length, min_length=length, batch_size=len(prompt), do_sample=False)
    generator = onnxruntime_genai.Generator(model, parameters)
    generator.append_tokens(prompt.astype("int32"))
    while not generator.is_done():
        generator.generate_next_token()
    return [list(map(int, generator.get_sequence(row)[prompt.shape[1]:])) for row in range(len(prompt))]
