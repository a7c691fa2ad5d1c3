"""Archives with operators from a user's C++ library, which --library loads."""

import onnx
import onnxruntime
import pytest
import torch
import whence
from onnx import helper

import command
from native import built as programs


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 2)

    def forward(self, x):
        wide = torch.ops.whence_test.widen(x, 2.0)
        if bool(x.sum() > 0):
            wide = torch.ops.whence_test.flipped(wide)
        return self.fc(wide)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    programs.built(tmp_path_factory)
    return programs.PROGRAMS / "liboperators.so"


@pytest.fixture(scope="session")
def scripted(library):
    torch.ops.load_library(str(library))
    torch.manual_seed(0)
    return torch.jit.script(Net().eval())


@pytest.fixture
def archive(scripted, tmp_path):
    scripted.save(str(tmp_path / "net.pt"))
    return tmp_path / "net.pt"


def converter(path):
    """Saves `widen` as an ONNX function."""
    factor = helper.make_node("Constant", [], ["factor"])
    factor.attribute.add(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT)
    nodes = [factor, helper.make_node("Mul", ["x", "factor"], ["y"]),
             helper.make_node("Concat", ["x", "y"], ["out"], axis=-1)]
    function = helper.make_function("whence.whence_test", "widen", ["x"], ["out"], nodes,
                                    [helper.make_opsetid("", 20)], ["factor"])
    graph = helper.make_graph([], "converters", [], [])
    onnx.save(helper.make_model(graph, functions=[function], ir_version=10, opset_imports=[
        helper.make_opsetid("", 20), helper.make_opsetid("whence.whence_test", 1)]), path)
    return path


def test_error_without_the_library_names_the_option(archive, tmp_path):
    result = command.run("export", archive, "-o", tmp_path / "net.onnx", "--input", "x=float32[3,4]", code=4)
    assert "E0303" in result.stderr and "whence_test::widen" in result.stderr and "--library" in result.stderr
    assert not (tmp_path / "net.onnx").exists()


@pytest.mark.parametrize("content", [None, b"", b"no library"])
def test_invalid_libraries_are_refused(archive, tmp_path, content):
    wrong = tmp_path / "libwrong.so"
    if content is not None:
        wrong.write_bytes(content)
    result = command.run("export", archive, "-o", tmp_path / "net.onnx", "--input", "x=float32[3,4]",
                         "--library", wrong, code=2 if content is None else 3)
    assert ("E0102" if content is None else "E0203") in result.stderr and "libwrong.so" in result.stderr
    assert not (tmp_path / "net.onnx").exists()


def test_export_equals_pytorch(archive, scripted, library, tmp_path):
    command.run("export", archive, "-o", tmp_path / "net.onnx", "--input", "x=float32[3,4]", "--dynamic", "x:0=batch",
                "--library", library, "--converters", converter(tmp_path / "converters.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for x in (torch.ones(3, 4), -torch.ones(5, 4)):
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), scripted(x))


def test_record_and_ops_accept_the_library(archive, library, tmp_path):
    command.run("record", archive, "-o", tmp_path / "net.whence.json", "--input", "x=float32[3,4]",
                "--library", library)
    assert "whence_test::widen" in (tmp_path / "net.whence.json").read_text()
    missing = command.run("ops", "--missing", archive, "--library", library, code=4)
    assert "whence_test::widen" in missing.stdout + missing.stderr


def test_python_passes_loaded_libraries_to_the_command(scripted, tmp_path, monkeypatch):
    monkeypatch.setenv("WHENCE", str(command.BINARY))
    x = torch.ones(3, 4)
    with pytest.raises(whence.WhenceError, match="E0301.*whence_test::widen"):
        whence.export(scripted, (x,), tmp_path / "net.onnx")
    assert [str(name) for name in whence.unconvertible_ops(scripted, (x,))] == ["whence_test::widen"]
    whence.export(scripted, (x,), tmp_path / "net.onnx", custom_opsets={"whence_test": 1})
    nodes = [node for node in onnx.load(tmp_path / "net.onnx").graph.node if node.op_type == "widen"]
    assert [node.domain for node in nodes] == ["whence_test"]
