"""Greedy generation by ONNX Runtime from one exported file, and by PyTorch: the same twenty tokens, or logits that
agree where two tokens nearly tie.

    program = whence.export(model, (), kwargs=filled_call(model, mask=True, positions=False))
    tokens, mask = prompt(3, padded=True)
    differences(lambda forced: in_runtime(program.path, tokens, mask, forced), by_generate(model, tokens, mask))   # []
"""

import numpy as np
import onnxruntime
import torch

STEPS = 20
TOLERANCE = 2e-4  # of the largest logit


def prompt(batch: int, padded: bool, length: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and their mask; rows behind the first are padded on the left, each with another number of tokens."""
    tokens = torch.randint(3, 200, (batch, length), generator=torch.Generator().manual_seed(batch))
    mask = torch.ones_like(tokens)
    for row in range(1, batch) if padded else ():
        mask[row, :2 * row - 1] = 0
    return tokens * mask, mask


def filled_call(model, mask: bool, positions: bool, batch: int = 2, past: int = 4, sequence: int = 3) -> dict:
    """A step that follows others: what `whence.export` takes."""
    tokens = torch.randint(3, 200, (batch, past + sequence), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        before = model(input_ids=tokens[:, :past], use_cache=True)
    name = "past_key_values" if "past_key_values" in before else "cache_params"
    call = {"input_ids": tokens[:, past:], name: before[name]}
    if mask:  # a state knows nothing of masks: it takes that of the step
        call["attention_mask"] = torch.ones_like(tokens if name == "past_key_values" else call["input_ids"])
    if positions:
        call["position_ids"] = torch.arange(past, past + sequence).expand(batch, -1).contiguous()
    return call


def places(mask: torch.Tensor) -> torch.Tensor:
    return (mask.cumsum(1) - 1).clamp(min=0)


def in_runtime(path, tokens, mask, forced=None) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and their logits, [batch, STEPS] and [batch, STEPS, vocabulary]. ``forced``: tokens to go on with.

    A file that takes one token at a time gets the prompt so.
    """
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {each.name: each for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]
    cache = {name: nothing(each, len(tokens)) for name, each in inputs.items() if "." in name}
    one_by_one = inputs["input_ids"].shape[1] == 1
    of_step = "attention_mask" in inputs and inputs["attention_mask"].shape[1] in (1, "sequence")
    chosen, logits, seen, waiting = [], [], 0, tokens
    while len(chosen) < STEPS:
        now, waiting = (waiting[:, :1], waiting[:, 1:]) if one_by_one else (waiting, waiting[:, :0])
        known = mask[:, :seen + now.shape[1]]
        feed = {"input_ids": now, "attention_mask": known[:, seen:] if of_step else known,
                "position_ids": places(known)[:, seen:]}
        feed = {name: each.numpy() for name, each in feed.items() if name in inputs}
        results = dict(zip(outputs, session.run(None, {**feed, **cache}), strict=True))
        cache = {name: results["present." + name.partition(".")[2]] for name in cache}
        seen += now.shape[1]
        if waiting.shape[1]:
            continue
        logits.append(torch.from_numpy(results["logits"])[:, -1])
        chosen.append(logits[-1].argmax(-1) if forced is None else forced[:, len(chosen)])
        waiting = chosen[-1][:, None]
        mask = torch.cat([mask, torch.ones_like(waiting)], 1)
    return torch.stack(chosen, 1), torch.stack(logits, 1)


def nothing(value, batch: int) -> np.ndarray:
    """A cache of no token, or a state of zeros."""
    sizes = {"batch": batch, "past": 0}
    return np.zeros([sizes.get(size, size) for size in value.shape], np.float32)


def by_generate(model, tokens, mask, **given) -> tuple[torch.Tensor, torch.Tensor]:
    from transformers import GenerationMixin  # some models have a generate of their own, which does more

    found = GenerationMixin.generate(model, **(given or {"input_ids": tokens, "attention_mask": mask}),
                                     max_new_tokens=STEPS, do_sample=False, output_logits=True,
                                     return_dict_in_generate=True)
    return found.sequences[:, -STEPS:], torch.stack(found.logits, 1)


def by_model(model, tokens, mask) -> tuple[torch.Tensor, torch.Tensor]:
    """Without position ids, which generate would make of the mask: the model derives them from its cache."""
    chosen, logits, cache, now = [], [], None, tokens
    for _ in range(STEPS):
        with torch.no_grad():
            found = model(input_ids=now, attention_mask=mask, past_key_values=cache, use_cache=True)
        cache = found.past_key_values
        logits.append(found.logits[:, -1])
        chosen.append(logits[-1].argmax(-1))
        now = chosen[-1][:, None]
        mask = torch.cat([mask, torch.ones_like(now)], 1)
    return torch.stack(chosen, 1), torch.stack(logits, 1)


def differences(found_by, wanted, tolerance: float = TOLERANCE) -> list[str]:
    """``found_by(forced)``: tokens and logits. Tokens that differ are no difference where the logits agree all the
    same: two of them nearly tie."""
    tokens, logits = found_by(None)
    if not torch.equal(tokens, wanted[0]):
        _, logits = found_by(wanted[0])
    worst = (logits - wanted[1]).abs().max().item() / wanted[1].abs().max().item()
    return [] if worst <= tolerance else [f"logits differ by {worst:.1e} of the largest, and tokens "
                                          f"{'do not' if torch.equal(tokens, wanted[0]) else 'do'}"]
