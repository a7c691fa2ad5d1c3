"""``whence recorder build``: compiles the recorder for the PyTorch of this Python into the user's cache.

pip builds a wheel from the source distribution. Only its command and its libraries, which belong together, are kept.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..base.version import package_version
from ..command import recorder_library
from ..command.arguments import Parser, show_progress
from ..errors import WhenceError, error

_PARTS = ("whence/bin/", "whence/lib/")
_STEP = re.compile(r"\[(\d+)/(\d+)\]")
# CMake's message about missing packages and its remedy, from tools/cmake/compiler.cmake and packages.cmake.
_MISSING = re.compile(r"(packages that whence is built with are missing|there is no C\+\+ compiler);"
                      r".*?(apt-get install -y(?: [a-z0-9][a-z0-9.+:-]*)+)")
# The message of a CMake or compiler error, without its location.
_REASON = re.compile(r"CMake Error at [^\n]*\n(.+?)(?=Call Stack|CMake Error|-- )|\berror: ([^\n]+)", re.DOTALL)


def parser() -> Parser:
    options = Parser(
        prog="whence recorder", description="Compiles the recorder for the PyTorch of this Python, if "
        "whence-onnx-recorder does not have it. Takes about ten minutes, once for each version of PyTorch. Needs a C++ "
        "compiler (GCC 12 or newer) and the Debian packages in docs/install.md; checks for them first.",
        allow_abbrev=False)
    options.add_argument("what", choices=("build",), help="compile it")
    options.add_argument("--source", metavar="FOLDER|SDIST", help="whence's source (by default this version, from pip)")
    options.add_argument("--json", action="store_true", help="print PyTorch's version and the library's path as JSON")
    return options


def main(arguments: Sequence[str]) -> int:
    args = parser().parse_args(arguments)
    library = build(args.source)
    if args.json:
        print(json.dumps({"torch": recorder_library.torch_version(), "library": str(library)}, indent=2))
    else:
        print(f"{library}: the recorder for PyTorch {recorder_library.torch_version()}")
    return 0


def build(source: str | None = None) -> Path:
    """Builds the library and returns its path. Raises WhenceError E0307 with the missing requirements."""
    if recorder_library.torch_version() is None:
        raise error("E0307", "needs_libtorch", "PyTorch is not installed", "pip install torch")
    folder = recorder_library.built_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".whence-") as draft:
        _extract_parts(_wheel(source, Path(draft)), Path(draft) / "recorder")
        if folder.exists():
            folder.rename(Path(draft) / "old")
        (Path(draft) / "recorder").rename(folder)
    return folder / "lib" / recorder_library.LIBRARY


def _wheel(source: str | None, folder: Path) -> Path:
    words = [source] if source else ["--no-binary", "whence-onnx", f"whence-onnx=={package_version()}"]
    # Builds outside the source, where another build may be running.
    words += ["--config-settings", f"build-dir={folder / 'build'}"]
    torch = importlib.util.find_spec("torch")
    folders = list(torch.submodule_search_locations or []) if torch else []
    process = subprocess.Popen(
        [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--disable-pip-version-check", "--wheel-dir", folder, *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "TORCH_DIR": folders[0] if folders else ""})
    assert process.stdout is not None
    lines = list(_with_progress(process.stdout))
    if process.wait() == 0:
        return next(folder.glob("whence_onnx-*.whl"))
    raise _failure(lines)


def _with_progress(output: Iterator[str]) -> Iterator[str]:
    """Yields the lines of the build and shows its progress: continuously on a terminal, else every 10 %."""
    shown = -1
    for line in output:
        yield line
        if step := _STEP.search(line):
            done, count = map(int, step.groups())
            if sys.stderr.isatty():
                show_progress(done, count, "files compiled")
            elif done * 10 // count > shown:
                shown = done * 10 // count
                print(f"compiling the recorder: {done} of {count}", file=sys.stderr, flush=True)


def _failure(lines: list[str]) -> WhenceError:
    output = " ".join(" ".join(lines).split())
    if missing := _MISSING.search(output):
        return error("E0307", "needs_libtorch", f"the recorder cannot be compiled: {missing[1]}",
                     f"as root: {missing[2]}")
    if "No module named pip" in output:
        return error("E0307", "needs_libtorch", f"{sys.executable} has no pip, which builds the recorder",
                     f"{sys.executable} -m ensurepip")
    log = recorder_library.built_folder().parent / "build.log"
    log.write_text("".join(lines))
    match = _REASON.search("".join(lines))
    reason = next(filter(None, match.groups())) if match else lines[-1] if lines else "no output"
    return error("E0307", "needs_libtorch", f"the recorder could not be compiled: {' '.join(reason.split())}",
                 f"the whole output is in {log}")


def _extract_parts(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        for entry in file.infolist():
            if entry.filename.startswith(_PARTS):
                target = folder / entry.filename.removeprefix("whence/")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read(entry))
                target.chmod(0o755)
    if not (folder / "lib" / recorder_library.LIBRARY).exists():
        raise error("E0307", "needs_libtorch", "the source was built without the recorder", "build it with WHENCE_RECORDER=ON")
