"""A wheel built from the source by pip contains the recorder and works in an environment with only PyTorch."""

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
from python.environments import clean_environment, create_linked_environment, with_dependencies

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
    """Returns a Python that can build an sdist and inspect a wheel."""
    folder = tmp_path_factory.mktemp("tools") / "venv"
    venv.create(folder, with_pip=True)
    run(folder / "bin" / "python", "-m", "pip", "install", "-q", "scikit-build-core", "auditwheel")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def torch_only(tmp_path_factory) -> Path:
    """Returns the Python of an environment that contains only PyTorch."""
    return create_linked_environment(tmp_path_factory.mktemp("empty") / "venv", with_dependencies("torch", set()))


@pytest.fixture(scope="module")
def wheel(request, tmp_path_factory) -> Path:
    """Returns $WHENCE_SOURCE_WHEEL, or, if that is `build`, a wheel built from an sdist of this tree."""
    wheel_path = os.environ.get("WHENCE_SOURCE_WHEEL")
    if not wheel_path:
        pytest.skip("a wheel compiles all of whence: run `make test-source` or set WHENCE_SOURCE_WHEEL")
    if wheel_path != "build":
        return Path(wheel_path)
    folder = tmp_path_factory.mktemp("wheel")
    run(request.getfixturevalue("tools"), "-c", "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])", folder,
        cwd=command.ROOT)
    sdist = next(folder.glob("*.tar.gz"))
    python = request.getfixturevalue("torch_only")
    run(sys.executable, "-m", "pip", "--python", python, "wheel", sdist, "--no-deps", "-w", folder, cwd=folder,
        timeout=1800)
    return next(folder.glob("*.whl"))


def test_wheel_needs_only_pytorch_and_system_libraries(wheel, tools):
    """auditwheel finds no external libraries except PyTorch's."""
    report = json.loads(run(tools, "-m", "auditwheel", "show", "--json", wheel))
    assert "libtorch_cpu.so" in report["external_libs"]
    assert not [name for name in report["external_libs"] if not name.startswith(("libtorch", "libc10"))]
    assert report["sym_tag"].startswith("manylinux")


def test_wheel_works_in_an_environment_with_only_pytorch(wheel, torch_only, tmp_path):
    run(sys.executable, "-m", "pip", "--python", torch_only, "install", "--no-deps", "--no-index", wheel)
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    run(torch_only, "script.py", cwd=tmp_path)
    assert "Linear" in run(torch_only.parent / "whence", "show", "model.onnx", cwd=tmp_path)


def test_build_without_pytorch_states_the_fix(wheel, tools, tmp_path):
    """Builds the sdist in an environment without PyTorch; the error is reported before anything is compiled."""
    sdist = next(wheel.parent.glob("*.tar.gz"), None)
    if sdist is None:
        pytest.skip("a wheel without its sdist")
    result = subprocess.run([str(tools), "-m", "pip", "wheel", str(sdist), "--no-deps", "-w", str(tmp_path)],
                            env=clean_environment() | {"PATH": f"{tools.parent}:/usr/bin:/bin"}, capture_output=True, text=True,
                            check=False, cwd=tmp_path, timeout=300)
    assert result.returncode != 0
    output = " ".join((result.stdout + result.stderr).split())
    assert "no LibTorch: none of these has the package torch" in output and "Install torch (PyTorch 2." in output
