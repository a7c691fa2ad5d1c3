"""The choice of a recorder for a PyTorch version, and `whence recorder build` with small sources."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import command
import portable
import whence
from static_command import ARCHITECTURE, BUILD, static_command
from whence.command import recorder_library

RUNNING = torch.__version__.partition("+")[0]
MINOR = ".".join(RUNNING.split(".")[:2])

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "whence-onnx"
version = "0"
"""
# Prints progress like a build of whence, and writes a wheel with the command and its libraries.
BACKEND = """
import os, sys, zipfile
def build_wheel(folder, settings=None, metadata=None):
    for step in range(1, 31):
        print(f"[{step}/30] Building CXX object")
    name = "whence_onnx-0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("whence/bin/whence", "#!/bin/sh\\necho built for $TORCH_DIR\\n")
        wheel.writestr("whence/lib/libwhence_recorder.so", os.environ["TORCH_DIR"])
        wheel.writestr("whence/other.py", "")
        wheel.writestr("whence_onnx-0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: whence-onnx\\nVersion: 0\\n")
        wheel.writestr("whence_onnx-0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("whence_onnx-0.dist-info/RECORD", "")
    return name
"""


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    """Returns a folder that contains a command without a recorder, and an empty cache."""
    (tmp_path / "alone" / "bin").mkdir(parents=True)
    shutil.copy(static_command(), tmp_path / "alone" / "bin" / "whence")
    monkeypatch.setenv("WHENCE", str(tmp_path / "alone" / "bin" / "whence"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WHENCE_RECORDER", raising=False)
    return tmp_path


def source_of(folder: Path, backend: str) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(backend)
    return folder


def build_recorder(source: Path, code: int = 0) -> subprocess.CompletedProcess:
    result = subprocess.run([sys.executable, "-m", "whence", "recorder", "build", "--source", source, "--json"],
                            capture_output=True, text=True, env={**os.environ, "PIP_NO_BUILD_ISOLATION": "0"})
    assert result.returncode == code, result.stdout + result.stderr
    return result


def test_recorder_built_for_this_pytorch_is_preferred(root):
    assert recorder_library.fitting() is None
    result = build_recorder(source_of(root / "source", BACKEND))
    cache = root / "cache" / "whence" / f"recorder-{whence.__version__}"
    library = cache / f"torch-{RUNNING}" / "lib" / recorder_library.LIBRARY
    assert json.loads(result.stdout) == {"torch": RUNNING, "library": str(library)}
    assert library.read_text() == str(Path(torch.__file__).parent)
    assert "compiling the recorder: 30 of 30" in result.stderr
    assert recorder_library.fitting() == library and recorder_library.for_command() == {"WHENCE_RECORDER": str(library)}
    assert os.access(library.parents[1] / "bin" / "whence", os.X_OK) and not list(library.parents[2].glob(".whence-*"))


def failing_source(folder: Path, output: str) -> Path:
    """Writes a source whose build prints `output` and fails."""
    return source_of(folder, f"import sys\ndef build_wheel(*_, **__):\n    print({output!r})\n    sys.exit(1)\n")


# Output of CMake and compilers, which follows the line with the options of a build.
SUMMARY = "-- whence 0.1.0: recorder ON, tests OFF, warnings are errors OFF, ccache OFF\n"
PACKAGES = """CMake Error at tools/cmake/packages.cmake:53 (message):
  packages that whence is built with are missing; on Debian and Ubuntu run as
  root: apt-get install -y libboost-program-options-dev
  nlohmann-json3-dev g++
Call Stack (most recent call first):
  CMakeLists.txt:68 (include)
"""
COMPILER = """CMake Error at tools/cmake/compiler.cmake:10 (message):
  there is no C++ compiler; on Debian and Ubuntu run as root: apt-get install -y
  g++ ninja-build protobuf-compiler
Call Stack (most recent call first):
"""
WRONG_COMPILER = """CMake Error at /cmake/Modules/CMakeDetermineCXXCompiler.cmake:47 (message):
  Could not find the compiler specified in the environment variable CXX:

  g++-11.

CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage
"""
OLD = """CMake Error at tools/cmake/packages.cmake:8 (message):
  whence needs GCC 12 or newer; /usr/bin/c++ is 11.4.0
Call Stack (most recent call first):
"""


@pytest.mark.parametrize("output, words", [
    (PACKAGES, "try: as root: apt-get install -y libboost-program-options-dev nlohmann-json3-dev g++\n"),
    (COMPILER, "there is no C++ compiler; try: as root: apt-get install -y g++ ninja-build protobuf-compiler\n"),
    (WRONG_COMPILER, "compiled: Could not find the compiler specified in the environment variable CXX: g++-11.; try: the whole output is in "),
    (OLD, "compiled: whence needs GCC 12 or newer; /usr/bin/c++ is 11.4.0; try: the whole output is in "),
    ("FAILED: x.o\ng++: fatal error: Killed signal terminated program cc1plus\n", "compiled: Killed signal terminated program cc1plus; try"),
    ("/a/b.cpp:3:1: error: expected ';'\nerror: subprocess-exited-with-error\n", "compiled: expected ';'; try: the whole output is in "),
])
def test_build_failure_states_its_cause_and_a_remedy(root, output, words):
    error = build_recorder(failing_source(root / "source", SUMMARY + output), code=4).stderr
    assert error.startswith("E0307") and words in error
    assert recorder_library.fitting() is None


@pytest.mark.matrix
def test_unknown_build_failure_keeps_the_complete_output(root):
    error = build_recorder(failing_source(root / "source", SUMMARY + "error: no such thing"), code=4).stderr
    log = root / "cache" / "whence" / f"recorder-{whence.__version__}" / "build.log"
    assert "E0307" in error and str(log) in error and SUMMARY in log.read_text()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("wheels")


@functools.cache
def recorder_wheel(folder: Path, version: str) -> Path:
    """Builds a wheel with this build's recorder, labelled for a version of PyTorch."""
    build = subprocess.run([BUILD / "venv" / "bin" / "cmake", "--build", BUILD, "--target", "whence_portable"],
                           capture_output=True, text=True)
    assert build.returncode == 0, build.stdout[-2000:]
    wheel = subprocess.run([sys.executable, command.ROOT / "tools" / "setup" / "wheel.py", "--recorder", BUILD / "portable" / "whence",
                            ARCHITECTURE, folder, f"{version}={BUILD / 'lib'}"], capture_output=True, text=True, check=True)
    return Path(wheel.stdout.strip())


def test_recorder_package_is_used_for_its_minor_version_of_pytorch(root, wheels, monkeypatch):
    wheel = recorder_wheel(wheels, RUNNING)
    assert wheel.name == f"whence_onnx_recorder-{whence.__version__}-py3-none-manylinux_2_34_{ARCHITECTURE}.whl"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(root / "site")
        assert f"Requires-Dist: whence-onnx=={whence.__version__}" in file.read(
            f"whence_onnx_recorder-{whence.__version__}.dist-info/METADATA").decode()
    (root / "site" / "whence_recorder" / "bin" / "whence").chmod(0o755)
    monkeypatch.syspath_prepend(str(root / "site"))
    assert recorder_library.fitting() == root / "site" / "whence_recorder" / f"torch-{MINOR}" / recorder_library.LIBRARY
    model, x = portable.Block().eval(), torch.randn(3, 6)
    torch.jit.trace(model, x).save(str(root / "m.pt"))
    from whence.command.process import run_json
    report = run_json("export", root / "m.pt", "-o", root / "m.onnx", "--input", "x=float32[3,6]")
    assert report["nodes"] > 0 and (root / "m.onnx").exists()
    monkeypatch.setattr(recorder_library, "torch_version", lambda: "2.99.1")
    assert recorder_library.fitting() is None
    assert recorder_library.missing().diagnostics[0].remedy == "whence recorder build"


def with_package(folder: Path, *versions: str) -> dict[str, str]:
    """Returns an environment in which whence-onnx-recorder has recorders for these minor versions of PyTorch."""
    for version in versions:
        (folder / "site" / "whence_recorder" / f"torch-{version}").mkdir(parents=True)
        (folder / "site" / "whence_recorder" / f"torch-{version}" / recorder_library.LIBRARY).touch()
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])}


