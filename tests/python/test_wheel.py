"""The wheel whence-onnx: one file for every Python and libc, which works on an otherwise empty system."""

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch

import command
import portable
import whence
from python.environments import clean_environment, create_linked_environment, with_dependencies
from static_command import ARCHITECTURE, in_empty_root, make_wheel, static_command
from whence.command import recorder_library

pytestmark = pytest.mark.xdist_group("wheel")  # all tests share one wheel


@pytest.fixture(scope="module")
def binary() -> Path:
    return static_command()


@pytest.fixture(scope="module")
def wheel(binary, tmp_path_factory) -> Path:
    """Returns $WHENCE_WHEEL, which `make wheel` sets, or builds one of this tree."""
    path = os.environ.get("WHENCE_WHEEL")
    return Path(path) if path else make_wheel(tmp_path_factory.mktemp("wheel"), binary)


def run(*arguments, **options) -> str:
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False,
                            **{"env": clean_environment(), **options})
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def install(wheel: Path, python: Path) -> Path:
    """Installs the wheel; returns the environment's command."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    return python.parent / "whence"


def without_tools(python: Path) -> dict[str, str]:
    """Returns variables with only the environment in PATH: no compiler, no other command."""
    return {"PATH": str(python.parent), "HOME": "/nonexistent"}


# ---- the command -------------------------------------------------------------------------------------------------------


def test_command_needs_no_library_and_no_loader(binary):
    headers = run("readelf", "--wide", "--program-headers", "--dynamic", binary)
    assert "LOAD" in headers
    assert "INTERP" not in headers and "NEEDED" not in headers


def test_output_in_an_empty_root_equals_the_dynamic_commands(binary, tmp_path):
    """A root that contains only the command represents musl and any other system."""
    root, folder = tmp_path / "root", tmp_path / "folder"
    root.mkdir(), folder.mkdir()
    shutil.copy(binary, root / "whence")

    def run_in_root(*arguments):
        result = in_empty_root(root, *arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def run_dynamic(*arguments):
        return run(command.BINARY, *arguments, cwd=folder)

    assert portable.check(run_in_root, root) == portable.check(run_dynamic, folder)


def test_archive_that_needs_libtorch_uses_the_recorders_command(binary, small_archive, tmp_path):
    for name, program in {"static": binary, "dynamic": command.BINARY}.items():
        run(program, "record", small_archive, "-o", tmp_path / f"{name}.whence.json", env=os.environ)
    assert (tmp_path / "static.whence.json").read_bytes() == (tmp_path / "dynamic.whence.json").read_bytes()


def test_operator_decomposed_by_libtorch_needs_the_recorder(binary, tmp_path):
    class Net(torch.nn.Module):
        def forward(self, x, y):
            return torch.nn.functional.hinge_embedding_loss(x, y.sign())

    torch.export.save(torch.export.export(Net(), (torch.randn(4, 6), torch.randn(4, 6))), tmp_path / "m.pt2")
    run(binary, "export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", env=os.environ)
    isolated = tmp_path / "bin" / "whence"
    isolated.parent.mkdir()
    shutil.copy(binary, isolated)
    refused = subprocess.run([isolated, "export", tmp_path / "m.pt2", "-o", tmp_path / "no.onnx"], env={}, capture_output=True,
                             text=True)
    assert refused.returncode == 4 and refused.stderr.count("E0307") == 1
    assert "aten::hinge_embedding_loss" in refused.stderr and "pip install whence-onnx-recorder torch" in refused.stderr
    assert not (tmp_path / "no.onnx").exists()


@pytest.mark.parametrize("recorder", ["no/such/libwhence_recorder.so", "lib/libwhence_recorder.so"])
def test_missing_recorder_is_one_error_with_a_remedy(binary, recorder, small_archive, tmp_path):
    """Includes a library without the command that loads it."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libwhence_recorder.so").touch()
    result = subprocess.run([binary, "record", small_archive, "-o", tmp_path / "out"], capture_output=True, text=True,
                            env={"WHENCE_RECORDER": str(tmp_path / recorder)})
    assert result.returncode == 4 and result.stderr.startswith("E0307") and "; try: " in result.stderr


def test_recorders_command_without_libtorch_does_not_loop(binary, small_archive, tmp_path):
    (tmp_path / "lib").mkdir(), (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "libwhence_recorder.so").touch()
    shutil.copy(binary, tmp_path / "bin" / "whence")
    result = subprocess.run([binary, "record", small_archive, "-o", tmp_path / "out"], capture_output=True, text=True,
                            timeout=60, env={"WHENCE_RECORDER": str(tmp_path / "lib" / "libwhence_recorder.so")})
    assert result.returncode == 4 and "install command and recorder together" in result.stderr


