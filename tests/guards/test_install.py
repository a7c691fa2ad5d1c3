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
#include "annotator/export/export.h"
#include "annotator/write/onnx_writer.h"
#include "schema/sidecar.h"
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
