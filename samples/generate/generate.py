"""Exports a language model once, generates with ONNX Runtime from the file, and compares with transformers.

    generate.py FOLDER [--model NAME_OR_FOLDER] [--prompt TEXT] [--steps 20]
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import whence

import genai
import run_onnx


def small_llama():
    """Returns a small Llama with random weights, in place of a downloaded model."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=96, max_position_embeddings=128, initializer_range=0.3, bos_token_id=1, eos_token_id=None,
        pad_token_id=0)).eval()


def prompts(arguments, model) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns two rows of tokens and their mask. The second row is padded on the left."""
    if arguments.model:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(arguments.model, padding_side="left")
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        found = tokenizer([arguments.prompt, arguments.prompt.split()[0]], return_tensors="pt", padding=True)
        return found["input_ids"], found["attention_mask"]
    tokens = torch.randint(3, model.config.vocab_size, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1] * 7, [0] * 3 + [1] * 4])
    return tokens * mask, mask


def export(model, path: Path):
    """Exports one file for prefill and decoding. The example is a step after four tokens, with two rows; with an empty
    cache, the file would have no inputs for it."""
    tokens = torch.randint(3, model.config.vocab_size, (2, 7), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        cache = model(input_ids=tokens[:, :4], use_cache=True).past_key_values
    positions = torch.arange(4, 7).expand(2, 3).contiguous()
    return whence.export(model, (), path, kwargs={
        "input_ids": tokens[:, 4:], "attention_mask": torch.ones_like(tokens), "position_ids": positions,
        "past_key_values": cache})


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", help="a Hugging Face model, by name or folder; by default a small random one")
    parser.add_argument("--prompt", default="The sea is")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.model:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32).eval()
    else:
        model = small_llama()

    program = export(model, arguments.folder / "model.onnx")
    print("dynamic axes of input_ids:", program.dynamic_axes["input_ids"], "of the cache:",
          program.dynamic_axes["past_key_values.0.key"])
    genai.write_config(model, program, arguments.folder)

    tokens, mask = prompts(arguments, model)
    found = run_onnx.generate(program.path, tokens.numpy(), mask.numpy(), arguments.steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"max_new_tokens": arguments.steps, "min_new_tokens": arguments.steps, "do_sample": False}
        expected = model.generate(tokens, attention_mask=mask, **settings)[:, tokens.shape[1]:].numpy()
    same = int((found == expected).sum())
    print(f"ONNX Runtime: {same} of {found.size} tokens are those of transformers' generate")

    row = tokens[:1].numpy()
    try:
        by_genai = np.array(genai.generate(arguments.folder, row, arguments.steps))
    except ImportError as missing:
        print(f"ONNX Runtime GenAI: not run, {missing} (pip install onnxruntime-genai)")
        return int(same != found.size)
    equal = int((by_genai == expected[:1]).sum())
    print(f"ONNX Runtime GenAI: {equal} of {by_genai.size} tokens are those of transformers' generate")
    return int(same != found.size or equal != by_genai.size)


if __name__ == "__main__":
    sys.exit(main())
