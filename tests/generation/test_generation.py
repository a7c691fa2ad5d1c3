"""Language models as one file for prefill and decoding: ONNX Runtime generates the same tokens as transformers'
`generate`, for one row and for a left-padded batch, with and without masks and position ids."""

import warnings

import pytest
import torch
import whence

from generation.decoders import DECODERS, granite_hybrid, minimax, qwen2_vl
from generation.loop import differences, filled_call, generate_onnx, generate_torch, prompt, step_torch

QUICK = {("llama", True, True), ("gpt2", True, False), ("mistral", False, False)}
CASES = [pytest.param(name, mask, positions, id=f"{name}-{'mask' if mask else 'no-mask'}-"
                      f"{'positions' if positions else 'derived'}",
                      marks=() if (name, mask, positions) in QUICK else pytest.mark.matrix)
         for name in DECODERS for mask in (True, False) for positions in (True, False)
         if not (name == "mamba" and positions)]  # Mamba has no positions


@pytest.mark.parametrize("name, mask, positions", CASES)
def test_twenty_tokens_match_transformers(name, mask, positions):
    model = DECODERS[name]()
    # A state-space model runs different code for a prompt and for one token; the file contains the example's path.
    program = whence.export(model, (), kwargs=filled_call(model, mask, positions, sequence=1 if name == "mamba" else 3))
    for batch, padded in ((1, False), (3, mask)):
        tokens, row_mask = prompt(batch, padded)
        expected = step_torch(model, tokens, row_mask) if padded and mask and not positions and name != "mamba" else \
            generate_torch(model, tokens, row_mask)
        assert torch.unique(expected[0]).numel() > 3  # not one repeated token
        assert not differences(lambda forced: generate_onnx(program.path, tokens, row_mask, forced), expected)


def llama_call(**changes):
    """Returns a tiny Llama and the arguments of a call with a cache."""
    model = DECODERS["llama"]()
    return model, {**filled_call(model, mask=True, positions=False), **changes}


PROPOSED = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "past+sequence"}} | {
    f"past_key_values.{layer}.{part}": {0: "batch", 2: "past"} for layer in (0, 1) for part in ("key", "value")}


@pytest.mark.parametrize("backend", ["native", pytest.param("native-export", marks=pytest.mark.matrix)])
def test_axes_are_proposed_and_reported(backend, caplog):
    model, call = llama_call()
    program = whence.export(model, (), kwargs=call, backend=backend)
    assert program.dynamic_axes == PROPOSED
    message = next(record.getMessage() for record in caplog.records if "proposed" in record.getMessage())
    assert "input_ids [0: batch, 1: sequence]" in message and "past+sequence" in message


def test_axes_from_the_caller_replace_the_proposal():
    model, call = llama_call()
    assert whence.export(model, (), kwargs=call, dynamic_axes={}).dynamic_axes == {}
    rows = {name: {0: "rows"} for name in PROPOSED}
    assert whence.export(model, (), kwargs=call, dynamic_axes=rows).dynamic_axes == rows


def test_caller_names_an_axis_as_a_sum():
    model, call = llama_call()
    axes = {"input_ids": {1: "new"}, "attention_mask": {1: "past + new"}}
    program = whence.export(model, (), kwargs=call, dynamic_axes=axes | {
        name: {2: "past"} for name in PROPOSED if "." in name})
    assert program.dynamic_axes["attention_mask"] == {1: "past+new"}
    other = filled_call(model, mask=True, positions=False, past=9, sequence=2)
    with torch.no_grad():
        torch.testing.assert_close(program(**other)[0], model(**other).logits, rtol=1e-3, atol=1e-3)


