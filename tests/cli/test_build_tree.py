"""Subcommands that are written in Python, from a command that was built and not installed: it finds the package of its source
tree and the Python of its virtual environment; an installed one does not, and a variable wins."""

import json
import os
import shutil
import subprocess

import pytest

import command

# A Python that says how it was called; `-c` is the question whether it has the package.
PYTHON = """#!/bin/sh
[ "$1" = -c ] && exit {has_package}
printf '{{"python": "{name}", "arguments": "%s", "PYTHONPATH": "%s", "WHENCE": "%s"}}' "$*" "$PYTHONPATH" "$WHENCE"
"""


def python(path, has_package: bool = True):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PYTHON.format(name=path, has_package=0 if has_package else 1))
    path.chmod(0o755)
    return path


def installed(folder):
    """The command without anything of a build around it."""
    path = folder / "bin" / "whence"
    path.parent.mkdir(parents=True)
    try:
        os.link(command.BINARY.resolve(), path)
    except OSError:  # on another file system
        shutil.copy(command.BINARY, path)
    return path


@pytest.fixture
def built(tmp_path):
    """A build folder of this source tree, with a virtual environment."""
    path = installed(tmp_path / "build")
    (tmp_path / "build" / "CMakeCache.txt").write_text(f"# a comment\nCMAKE_HOME_DIRECTORY:INTERNAL={command.ROOT}\n")
    python(tmp_path / "build" / "venv" / "bin" / "python")
    return path


def run(program, folder, **variables) -> subprocess.CompletedProcess:
    """With a python3 on the path that has the package, and no variable but those."""
    python(folder / "path" / "python3")
    environment = {"PATH": f"{folder / 'path'}:/usr/bin:/bin", **variables}
    return subprocess.run([program, "accuracy", "m.onnx", "--values", "v"], env=environment, capture_output=True, text=True)


def called(*given, **variables) -> dict:
    result = run(*given, **variables)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["arguments"] == "-m whence accuracy m.onnx --values v"
    return told


def test_a_build_tree_needs_no_variable(built, tmp_path):
    told = called(built, tmp_path)
    assert told["python"] == str(built.parents[1] / "venv" / "bin" / "python")
    assert told["PYTHONPATH"] == str(command.ROOT / "python") and told["WHENCE"] == str(built)


def test_without_an_environment_in_it_the_source_trees_is_taken(built, tmp_path):
    """Or the python3 of the path where there is none either."""
    shutil.rmtree(built.parents[1] / "venv")
    source = tmp_path / "source"
    (source / "python" / "whence").mkdir(parents=True)
    (source / "python" / "whence" / "__main__.py").touch()
    (built.parents[1] / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={source}\n")
    assert called(built, tmp_path)["python"] == str(tmp_path / "path" / "python3")
    named = python(source / "build" / "venv" / "bin" / "python")
    told = called(built, tmp_path)
    assert told["python"] == str(named) and told["PYTHONPATH"] == str(source / "python")


def test_variables_win(built, tmp_path):
    named = python(tmp_path / "named" / "python")
    told = called(built, tmp_path, WHENCE_PYTHON=str(named), WHENCE="/mine/whence")
    assert (told["python"], told["PYTHONPATH"], told["WHENCE"]) == (str(named), "", "/mine/whence")
    told = called(built, tmp_path, PYTHONPATH="/mine")
    assert told["PYTHONPATH"] == f"/mine:{command.ROOT / 'python'}"


def test_a_python_that_is_named_gets_the_trees_package_where_it_has_none(built, tmp_path):
    """The real one: python3 of the system, or any other."""
    named = shutil.which("python3", path="/usr/bin:/bin") or shutil.which("python3")
    result = subprocess.run([built, "fleet", "--help"], env={"PATH": "/usr/bin:/bin", "WHENCE_PYTHON": named},
                            capture_output=True, text=True)
    assert result.returncode == 0 and "whence fleet" in result.stdout, result.stderr


def test_an_installed_command_takes_the_python_of_the_path(tmp_path):
    told = called(installed(tmp_path / "prefix"), tmp_path)
    assert told["python"] == str(tmp_path / "path" / "python3") and told["PYTHONPATH"] == ""


@pytest.mark.parametrize("cache", ["", "CMAKE_HOME_DIRECTORY:INTERNAL=/nowhere\n"])
def test_another_cache_is_not_a_build_tree(cache, tmp_path):
    program = installed(tmp_path / "build")
    (tmp_path / "build" / "CMakeCache.txt").write_text(cache)
    assert called(program, tmp_path)["PYTHONPATH"] == ""


def test_without_a_package_it_says_how_to_get_one(tmp_path):
    program = installed(tmp_path / "prefix")
    without = python(tmp_path / "without" / "python", has_package=False)
    result = run(program, tmp_path, WHENCE_PYTHON=str(without))
    assert result.returncode == 2 and result.stderr.startswith("E0101") and "pip install whence-onnx" in result.stderr


def test_the_package_of_a_source_tree_finds_the_command_that_was_built(tmp_path):
    """`python -m whence` there, without $WHENCE."""
    tree = tmp_path / "tree"
    shutil.copytree(command.ROOT / "python" / "whence", tree / "python" / "whence", ignore=shutil.ignore_patterns("__pycache__"))
    installed(tree / "build")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree / "python")}
    words = [shutil.which("python3"), "-m", "whence", "--version"]
    before = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert before.returncode == 2 and "E0102" in before.stderr  # nothing says that this is a source tree
    (tree / "CMakeLists.txt").touch()
    assert subprocess.run(words, env=environment, capture_output=True, text=True).stdout.startswith("whence ")
