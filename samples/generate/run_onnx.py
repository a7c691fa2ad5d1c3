"""Greedy generation with numpy and ONNX Runtime: a module to copy. The first step feeds the whole prompt to an empty
cache, each further step one token; the cache that a step returns as present.* is the next one's past_key_values.*."""

import numpy as np
import onnxruntime


def generate(path, prompt, attention_mask, steps: int) -> np.ndarray:
    """``prompt`` and ``attention_mask`` are [batch, length], padded on the left; [batch, steps] new tokens."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {each.name: each for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    cache = {name: empty(each, len(prompt)) for name, each in inputs.items() if name.startswith("past_key_values.")}
    tokens, mask, generated = prompt, attention_mask, []
    for _ in range(steps):
        # The positions of the tokens among those that are not padding.
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -tokens.shape[1]:]
        feed = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, **cache}
        results = dict(zip(outputs, session.run(None, {name: feed[name] for name in inputs})))
        cache = {name: results[name.replace("past_key_values", "present", 1)] for name in cache}
        tokens = results["logits"][:, -1].argmax(-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(tokens)], 1)
        generated.append(tokens)
    return np.concatenate(generated, 1)


def empty(value, batch: int) -> np.ndarray:
    """Keys or values of no token: the first axis is the batch, the dynamic one behind it the past."""
    shape = [batch, *(size if isinstance(size, int) else 0 for size in value.shape[1:])]
    return np.zeros(shape, {"tensor(float)": np.float32, "tensor(float16)": np.float16}[value.type])
