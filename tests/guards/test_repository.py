"""The repository has the expected files at the top, an opening comment in every source file, and no local paths."""

import re
import subprocess

import pytest

import command

TOP = {"CMakeLists.txt", "README.md", "recorder", "annotator", "schema", "include", "tests", "samples", "tools", "Makefile",
       "CMakePresets.json", "LICENSE", "CHANGELOG.md", "python", "pyproject.toml", "docs", "SKILL.md", "CONTRIBUTING.md",
       "SECURITY.md", "action.yml"}
LOCAL_PATH = re.compile(r"/(root|work|tmp/b|home/(?!somebody|me\b)\w+)/[\w.-]")


def tracked() -> list[str]:
    result = subprocess.run(["git", "ls-files", "--cached"], cwd=command.ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        pytest.skip("not a git work tree")
    return result.stdout.splitlines()


def test_the_top_folder_has_the_expected_files():
    top = {path.split("/")[0] for path in tracked()}
    assert {name for name in top if not name.startswith(".")} == TOP


def test_files_contain_no_local_paths():
    texts = {path: (command.ROOT / path).read_text(errors="replace") for path in tracked() if (command.ROOT / path).is_file()}
    assert any("WHENCE_SOURCE_DIR" in text for text in texts.values())
    local_paths = {path: match.group() for path, text in texts.items() if path != "tests/guards/test_repository.py"
             for match in [LOCAL_PATH.search(text)] if match}
    assert not local_paths


def has_opening_comment(path: str) -> bool:
    text = (command.ROOT / path).read_text()
    header = f'#include "{path.removesuffix(".cpp")}.h"'  # its header has the opening comment
    return not text or text.startswith(("//", '"""', "#!", "# ", header))


def test_every_source_has_an_opening_comment():
    sources = [path for path in tracked() if path.endswith((".cpp", ".h", ".sh", ".py")) and (command.ROOT / path).is_file()]
    assert len(sources) > 50
    assert not [path for path in sources if not has_opening_comment(path)]
