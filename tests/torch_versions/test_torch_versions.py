"""Tests that files of each supported PyTorch version can be exported and annotated, and give that version's results."""

import json
import re
from pathlib import Path

import numpy
import onnx
import onnxruntime
import pytest

import command
from sidecar import Sidecar

VERSIONS = sorted((Path(__file__).parent / "fixtures").iterdir(), key=lambda folder: tuple(map(int, folder.name.split("."))))
BLOCK = [("block.norm", "LayerNormalization", 0), ("block.norm", "LayerNormalization", 1)]
MODULES = {"conv", "block", "block.norm", "block.linear", "head"}
EXAMPLE_SIZE, BOTH_SIZES = slice(0, 1), slice(0, 2)


def export(archive: Path, folder: Path, *options) -> Path:
    target = folder / "model.onnx"
    command.run("export", archive, "-o", target, "--annotate", *options)
    return target


def check_results(model: Path, cases: list[dict]) -> None:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for case in cases:
        output = session.run(None, {name: numpy.array(case["x"], numpy.float32)})[0]
        numpy.testing.assert_allclose(output, case["output"], rtol=1e-5, atol=1e-5)


def origins(model: Path) -> list[tuple[str, str, int]]:
    """Returns the module, operator and call of every node."""
    keys = [(node.op_type, {entry.key: entry.value for entry in node.metadata_props})
            for node in onnx.load(model).graph.node]
    return [(of["pkg.whence.module"], op, int(of.get("pkg.whence.call", 0))) for op, of in keys if "pkg.whence.module" in of]


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def check_annotated(model: Path, cases: list[dict]) -> None:
    check_results(model, cases)
    found = origins(model)
    assert {module for module, _, _ in found} - {""} == MODULES
    assert [place for place in found if place[1] == "LayerNormalization"] == BLOCK


@pytest.fixture(params=VERSIONS, ids=lambda folder: folder.name)
def version(request) -> Path:
    return request.param


@pytest.fixture
def cases(version) -> list[dict]:
    return json.loads((version / "cases.json").read_text())


def test_the_oldest_and_newest_version_have_fixtures():
    text = (command.ROOT / "tools" / "cmake" / "torch.cmake").read_text()
    ends = re.findall(r"WHENCE_TORCH_(?:OLDEST|NEWEST) ([\d.]+)\)", text)
    assert len(ends) == 2
    assert {minor(VERSIONS[0].name), minor(VERSIONS[-1].name)} == {minor(end) for end in ends}


@pytest.mark.parametrize("archive, options, sizes", [
    ("traced.pt", (), EXAMPLE_SIZE),
    ("traced.pt", ("--dynamic", "x:0=batch"), BOTH_SIZES),
    ("scripted.pt", ("--input", "x=float32[2,6,4]", "--dynamic", "x:0=batch"), BOTH_SIZES),
    ("static.pt2", (), EXAMPLE_SIZE),
    ("dynamic.pt2", (), BOTH_SIZES),
])
def test_archives_are_exported(version, cases, archive, options, sizes, tmp_path):
    model = export(version / archive, tmp_path, *options)
    check_annotated(model, cases[sizes])


def test_files_of_the_versions_exporter_are_annotated(version, cases, tmp_path):
    """The files may have the metadata of this exporter or none."""
    command.run("record", version / "dynamic.pt2", "-o", tmp_path / "m.whence.json")
    model = onnx.load(version / "dynamo.onnx")
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    for source in (tmp_path / "bare.onnx", version / "dynamo.onnx"):
        command.run("annotate", source, "--sidecar", tmp_path / "m.whence.json", "-o", tmp_path / "out.onnx")
        check_annotated(tmp_path / "out.onnx", cases)


@pytest.mark.parametrize("version", [folder for folder in VERSIONS if (folder / "recorded.whence.json").exists()],
                         ids=lambda folder: folder.name)
def test_a_recording_by_that_version_is_used(version, cases, tmp_path):
    """A recording by that PyTorch equals the recording of the archive, and annotates the file of the exporter."""
    recorded = version / "recorded.whence.json"
    command.run("record", version / "traced.pt", "-o", tmp_path / "archive.whence.json")

    def described(path):
        return [(row["target"], row["module"], row["call"], [(frame["line"], frame["function"]) for frame in row["frames"][:1]])
                for row in Sidecar(path).operations()]

    assert described(recorded) == described(tmp_path / "archive.whence.json")
    assert f"PyTorch {version.name}" in Sidecar(recorded).raw["producer"]
    command.run("annotate", version / "dynamo.onnx", "--sidecar", recorded, "-o", tmp_path / "out.onnx")
    check_annotated(tmp_path / "out.onnx", cases)
