"""Includes and imports follow the lists of rooms (tools/cmake/rooms.cmake and python/README.md) and have no cycles."""
import ast
import re
from pathlib import Path

import pytest

import command

ROOM = re.compile(r"^(annotator|recorder)_room\((\w+)(?: USES ([\w ]+?))?(?: NEEDS [^)]*)?\)$", re.MULTILINE)
INCLUDE = re.compile(r'^#include [<"]((?:annotator|recorder)/\w+)/', re.MULTILINE)


def allowed_rooms() -> dict[str, list[str]]:
    """Maps each room, in order, to the rooms that it may include."""
    text = (command.ROOT / "tools" / "cmake" / "rooms.cmake").read_text()
    return {f"{side}/{name}": [f"{side}/{used}" for used in (uses or "").split()] for side, name, uses in ROOM.findall(text)}


def included_rooms(room: str) -> dict[str, str]:
    """Maps each room that `room` includes to a file with such an include."""
    files = {}
    for path in sorted((command.ROOT / room).rglob("*")):
        if path.suffix in (".h", ".cpp"):
            for target in INCLUDE.findall(path.read_text()):
                if target != room:
                    files.setdefault(target, str(path.relative_to(command.ROOT)))
    return files


def test_every_folder_is_a_room():
    folders = {f"{side}/{path.name}" for side in ("annotator", "recorder") for path in (command.ROOT / side).iterdir()
               if path.is_dir() and list(path.rglob("*.cpp"))}
    # recorder/entry is a separate library without LibTorch.
    assert folders - {"recorder/entry"} == set(allowed_rooms())


def test_a_room_uses_only_rooms_before_it():
    before = set()
    for room, uses in allowed_rooms().items():
        assert set(uses) <= before, f"{room} uses {set(uses) - before}, which are later in the list"
        before.add(room)
    assert len(before) > 20


def test_includes_equal_the_list():
    errors = []
    for room, uses in allowed_rooms().items():
        targets = included_rooms(room)
        errors += [f"{file} includes {target}, which the list does not allow" for target, file in targets.items() if target not in uses]
        errors += [f"the list allows {room} to include {target}, no file does" for target in uses if target not in targets]
    assert not errors, "\n".join(errors)


def test_the_command_includes_app_and_printing():
    text = (command.ROOT / "tools" / "cmake" / "rooms.cmake").read_text()
    rooms = re.search(r"^set\(command_rooms ([\w ]+)\)$", text, re.MULTILINE)[1].split()
    targets = included_rooms("tools/whence")
    assert set(targets) == {f"annotator/{room}" for room in rooms}, targets


def test_the_schema_includes_no_room():
    assert not included_rooms("schema")
    assert not [room for side in ("annotator", "recorder") for room in allowed_rooms() if room.startswith(side)
                for target in included_rooms(room) if not target.startswith(side)]


def test_every_room_has_a_short_readme():
    for room in allowed_rooms():
        readme = command.ROOT / room / "README.md"
        if room.startswith("recorder/") and room != "recorder/native":
            continue  # recorder/README.md describes all of its folders, in the order of the data flow
        assert 3 < len(readme.read_text().splitlines()) < 110, room


def test_headers_of_whence_are_not_precompiled():
    """After a change in a comment, ccache returns the old precompiled header, and GCC then reads the header twice."""
    for path in ("schema/precompiled.h", "recorder/base/torch_pch.h"):
        quoted = re.findall(r'^#include "(.+)"$', (command.ROOT / path).read_text(), re.MULTILINE)
        assert not quoted, f"{path} includes {quoted}"


PACKAGE = command.ROOT / "python" / "whence"
PYTHON_ROW = re.compile(r"^\| `whence/(\w+)/` \| [^|]* \|([^|]*)\|$", re.MULTILINE)


def python_rooms() -> dict[str, set[str]]:
    """Maps each room of the package, in order, to the rooms that it may import from."""
    return {room: set(filter(None, used.replace(",", " ").split()))
            for room, used in PYTHON_ROW.findall((command.ROOT / "python" / "README.md").read_text())}


