"""The order of the rooms (tools/cmake/rooms.cmake; for Python python/README.md) equals the actual includes and imports,
without cycles."""
import ast
import re
from pathlib import Path

import pytest

import command

ROOM = re.compile(r"^(annotator|recorder)_room\((\w+)(?: USES ([\w ]+?))?(?: NEEDS [^)]*)?\)$", re.MULTILINE)
INCLUDE = re.compile(r'^#include [<"]((?:annotator|recorder)/\w+)/', re.MULTILINE)


def allowed() -> dict[str, list[str]]:
    """Returns the rooms in their order, each with the rooms that it may include."""
    text = (command.ROOT / "tools" / "cmake" / "rooms.cmake").read_text()
    return {f"{side}/{name}": [f"{side}/{used}" for used in (uses or "").split()] for side, name, uses in ROOM.findall(text)}


def included(room: str) -> dict[str, str]:
    """Returns the rooms that files of `room` include, each with one such file."""
    found = {}
    for path in sorted((command.ROOT / room).rglob("*")):
        if path.suffix in (".h", ".cpp"):
            for other in INCLUDE.findall(path.read_text()):
                if other != room:
                    found.setdefault(other, str(path.relative_to(command.ROOT)))
    return found


def test_every_folder_is_a_room():
    folders = {f"{side}/{path.name}" for side in ("annotator", "recorder") for path in (command.ROOT / side).iterdir()
               if path.is_dir() and list(path.rglob("*.cpp"))}
    # The entry links no LibTorch and is a separate library.
    assert folders - {"recorder/entry"} == set(allowed())


def test_a_room_uses_only_rooms_before_it():
    before = set()
    for room, uses in allowed().items():
        assert set(uses) <= before, f"{room} uses {set(uses) - before}, which is later in the list"
        before.add(room)
    assert len(before) > 20


def test_includes_equal_the_list():
    wrong = []
    for room, uses in allowed().items():
        found = included(room)
        wrong += [f"{file} includes {other}, which the list does not allow" for other, file in found.items() if other not in uses]
        wrong += [f"the list allows {room} to include {other}, no file does" for other in uses if other not in found]
    assert not wrong, "\n".join(wrong)


def test_the_command_includes_app_and_printing():
    text = (command.ROOT / "tools" / "cmake" / "rooms.cmake").read_text()
    rooms = re.search(r"^set\(command_rooms ([\w ]+)\)$", text, re.MULTILINE)[1].split()
    found = included("tools/whence")
    assert set(found) == {f"annotator/{room}" for room in rooms}, found


def test_the_schema_includes_no_room():
    assert not included("schema")
    assert not [room for side in ("annotator", "recorder") for room in allowed() if room.startswith(side)
                for other in included(room) if not other.startswith(side)]


def test_every_room_has_a_readme_of_under_a_page():
    for room in allowed():
        readme = command.ROOT / room / "README.md"
        if room.startswith("recorder/") and room != "recorder/native":
            continue  # recorder/README.md describes all of its folders, in the order of the data flow
        assert 3 < len(readme.read_text().splitlines()) < 110, room


def test_no_own_header_is_precompiled():
    """ccache returns a precompiled header even if a comment in it has changed, and GCC then reads that header twice."""
    for path in ("schema/precompiled.h", "recorder/base/torch_pch.h"):
        quoted = re.findall(r'^#include "(.+)"$', (command.ROOT / path).read_text(), re.MULTILINE)
        assert not quoted, f"{path} includes {quoted}"


PACKAGE = command.ROOT / "python" / "whence"
PYTHON_ROW = re.compile(r"^\| `whence/(\w+)/` \| [^|]* \|([^|]*)\|$", re.MULTILINE)


def python_rooms() -> dict[str, set[str]]:
    """Returns the rooms of the package in their order, each with the rooms that it may import from."""
    return {room: set(filter(None, used.replace(",", " ").split()))
            for room, used in PYTHON_ROW.findall((command.ROOT / "python" / "README.md").read_text())}


def imports(path: Path, package: Path) -> tuple[set[str], set[str]]:
    """Returns the modules of ``package`` that a file imports anywhere, named relative to it: run-time imports, and
    imports only for types."""
    for_types: set[int] = set()
    tree = ast.parse(path.read_text())
    for branch in ast.walk(tree):
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING":
            for_types |= {id(node) for each in branch.body for node in ast.walk(each)}
    found: tuple[set[str], set[str]] = set(), set()
    folder = path.relative_to(package).parent.parts
    for node in ast.walk(tree):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [each.name.split(".") for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            around = [package.name, *folder[:len(folder) - node.level + 1]] if node.level else []
            base = [*around, *(node.module or "").split(".")] if node.module else around
            names = [[*base, each.name] for each in node.names]
        for name in names:
            if name[0] == package.name:
                found[id(node) in for_types].add(module_of(name[1:], package))
    return found[0] - {""}, found[1] - {""}


def module_of(parts: list[str], package: Path) -> str:
    """Returns "base.version" for "base.version.package_version" or for the module itself."""
    while parts and not package.joinpath(*parts).with_suffix(".py").exists() and not package.joinpath(*parts, "__init__.py").exists():
        parts = parts[:-1]
    return ".".join(parts)


def files_of(package: Path) -> dict[str, Path]:
    """Maps the names of a package's modules, relative to it, to their files; "" is the package itself."""
    return {".".join(path.relative_to(package).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
            for path in sorted(package.rglob("*.py"))}


def cycle_in(package: Path) -> list[str]:
    """Returns modules that import each other in a cycle, if any. Imports in functions count, those for types do not."""
    graph = {name: sorted(imports(path, package)[0]) for name, path in files_of(package).items()}
    done: set[str] = set()

    def search(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name):], name]
        if name in done or name not in graph:
            return []
        found = next(filter(None, (search(other, [*way, name]) for other in graph[name])), [])
        done.add(name)
        return found

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
        assert uses <= above, f"{room} imports from {uses - above}, which is below it in the list"
        above.add(room)


@pytest.mark.parametrize("room", python_rooms())
def test_python_imports_equal_the_list(room):
    found = {other.split(".")[0]: path.name for path in (PACKAGE / room).rglob("*.py")
             for other in set().union(*imports(path, PACKAGE))}
    assert set(found) - {room, "errors"} == python_rooms()[room], found


def test_python_imports_have_no_cycle():
    graph = {name: imports(path, PACKAGE)[0] for name, path in files_of(PACKAGE).items()}
    assert sum(map(len, graph.values())) > 300 and {"state.model_state", "errors"} <= graph["arguments.calls"]
    assert not cycle_in(PACKAGE)


@pytest.mark.parametrize("a, b, is_cycle", [
    ("from .b import y", "from .a import x", True), ("from . import b", "def f():\n    from . import a", True),
    ("import p.b", "from p.a import x", True), ("from .b import y", "import os", False),
    ("from .b import y", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import x", False)])
def test_a_cycle_is_found(tmp_path, a, b, is_cycle):
    package = tmp_path / "p"
    package.mkdir()
    for name, text in (("__init__", ""), ("a", a), ("b", b)):
        (package / f"{name}.py").write_text(text + "\n")
    assert bool(cycle_in(package)) == is_cycle
