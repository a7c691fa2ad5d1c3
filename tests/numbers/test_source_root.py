"""SARIF and `whence explain` report source files relative to the repository's root, wherever the model was recorded."""

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
    """Returns a repository with the model in src/my nets/mine.py, its values in v.safetensors, and its export with a
    changed weight of second.line in models/."""
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


def locations_of(log):
    """Returns the physical locations of a log's results by rule and module."""
    return {(result["ruleId"], result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]):
            result["locations"][0]["physicalLocation"] for result in log["runs"][0]["results"]}


def accuracy_log(run_main, repository, *options, model="models/m.onnx"):
    output = run_main("accuracy", repository / model, "--values", repository / "v.safetensors", "--max-error", "0.01@second.line",
                      "--format", "sarif", *options, code=1)
    return locations_of(json.loads(output.out))


MINE = {"uri": "src/my%20nets/mine.py", "uriBaseId": "%SRCROOT%"}


@pytest.mark.parametrize("how", ["the working folder", "the option"])
def test_accuracy_reports_the_line_in_the_model(repository, run_main, monkeypatch, how):
    """The difference is in a Linear of PyTorch; the line that calls it is in the repository."""
    monkeypatch.chdir(repository if how == "the working folder" else repository.parent)
    options = [] if how == "the working folder" else ["--source-root", repository]
    locations = accuracy_log(run_main, repository, *options)
    for key in (("A101", "second.line"), ("A102", "second.line")):
        assert locations[key] == {"artifactLocation": MINE, "region": {"startLine": CALL}}, locations
    (location, *_) = accuracy_log(run_main, repository, "--source-root", repository.parent).values()
    assert location["artifactLocation"]["uri"] == repository.name + "/" + MINE["uri"]


def test_the_sidecar_provides_a_path_missing_from_the_file(repository, run_main, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    file = onnx.load(repository / "models" / "m.onnx")
    for node in file.graph.node:
        entries = [(entry.key, entry.value) for entry in node.metadata_props if entry.key != "pkg.torch.onnx.stack_trace"]
        del node.metadata_props[:]
        for key, value in entries:
            node.metadata_props.add(key=key, value=value)
    onnx.save(file, tmp_path / "m.onnx")
    with_sidecar = accuracy_log(run_main, repository, "--sidecar", repository / "models" / "m.whence.json", model=tmp_path / "m.onnx")
    assert with_sidecar["A101", "second.line"]["artifactLocation"] == MINE
    without = accuracy_log(run_main, repository, model=tmp_path / "m.onnx")
    assert without["A101", "second.line"]["artifactLocation"]["uri"] == "linear.py"  # the only source in the file
    name = next(node.name for node in file.graph.node if "second" in node.name)
    assert command.run_json("explain", tmp_path / "m.onnx", name)["file"] is None
    explained = command.run_json("explain", tmp_path / "m.onnx", name, "--sidecar", repository / "models" / "m.whence.json")
    assert explained["file"] == f"src/my nets/mine.py:{CALL} forward"


def test_a_model_recorded_in_another_folder(repository, run_main, monkeypatch, tmp_path):
    """The recorded paths are in another folder; the repository's file with the same trailing path is reported."""
    shutil.copytree(repository, tmp_path / "clone")
    clone = tmp_path / "clone"
    (clone / "linear.py").write_text("# not PyTorch's\n")
    monkeypatch.chdir(clone)
    assert accuracy_log(run_main, clone)["A102", "second.line"]["artifactLocation"] == MINE
    name = next(node.name for node in onnx.load(clone / "models" / "m.onnx").graph.node if "second" in node.name)
    text = command.run("explain", clone / "models" / "m.onnx", name).stdout
    assert f"src/my nets/mine.py:{CALL} forward" in text and "linear.py:" in text
    assert whence.explain(clone / "models" / "m.onnx", name).file == f"src/my nets/mine.py:{CALL} forward"
    outside = whence.explain(clone / "models" / "m.onnx", name, source_root=clone / "models").file
    assert outside.startswith("/") and "torch/nn/modules/linear.py:" in outside


def test_validate_reports_the_file_relative_to_the_root(repository, monkeypatch):
    def uri(*options):
        output = command.run("validate", *options, "--min", "exact=100", "--format", "sarif", code=1).stdout
        return json.loads(output)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]

    file = onnx.load(repository / "models" / "m.onnx")
    del file.graph.node[0].metadata_props[:]
    onnx.save(file, repository / "models" / "partial.onnx")
    path = repository / "models" / "partial.onnx"
    monkeypatch.chdir(repository)
    assert uri("models/partial.onnx") == uri(path) == {"uri": "models/partial.onnx", "uriBaseId": "%SRCROOT%"}
    assert uri("models/partial.onnx", "--source-root", "models")["uri"] == "partial.onnx"
    monkeypatch.chdir(repository / "src")
    assert uri("../models/partial.onnx", "--source-root", "..")["uri"] == "models/partial.onnx"
    outside = uri("../models/partial.onnx")
    assert "uriBaseId" not in outside and unquote(urlsplit(outside["uri"]).path) == os.path.realpath(path)
    output = command.run("validate", "../models/partial.onnx", "--source-root", "..", "--min", "exact=100", "--format", "github",
                         code=1).stdout
    assert output.startswith("::error file=models/partial.onnx,")


def test_the_frame_in_the_repository_is_reported(tmp_path):
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