def test_package_without_this_pytorch_is_not_recommended_again(root):
    torch.jit.trace(portable.Block().eval(), torch.randn(3, 6)).save(str(root / "m.pt"))
    environment = with_package(root, "2.98", "2.101")

    def output_of(*words: object) -> str:
        result = subprocess.run([sys.executable, "-m", "whence", *words], capture_output=True, text=True,
                                env=environment)
        return result.stdout + result.stderr

    words = output_of("export", root / "m.pt", "-o", root / "m.onnx")
    assert f"has no recorder for PyTorch {RUNNING}, only for 2.101, 2.98; try: whence recorder build\n" in words
    report = json.loads(output_of("doctor", "--json"))
    (use,) = [use for use in report["uses"] if use["missing"] == ["recorder"]]
    assert report["recorder"]["state"] == "not installed" and use["install"] == f"{sys.executable} -m whence recorder build"
    text = output_of("doctor")
    assert f"recorder    none fits PyTorch {torch.__version__}\n" in text and "install whence-onnx-recorder" not in text


def test_warning_about_a_fixed_axis_suggests_the_recorder(root):
    """torch.export fixes the length of an LSTM's sequence."""
    with pytest.warns(whence.WhenceWarning, match="the model fixes axis 0 of 'input'.*pip install whence-onnx-recorder$"):
        whence.export(torch.nn.LSTM(5, 7).eval(), torch.randn(6, 2, 5), root / "m.onnx",
                      dynamic_axes={"input": {0: "time"}})


