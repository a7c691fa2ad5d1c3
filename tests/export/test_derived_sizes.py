"""A size derived from named axes is an expression of them, even if it equals another size in every recorded run. Sizes
that depend on data are distinguished by their origin, not by their value."""

import importlib.util
import json
import textwrap

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
from constraints import constraints_of

HEADER = ("import torch\nimport torch.nn.functional as F\nfrom typing import List\nfrom torch import Tensor\n\n\n"
          "class Scripted(torch.nn.Module):\n    def forward(self, x: Tensor, y: Tensor):\n")
EXPRESSIONS = {
    "torch.cat([x, x, y])": "2*n + m",
    "x[: x.size(0) // 2]": "(n//2)",
    "torch.arange(x.size(0) * y.size(0))": "n*m",
    "F.max_pool1d(x.t(), 3, 2).t()": "((n + 1)//2) - 1",
    "torch.zeros(x.size(0) + 1)[1:]": "n",
    "torch.cat([x, y]).view(-1)": "4*n + 4*m",
    "x.unsqueeze(1).repeat(2, 3, 1).flatten(0, 1)": "6*n",
}


def export_script(body, folder, *options):
    source = folder / "scripted.py"
    source.write_text(HEADER + textwrap.indent(body, " " * 8) + "\n")
    spec = importlib.util.spec_from_file_location("scripted", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = torch.jit.script(module.Scripted().eval())
    model.save(str(folder / "m.pt"))
    command.run("export", folder / "m.pt", "-o", folder / "m.onnx", "--input", "x=float32[6,4]", "--input", "y=float32[3,4]",
                "--dynamic", "x:0=n", "--dynamic", "y:0=m", *options)
    return model, folder / "m.onnx"


def compare(model, path, sizes):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for seed, (n, m) in enumerate(sizes):
        draw = torch.Generator().manual_seed(seed)
        x, y = torch.randn(n, 4, generator=draw), torch.randn(m, 4, generator=draw)
        expected = model(x.clone(), y.clone())
        feed = {value.name: {"x": x, "y": y}[value.name].numpy() for value in session.get_inputs()}
        results = session.run(None, feed)
        for actual, reference in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert actual.shape == tuple(reference.shape), (n, m)
            np.testing.assert_allclose(actual, reference.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_derived_size_is_an_expression_in_the_file(expression, tmp_path):
    model, path = export_script(f"return {expression}", tmp_path)
    shape = onnx.load(path).graph.output[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == EXPRESSIONS[expression]
    compare(model, path, [(6, 3), (4, 9), (11, 1), (17, 20)])


# The sizes of the first two coincide at every recorded size, or at the only one that meets the condition.
COINCIDENT_SIZES = {
    "empty slices": "return y[x.size(0):3] * 1, x[y.size(0) * 9 : x.size(0) - 40]",
    "under a condition": "if x.size(0) == 6:\n    z = torch.zeros(x.size(0) - y.size(0) + 9, 4)\nelse:\n    z = y\nreturn z * 2",
    "from data, equal to another size": ("z = x[x[:, 0] > 0]\nw = torch.cat([z, z[:1] * 0])\n"
                                         "return w.view(-1, 2, 2), (z @ z.t()).flatten(), w.new_ones(w.size(0))"),
    "a number that is written to": "n = torch.tensor(x.size(0))\nn.add_(y.size(0))\nreturn torch.ones(int(n)), x[: int(n) // 2]",
    "from a loop": ("z = x\nfor i in range(int((y > 0).sum()) % 3 + 1): z = torch.cat([z, y])\n"
                    "return z, z.view(-1), z.new_zeros(z.size(0) + 1)"),
}


@pytest.mark.parametrize("name", COINCIDENT_SIZES)
def test_coincident_sizes_do_not_become_constants(name, tmp_path):
    model, path = export_script(COINCIDENT_SIZES[name], tmp_path)
    compare(model, path, [(6, 3), (7, 2), (1, 5), (60, 1), (3, 3), (2, 9)])


def test_constraints_on_sizes_are_in_the_sidecar_and_the_file(tmp_path):
    """The model slices a table to the length of its input, and returns the input without its first row."""
    body = "return torch.arange(200.0)[: x.size(0), None] * x, x[1:] + 1"
    model, path = export_script(body, tmp_path, "--sidecar-out", tmp_path / "m.json")
    outputs = onnx.load(path).graph.output
    assert [output.type.tensor_type.shape.dim[0].dim_param for output in outputs] == ["n", "n - 1"]
    constraints = json.loads((tmp_path / "m.json").read_text())["constraints"]
    assert constraints == ["s0 <= 200"]  # the sidecar numbers its symbols
    assert constraints_of(path) == ["n <= 200"]
    compare(model, path, [(6, 3), (1, 1), (200, 2), (0, 1)])
