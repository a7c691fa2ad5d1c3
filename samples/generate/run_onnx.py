"""Generates greedily with numpy and ONNX Runtime. Copy this module. The first step feeds the whole prompt with an empty
cache, each later step one token. The outputs present.* of a step are the inputs past_key_values.* of the next one."""

import numpy as np
import onnxruntime


def generate(path, prompt, attention_mask, steps: int) -> np.ndarray:
    """Returns [batch, steps] new tokens. ``prompt`` and ``attention_mask`` are [batch, length], padded on the left."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {each.name: each for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    cache = {name: empty(each, len(prompt)) for name, each in inputs.items() if name.startswith("past_key_values.")}
    tokens, mask, generated = prompt, attention_mask, []
    for _ in range(steps):
        # The position of each token, not counting padding.
        positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -tokens.shape[1]:]
        feed = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, **cache}
        results = dict(zip(outputs, session.run(None, {name: feed[name] for name in inputs})))
        cache = {name: results[name.replace("past_key_values", "present", 1)] for name in cache}
        tokens = results["logits"][:, -1].argmax(-1)[:, None]
        mask = np.concatenate([mask, np.ones_like(tokens)], 1)
        generated.append(tokens)
    return np.concatenate(generated, 1)


def empty(value, batch: int) -> np.ndarray:
    """Returns empty keys or values: the first axis is the batch, the later dynamic axis, the past, has size 0."""
    shape = [batch, *(size if isinstance(size, int) else 0 for size in value.shape[1:])]
    return np.zeros(shape, {"tensor(float)": np.float32, "tensor(float16)": np.float16}[value.type])
