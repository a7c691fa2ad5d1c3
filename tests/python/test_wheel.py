"""The wheel in a virtual environment that holds nothing but it and PyTorch."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest
import torch

import command

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


def with_dependencies(package: str, found: set[str]) -> set[str]:
    """The names of a distribution and of all that it needs, as far as they are installed."""
    name = re.split(r"[^\w.-]", package, maxsplit=1)[0]
    try:
        needs = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return found
    if name.lower() not in found:
        found.add(name.lower())
        for need in needs:
            if "extra ==" not in need:
                with_dependencies(need, found)
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """$WHENCE_WHEEL; one that is built from this tree when that says `build`, as `make wheel` does."""
    given = os.environ.get("WHENCE_WHEEL")
    if not given:
        pytest.skip("a wheel compiles all of whence once more: run `make wheel`, or give one as WHENCE_WHEEL")
    if given != "build":
        return Path(given)
    folder = tmp_path_factory.mktemp("wheel")
    environment = {**os.environ, "TORCH_DIR": str(Path(torch.__file__).parent)}
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(command.ROOT), "--no-deps", "-w", str(folder)],
                   env=environment, check=True, capture_output=True, timeout=1800)
    return next(folder.glob("*.whl"))


def test_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    packages = next((tmp_path / "venv" / "lib").glob("python3*")) / "site-packages"
    for name in with_dependencies("torch", set()):
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            source = Path(file.locate()).parents[len(file.parts) - 2] if len(file.parts) > 1 else Path(file.locate())
            if top != ".." and source.exists() and not (packages / top).exists():
                (packages / top).symlink_to(source)
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index",
                    str(wheel)], check=True, capture_output=True)
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith("WHENCE") and key not in ("PYTHONPATH", "TORCH_DIR")}
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    result = subprocess.run([str(python), "script.py"], cwd=tmp_path, env=clean, capture_output=True, text=True,
                            check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    said = subprocess.run([str(python.parent / "whence"), "show", "model.onnx"], cwd=tmp_path, env=clean,
                          capture_output=True, text=True, check=True).stdout
    assert "Linear" in said
