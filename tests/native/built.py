"""Installs whence, builds the programs of this folder and of samples/cpp against it outside the tree, and runs them,
once for all test processes. `python -m native.built` only installs and builds; later runs rebuild changed files."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import command

BUILD = command.BINARY.parents[1]
FOLDER = BUILD / "installed"
PROGRAMS, SAMPLE = FOLDER / "modules" / "build", FOLDER / "sample" / "build"
CMAKE = shutil.which("cmake") or str(command.ROOT / "build" / "venv" / "bin" / "cmake")
VARIANTS = ("debug", "release", "fast", "scoped", "stripped")


def run(*arguments, **options) -> str:
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False, timeout=1800, **options)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def build(folder: Path, source: Path) -> None:
    """Copies a project out of the tree, preserving file times, and builds it."""
    shutil.rmtree(folder / "source", ignore_errors=True)
    shutil.copytree(source, folder / "source")
    ccache = shutil.which("ccache")
    environment = {**os.environ, "CCACHE_BASEDIR": str(FOLDER), "CCACHE_NOHASHDIR": "1"}
    run(CMAKE, "-S", folder / "source", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={FOLDER / 'prefix'}",
        *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []))
    run(CMAKE, "--build", folder / "build", "--parallel", "2", env=environment)


def build_all() -> None:
    shutil.rmtree(FOLDER / "prefix", ignore_errors=True)
    run(CMAKE, "--install", BUILD, "--prefix", FOLDER / "prefix")
    build(FOLDER / "modules", command.ROOT / "tests" / "native")
    run("strip", PROGRAMS / "release", "-o", PROGRAMS / "stripped")
    build(FOLDER / "sample", command.ROOT / "samples" / "cpp")


def interpreter() -> Path:
    """Returns the program that runs random programs as live modules; builds it if missing."""
    program = PROGRAMS / "interpreter"
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            build_all()
    return program


def without_whence_variables() -> dict:
    """Returns the environment without whence's variables, so that programs must find the installed command."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WHENCE")}


def run_all(folder: Path) -> None:
    for variant in VARIANTS:
        (folder / variant).mkdir()
        output = run(PROGRAMS / variant, folder / variant, env=without_whence_variables())
        (folder / variant / "output.json").write_text("[" + ",".join(output.splitlines()) + "]")
    for program in ("with_library", "without_layers"):
        (folder / program).mkdir()
        output = run(PROGRAMS / program, folder / program, env=without_whence_variables())
        (folder / program / "output").write_text(output)
    (folder / "exported").mkdir()
    run(SAMPLE / "export_models", folder / "exported", env=without_whence_variables())


def built(tmp_path_factory) -> Path:
    """Returns a folder with the output files of each variant's program, and those of the sample in `exported`."""
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", os.getpid())
    folder = tmp_path_factory.getbasetemp().parent / f"whence-native-{run_id}"
    folder.mkdir(exist_ok=True)
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            build_all()
            run_all(folder)
            (folder / "done").touch()
    return folder


def results(folder: Path, variant: str) -> dict:
    """Returns the JSON objects that a variant's program printed, by case."""
    return {entry["case"]: entry for entry in json.loads((folder / variant / "output.json").read_text())}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    build_all()
