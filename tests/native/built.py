"""Installs whence, builds the programs of this folder and samples/cpp against it outside the tree, and runs them: once,
however many processes the tests are spread over."""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import command

BUILD = command.BINARY.parents[1]
CMAKE = shutil.which("cmake") or str(command.ROOT / "build" / "venv" / "bin" / "cmake")
VARIANTS = ("debug", "release", "fast", "scoped", "stripped")


def run(*arguments, **options) -> str:
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False, timeout=1800, **options)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def build(folder: Path, source: Path, prefix: Path) -> Path:
    """Copies a project out of the tree and builds it. What is compiled is kept for other runs, whose folders have other
    names: paths are taken from the folder that holds the prefix, too."""
    shutil.copytree(source, folder / "source")
    ccache = shutil.which("ccache")
    cached = {**os.environ, "CCACHE_BASEDIR": str(folder.parent), "CCACHE_NOHASHDIR": "1"}
    run(CMAKE, "-S", folder / "source", "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        *([f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if ccache else []))
    run(CMAKE, "--build", folder / "build", "--parallel", "2", env=cached)
    return folder / "build"


def without_whence_variables() -> dict:
    """The installed command is to be found without help."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WHENCE")}


def make(folder: Path):
    prefix = folder / "prefix"
    run(CMAKE, "--install", BUILD, "--prefix", prefix)
    programs = build(folder / "modules", command.ROOT / "tests" / "native", prefix)
    run("strip", programs / "release", "-o", programs / "stripped")
    for variant in VARIANTS:
        (folder / variant).mkdir()
        output = run(programs / variant, folder / variant, env=without_whence_variables())
        (folder / variant / "output.json").write_text("[" + ",".join(output.splitlines()) + "]")
    for program in ("with_library", "without_layers"):
        (folder / program).mkdir()
        (folder / program / "output").write_text(run(programs / program, folder / program, env=without_whence_variables()))
    sample = build(folder / "sample", command.ROOT / "samples" / "cpp", prefix)
    (folder / "exported").mkdir()
    run(sample / "export_models", folder / "exported", env=without_whence_variables())


def built(tmp_path_factory) -> Path:
    """A folder for each variant with what its program wrote, `exported` with what the sample did."""
    folder = tmp_path_factory.getbasetemp().parent / f"whence-native-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            make(folder)
            (folder / "done").touch()
    return folder


def results(folder: Path, variant: str) -> dict:
    """What the program of a variant printed, by case."""
    return {entry["case"]: entry for entry in json.loads((folder / variant / "output.json").read_text())}
