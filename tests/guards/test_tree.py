"""The repository's form: the files at the top, an opening comment in every file, and no names of machines."""

import re
import subprocess

import pytest

import command

TOP = {"CMakeLists.txt", "README.md", "recorder", "annotator", "schema", "include", "tests", "samples", "tools", "Makefile",
       "CMakePresets.json", "LICENSE", "CHANGELOG.md", "python", "pyproject.toml", "docs", "SKILL.md", "CONTRIBUTING.md",
       "SECURITY.md", "action.yml"}
MACHINE = re.compile(r"/(root|work|tmp/b|home/(?!somebody|me\b)\w+)/[\w.-]")


def tracked() -> list[str]:
    result = subprocess.run(["git", "ls-files", "--cached"], cwd=command.ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip("not a git work tree")
    return result.stdout.splitlines()


def test_the_top_level_has_the_expected_files():
    top = {path.split("/")[0] for path in tracked()}
    assert {name for name in top if not name.startswith(".")} == TOP


def test_no_file_names_a_machine():
    texts = {path: (command.ROOT / path).read_text(errors="replace") for path in tracked() if (command.ROOT / path).is_file()}
    assert any("WHENCE_SOURCE_DIR" in text for text in texts.values())
    named = {path: match.group() for path, text in texts.items() if path != "tests/guards/test_tree.py"
             for match in [MACHINE.search(text)] if match}
    assert not named


def opens_with_its_purpose(path: str) -> bool:
    text = (command.ROOT / path).read_text()
    header = f'#include "{path.removesuffix(".cpp")}.h"'  # the header states it for this file
    return not text or text.startswith(("//", '"""', "#!", "# ", header))


def test_every_source_opens_with_its_purpose():
    sources = [path for path in tracked() if path.endswith((".cpp", ".h", ".sh", ".py")) and (command.ROOT / path).is_file()]
    assert len(sources) > 50
    assert not [path for path in sources if not opens_with_its_purpose(path)]
