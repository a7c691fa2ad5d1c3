"""Loop variables of scripts that alias different tensors, or each other, in different iterations. The file contains the
writes of all iterations."""

import importlib.util
import textwrap

import numpy as np
import onnxruntime
import pytest
import torch

import command

HEADER = ("import torch\nfrom typing import Dict, List, Tuple\nfrom torch import Tensor\n\n\n"
          "class Scripted(torch.nn.Module):\n    def forward(self, x):\n        y = x * 1\n")
VARIABLES = {
    "exchanged variables": ("a = y\nb = y * 2", "a, b = b, a\na += 1", "a, b"),
    "previous value": ("last = y * 0\nh = y * 1", "last = h\nh = h * 2\nh += 1", "h, last"),
    "gates": ("h = torch.zeros(4)", "i1, f = (torch.cat([y[i], h]) + 1).chunk(2)\ni1.sigmoid_()\nf.tanh_()\nh = i1 * f", "h"),
    "ranges of one tensor": ("k = y[:, :2] * 1\nq = y[:, 2:] * 1\ns = y[0, 0]",
                             "g = y * 1.5\nk += 1\ns = s + q.mean()\nk = g[..., :2]\nq = g[..., 2:4]", "s, k, q"),
    "a view of another variable": ("h = y[0] * 1\nc = y[0] * 2", "c *= 0.5\nc = c + h\nh = c[:]", "h, c"),
    "a tensor from before": ("a = y\nb = y * 2", "a, b = b, a\na += 1", "y"),
    "two names of one tensor": ("c = y * 2\nt = (c, c)", "a, b = t\na += 1\nt = (b * 1, a)", "t[0], t[1]"),
    "items of a list": ("c = y * 2\nl = [c, c * 2]", "l[0].add_(1)\nl = [l[1], l[1]]", "l[0], l[1]"),
    "values of a dict": ("c = y * 2\nd = {'a': c, 'b': c * 2}", "d['a'].add_(1)\nd['a'] = d['b']", "d['a'], d['b']"),
    "with a break": ("a = y * 1\nb = y * 2", "b += 1\na = a + b\nb = a\nif i == 1: break", "a, b"),
    "in nested loops": ("a = y * 1\nb = y * 2",
                        "for j in range(int(x.sum() * 0) + 2):\n    b += 1\n    a = a + b\nb = a", "a, b"),
}


def export_script(name, lines, folder):
    """Exports a loop over the rows of the input to m.onnx; returns the script."""
    before, body, result = lines
    text = before + "\nfor i in range(x.size(0)):\n" + textwrap.indent(body, "    ") + "\nreturn " + result
    source = folder / f"loop_{abs(hash(name))}.py"
    source.write_text(HEADER + textwrap.indent(text, " " * 8) + "\n")
    spec = importlib.util.spec_from_file_location(source.stem, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    script = torch.jit.script(module.Scripted())
    script.save(str(folder / "m.pt"))
    command.run("export", folder / "m.pt", "-o", folder / "m.onnx", "--input", "x=float32[3,4]", "--dynamic", "x:0=n")
    return script


@pytest.mark.parametrize("name", VARIABLES)
def test_writes_of_all_iterations_equal_pytorch(name, tmp_path):
    script = export_script(name, VARIABLES[name], tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 2, 3, 6):
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
        results = script(x)
        results = results if isinstance(results, tuple) else (results,)
        for actual, expected in zip(session.run(None, {"x": x.numpy()}), results, strict=True):
            np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-6)
