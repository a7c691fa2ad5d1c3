"""Only the recorder uses LibTorch and only the annotator uses ONNX. Each test first checks that its search finds something."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import command

BUILD = command.BINARY.parents[1]
RECORDER = BUILD / "lib" / "libwhence_recorder_torch.so"
SOURCES = [path for folder in ("annotator", "recorder", "schema", "tools", "tests")
           for path in (command.ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h")]
TORCH_HEADER = re.compile(r'^#include [<"](torch|ATen|c10|caffe2)/', re.MULTILINE)
ONNX_HEADER = re.compile(r'^#include [<"](onnx|google/protobuf)/', re.MULTILINE)
TORCH_SYMBOL = re.compile(r"\b(at|c10|torch|caffe2)::")


def output(*arguments) -> str:
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=True).stdout


def symbols(path: Path) -> str:
    return output("nm", "--demangle", path)


def linked_libraries(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path))


def files_including(pattern: re.Pattern) -> set[str]:
    return {str(path.relative_to(command.ROOT)) for path in SOURCES if pattern.search(path.read_text())}


def test_torch_headers_are_included_only_in_the_recorder():
    files = files_including(TORCH_HEADER)
    assert "recorder/base/torch_pch.h" in files
    assert all(path.startswith(("recorder/", "tests/recorder/", "tests/native/", "tests/bench/")) for path in files), files


def test_onnx_headers_are_included_only_in_annotator_sources():
    files = files_including(ONNX_HEADER)
    assert any(path.startswith("annotator/write/") for path in files)
    allowed = re.compile(r"annotator/(write|match|derivation|comparison|validation)/(.*/)?[^/]+\.cpp"
                         r"|annotator/convert/operator_types\.cpp"
                         r"|annotator/write/graph_proto\.h|annotator/functions/(?!functions\.h).*|tests/annotator/.*")
    assert all(allowed.fullmatch(path) for path in files), files


@pytest.mark.parametrize("library", ["libwhence_schema.a", "libwhence_annotator.a"])
def test_static_libraries_have_no_torch_symbols(library):
    text = symbols(BUILD / library)
    assert text.count("whence::") > 100
    assert not TORCH_SYMBOL.search(text)


def test_the_command_does_not_link_torch():
    assert any("protobuf" in name for name in linked_libraries(command.BINARY))
    assert not [name for name in linked_libraries(command.BINARY) if "torch" in name or "c10" in name]
    text = symbols(command.BINARY)
    assert text.count("whence::") > 100
    assert not TORCH_SYMBOL.search(text)


@pytest.mark.skipif(not RECORDER.exists(), reason="built without the recorder")
def test_the_recorder_links_torch_and_not_onnx():
    assert "libtorch_cpu.so" in linked_libraries(RECORDER)
    assert not [name for name in linked_libraries(RECORDER) if "protobuf" in name or "onnx" in name]
    text = symbols(RECORDER)
    assert TORCH_SYMBOL.search(text)
    assert "onnx::" not in text.replace("torch::onnx::", "")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["ops"], ["codes"], ["record", "--help"]], ids=" ".join)
def test_commands_without_a_recording_do_not_load_torch(arguments):
    loaded = command.run(*arguments, env={"LD_DEBUG": "files"}).stderr
    assert "libstdc++" in loaded
    assert "libtorch" not in loaded


@pytest.mark.skipif(not RECORDER.exists(), reason="built without the recorder")
def test_record_loads_torch(small_archive, tmp_path):
    environment = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(tmp_path / "loaded")}
    command.run("record", small_archive, "-o", tmp_path / "out", env={**os.environ, **environment})
    assert "libtorch_cpu" in next(tmp_path.glob("loaded.*")).read_text(errors="replace")
