"""SARIF and `whence explain` state source files relative to the repository's root, wherever the model was recorded."""

import json
import os
import shutil
import sys
from urllib.parse import unquote, urlsplit

import onnx
import pytest
import torch

import command
import whence
from whence.numerics.source_lines import SourceLine, SourceRoot

MODEL = """import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.line(x)) * 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        return self.second(self.first(x))
"""
CALL = MODEL.splitlines().index("        return torch.relu(self.line(x)) * 2") + 1


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with the model in src/my nets/mine.py, m.onnx with another weight of second.line, m.whence.json and
    v.safetensors."""
    root = tmp_path_factory.mktemp("repository")
    (root / "src" / "my nets").mkdir(parents=True)
    (root / "src" / "my nets" / "mine.py").write_text(MODEL)
    (root / "models").mkdir()
    sys.path.insert(0, str(root / "src" / "my nets"))
    try:
        mine = __import__("mine")
    finally:
        sys.path.pop(0)
    torch.manual_seed(0)
    model, x = mine.Net().eval(), torch.randn(3, 8)
    whence.record_values(model, (x,), root / "v.safetensors")
    with torch.no_grad():
        model.second.line.weight.mul_(2)
    whence.export(model, (x,), root / "models" / "m.onnx")
    return root


def places(log):
    """Returns the physical locations of a log's results by rule and module."""
    return {(each["ruleId"], each["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]):
            each["locations"][0]["physicalLocation"] for each in log["runs"][0]["results"]}


def accuracy_log(run_here, repository, *options, model="models/m.onnx"):
    output = run_here("accuracy", repository / model, "--values", repository / "v.safetensors", "--max-error", "0.01@second.line",
                      "--format", "sarif", *options, code=1)
    return places(json.loads(output.out))


MINE = {"uri": "src/my%20nets/mine.py", "uriBaseId": "%SRCROOT%"}


@pytest.mark.parametrize("how", ["the working folder", "the option"])
def test_accuracy_names_the_model_s_own_line(repository, run_here, monkeypatch, how):
    """The difference is in a Linear of PyTorch; the line that calls it is in the repository."""
    monkeypatch.chdir(repository if how == "the working folder" else repository.parent)
    found = accuracy_log(run_here, repository, *([] if how == "the working folder" else ["--source-root", repository]))
    for key in (("A101", "second.line"), ("A102", "second.line")):
        assert found[key] == {"artifactLocation": MINE, "region": {"startLine": CALL}}, found
    above = repository.name + "/" + MINE["uri"]
    (place, *_) = accuracy_log(run_here, repository, "--source-root", repository.parent).values()
    assert place["artifactLocation"]["uri"] == above


def test_the_sidecar_has_a_path_that_the_file_lacks(repository, run_here, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    file = onnx.load(repository / "models" / "m.onnx")
    for node in file.graph.node:
        kept = [(each.key, each.value) for each in node.metadata_props if each.key != "pkg.torch.onnx.stack_trace"]
        del node.metadata_props[:]
        for key, value in kept:
            node.metadata_props.add(key=key, value=value)
    onnx.save(file, tmp_path / "m.onnx")
    with_sidecar = accuracy_log(run_here, repository, "--sidecar", repository / "models" / "m.whence.json", model=tmp_path / "m.onnx")
    assert with_sidecar["A101", "second.line"]["artifactLocation"] == MINE
    without = accuracy_log(run_here, repository, model=tmp_path / "m.onnx")
    assert without["A101", "second.line"]["artifactLocation"]["uri"] == "linear.py"  # the only source in the file
    name = next(node.name for node in file.graph.node if "second" in node.name)
    assert command.run_json("explain", tmp_path / "m.onnx", name)["file"] is None
    known = command.run_json("explain", tmp_path / "m.onnx", name, "--sidecar", repository / "models" / "m.whence.json")
    assert known["file"] == f"src/my nets/mine.py:{CALL} forward"


def test_a_model_that_was_recorded_elsewhere(repository, run_here, monkeypatch, tmp_path):
    """The repository was another folder in a container; a file at the end of the recorded path is the source."""
    shutil.copytree(repository, tmp_path / "clone")
    moved = tmp_path / "clone"
    (moved / "linear.py").write_text("# not PyTorch's\n")
    monkeypatch.chdir(moved)
    assert accuracy_log(run_here, moved)["A102", "second.line"]["artifactLocation"] == MINE
    name = next(node.name for node in onnx.load(moved / "models" / "m.onnx").graph.node if "second" in node.name)
    text = command.run("explain", moved / "models" / "m.onnx", name).stdout
    assert f"src/my nets/mine.py:{CALL} forward" in text and "linear.py:" in text
    assert whence.explain(moved / "models" / "m.onnx", name).file == f"src/my nets/mine.py:{CALL} forward"
    away = whence.explain(moved / "models" / "m.onnx", name, source_root=moved / "models").file
    assert away.startswith("/") and "torch/nn/modules/linear.py:" in away


def test_validate_names_the_file_from_the_root(repository, monkeypatch):
    def uri(*options):
        output = command.run("validate", *options, "--min", "exact=100", "--format", "sarif", code=1).stdout
        return json.loads(output)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]

    file = onnx.load(repository / "models" / "m.onnx")
    del file.graph.node[0].metadata_props[:]
    onnx.save(file, repository / "models" / "less.onnx")
    path = repository / "models" / "less.onnx"
    monkeypatch.chdir(repository)
    assert uri("models/less.onnx") == uri(path) == {"uri": "models/less.onnx", "uriBaseId": "%SRCROOT%"}
    assert uri("models/less.onnx", "--source-root", "models")["uri"] == "less.onnx"
    monkeypatch.chdir(repository / "src")
    assert uri("../models/less.onnx", "--source-root", "..")["uri"] == "models/less.onnx"
    outside = uri("../models/less.onnx")
    assert "uriBaseId" not in outside and unquote(urlsplit(outside["uri"]).path) == os.path.realpath(path)
    output = command.run("validate", "../models/less.onnx", "--source-root", "..", "--min", "exact=100", "--format", "github",
                         code=1).stdout
    assert output.startswith("::error file=models/less.onnx,")


def test_the_models_stack_frame(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "net.py").write_text("")
    (tmp_path / "venv" / "lib" / "python3.12" / "site-packages" / "torch").mkdir(parents=True)
    (tmp_path / "venv" / "lib" / "python3.12" / "site-packages" / "torch" / "linear.py").write_text("")
    root = SourceRoot(tmp_path)
    inside, installed = str(tmp_path / "a" / "b" / "net.py"), str(tmp_path / "venv/lib/python3.12/site-packages/torch/linear.py")
    for source in (inside, "/build/a/b/net.py", "a/b/net.py", "./a/b/net.py"):
        assert root.find(source) == "a/b/net.py", source
    for source in (installed, "/build/net.py", "/elsewhere/b/net.py", "../x.py", "<string>", "", "/" * 100_000, "a\0b",
                   str(tmp_path / "a" / ".." / ".." / "x.py")):
        assert root.find(source) is None, source
    lines = [SourceLine(installed, 1, "f"), SourceLine("<eval_with_key>.1", 2, "f"), SourceLine(inside, 3, "f")]
    assert root.line_in(lines) == ("a/b/net.py", 3) and root.line_in(lines[:2]) == (installed, 1)
    assert root.line_in(lines[1:2]) is None