def imports(path: Path, package: Path) -> tuple[set[str], set[str]]:
    """Returns the modules of ``package`` that a file imports: at run time, and only for types. Their names are relative to
    the package."""
    for_types: set[int] = set()
    tree = ast.parse(path.read_text())
    for branch in ast.walk(tree):
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING":
            for_types |= {id(node) for statement in branch.body for node in ast.walk(statement)}
    imported: tuple[set[str], set[str]] = set(), set()
    folder = path.relative_to(package).parent.parts
    for node in ast.walk(tree):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = [package.name, *folder[:len(folder) - node.level + 1]] if node.level else []
            base = [*parents, *(node.module or "").split(".")] if node.module else parents
            names = [[*base, alias.name] for alias in node.names]
        for name in names:
            if name[0] == package.name:
                imported[id(node) in for_types].add(module_of(name[1:], package))
    return imported[0] - {""}, imported[1] - {""}


def module_of(parts: list[str], package: Path) -> str:
    """Returns the module of an imported name: "base.version" for "base.version.package_version" or "base.version"."""
    while parts and not package.joinpath(*parts).with_suffix(".py").exists() and not package.joinpath(*parts, "__init__.py").exists():
        parts = parts[:-1]
    return ".".join(parts)


def files_of(package: Path) -> dict[str, Path]:
    """Maps the modules of a package to their files. Names are relative to the package, which has the name ""."""
    return {".".join(path.relative_to(package).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
            for path in sorted(package.rglob("*.py"))}


def cycle_in(package: Path) -> list[str]:
    """Returns modules that import each other in a cycle, if any. Includes imports in functions, but not imports for types."""
    graph = {name: sorted(imports(path, package)[0]) for name, path in files_of(package).items()}
    done: set[str] = set()

    def search(name: str, chain: list[str]) -> list[str]:
        if name in chain:
            return [*chain[chain.index(name):], name]
        if name in done or name not in graph:
            return []
        cycle = next(filter(None, (search(target, [*chain, name]) for target in graph[name])), [])
        done.add(name)
        return cycle

    return next(filter(None, (search(name, []) for name in graph)), [])


def test_every_python_folder_is_a_room_with_a_readme():
    rooms = python_rooms()
    assert len(rooms) > 15 and set(rooms) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}
    for room in rooms:
        text = (PACKAGE / room / "README.md").read_text()
        assert 2 < len(text.splitlines()) < 60, room
        missing = [path.name for path in (PACKAGE / room).glob("*.py") if path.name != "__init__.py" and f"`{path.name}`" not in text]
        assert not missing, f"{room}/README.md does not name {missing}"


def test_a_python_room_imports_from_rooms_above_it():
    above: set[str] = set()
    for room, uses in python_rooms().items():
        assert uses <= above, f"{room} imports from {uses - above}, which are below it in the list"
        above.add(room)


@pytest.mark.parametrize("room", python_rooms())
def test_python_imports_equal_the_list(room):
    imported = {target.split(".")[0]: path.name for path in (PACKAGE / room).rglob("*.py")
                for target in set().union(*imports(path, PACKAGE))}
    assert set(imported) - {room, "errors"} == python_rooms()[room], imported


def test_python_imports_have_no_cycle():
    graph = {name: imports(path, PACKAGE)[0] for name, path in files_of(PACKAGE).items()}
    assert sum(map(len, graph.values())) > 300 and {"state.model_state", "errors"} <= graph["arguments.calls"]
    assert not cycle_in(PACKAGE)


@pytest.mark.parametrize("a, b, is_cycle", [
    ("from .b import y", "from .a import x", True), ("from . import b", "def f():\n    from . import a", True),
    ("import p.b", "from p.a import x", True), ("from .b import y", "import os", False),
    ("from .b import y", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x", False)])
def test_import_cycles_are_found(tmp_path, a, b, is_cycle):
    package = tmp_path / "p"
    package.mkdir()
    for name, text in (("__init__", ""), ("a", a), ("b", b)):
        (package / f"{name}.py").write_text(text + "\n")
    assert bool(cycle_in(package)) == is_cycle
