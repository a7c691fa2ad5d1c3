"""Loads the recorder with another LibTorch version, simulated by a library that only returns its version."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import command
from live_python.live import PLUGIN

RUNNING = torch.__version__.partition("+")[0]
LOAD = """
import ctypes, sys, threading
ctypes.CDLL(sys.argv[1])
def load():
    try:
        ctypes.CDLL(sys.argv[2])
        print("loaded")
    except OSError as error:
        print(error)
"""


def compile_library(source: str, library: Path, *options) -> Path:
    library.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-x", "c++", "-", "-o", library,
                    *options], input=source, text=True, check=True)
    return library


@pytest.fixture(scope="module")
def other_torch(tmp_path_factory) -> Path:
    """Creates a torch folder whose libraries report version 2.5.1."""
    folder = tmp_path_factory.mktemp("other") / "torch"
    version = "#include <cstdint>\nextern \"C\" std::uint64_t aoti_torch_abi_version() { return 0x0205010000000000; }"
    for name, source in (("libtorch_cpu.so", version), ("libc10.so", ""), ("libtorch.so", "")):
        compile_library(source, folder / "lib" / name)
    return folder


def check(output: str, other_torch: Path) -> None:
    assert "E0307 needs libtorch" in output
    assert f"built for PyTorch {RUNNING}" in output and f"{other_torch} is 2.5.1" in output
    assert f"TORCH_DIR={other_torch} make build" in output and f"pip install torch=={RUNNING}" in output


def load_in(other_torch: Path, last_line: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", LOAD + last_line, other_torch / "lib" / "libtorch_cpu.so", PLUGIN],
                          capture_output=True, text=True, check=True)


def test_plugin_with_another_pytorch(other_torch):
    output = load_in(other_torch, "load()").stdout
    check(output, other_torch)
    assert "loaded" not in output and "undefined symbol" not in output


def test_plugin_in_a_thread_with_another_pytorch(other_torch):
    """Loading a library raises Python errors only in the main thread; other threads print them to standard error."""
    result = load_in(other_torch, "thread = threading.Thread(target=load); thread.start(); thread.join()")
    check(result.stderr, other_torch)
    assert result.stdout == "loaded\n"


def test_command_with_another_pytorch(other_torch, small_archive, tmp_path):
    result = command.run("record", small_archive, "-o", tmp_path / "out", code=4, env={"WHENCE_TORCH_DIR": str(other_torch)})
    check(result.stderr, other_torch)
    assert not (tmp_path / "out").exists()

