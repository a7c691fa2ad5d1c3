"""Encoder and decoder exported to two files with shared weights: they generate the same tokens as `generate`."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import whence
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from generation.decoders import ENCODER_DECODERS
from generation.loop import STEPS, differences, empty_cache, generate_torch


# T5 does not scale its attention: random weights give scores in the hundreds, and exp() amplifies rounding errors.
TOLERANCES = {"t5": 2e-3, "whisper": 2e-4}


class Encoder(nn.Module):
    """Returns the encoder's states and the decoder's cross-attention keys and values. Runs one decoder step, but the
    file contains only the operations for these results."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, source, attention_mask=None):
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        result = self.model(source, attention_mask=attention_mask, past_key_values=cache,
                            decoder_input_ids=torch.zeros_like(source.flatten(1)[:, :1], dtype=torch.long))
        return {"states": result.encoder_last_hidden_state,
                "cache": EncoderDecoderCache(DynamicCache(), result.past_key_values.cross_attention_cache)}


def encoder_inputs(name, batch, length=9):
    """Returns the encoder's inputs; in a batch of texts, rows after the first are padded."""
    generator = torch.Generator().manual_seed(batch)
    if name == "whisper":
        return {"source": torch.randn(batch, 20, 40, generator=generator)}
    tokens = torch.randint(3, 200, (batch, length), generator=generator)
    mask = torch.ones_like(tokens)
    for row in range(1, batch):
        mask[row, 1 - 2 * row:] = 0
    return {"source": tokens * mask, "attention_mask": mask}


def export_both(name, model, folder, mask):
    source = encoder_inputs(name, 2, 7)
    with torch.no_grad():
        example = model(*source.values(), decoder_input_ids=torch.tensor([[0, 5, 7, 9]] * 2))
    step = {"encoder_outputs": BaseModelOutput(example.encoder_last_hidden_state),
            "decoder_input_ids": torch.tensor([[3, 4, 5], [9, 8, 7]]), "past_key_values": example.past_key_values}
    step |= {"attention_mask": source["attention_mask"]} if "attention_mask" in source else {}
    step |= {"decoder_attention_mask": torch.ones(2, 7, dtype=torch.long)} if mask else {}
    return (whence.export(Encoder(model), (), folder / "encoder.onnx", kwargs=source,
                          dynamic_axes={"source": {0: "batch"} if name == "whisper" else {0: "batch", 1: "length"}} | (
                              {"attention_mask": {0: "batch", 1: "length"}} if "attention_mask" in source else {})),
            whence.export(model, (), folder / "decoder.onnx", kwargs=step))


def generate_onnx(folder, source, forced):
    encoder, decoder = (onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
                        for name in ("encoder", "decoder"))
    batch = len(source["source"])
    encoded = dict(zip([value.name for value in encoder.get_outputs()],
                       encoder.run(None, {name: tensor.numpy() for name, tensor in source.items()}), strict=True))
    inputs = {value.name: value for value in decoder.get_inputs()}
    cache = {name: encoded.get(name.replace("past_key_values", "present")) for name in inputs if "." in name}
    cache = {name: empty_cache(inputs[name], batch) if array is None else array for name, array in cache.items()}
    fixed = {"encoder_outputs_last_hidden_state": encoded["states"],
             "attention_mask": source["attention_mask"].numpy() if "attention_mask" in source else None}
    tokens, logits, current = [], [], torch.full((batch, 1), 0 if "attention_mask" in source else 1)
    for step in range(STEPS):
        feed = {**fixed, "decoder_input_ids": current.numpy(),
                "decoder_attention_mask": np.ones((batch, step + 1), np.int64)}
        feed = {name: feed[name] for name in inputs if name in feed} | cache
        results = dict(zip([value.name for value in decoder.get_outputs()], decoder.run(None, feed), strict=True))
        cache = {name: results[name.replace("past_key_values", "present")] for name in cache}
        logits.append(torch.from_numpy(results["logits"])[:, -1])
        tokens.append(logits[-1].argmax(-1) if forced is None else forced[:, step])
        current = tokens[-1][:, None]
    return torch.stack(tokens, 1), torch.stack(logits, 1)


@pytest.mark.matrix
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("name", ENCODER_DECODERS)
def test_twenty_tokens_match_transformers(name, mask, tmp_path):
    model = ENCODER_DECODERS[name]()
    export_both(name, model, tmp_path, mask)
    paths = [tmp_path / "encoder.onnx", tmp_path / "decoder.onnx"]
    separate_bytes = sum(path.stat().st_size for path in paths)
    shared = whence.share_weights(paths, "weights.data")
    assert not shared.unused and bool(shared.shared) == bool(shared.saved) == (name == "t5")  # both read one embedding
    assert shared.bytes + sum(path.stat().st_size for path in paths) < 1.1 * separate_bytes - shared.saved
    for path in paths:
        onnx.checker.check_model(str(path))
        assert {entry.value for tensor in onnx.load(str(path), load_external_data=False).graph.initializer
                for entry in tensor.external_data if entry.key == "location"} == {"weights.data"}
        assert whence.validate(path).coverage.unattributed == 0
    for batch in (1, 3):
        source = encoder_inputs(name, batch)
        names = ("input_features",) if name == "whisper" else ("input_ids", "attention_mask")
        expected = generate_torch(model, None, None, **dict(zip(names, source.values(), strict=True)))
        assert not differences(lambda forced: generate_onnx(tmp_path, source, forced), expected, TOLERANCES[name])
