"""Tests that whence reports its own defects as E0901 and ends with the signal or with exit code 70, and that it reports
a crash of LibTorch or a shrinking input file as other errors."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile

import pytest

import command
from cli.test_errors import refused

SIGNALS = [signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGBUS]


@pytest.fixture(scope="module")
def preloaded(tmp_path_factory):
    library = tmp_path_factory.mktemp("preloaded") / "preloaded.so"
    source = command.ROOT / "tests" / "cli" / "preloaded.cpp"
    subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def run(preloaded, fault, *arguments) -> subprocess.CompletedProcess:
    """Runs the command as a separate process with an injected fault."""
    environment = {**os.environ, "LD_PRELOAD": str(preloaded), "WHENCE_TEST_FAULT": str(fault)}
    return subprocess.run([str(command.BINARY), *map(str, arguments)], capture_output=True, text=True,
                          env=environment, check=False)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_is_a_defect_and_ends_the_process(preloaded, number, small_export, tmp_path):
    target = tmp_path / "out.onnx"
    target.write_text("as it was")
    result = run(preloaded, int(number), "strip", small_export[0], "-o", target)
    assert result.returncode == -number  # 128 + n in a shell
    lines = result.stderr.split("\n")
    assert [line for line in lines if line] == [next(line for line in lines if line.startswith("E0901"))]
    assert "internal" in result.stderr and "please report this" in result.stderr
    assert result.stdout == ""
    assert target.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["out.onnx"]  # no temporary file


@pytest.fixture(params=[signal.SIGHUP, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def number(request):
    """A signal that ends a process, with its default action: under nohup, children would inherit SIG_IGN."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_stopped_command_leaves_no_temporary_file(preloaded, number, small_export, tmp_path):
    """The signal arrives during the rename and takes effect after it. test_faults.py tests other moments."""
    target, expected = tmp_path / "out.onnx", tmp_path / "expected.onnx"
    command.run("strip", small_export[0], "-o", expected)
    target.write_text("as it was")
    result = run(preloaded, int(number), "strip", small_export[0], "-o", target)
    assert result.returncode == -number and result.stderr == result.stdout == ""
    assert target.read_bytes() == expected.read_bytes() and sorted(os.listdir(tmp_path)) == ["expected.onnx", "out.onnx"]


def test_a_signal_is_reported_as_json(preloaded, small_export, tmp_path):
    result = run(preloaded, int(signal.SIGSEGV), "strip", small_export[0], "-o", tmp_path / "out.onnx", "--json")
    assert result.returncode == -signal.SIGSEGV
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "E0901"


def test_an_exception_is_a_defect(preloaded, small_export, tmp_path):
    target = tmp_path / "out.onnx"
    target.write_text("as it was")
    result = run(preloaded, "throw", "annotate", small_export[0], "--sidecar", small_export[1], "-o", target)
    assert result.returncode == 70
    assert result.stderr.startswith("E0901"), result.stderr
    assert target.read_text() == "as it was"


def test_a_mapped_input_that_shrinks_is_not_a_defect(preloaded, small_export, tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(small_export[0].read_bytes())
    result = run(preloaded, "shorten", "show", model)
    assert result.returncode == 3
    assert result.stderr.strip().startswith("E0209"), result.stderr
    assert "E0901" not in result.stderr


def test_a_crash_of_libtorch_in_an_archive_is_reported(small_archive, tmp_path):
    """Nests so many brackets that LibTorch's recursive parser overflows the stack."""
    depth = 400_000
    archive = tmp_path / "deep.pt"
    with zipfile.ZipFile(small_archive) as source, zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as copy:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".py"):
                content = re.sub(rb"return ([^\n]*)", rb"return " + b"(" * depth + rb"\1" + b")" * depth, content)
            copy.writestr(name, content)
    error = refused(["export", archive, "-o", tmp_path / "target"], tmp_path, "E0208")
    assert "LibTorch" in error["message"]


def with_members(archive, target, change):
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for name in source.namelist():
            copy.writestr(name, change(name, source.read(name)))
    return target


def with_far_offsets(content: bytes) -> bytes:
    """Replaces the text indices of source lines with offsets beyond any address, except the first ones, which LibTorch
    needs to read the record. Which others it reads depends on what PyTorch compiled earlier."""
    offset = b"\x8a\x08" + (2 ** 45).to_bytes(8, "little")
    indices = [each.start() for each in re.finditer(rb"K[\x00-\x20](?=K)", content)][2:]  # in tuples of strings
    assert indices
    for at in reversed(indices):
        content = content[:at] + offset + content[at + 2:]
    return content


def test_a_crash_of_libtorch_in_source_lines_is_reported(small_archive, tmp_path):
    """LibTorch reads source lines on first use, and does not check the text offsets in them."""
    archive = with_members(small_archive, tmp_path / "far.pt",
                           lambda name, content: with_far_offsets(content) if name.endswith(".debug_pkl") else content)
    refused(["show", archive], tmp_path, "E0208")


def test_a_crash_of_libtorch_in_source_lines_of_a_function_is_reported(tmp_path):
    """LibTorch stores functions that modules call in separate files, and reads their lines last. A new process compiles
    them, because the lines that are stored and read depend on what was compiled earlier."""
    script = "import sys, torch; torch.jit.script(torch.nn.BatchNorm1d(4).eval()).save(sys.argv[1])"
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, tmp_path / "good.pt"], check=True, timeout=120)

    def change(name, content):
        return with_far_offsets(content) if name.endswith("nn/functional.py.debug_pkl") else content

    archive = with_members(tmp_path / "good.pt", tmp_path / "far.pt", change)
    assert archive.read_bytes() != (tmp_path / "good.pt").read_bytes()
    refused(["export", archive, "--input", "input=float32[2,4]", "-o", tmp_path / "target"], tmp_path, "E0208")


@pytest.mark.parametrize("ending", [".py", ".debug_pkl", "data.pkl"])
def test_a_damaged_member_is_detected_by_its_checksum(small_archive, ending, tmp_path):
    with zipfile.ZipFile(small_archive) as source:
        info = next(each for each in source.infolist() if each.filename.endswith(ending))
    data, header = small_archive.read_bytes(), info.header_offset
    lengths = int.from_bytes(data[header + 26:header + 28], "little") + int.from_bytes(data[header + 28:header + 30], "little")
    at = header + 30 + lengths + info.compress_size // 2
    archive = tmp_path / "damaged.pt"
    archive.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
    error = refused(["export", archive, "-o", tmp_path / "target"], tmp_path, "E0204")
    assert info.filename.rpartition("/")[2] in error["message"] and "checksum" in error["message"]


def test_a_signal_from_outside_is_not_a_crash_of_libtorch(preloaded, small_archive, tmp_path):
    result = run(preloaded, "sent", "show", small_archive)
    assert result.returncode == -signal.SIGABRT
    assert result.stderr.strip().startswith("E0901"), result.stderr
