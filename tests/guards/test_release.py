"""Releases without the wheels: sdist, static commands with bills of materials, SDK and checksums, all reproducible."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import command
from static_command import ARCHITECTURE, BUILD, static_command

VERSION = re.search(r"project\(whence VERSION ([0-9.]+)", (command.ROOT / "CMakeLists.txt").read_text())[1]
TIME = 1_700_000_000


def make_release(folder: Path) -> Path:
    (folder / "release").mkdir(parents=True)
    (folder / "sdk" / "include" / "whence").mkdir(parents=True)  # instead of `make install`
    (folder / "sdk" / "include" / "whence" / "annotate.h").write_text("// a header\n")
    config = folder / "sdk" / "lib" / "cmake" / "whence" / "whenceConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_bytes((BUILD / "whenceConfig.cmake").read_bytes())
    subprocess.run([sys.executable, command.ROOT / "tools" / "setup" / "release.py", folder / "release", folder / "sdk",
                    f"{ARCHITECTURE}={BUILD}"], check=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(TIME)})
    return folder / "release"


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    static_command()
    return make_release(tmp_path_factory.mktemp("first"))


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return {entry.name.partition("/")[2]: entry for entry in archive}


def test_the_checksums_match_the_files(release):
    lines = dict(reversed(line.split("  ")) for line in (release / "SHA256SUMS").read_text().splitlines())
    assert set(lines) == {path.name for path in release.iterdir()} - {"SHA256SUMS"} and len(lines) == 4
    assert all(hashlib.sha256((release / name).read_bytes()).hexdigest() == digest for name, digest in lines.items())


@pytest.mark.matrix
def test_a_release_is_reproducible(release, tmp_path):
    second = make_release(tmp_path)
    assert {path.name: path.read_bytes() for path in second.iterdir()} == {path.name: path.read_bytes() for path in release.iterdir()}


def test_the_static_command_runs_and_includes_licences(release, tmp_path):
    path = release / f"whence-{VERSION}-linux-{ARCHITECTURE}.tar.gz"
    files = members(path)
    assert {"bin/whence", "LICENSE", "THIRD-PARTY.txt", "whence.cdx.json"} <= set(files)
    assert files["bin/whence"].mode == 0o755 and all(entry.mtime == TIME and entry.uid == 0 for entry in files.values())
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    top = tmp_path / path.name.removesuffix(".tar.gz")
    assert VERSION in subprocess.run([top / "bin" / "whence", "--version"], capture_output=True, text=True, check=True).stdout
    licences = (top / "THIRD-PARTY.txt").read_text()
    for name in ("protobuf", "boost", "expat", "zlib", "re2", "libc6", "libstdc++", "nlohmann-json3", "robin-map", "xxhash", "onnx"):
        assert name in licences, name


def test_the_sdk_contains_no_local_paths(release):
    config = "lib/cmake/whence/whenceConfig.cmake"
    torch_folder = re.search(r'set\(whence_torch_folder "(/[^"]+)"\)', (BUILD / "whenceConfig.cmake").read_text())[1]
    with tarfile.open(release / f"whence-sdk-{VERSION}-linux-{os.uname().machine}.tar.gz") as archive:
        files = {entry.name.partition("/")[2]: archive.extractfile(entry).read().decode() for entry in archive}
    assert 'set(whence_torch_folder "")' in files[config] and "DEFINED TORCH_DIR" in files[config]
    assert "nlohmann-json3" in files["THIRD-PARTY.txt"]
    assert not [name for name, text in files.items() if torch_folder in text]


VALIDATE = """
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
validator = JsonStrictValidator(SchemaVersion.V1_6)
bill = json.load(sys.stdin)
assert validator.validate_str(json.dumps(bill)) is None, validator.validate_str(json.dumps(bill))
bill["components"][0]["type"] = "thing"
assert validator.validate_str(json.dumps(bill)) is not None
"""


@pytest.mark.matrix
def test_the_bill_is_valid_in_cyclonedx(release):
    """Also checks that CycloneDX's validator refuses an invalid bill."""
    python = command.ROOT / "build" / "tools" / "cyclonedx" / "bin" / "python"
    if not python.exists():
        pytest.skip("no environment of cyclonedx: run tools/setup/tool_environments.sh")
    bill = (release / f"whence-{VERSION}-linux-{ARCHITECTURE}.cdx.json").read_text()
    validation = subprocess.run([python, "-c", VALIDATE], input=bill, capture_output=True, text=True)
    assert validation.returncode == 0, validation.stderr


def test_the_bill_names_linked_libraries(release):
    bill = json.loads((release / f"whence-{VERSION}-linux-{ARCHITECTURE}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == VERSION
    assert bill["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(static_command().read_bytes()).hexdigest()
    components = {component["name"]: component for component in bill["components"]}
    installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", "libprotobuf-dev"], capture_output=True, text=True,
                               check=True).stdout.split()[0]
    assert components["libprotobuf-dev"]["version"] == installed
    assert components["onnx"]["purl"] == "pkg:pypi/onnx@1.23.2"
    assert not [name for name in components if re.search("gtest|torch|python", name)]
    assert {row["ref"] for row in bill["dependencies"]} == {component["bom-ref"] for component in bill["components"]} | {"whence-onnx"}


def test_the_sdist_contains_the_sources_but_no_tests(release):
    files = members(release / f"whence_onnx-{VERSION}.tar.gz")
    assert {"PKG-INFO", "pyproject.toml", "CMakeLists.txt", "python/whence/__init__.py", "tools/setup/onnx.sh",
            "recorder/entry/entry.cpp"} <= set(files)
    assert not [name for name in files if name.startswith(("tests/", "samples/", "build/"))]
    assert files["tools/setup/onnx.sh"].mode == 0o755
