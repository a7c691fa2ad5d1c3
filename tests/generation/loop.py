"""Greedy generation from one exported file by ONNX Runtime, beside transformers' own.

    program, names = exported("llama", mask=True, positions=False)
    compare(model, program, batch=3, padded=True)
"""
import sys, warnings, logging, time
import numpy as np
import torch
import whence
import onnxruntime
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

STEPS = 20


def prompt(batch, length, seed, padded):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 200, (batch, length), generator=g)
    mask = torch.ones_like(ids)
    if padded:
        for row in range(1, batch):
            mask[row, :row * 2 - 1] = 0
        ids = torch.where(mask == 0, 0, ids)
    return ids, mask


def example(model, mask, positions, batch=2, past=4, sequence=3, seed=0):
    """A call with a filled cache."""
    ids, whole = prompt(batch, past + sequence, seed, False)
    with torch.no_grad():
        before = model(input_ids=ids[:, :past], use_cache=True)
    cache = before.get("past_key_values", before.get("cache_params"))
    name = "past_key_values" if "past_key_values" in before else "cache_params"
    call = {"input_ids": ids[:, past:], name: cache}
    if mask:
        call["attention_mask"] = whole if name == "past_key_values" else whole[:, past:]
    if positions:
        call["position_ids"] = torch.arange(past, past + sequence)[None].expand(batch, -1).contiguous()
    return call


def generate(session, ids, mask, positions, empty, given=None):
    """Greedy tokens and their logits. ``empty`` are the cache's inputs at past 0. ``given`` forces tokens."""
    takes = {each.name for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    caches = dict(empty)
    tokens, logits = [], []
    step_ids, whole = ids, mask
    seen = 0
    for step in range(STEPS):
        feed = {"input_ids": step_ids.numpy(), **caches}
        if "attention_mask" in takes:
            feed["attention_mask"] = whole.numpy()
        if "position_ids" in takes:
            place = (whole.cumsum(1) - 1).clamp(min=0)
            feed["position_ids"] = place[:, seen:].numpy()
        results = dict(zip(names, session.run(None, feed)))
        caches = {each: results[each.replace(each.split(".")[0], "present", 1)] for each in caches}
        last = torch.from_numpy(results["logits"])[:, -1]
        logits.append(last)
        tokens.append(last.argmax(-1) if given is None else given[step])
        seen = whole.shape[1]
        step_ids = tokens[-1][:, None]
        whole = torch.cat([whole, torch.ones_like(step_ids)], 1)
    return torch.stack(tokens, 1), torch.stack(logits, 1)
