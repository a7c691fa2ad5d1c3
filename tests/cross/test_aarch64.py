"""Runs the aarch64 command of `make wheel-aarch64` under qemu: in an empty root it gives the output of the dynamic
command, pip chooses its wheel, and it passes the tests of the command line."""

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
                "match/test_names_only.py", "match/test_weights_only.py", "export/test_exported_programs.py")


@pytest.fixture(scope="module")
def binary() -> Path:
    if not BINARY.exists() or QEMU is None:
        pytest.skip("no command for aarch64 with qemu: make wheel-aarch64")
    return BINARY


def run(*arguments, **options) -> str:
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-3000:]
    return result.stdout


def test_the_binary_is_static_and_for_aarch64(binary):
    headers = run("readelf", "--wide", "--file-header", "--program-headers", "--dynamic", binary)
    assert "AArch64" in headers and "INTERP" not in headers and "NEEDED" not in headers


def test_output_in_an_empty_root_equals_the_dynamic_commands(binary, tmp_path):
    inside, outside = tmp_path / "root", tmp_path / "folder"
    inside.mkdir(), outside.mkdir()
    shutil.copy(binary, inside / "whence")
    shutil.copy(QEMU, inside / "qemu")

    def run_in_root(*arguments):
        result = in_empty_root(inside, *arguments, program=("/qemu", "/whence"))
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def run_here(*arguments):
        return run(command.BINARY, *arguments, cwd=outside)

    assert portable.check(run_in_root, inside) == portable.check(run_here, outside)


@pytest.mark.parametrize("platform", ["musllinux_1_1", "musllinux_1_2", "manylinux_2_17", "manylinux2014", "manylinux_2_28"])
def test_pip_chooses_the_aarch64_wheel(binary, platform, tmp_path):
    arm, x86 = make_wheel(tmp_path / "wheels", binary, "aarch64"), make_wheel(tmp_path / "wheels", command.BINARY, "x86_64")
    assert arm.stat().st_size < 15_000_000 and arm != x86
    run(sys.executable, "-m", "pip", "download", "-q", "--no-index", "--no-deps", "--only-binary", ":all:", "--find-links",
        arm.parent, "--platform", f"{platform}_aarch64", "--dest", tmp_path / "chosen", "whence-onnx")
    assert [path.name for path in (tmp_path / "chosen").iterdir()] == [arm.name]


def test_the_command_line_tests_pass(binary, tmp_path):
    """A wrapper runs the command with this machine's recorder."""
    wrapper = tmp_path / "bin" / "whence"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER.format(recorder=command.ROOT / "build" / "lib" / "libwhence_recorder.so", qemu=QEMU, binary=binary))
    wrapper.chmod(0o755)
    tests = [command.ROOT / "tests" / name for name in COMMAND_LINE]
    output = run(sys.executable, "-m", "pytest", *tests, "-q", "-n", "auto", "--dist", "loadgroup", cwd=command.ROOT,
               env={**os.environ, "WHENCE": str(wrapper)}, timeout=3000)
    assert " passed" in output and "failed" not in output