def test_auto_proposes_axes_without_a_cache():
    model = DECODERS["llama"]()
    call = {"input_ids": torch.randint(3, 200, (2, 5)), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    program = whence.export(model, (), kwargs={**call, "use_cache": False}, dynamic_shapes="auto")
    assert program.dynamic_axes == {name: {0: "batch", 1: "sequence"} for name in call}


@pytest.mark.matrix
def test_size_fixed_by_the_model_is_reported():
    model = DECODERS["mamba"]()
    call = filled_call(model, mask=False, positions=False, sequence=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = whence.export(model, (), kwargs=call)
    assert program.dynamic_axes["input_ids"] == {0: "batch"}
    texts = [str(warning.message) for warning in caught if "the model fixes some of the proposed" in str(warning.message)]
    assert any("input_ids [1: sequence]" in text for text in texts)


def qwen2_vl_call(model, batch, past, sequence):
    """Returns the arguments of Qwen2-VL with positions in time, height and width, [3, batch, sequence]."""
    tokens = torch.randint(3, 200, (batch, past + sequence), generator=torch.Generator().manual_seed(batch))
    positions = torch.arange(past + sequence) // torch.tensor([1, 2, 3])[:, None, None].expand(3, batch, 1)
    with torch.no_grad():
        prefill = model(input_ids=tokens[:, :past], position_ids=positions[..., :past].contiguous(), use_cache=True)
    return {"input_ids": tokens[:, past:], "attention_mask": torch.ones_like(tokens),
            "position_ids": positions[..., past:].contiguous(), "past_key_values": prefill.past_key_values}


@pytest.mark.parametrize("batch", [2, pytest.param(3, marks=pytest.mark.matrix)])  # 3 is also the size of axis 0
def test_position_ids_with_three_components(batch):
    model = qwen2_vl()
    program = whence.export(model, (), kwargs=qwen2_vl_call(model, batch, 4, 3))
    assert program.dynamic_axes["position_ids"] == {1: "batch", 2: "sequence"}
    assert program.dynamic_axes["input_ids"] == {0: "batch", 1: "sequence"}
    for sizes in ((1, 6, 1), (4, 2, 5)):
        actual = program(**qwen2_vl_call(model, *sizes))[0]
        with torch.no_grad():
            expected = model(**qwen2_vl_call(model, *sizes)).logits
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.matrix
def test_experts_after_a_state_space_layer():
    """The number of experts is inferred from their weights, although the number of groups is unknown."""
    model = granite_hybrid()
    program = whence.export(model, (), kwargs=filled_call(model, mask=True, positions=False, sequence=1))
    other = filled_call(model, mask=True, positions=False, batch=3, past=5, sequence=4)
    actual = program(**other)[0]
    with torch.no_grad():
        torch.testing.assert_close(actual, model(**other).logits, rtol=1e-3, atol=1e-3)


@pytest.mark.matrix
def test_proposed_axis_is_fixed_if_tracing_fails():
    """A Python loop iterates over the token blocks, so the file has the example's number of blocks."""
    model = minimax()
    program = whence.export(model, (), kwargs=filled_call(model, mask=False, positions=False, sequence=9))
    assert program.dynamic_axes["input_ids"] == {0: "batch"}
    other = filled_call(model, mask=False, positions=False, batch=3, past=5, sequence=9)
    with torch.no_grad():
        torch.testing.assert_close(program(**other)[0], model(**other).logits, rtol=1e-3, atol=1e-3)


def sliding_call(past):
    """Returns Mistral and a call with its cache, which has a sliding window of 7 tokens."""
    from transformers import DynamicCache

    model = DECODERS["mistral"]()
    cache = DynamicCache(config=model.config)
    ids = torch.randint(3, 200, (2, past + 3), generator=torch.Generator().manual_seed(past))
    with torch.no_grad():
        model(input_ids=ids[:, :past], past_key_values=cache)
    return model, {"input_ids": ids[:, past:], "past_key_values": cache}


def test_sliding_window_without_dropped_keys():
    model, call = sliding_call(4)
    program = whence.export(model, (), kwargs=call, verify=True)
    assert program.verification.ok
    # The caller's cache is unchanged.
    assert type(call["past_key_values"].layers[0]).__name__ == "DynamicSlidingWindowLayer"
    torch.testing.assert_close(program(**sliding_call(3)[1])[0], model(**sliding_call(3)[1]).logits, rtol=1e-3,
                               atol=1e-3)
    with pytest.raises(whence.WhenceError, match="9 tokens") as raised:
        program(**sliding_call(9)[1])
    assert raised.value.code == "E0104" and "DynamicCache()" in raised.value.remedy


def test_sliding_window_with_dropped_keys_has_a_fixed_length():
    model, call = sliding_call(9)
    program = whence.export(model, (), kwargs=call)  # the file fixes the number of tokens
    assert program.dynamic_axes["past_key_values.0.key"] == {0: "batch"}
    with pytest.raises(whence.WhenceError, match="sliding window") as raised:
        whence.export(model, (), kwargs=call, dynamic_axes={"past_key_values.0.key": {2: "past"}})
    assert raised.value.code == "E0304" and "DynamicCache()" in raised.value.remedy


def test_auto_conflicts_with_dynamic_axes():
    model, call = llama_call()
    with pytest.raises(whence.WhenceError, match="dynamic_axes") as raised:
        whence.export(model, (), kwargs=call, dynamic_shapes="auto", dynamic_axes={"input_ids": {0: "batch"}})
    assert raised.value.code == "E0101"
