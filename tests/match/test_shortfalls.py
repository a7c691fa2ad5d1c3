"""annotate on files with too little evidence: the suggested next step, and exit code 1 below a minimum."""

import os
import re
import warnings

import onnx
import pytest
import torch

import command
import whence
from validate.onnx_files import known, model, node

os.environ.setdefault("WHENCE", str(command.BINARY))


class TwoLayers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


@pytest.fixture
def unnamed(tmp_path):
    """Returns the model, its example input, and the folder of its file, which has no useful names or metadata."""
    torch.manual_seed(2)
    network, x = TwoLayers().eval(), torch.linspace(-1, 1, 12).reshape(2, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(network, (x,), str(tmp_path / "m.onnx"), dynamo=True, external_data=False, verbose=False)
    file = onnx.load(tmp_path / "m.onnx")
    names = {}
    for number, node in enumerate(file.graph.node):
        node.name = f"n{number}"
        del node.metadata_props[:]
    for tensor in file.graph.initializer:
        tensor.name = names.setdefault(tensor.name, f"t{len(names)}")
    for node in file.graph.node:
        for values in (node.input, node.output):
            values[:] = [names.setdefault(value, f"t{len(names)}") for value in values]
    for value in (*file.graph.input, *file.graph.output):
        value.name = names[value.name]
    del file.graph.value_info[:]
    onnx.save(file, tmp_path / "m.onnx")
    return network, x, tmp_path


def test_the_suggested_next_step_works(unnamed):
    """Every node gets a module if the two lines of the warning are run unchanged."""
    network, x, folder = unnamed
    result = command.run("annotate", folder / "m.onnx", "-o", folder / "out.onnx")
    assert result.stderr.startswith("warning:") and "record the model" in result.stderr
    python, = re.findall(r"`(with whence\.record.*?)` in Python", result.stderr)
    shell, = re.findall(r"then `whence (annotate .*?)`", result.stderr)
    code = python.replace('"m.whence.json"', repr(str(folder / "m.whence.json")))
    exec(compile(code, "remedy", "exec"), {"whence": whence, "torch": torch, "model": network, "args": (x,)})
    words = [str(folder / word) if word == "m.whence.json" else word for word in shell.split()]
    assert command.run(*words).stderr == ""
    assert command.run_json("validate", folder / "out.onnx", "--min-covered", "100")["clean"]


def test_a_file_with_useful_names_has_no_warning(tmp_path):
    path = model([node("Relu", ["x"], "a", "/first/Relu"), node("Relu", ["a"], "b", "/second/Relu")], tmp_path / "m.onnx")
    assert "record the model" not in command.run("annotate", path, "-o", tmp_path / "out.onnx").stderr


@pytest.mark.parametrize("minimum, code, fragment", [
    ("covered=100", 1, "covered is 66.67 %, not 100 %"), ("covered=60", 0, ""),
    ("exact=50@a", 0, ""), ("covered=90@op:Relu", 1, "covered of Relu is 66.67 %, not 90 %"),
    ("covered=1@gone", 1, "no module of the file matches 'gone'"), ("covered=101", 2, "is not a threshold")])
def test_a_shortfall_exits_with_1(tmp_path, minimum, code, fragment):
    nodes = [node("Relu", ["x"], "a", "n0", known("a")), node("Relu", ["a"], "b", "n1", known("b", "inferred")),
             node("Relu", ["b"], "c", "n2", {"pkg.whence.confidence": "unattributed"})]
    path, out = model(nodes, tmp_path / "m.onnx"), tmp_path / "out.onnx"
    result = command.run("annotate", path, "-o", out, "--min", minimum, code=code)
    assert fragment in result.stdout + result.stderr
    assert out.exists() == (code < 2)  # a shortfall does not prevent the output
    if code == 1:
        assert any(fragment in shortfall for shortfall in command.run_json("annotate", path, "-o", out, "--min", minimum, code=1)["shortfalls"])


def test_python_reports_shortfalls(unnamed):
    _, _, folder = unnamed
    report = whence.annotate(folder / "m.onnx", output=folder / "out.onnx", minima=["covered=50", "exact=1"])
    assert report.shortfalls == ("covered is 0 %, not 50 %", "exact is 0 %, not 1 %")
    assert whence.annotate(folder / "m.onnx", output=folder / "out.onnx").shortfalls == ()
