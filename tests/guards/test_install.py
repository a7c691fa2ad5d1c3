"""An installed whence works: the command with its recorder, and the package for C++ projects."""

import re
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
# Includes every header except record.h, which needs LibTorch; tests/native builds programs with that one.
PROGRAM = """
#include <cstdio>
#include <whence/annotate.h>
#include <whence/carry.h>
#include <whence/diagnostics.h>
#include <whence/export.h>
#include <whence/functions.h>
#include <whence/options.h>
#include <whence/validate.h>
int main(int, char** argv) {
  const std::string archive = argv[1], folder = argv[2];
  const auto exported = whence::export_archive(archive, folder + "/m.onnx", {.sidecar = folder + "/m.whence.json"});
  const auto stripped = whence::strip(folder + "/m.onnx", folder + "/plain.onnx");
  const auto annotated = whence::annotate(folder + "/plain.onnx", folder + "/again.onnx", {.from = folder + "/m.onnx"});
  const auto carried = whence::carry(folder + "/m.onnx", folder + "/carried.onnx", {{"cp", "{in}", "{out}"}});
  const auto report = whence::validate(folder + "/again.onnx", {.minima = {"covered=100"}});
  const auto part = whence::extract_module(folder + "/m.onnx", folder + "/part.onnx", {.module = "linear"});
  try {
    whence::annotate(folder + "/plain.onnx", folder + "/never.onnx", {.keys = {"modul"}});
    return 1;
  } catch (const whence::Error& error) {
    std::printf("%s\\n", whence::label(error.diagnostics().front().code).c_str());
  }
  std::printf("%lld %lld %lld %lld %d %lld\\n", (long long)exported.nodes, (long long)stripped.nodes,
              (long long)annotated.nodes.total(), (long long)carried.result.nodes.exact, report.clean, (long long)part.nodes);
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
    """Runs CMake, which must fail. Returns its output on one line."""
    result = subprocess.run([CMAKE, "-S", source, "-B", folder / "configured", *definitions], capture_output=True, text=True)
    assert result.returncode != 0, result.stdout
    return " ".join(result.stderr.split())


def torch_folder(folder, version: str):
    """Creates the files by which CMake recognises LibTorch."""
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libtorch_cpu.so").touch()
    (folder / "include" / "torch" / "headeronly").mkdir(parents=True)
    (folder / "include" / "torch" / "headeronly" / "version.h").write_text("".join(
        f"#define TORCH_VERSION_{part} {number}\n"
        for part, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True)))
    return folder


def test_every_schema_is_installed(prefix):
    schemas = {path.name: path.read_bytes() for path in (command.ROOT / "schema").glob("*.schema.json")}
    assert len(schemas) > 8
    assert {path.name: path.read_bytes() for path in (prefix / "share" / "whence").iterdir()} == schemas


def test_completions_and_manual_pages_are_installed(prefix):
    share = prefix / "share"
    for shell, file in (("bash", "bash-completion/completions/whence"), ("zsh", "zsh/site-functions/_whence"),
                        ("fish", "fish/vendor_completions.d/whence.fish")):
        assert (share / file).read_text() == command.run("completions", shell).stdout
    assert (share / "man/man1/whence-export.1").read_text() == command.run("man", "export").stdout
    assert (share / "doc/whence/SKILL.md").read_text() == command.run("skill").stdout


def test_all_missing_packages_are_listed_at_once(tmp_path):
    output = configure(tmp_path, "-DCMAKE_IGNORE_PATH=/usr/include", "-DCMAKE_DISABLE_FIND_PACKAGE_tsl-robin-map=ON",
                       "-DPKG_CONFIG_EXECUTABLE=/nowhere", "-DCMAKE_DISABLE_FIND_PACKAGE_re2=ON")
    assert ("apt-get install -y libprotobuf-dev robin-map-dev libxxhash-dev zlib1g-dev libexpat1-dev pkg-config libre2-dev"
            in output)


def test_optional_tools_are_off_by_default(tmp_path):
    """An installed linker, cache or malloc is not used unless requested, and warnings are not errors."""
    configuration = subprocess.run([CMAKE, "-S", command.ROOT, "-B", tmp_path / "plain", "-DWHENCE_RECORDER=OFF", "-DWHENCE_TESTS=OFF",
                            "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-G", "Ninja"], capture_output=True, text=True, check=True)
    assert "warnings are errors OFF, ccache OFF, mold OFF, malloc of libc" in configuration.stdout
    rules = (tmp_path / "plain" / "build.ninja").read_text() + (tmp_path / "plain" / "CMakeFiles" / "rules.ninja").read_text()
    assert "whence" in rules
    assert not re.search(r"mold|ccache|mimalloc|tcmalloc|-Werror", rules)


def test_a_missing_or_old_pytorch_is_refused(tmp_path):
    output = configure(tmp_path, "-DTORCH_DIR=/nowhere/torch")
    assert "no LibTorch in '/nowhere/torch'" in output and "Install torch (PyTorch 2." in output
    old = torch_folder(tmp_path / "old", "2.5.1")
    output = configure(tmp_path, f"-DTORCH_DIR={old}")
    assert f"LibTorch in {old} is 2.5.1; whence builds with PyTorch 2." in output


def test_a_project_with_another_pytorch_is_refused(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(PROJECT.replace("REQUIRED)", "REQUIRED COMPONENTS recorder)"))
    old = torch_folder(tmp_path / "old", "2.5.1")
    output = configure(tmp_path, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DTORCH_DIR={old}", source=tmp_path)
    assert f"the one in {old} is 2.5.1" in output and f"build whence with TORCH_DIR={old}" in output


def test_the_installed_command_finds_its_recorder(prefix, small_archive, tmp_path):
    run(prefix / "bin" / "whence", "export", small_archive, "-o", tmp_path / "small.onnx")
    assert (tmp_path / "small.onnx").stat().st_size > 0


def test_a_project_builds_against_the_installed_headers(prefix, tmp_path):
    import torch

    class Small(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 8)

        def forward(self, x):
            return torch.relu(self.linear(x))

    torch.export.save(torch.export.export(Small().eval(), (torch.ones(3, 4),)), tmp_path / "small.pt2")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.cpp").write_text(PROGRAM)
    run(CMAKE, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKE, "--build", tmp_path / "build")
    (tmp_path / "out").mkdir()
    assert run(tmp_path / "build" / "consumer", tmp_path / "small.pt2", tmp_path / "out").split() == [
        "E0101", "2", "2", "2", "2", "1", "1"]
    assert not (tmp_path / "out" / "never.onnx").exists()


def test_only_the_api_is_installed(prefix):
    """The API includes no header of onnx, Boost or JSON."""
    headers = sorted((prefix / "include").rglob("*.h"))
    assert {path.relative_to(prefix / "include").as_posix() for path in headers} == {
        f"whence/{name}.h" for name in ("annotate", "carry", "diagnostics", "export", "functions", "options", "record", "validate",
                                       "weight_files")}
    for path in headers:
        included = re.findall(r"^#include [<\"]([^>\"]+)", path.read_text(), re.MULTILINE)
        assert not [name for name in included if re.match(r"onnx|google|boost|nlohmann|schema|annotator|recorder", name)]
