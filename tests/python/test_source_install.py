"""`pip install` of the source: a wheel with the recorder, in a virtual environment that holds nothing but it and PyTorch."""

import json
import os
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest
import torch

import command
from python.environments import clean_environment, linked, with_dependencies

SCRIPT = """
    import torch, whence
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    example = torch.randn(3, 4)
    with whence.record("trace.whence.json") as recording:
        torch.jit.trace(model, example)
    assert recording.complete
    report = whence.export(model, example, "model.onnx", dynamic_axes={"input": {0: "n"}})
    assert report.validation.coverage.percent == 100, report
    print(whence.compare("model.onnx", "model.onnx"))
    """


def run(*arguments, **options) -> str:
    result = subprocess.run([*map(str, arguments)], env=clean_environment(), capture_output=True, text=True, check=False,
                            **options)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory) -> Path:
    """A python with what builds an sdist and looks at a wheel."""
    folder = tmp_path_factory.mktemp("tools") / "venv"
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "scikit-build-core", "auditwheel")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Path:
    """The python of an environment that holds PyTorch, and nothing else."""
    return linked(tmp_path_factory.mktemp("empty") / "venv", with_dependencies("torch", set()))


@pytest.fixture(scope="module")
def wheel(request, tmp_path_factory) -> Path:
    """$WHENCE_SOURCE_WHEEL; one that is built of an sdist of this tree when that says `build`, as `make test-source` does."""
    given = os.environ.get("WHENCE_SOURCE_WHEEL")
    if not given:
        pytest.skip("a wheel compiles all of whence once more: run `make test-source`, or give one as WHENCE_SOURCE_WHEEL")
    if given != "build":
        return Path(given)
    folder = tmp_path_factory.mktemp("wheel")
    run(request.getfixturevalue("tools"), "-c", "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])", folder,
        cwd=command.ROOT)
    sdist = next(folder.glob("*.tar.gz"))
    run(sys.executable, "-m", "pip", "--python", request.getfixturevalue("empty"), "wheel", sdist, "--no-deps", "-w", folder,
        cwd=folder, timeout=1800)
    return next(folder.glob("*.whl"))


def test_the_wheel_needs_nothing_of_the_system_but_pytorch(wheel, tools):
    """auditwheel finds no library outside the wheel that a Linux of that age may lack, but for PyTorch's own."""
    found = json.loads(run(tools, "-m", "auditwheel", "show", "--json", wheel))
    assert "libtorch_cpu.so" in found["external_libs"]
    assert not [name for name in found["external_libs"] if not name.startswith(("libtorch", "libc10"))]
    assert found["sym_tag"].startswith("manylinux")


def test_in_an_empty_environment(wheel, empty, tmp_path):
    run(sys.executable, "-m", "pip", "--python", empty, "install", "--no-deps", "--no-index", wheel)
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    run(empty, "script.py", cwd=tmp_path)
    assert "Linear" in run(empty.parent / "whence", "show", "model.onnx", cwd=tmp_path)


def test_without_pytorch_the_build_says_what_to_do(wheel, tools, tmp_path):
    """From the same sdist, in an environment that lacks it: at once, not after a build."""
    sdist = next(wheel.parent.glob("*.tar.gz"), None)
    if sdist is None:
        pytest.skip("a wheel was given, no sdist")
    result = subprocess.run([str(tools), "-m", "pip", "wheel", str(sdist), "--no-deps", "-w", str(tmp_path)],
                            env=clean_environment() | {"PATH": f"{tools.parent}:/usr/bin:/bin"}, capture_output=True, text=True,
                            check=False, cwd=tmp_path, timeout=300)
    assert result.returncode != 0
    said = " ".join((result.stdout + result.stderr).split())
    assert "no LibTorch: none of these has the package torch" in said and "Install torch (PyTorch 2." in said