# ---- the file ----------------------------------------------------------------------------------------------------------


def test_contents_of_the_wheel(wheel):
    platforms = [f"{family}_{ARCHITECTURE}" for family in ("manylinux_2_17", "manylinux2014", "manylinux_2_28", "musllinux_1_1", "musllinux_1_2")]
    assert wheel.name == f"whence_onnx-{whence.__version__}-py3-none-{'.'.join(platforms)}.whl"
    assert wheel.stat().st_size < 15_000_000
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        info = next(name.partition("/")[0] for name in names if name.endswith(".dist-info/WHEEL"))
        listed = {row[0]: row[1:] for row in csv.reader(file.read(f"{info}/RECORD").decode().splitlines())}
        assert set(listed) == set(names)
        for name, (digest, size) in listed.items():
            if name != f"{info}/RECORD":
                data = file.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={expected}", str(len(data))), name
        assert [line.removeprefix("Tag: ") for line in file.read(f"{info}/WHEEL").decode().splitlines()
                if line.startswith("Tag: ")] == [f"py3-none-{platform}" for platform in platforms]
        assert file.getinfo("whence/bin/whence").external_attr >> 16 & 0o111 == 0o111
    assert "whence/py.typed" in names and f"{info}/licenses/LICENSE" in names
    assert not [name for name in names if ".so" in name or "__pycache__" in name]


def test_wheel_is_reproducible(binary, wheel, tmp_path):
    assert make_wheel(tmp_path, binary).read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("platform", ["musllinux_1_2", "manylinux_2_17", None, *(
    pytest.param(family, marks=pytest.mark.matrix) for family in ("musllinux_1_1", "manylinux2014"))])
def test_pip_selects_the_wheel(wheel, platform, tmp_path):
    """None is the platform of the running Python."""
    words = ["--platform", f"{platform}_{ARCHITECTURE}"] if platform else []
    run(sys.executable, "-m", "pip", "download", "-q", "--no-index", "--no-deps", "--only-binary", ":all:", "--find-links",
        wheel.parent, *words, "--dest", tmp_path, "whence-onnx")
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]


# ---- installed ---------------------------------------------------------------------------------------------------------

WITHOUT_TORCH = """
    import sys, whence
    whence.annotate("plain.onnx", "m.whence.json", output="m.onnx")
    assert whence.validate("m.onnx").coverage.percent == 100
    assert whence.show("m.onnx") and whence.functions("m.onnx", types=["Block"], output="functions.onnx")
    assert whence.diff("plain.onnx", "m.onnx") is not None and whence.compare("plain.onnx", "m.onnx")
    whence.validate("m.onnx").to_html("m.html")
    assert not {"torch", "numpy", "onnx"} & set(sys.modules)
    for name in whence._LAZY_IMPORTS:
        try:
            getattr(whence, name)
        except whence.WhenceError as failure:
            assert failure.code == "E0307" and "pip install torch" in str(failure), failure
        else:
            raise AssertionError(f"{name} was imported without torch")
    try:
        with whence.record("x.whence.json"):
            pass
    except whence.WhenceError as failure:
        assert failure.code == "E0307" and "pip install torch" in failure.remedy, failure
    print(whence.__version__)
    """


def test_package_without_pytorch(wheel, tmp_path):
    portable.save_archive(tmp_path / "m.pt2")
    python = create_linked_environment(tmp_path / "venv", set())
    executable = install(wheel, python)
    environment = without_tools(python)
    run(executable, "record", "m.pt2", "-o", "m.whence.json", cwd=tmp_path, env=environment)
    run(executable, "export", "m.pt2", "-o", "plain.onnx", cwd=tmp_path, env=environment)
    (tmp_path / "script.py").write_text(textwrap.dedent(WITHOUT_TORCH))
    assert run(python, "script.py", cwd=tmp_path, env=environment).strip() == whence.__version__


@pytest.fixture
def no_recorder(binary, tmp_path, monkeypatch):
    """Sets up this process as an environment with the wheel and PyTorch, but no recorder."""
    isolated = tmp_path / "alone" / "bin" / "whence"
    isolated.parent.mkdir(parents=True)
    shutil.copy(binary, isolated)
    monkeypatch.setenv("WHENCE", str(isolated))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WHENCE_RECORDER", raising=False)
    assert not recorder_library.is_installed()


