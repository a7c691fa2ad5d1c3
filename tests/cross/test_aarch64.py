"""The command and the wheel for aarch64, which `make wheel-aarch64` compiles on this machine, under qemu: what it does in an
empty root, byte for byte, and the tests of the command line with it in the command's place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import command
import portable
from static_command import in_empty_root, make_wheel

pytestmark = pytest.mark.matrix

BINARY = command.ROOT / "build" / "aarch64" / "static" / "whence"
QEMU = shutil.which("qemu-aarch64-static")
WRAPPER = """#!/bin/sh
export WHENCE_RECORDER=${{WHENCE_RECORDER:-{recorder}}}
exec {qemu} {binary} "$@"
"""
# annotate, validate, show, export of .pt2, functions, profile
COMMAND_LINE = ("validate/test_checks.py", "validate/test_coverage.py", "validate/test_show.py", "validate/test_explain.py",
                "validate/test_diff.py", "views/test_profile.py", "functions/test_functions.py",
                "functions/test_extract.py", "functions/test_select.py", "match/test_annotate_foreign.py",
                "match/test_names_alone.py", "match/test_weights_alone.py", "export/test_exported_programs.py")


@pytest.fixture(scope="module")
def binary() -> Path:
    if not BINARY.exists() or QEMU is None:
        pytest.skip("no command for aarch64 with qemu: make wheel-aarch64")
    return BINARY


def run(*arguments, **options) -> str:
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-3000:]
    return result.stdout


def test_it_is_for_that_processor_and_asks_for_no_library(binary):
    headers = run("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", binary)
    assert "AArch64" in headers and "INTERP" not in headers and "NEEDED" not in headers


def test_in_an_empty_root_it_writes_what_the_dynamic_command_writes_here(binary, tmp_path):
    inside, outside = tmp_path / "root", tmp_path / "folder"
    inside.mkdir(), outside.mkdir()
    shutil.copy(binary, inside / "whence")
    shutil.copy(QEMU, inside / "qemu")

    def in_root(*arguments):
        result = in_empty_root(inside, *arguments, program=("/qemu", "/whence"))
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def here(*arguments):
        return run(command.BINARY, *arguments, cwd=outside)

    assert portable.check(in_root, inside) == portable.check(here, outside)


@pytest.mark.parametrize("platform", ["musllinux_1_1", "musllinux_1_2", "manylinux_2_17", "manylinux2014", "manylinux_2_28"])
def test_pip_chooses_the_wheel_of_that_processor(binary, platform, tmp_path):
    mine, other = make_wheel(tmp_path / "wheels", binary, "aarch64"), make_wheel(tmp_path / "wheels", command.BINARY, "x86_64")
    assert mine.stat().st_size < 15_000_000 and mine != other
    run(sys.executable, "-m", "pip", "download", "-q", "--no-index", "--no-deps", "--only-binary", ":all:", "--find-links",
        mine.parent, "--platform", f"{platform}_aarch64", "--dest", tmp_path / "chosen", "whence-onnx")
    assert [path.name for path in (tmp_path / "chosen").iterdir()] == [mine.name]


def test_the_tests_of_the_command_line(binary, tmp_path):
    """Called through a wrapper. TorchScript archives are handed to this machine's command."""
    wrapper = tmp_path / "bin" / "whence"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER.format(recorder=command.ROOT / "build" / "lib" / "libwhence_recorder.so", qemu=QEMU, binary=binary))
    wrapper.chmod(0o755)
    tests = [command.ROOT / "tests" / name for name in COMMAND_LINE]
    said = run(sys.executable, "-m", "pytest", *tests, "-q", "-n", "auto", "--dist", "loadgroup", cwd=command.ROOT,
               env={**os.environ, "WHENCE": str(wrapper)}, timeout=3000)
    assert " passed" in said and "failed" not in said
