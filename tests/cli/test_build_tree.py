"""Tests subcommands written in Python. A command in a build tree uses the package of its source tree and the Python of
its virtual environment; an installed command uses neither. Environment variables take precedence."""

import json
import os
import shutil
import subprocess

import pytest

import command

# A fake Python that prints its arguments and variables; `-c` checks whether it has the package.
PYTHON = """#!/bin/sh
[ "$1" = -c ] && exit {has_package}
printf '{{"python": "{name}", "arguments": "%s", "PYTHONPATH": "%s", "WHENCE": "%s"}}' "$*" "$PYTHONPATH" "$WHENCE"
"""


def fake_python(path, has_package: bool = True):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PYTHON.format(name=path, has_package=0 if has_package else 1))
    path.chmod(0o755)
    return path


def install(folder):
    """Puts the command into a folder that is not a build tree."""
    path = folder / "bin" / "whence"
    path.parent.mkdir(parents=True)
    try:
        os.link(command.BINARY.resolve(), path)
    except OSError:  # on another file system
        shutil.copy(command.BINARY, path)
    return path


@pytest.fixture
def built_command(tmp_path):
    """A command in a build folder of this source tree, with a virtual environment."""
    path = install(tmp_path / "build")
    (tmp_path / "build" / "CMakeCache.txt").write_text(f"# a comment\nCMAKE_HOME_DIRECTORY:INTERNAL={command.ROOT}\n")
    fake_python(tmp_path / "build" / "venv" / "bin" / "python")
    return path


def run(program, folder, **variables) -> subprocess.CompletedProcess:
    """Runs `whence accuracy` with only these variables, and with a python3 on the path that has the package."""
    fake_python(folder / "path" / "python3")
    environment = {"PATH": f"{folder / 'path'}:/usr/bin:/bin", **variables}
    return subprocess.run([program, "accuracy", "m.onnx", "--values", "v"], env=environment, capture_output=True, text=True)


def python_call(*arguments, **variables) -> dict:
    result = run(*arguments, **variables)
    assert result.returncode == 0, result.stderr
    call = json.loads(result.stdout)
    assert call["arguments"] == "-m whence accuracy m.onnx --values v"
    return call


def test_a_build_tree_needs_no_variable(built_command, tmp_path):
    call = python_call(built_command, tmp_path)
    assert call["python"] == str(built_command.parents[1] / "venv" / "bin" / "python")
    assert call["PYTHONPATH"] == str(command.ROOT / "python") and call["WHENCE"] == str(built_command)


def test_the_environment_of_the_source_tree_is_the_fallback(built_command, tmp_path):
    """If that environment is missing too, the command uses the python3 on the path."""
    shutil.rmtree(built_command.parents[1] / "venv")
    source = tmp_path / "source"
    (source / "python" / "whence").mkdir(parents=True)
    (source / "python" / "whence" / "__main__.py").touch()
    (built_command.parents[1] / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={source}\n")
    assert python_call(built_command, tmp_path)["python"] == str(tmp_path / "path" / "python3")
    program = fake_python(source / "build" / "venv" / "bin" / "python")
    call = python_call(built_command, tmp_path)
    assert call["python"] == str(program) and call["PYTHONPATH"] == str(source / "python")


def test_environment_variables_take_precedence(built_command, tmp_path):
    program = fake_python(tmp_path / "named" / "python")
    call = python_call(built_command, tmp_path, WHENCE_PYTHON=str(program), WHENCE="/mine/whence")
    assert (call["python"], call["PYTHONPATH"], call["WHENCE"]) == (str(program), "", "/mine/whence")
    call = python_call(built_command, tmp_path, PYTHONPATH="/mine")
    assert call["PYTHONPATH"] == f"/mine:{command.ROOT / 'python'}"


def test_a_python_without_the_package_gets_it_from_the_source_tree(built_command, tmp_path):
    """Uses a real Python: the system's python3 or any other."""
    program = shutil.which("python3", path="/usr/bin:/bin") or shutil.which("python3")
    result = subprocess.run([built_command, "fleet", "--help"], env={"PATH": "/usr/bin:/bin", "WHENCE_PYTHON": program},
                            capture_output=True, text=True)
    assert result.returncode == 0 and "whence fleet" in result.stdout, result.stderr


def test_an_installed_command_uses_the_python_on_the_path(tmp_path):
    call = python_call(install(tmp_path / "prefix"), tmp_path)
    assert call["python"] == str(tmp_path / "path" / "python3") and call["PYTHONPATH"] == ""


@pytest.mark.parametrize("cache", ["", "CMAKE_HOME_DIRECTORY:INTERNAL=/nowhere\n"])
def test_an_invalid_cache_does_not_mark_a_build_tree(cache, tmp_path):
    program = install(tmp_path / "build")
    (tmp_path / "build" / "CMakeCache.txt").write_text(cache)
    assert python_call(program, tmp_path)["PYTHONPATH"] == ""


def test_a_missing_package_has_a_remedy(tmp_path):
    program = install(tmp_path / "prefix")
    bare_python = fake_python(tmp_path / "without" / "python", has_package=False)
    result = run(program, tmp_path, WHENCE_PYTHON=str(bare_python))
    assert result.returncode == 2 and result.stderr.startswith("E0101") and "pip install whence-onnx" in result.stderr


def test_the_package_of_a_source_tree_finds_the_built_command(tmp_path):
    """Runs `python -m whence` in the tree, without $WHENCE."""
    tree = tmp_path / "tree"
    shutil.copytree(command.ROOT / "python" / "whence", tree / "python" / "whence", ignore=shutil.ignore_patterns("__pycache__"))
    install(tree / "build")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree / "python")}
    arguments = [shutil.which("python3"), "-m", "whence", "--version"]
    before = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert before.returncode == 2 and "E0102" in before.stderr  # nothing marks this as a source tree
    (tree / "CMakeLists.txt").touch()
    assert subprocess.run(arguments, env=environment, capture_output=True, text=True).stdout.startswith("whence ")
