"""The order of the rooms (tools/cmake/rooms.cmake) is what the includes say: nothing more, nothing less, no circle."""
import re

import command

ROOM = re.compile(r"^(annotator|recorder)_room\((\w+)(?: USES ([\w ]+?))?(?: NEEDS [^)]*)?\)$", re.MULTILINE)
INCLUDE = re.compile(r'^#include [<"]((?:annotator|recorder)/\w+)/', re.MULTILINE)


def allowed() -> dict[str, list[str]]:
    """The rooms in their order, each with those that it may include."""
    text = (command.ROOT / "tools" / "cmake" / "rooms.cmake").read_text()
    return {f"{side}/{name}": [f"{side}/{used}" for used in (uses or "").split()] for side, name, uses in ROOM.findall(text)}


def included(room: str) -> dict[str, str]:
    """The rooms that files of `room` include, each with one file that does."""
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
    # The entry links no LibTorch and is a library by itself.
    assert folders - {"recorder/entry"} == set(allowed())


def test_a_room_uses_only_rooms_before_it():
    before = set()
    for room, uses in allowed().items():
        assert set(uses) <= before, f"{room} uses {set(uses) - before}, which the list has behind it"
        before.add(room)
    assert len(before) > 20


def test_includes_are_those_that_the_list_allows():
    wrong = []
    for room, uses in allowed().items():
        found = included(room)
        wrong += [f"{file} includes {other}, which the list does not allow" for other, file in found.items() if other not in uses]
        wrong += [f"the list allows {room} to include {other}, and no file does" for other in uses if other not in found]
    assert not wrong, "\n".join(wrong)


def test_the_command_includes_app_and_what_prints():
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
            continue  # recorder/README.md describes all of its folders in the order of the data
        assert 3 < len(readme.read_text().splitlines()) < 110, room


def test_what_is_precompiled_is_not_ours():
    """ccache gives a precompiled header back although a comment in it has changed, and GCC then reads that header twice."""
    for path in ("schema/precompiled.h", "recorder/base/torch_pch.h"):
        quoted = re.findall(r'^#include "(.+)"$', (command.ROOT / path).read_text(), re.MULTILINE)
        assert not quoted, f"{path} includes {quoted}"