def test_doctor_queries_the_recorder_of_another_python(root):
    """The Python that runs doctor has a different PyTorch and recorder."""
    other = root / "python"
    other.write_text(f'#!/bin/sh\nPYTHONPATH={root / "site"}:$PYTHONPATH exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    with_package(root, "2.98")
    result = subprocess.run([sys.executable, "-m", "whence", "doctor", "--python", other, "--json"],
                            capture_output=True, text=True)
    recorder = json.loads(result.stdout)["recorder"]
    assert recorder["state"] == "not installed" and "2.98" in recorder["why"]


@pytest.mark.parametrize("version, packaged, machine, libc, remedy", [
    (None, [], "x86_64", "glibc", "pip install torch whence-onnx-recorder"),
    (None, [], "aarch64", "glibc", "pip install torch"),
    (None, ["2.15", "2.9"], "x86_64", "glibc", "pip install torch==2.15.*"),
    ("2.13.0", [], "x86_64", "glibc", "pip install whence-onnx-recorder"),
    ("2.13.0", [], "x86_64", "", "whence recorder build"),
    ("2.13.0", [], "aarch64", "glibc", "whence recorder build"),
    ("2.13.0", ["2.9"], "x86_64", "glibc", "whence recorder build"),
])
def test_suggested_command(root, monkeypatch, version, packaged, machine, libc, remedy):
    with_package(root, *packaged)
    monkeypatch.syspath_prepend(str(root / "site"))
    monkeypatch.setattr(recorder_library, "torch_version", lambda: version)
    monkeypatch.setattr(recorder_library.platform, "machine", lambda: machine)
    monkeypatch.setattr(recorder_library.platform, "libc_ver", lambda: (libc, "2.36"))
    assert recorder_library.why_missing()[1] == recorder_library.missing().diagnostics[0].remedy == remedy


def test_libraries_in_the_wheel_match_its_platform_tag(root, wheels):
    """They need at most GLIBC_2.34 and GLIBCXX_3.4.29, and only libraries of LibTorch and the compiler."""
    with zipfile.ZipFile(recorder_wheel(wheels, RUNNING)) as file:
        names = [name for name in file.namelist() if name.endswith((".so", "/bin/whence"))]
        file.extractall(root / "site")
    assert len(names) == 3
    for name in names:
        text = subprocess.run(["readelf", "--wide", "--dynamic", "--version-info", root / "site" / name], capture_output=True,
                              text=True, check=True).stdout
        versions = {(family, tuple(map(int, number.split(".")))) for family, number in
                    re.findall(r"Name: (GLIBC|GLIBCXX)_([0-9.]+)", text)}
        assert versions
        assert max((number for family, number in versions if family == "GLIBC"), default=()) <= (2, 34), name
        assert max((number for family, number in versions if family == "GLIBCXX"), default=()) <= (3, 4, 29), name
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
        assert needed <= {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libz.so.1",
                          "libtorch_cpu.so", "libc10.so"}, name


def test_invalid_archives_are_rejected_without_a_recorder(root):
    torch.save(torch.nn.Linear(2, 2).state_dict(), root / "weights.pt")
    torch.jit.trace(portable.Block().eval(), torch.randn(3, 6)).save(str(root / "m.pt"))
    (root / "cut.pt").write_bytes((root / "m.pt").read_bytes()[:-200])
    (root / "text.pt").write_text("no archive")
    for name, code, words in (("weights", "E0203", "torch.save writes weights only"), ("cut", "E0202", "cut off"),
                              ("text", "E0203", "does not begin as a zip file"), ("m", "E0307", "no recorder fits")):
        result = subprocess.run([root / "alone" / "bin" / "whence", "export", root / f"{name}.pt", "-o",
                                 root / "m.onnx"], capture_output=True, text=True)
        assert code in result.stderr and not (root / "m.onnx").exists(), result.stderr
        if name != "m":
            assert words in result.stderr and f"{name}.pt" in result.stderr


def test_invalid_whence_recorder_variable_is_an_error(root, monkeypatch):
    torch.jit.trace(portable.Block().eval(), torch.randn(3, 6)).save(str(root / "m.pt"))
    monkeypatch.setenv("WHENCE_RECORDER", "/etc/passwd")
    result = subprocess.run([root / "alone" / "bin" / "whence", "export", root / "m.pt", "-o", root / "m.onnx"],
                            capture_output=True, text=True)
    assert result.returncode == 4 and "E0307" in result.stderr and "libwhence_recorder.so" in result.stderr
