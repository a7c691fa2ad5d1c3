"""Tests that the pages for the first five minutes show only code and output of their scripts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import command

# Installed in addition to the project's environment. ultralytics runs without OpenCV, which it needs only for drawing,
# and torchvision without its compiled part, which is available only for CUDA.
PACKAGES = ["timm==1.0.31", "torchvision==0.28.0", "pillow==13.0.0", "ultralytics==8.4.190", "psutil==7.2.2"]
RUN = """
import os, runpy, sys, types
from unittest import mock
sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")
sys.modules["cv2"] = mock.MagicMock(__spec__=None, __version__="4.10")
sys.path[0] = os.path.dirname(sys.argv[1])
del sys.argv[0]
if "WITHOUT_RECORDER" in os.environ:
    from whence.command import recorder_library
    recorder_library.fitting = lambda: None
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PAGES = {"with_transformers": "with-transformers.md", "with_timm": "with-timm.md", "with_ultralytics": "with-ultralytics.md",
         "own_file": "with-your-own-file.md"}


@pytest.fixture(scope="module")
def packages() -> Path:
    """Returns a folder with the packages, which are installed once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whence"
    folder = cache / "_".join(["first", *(name.split("==")[1] for name in PACKAGES)])
    if not folder.exists():
        partial = cache / f"{folder.name}.{os.getpid()}"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", partial]
        result = subprocess.run([*pip, *PACKAGES], capture_output=True, text=True, timeout=300, check=False)
        if result.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            pytest.skip(f"pip could not fetch timm and ultralytics: {result.stderr.strip().splitlines()[-1]}")
        partial.rename(folder)
    return folder


def blocks(page: str, kind: str) -> list[str]:
    text = (command.ROOT / "docs" / page).read_text()
    return [line for block in re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL) for line in block.splitlines() if line.strip()]


def require_lines(expected: list[str], printed: list[str]) -> None:
    """Asserts that the expected lines occur in this order. Other lines may precede a command or replace `...`."""
    at, free = 0, True
    for line in expected:
        if line == "...":
            free = True
            continue
        free |= line.startswith("$ ")
        rest = printed[at:] if free else printed[at:at + 1]
        assert line in rest, f"{line}\ndoes not follow in the output:\n" + "\n".join(printed[at:at + 8])
        at, free = at + rest.index(line) + 1, False


@pytest.mark.parametrize("script", PAGES)
def test_a_page_shows_its_scripts_output(script, request, tmp_path):
    path = command.ROOT / "samples" / "first" / f"{script}.py"
    needs_more = script in ("with_timm", "with_ultralytics")
    folders = [str(command.ROOT / "python"), *([str(request.getfixturevalue("packages"))] if needs_more else [])]
    installed = re.search(r"^pip install (.*)$", (command.ROOT / "docs" / PAGES[script]).read_text(), re.MULTILINE)[1].split()
    recorder = {} if "whence-onnx-recorder" in installed else {"WITHOUT_RECORDER": "1"}
    tools = [os.path.dirname(sys.executable), os.environ["PATH"]]
    done = subprocess.run([sys.executable, "-c", RUN, path, tmp_path / "out"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, **recorder, "PYTHONPATH": os.pathsep.join(folders), "PATH": os.pathsep.join(tools),
                               "WHENCE": str(command.BINARY), "YOLO_CONFIG_DIR": str(tmp_path), "YOLO_AUTOINSTALL": "false"})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    shown, code = blocks(PAGES[script], "console"), blocks(PAGES[script], "python")
    assert len(shown) > 8 and (code or script == "own_file")
    require_lines(shown, [line.rstrip() for line in done.stdout.splitlines() if line.strip()])
    lines = {line.strip() for line in path.read_text().splitlines()}
    assert not [line for line in code if line.strip() not in lines]


def test_wrong_lines_are_found():
    printed = ["$ a", "one", "two", "three", "$ b", "four"]
    require_lines(["$ a", "one", "...", "three", "$ b"], printed)
    for wrong in (["$ a", "two"], ["$ a", "one", "...", "four", "three"], ["$ c"], ["$ a", "one", "...", "5"]):
        with pytest.raises(AssertionError):
            require_lines(wrong, printed)