@pytest.mark.usefixtures("no_recorder", "quiet")
class TestWithoutRecorder:
    def test_model_is_exported_with_torch_export(self, tmp_path):
        model, x = torch.nn.Sequential(portable.Block(), portable.Block()).eval(), torch.randn(3, 6)
        program = whence.export(model, x, tmp_path / "m.onnx", dynamic_axes={"input": {0: "n"}})
        assert program.backend == "native-export" and program.validation.coverage.percent == 100
        longer = torch.randn(7, 6)
        torch.testing.assert_close(program(longer)[0], model(longer))
        assert whence.unconvertible_ops(model, x) == []

    def test_operator_is_decomposed_by_pytorch(self):
        class Net(torch.nn.Module):
            def forward(self, x, y):
                return torch.nn.functional.hinge_embedding_loss(x, y.sign())

        x, y = torch.randn(4, 6), torch.randn(4, 6)
        torch.testing.assert_close(whence.export(Net(), (x, y))(x, y)[0], Net()(x, y))

    def test_programs_of_torch_export_are_recorded(self, tmp_path):
        model = portable.Block().eval()
        with whence.record(tmp_path / "m.whence.json") as recording:
            torch.export.export(model, (torch.randn(3, 6),))
        assert recording.complete and [Path(file["file"]).name for file in recording.files] == ["m.whence.json"]

    @pytest.mark.parametrize("trace", [
        lambda model, x, folder: torch.jit.trace(model, x),
        lambda model, x, folder: torch.onnx.export(model, (x,), folder / "t.onnx", dynamo=False),
    ], ids=["torch.jit.trace", "torch.onnx.export"])
    def test_recording_a_trace_suggests_the_recorder(self, trace, tmp_path):
        model, x = portable.Block().eval(), torch.randn(3, 6)
        with pytest.raises(whence.WhenceError, match="pip install whence-onnx-recorder") as raised:
            with whence.record(tmp_path / "m.whence.json"):
                trace(model, x, tmp_path)
        assert raised.value.code == "E0307"
        assert not (tmp_path / "m.whence.json").exists()
        torch.jit.trace(model, x)  # still allowed after the recording

    @pytest.mark.parametrize("options", [{"model": torch.jit.script(portable.Block().eval())},
                                         {"model": portable.Block().eval(), "backend": "torch-torchscript"}],
                             ids=["scripted", "torch-torchscript"])
    def test_torchscript_suggests_the_recorder(self, options):
        with pytest.raises(whence.WhenceError, match="pip install whence-onnx-recorder") as raised:
            whence.export(args=torch.randn(3, 6), **options)
        assert raised.value.code == "E0307"

    def test_model_that_torch_export_refuses_suggests_a_trace(self):
        class Net(torch.nn.Module):
            def forward(self, x):
                return x + 1 if bool(x.sum() > 0) else x - 1

        with pytest.warns(whence.WhenceWarning, match="not traced.*pip install whence-onnx-recorder"):
            with pytest.raises(whence.WhenceError):
                whence.export(Net(), torch.ones(3))


# ---- only in `make test-full` ----------------------------------------------------------------------------------------

WITH_TORCH = """
    import torch, whence
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    example = torch.randn(3, 4)
    with whence.record("trace.whence.json") as recording:
        torch.export.export(model, (example,))
    assert recording.complete
    report = whence.export(model, example, "model.onnx", dynamic_axes={"input": {0: "n"}})
    assert report.validation.coverage.percent == 100, report
    print(whence.compare("model.onnx", "model.onnx"))
    """


@pytest.mark.matrix
def test_auditwheel_finds_no_external_library(wheel):
    python = command.ROOT / "build" / "tools" / "auditwheel" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment of auditwheel: tools/setup/tool_environments.sh creates it")
    report = json.loads(run(python, "-m", "auditwheel", "show", "--json", wheel))
    assert report["wheel"] == wheel.name and not report["pure"]
    assert report["external_libs"] == {} and report["versioned_symbols"] == {}
    assert not report["unsupported_isa"]


@pytest.mark.matrix
def test_wheel_with_pytorch_in_an_empty_environment(wheel, tmp_path):
    python = create_linked_environment(tmp_path / "venv", with_dependencies("torch", set()))
    executable = install(wheel, python)
    (tmp_path / "script.py").write_text(textwrap.dedent(WITH_TORCH))
    run(python, "script.py", cwd=tmp_path, env=without_tools(python) | {"HOME": str(tmp_path)})
    assert "Linear" in run(executable, "show", "model.onnx", cwd=tmp_path, env=without_tools(python))
