"""Packed sequences of different lengths, padded to the longest or to another length, in traces and scripts."""

from typing import Optional

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import command


class Packed(nn.Module):
    def __init__(self, total: Optional[int] = None):
        super().__init__()
        self.gru = nn.GRU(4, 3, bidirectional=True, batch_first=True)
        self.total = total

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, state = self.gru(packed)
        padded, counted = nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=self.total)
        return padded, counted, state


class InputLength(Packed):
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, state = self.gru(packed)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=x.size(1))[0], state


class LongerThanInput(Packed):
    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, state = self.gru(packed)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=x.size(1) + 2)[0], state


MODELS = {"longest": Packed(), "total": Packed(7), "more": Packed(9), "input": InputLength(),
          "longer": LongerThanInput()}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("form", ["trace", "script"])
@pytest.mark.parametrize("name", MODELS)
def test_packed_sequences_equal_pytorch(name, form, dynamic, tmp_path):
    torch.manual_seed(0)
    model = MODELS[name].eval()
    x, lengths = torch.randn(3, 7, 4), torch.tensor([4, 6, 3])
    archive = torch.jit.script(model) if form == "script" else torch.jit.trace(model, (x, lengths), check_trace=False)
    archive.save(str(tmp_path / "m.pt"))
    np.savez(tmp_path / "inputs.npz", x=x.numpy(), lengths=lengths.numpy())
    axes = ["--dynamic", "x:0=n,1=t", "--dynamic", "lengths:0=n"] if dynamic else []
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz", *axes)
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    others = [(torch.randn(2, 7, 4), torch.tensor([7, 2])), (torch.randn(4, 7, 4), torch.tensor([1, 5, 5, 2]))]
    if dynamic and name in ("input", "longer"):
        others.append((torch.randn(2, 9, 4), torch.tensor([8, 2])))
    for inputs in [(x, lengths), *(others if dynamic else [])]:
        results = session.run(None, dict(zip(("x", "lengths"), (tensor.numpy() for tensor in inputs), strict=True)))
        for actual, expected in zip(results, model(*inputs), strict=True):
            np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
