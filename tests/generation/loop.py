"""Compares twenty steps of greedy generation by ONNX Runtime with PyTorch: tokens must be equal, or logits close if two
tokens nearly tie.

    program = whence.export(model, (), kwargs=filled_call(model, mask=True, positions=False))
    tokens, mask = prompt(3, padded=True)
    differences(lambda forced: generate_onnx(program.path, tokens, mask, forced),
                generate_torch(model, tokens, mask))   # []
"""

import numpy as np
import onnxruntime
import torch

STEPS = 20
TOLERANCE = 2e-4  # relative to the largest logit


def prompt(batch: int, padded: bool, length: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns tokens and their mask; rows after the first are padded on the left by different lengths."""
    tokens = torch.randint(3, 200, (batch, length), generator=torch.Generator().manual_seed(batch))
    mask = torch.ones_like(tokens)
    for row in range(1, batch) if padded else ():
        mask[row, :2 * row - 1] = 0
    return tokens * mask, mask


def filled_call(model, mask: bool, positions: bool, batch: int = 2, past: int = 4, sequence: int = 3) -> dict:
    """Returns the arguments of a step with a filled cache, for `whence.export`."""
    tokens = torch.randint(3, 200, (batch, past + sequence), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        prefill = model(input_ids=tokens[:, :past], use_cache=True)
    name = "past_key_values" if "past_key_values" in prefill else "cache_params"
    call = {"input_ids": tokens[:, past:], name: prefill[name]}
    if mask:  # a state-space cache stores no mask: pass the step's
        call["attention_mask"] = torch.ones_like(tokens if name == "past_key_values" else call["input_ids"])
    if positions:
        call["position_ids"] = torch.arange(past, past + sequence).expand(batch, -1).contiguous()
    return call


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(1) - 1).clamp(min=0)


def generate_onnx(path, tokens, mask, forced=None) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns tokens [batch, STEPS] and their logits [batch, STEPS, vocabulary]. ``forced``: tokens to feed instead.

    If the file expects one token at a time, the prompt is fed token by token.
    """
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {value.name: value for value in session.get_inputs()}
    outputs = [value.name for value in session.get_outputs()]
    cache = {name: empty_cache(value, len(tokens)) for name, value in inputs.items() if "." in name}
    one_by_one = inputs["input_ids"].shape[1] == 1
    step_mask = "attention_mask" in inputs and inputs["attention_mask"].shape[1] in (1, "sequence")
    generated, logits, past, pending = [], [], 0, tokens
    while len(generated) < STEPS:
        step, pending = (pending[:, :1], pending[:, 1:]) if one_by_one else (pending, pending[:, :0])
        mask_so_far = mask[:, :past + step.shape[1]]
        feed = {"input_ids": step, "attention_mask": mask_so_far[:, past:] if step_mask else mask_so_far,
                "position_ids": positions_of(mask_so_far)[:, past:]}
        feed = {name: tensor.numpy() for name, tensor in feed.items() if name in inputs}
        results = dict(zip(outputs, session.run(None, {**feed, **cache}), strict=True))
        cache = {name: results["present." + name.partition(".")[2]] for name in cache}
        past += step.shape[1]
        if pending.shape[1]:
            continue
        logits.append(torch.from_numpy(results["logits"])[:, -1])
        generated.append(logits[-1].argmax(-1) if forced is None else forced[:, len(generated)])
        pending = generated[-1][:, None]
        mask = torch.cat([mask, torch.ones_like(pending)], 1)
    return torch.stack(generated, 1), torch.stack(logits, 1)


def empty_cache(value, batch: int) -> np.ndarray:
    """Returns a cache without tokens, or a state of zeros."""
    sizes = {"batch": batch, "past": 0}
    return np.zeros([sizes.get(size, size) for size in value.shape], np.float32)


def generate_torch(model, tokens, mask, **arguments) -> tuple[torch.Tensor, torch.Tensor]:
    from transformers import GenerationMixin  # some models add steps in their own generate()

    result = GenerationMixin.generate(model, **(arguments or {"input_ids": tokens, "attention_mask": mask}),
                                      max_new_tokens=STEPS, do_sample=False, output_logits=True,
                                      return_dict_in_generate=True)
    return result.sequences[:, -STEPS:], torch.stack(result.logits, 1)


def step_torch(model, tokens, mask) -> tuple[torch.Tensor, torch.Tensor]:
    """Generates without position ids, which the model derives from its cache and generate() from the mask."""
    generated, logits, cache, step = [], [], None, tokens
    for _ in range(STEPS):
        with torch.no_grad():
            result = model(input_ids=step, attention_mask=mask, past_key_values=cache, use_cache=True)
        cache = result.past_key_values
        logits.append(result.logits[:, -1])
        generated.append(logits[-1].argmax(-1))
        step = generated[-1][:, None]
        mask = torch.cat([mask, torch.ones_like(step)], 1)
    return torch.stack(generated, 1), torch.stack(logits, 1)


def differences(generate, expected, tolerance: float = TOLERANCE) -> list[str]:
    """``generate(forced)`` returns tokens and logits. If tokens differ, the logits of a run with the expected tokens
    must be close, because two tokens may nearly tie."""
    tokens, logits = generate(None)
    if not torch.equal(tokens, expected[0]):
        _, logits = generate(expected[0])
    worst = (logits - expected[1]).abs().max().item() / expected[1].abs().max().item()
    return [] if worst <= tolerance else [f"logits differ by {worst:.1e} of the largest logit; tokens "
                                          f"{'are equal' if torch.equal(tokens, expected[0]) else 'differ'}"]
