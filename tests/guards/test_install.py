"""What `make install` leaves works where it lies: the command with its recorder, and the package for C++ projects."""

import shutil
import subprocess

import pytest

import command

BUILD = command.BINARY.parents[1]
CMAKE = shutil.which("cmake") or str(command.ROOT / "build" / "venv" / "bin" / "cmake")

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(whence REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE whence::annotator)
"""
PROGRAM = """
#include <cstdio>
#include "annotator/exporter/export.h"
#include "annotator/write/onnx_writer.h"
#include "schema/sidecar/sidecar.h"
int main(int, char** argv) {
  const auto sidecar = whence::read_sidecar(argv[1]);
  if (!sidecar) return 1;
  whence::Graph empty;
  whence::write_onnx(empty, argv[2], {});
  std::printf("%zu modules\\n", sidecar->program.modules.size());
}
"""


def run(*arguments) -> str:
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    run(CMAKE, "--install", BUILD, "--prefix", folder)
    return folder


def configure(folder, *definitions, source=command.ROOT) -> str:
    """What CMake says when it refuses, on one line."""
    result = subprocess.run([CMAKE, "-S", source, "-B", folder / "configured", *definitions], capture_output=True, text=True)
    assert result.returncode != 0, result.stdout
    return " ".join(result.stderr.split())


def torch_folder(folder, version: str):
    """What CMake looks at of a LibTorch."""
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libtorch_cpu.so").touch()
    (folder / "include" / "torch" / "headeronly").mkdir(parents=True)
    (folder / "include" / "torch" / "headeronly" / "version.h").write_text("".join(
        f"#define TORCH_VERSION_{part} {number}\n" for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."))))
    return folder


def test_missing_packages_are_named_together(tmp_path):
    said = configure(tmp_path, "-DCMAKE_IGNORE_PATH=/usr/include")
    assert "apt-get install -y nlohmann-json3-dev robin-map-dev libxxhash-dev zlib1g-dev" in said


def test_a_pytorch_that_is_missing_or_too_old(tmp_path):
    said = configure(tmp_path, "-DTORCH_DIR=/nowhere/torch")
    assert "no LibTorch in '/nowhere/torch'" in said and "Install torch (PyTorch 2." in said
    old = torch_folder(tmp_path / "old", "2.5.1")
    said = configure(tmp_path, f"-DTORCH_DIR={old}")
    assert f"LibTorch in {old} is 2.5.1; whence builds with PyTorch 2." in said


def test_a_project_with_another_pytorch_is_refused(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.replace("REQUIRED)", "REQUIRED COMPONENTS recorder)"))
    other = torch_folder(tmp_path / "other", "2.5.1")
    said = configure(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DTORCH_DIR={other}", source=tmp_path)
    assert f"the one in {other} is 2.5.1" in said and f"build whence with TORCH_DIR={other}" in said


def test_the_installed_command_finds_its_recorder(prefix, small_archive, tmp_path):
    run(prefix / "bin" / "whence", "export", small_archive, "-o", tmp_path / "small.onnx")
    assert (tmp_path / "small.onnx").stat().st_size > 0


def test_a_project_builds_against_the_installed_package(prefix, small_export, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    run(CMAKE, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKE, "--build", tmp_path / "build")
    _, sidecar = small_export
    assert run(tmp_path / "build" / "consumer", sidecar, tmp_path / "empty.onnx") == "3 modules\n"
