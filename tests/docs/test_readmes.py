"""The READMEs against the repository: paths that they name exist, folders are described, commands have their options."""

import re
import subprocess
from pathlib import Path

import pytest

import command

READMES = sorted(path for path in command.ROOT.rglob("README.md") if "build" not in path.relative_to(command.ROOT).parts)
FOLDERS = ["annotator", "recorder", "samples", "schema", "tests", "tools"]
NAMED = re.compile(r"`([\w./-]+)`")
SUFFIXES = (".h", ".cpp", ".py", ".sh", ".json", ".txt", ".md", ".cmake", ".in")
# Files that whence writes or users have; not the repository's.
EXAMPLES = re.compile(r"(^|/)(model|minilm|bert|out|plain|name)\b|^build/|\.whence\.json$|\.onnx$|\.pt$|\.npz$|^lib/|^bin/|compile_commands")


def readable(path: Path) -> str:
    return str(path.relative_to(command.ROOT))


def named_files(text: str) -> list[str]:
    return [name for name in NAMED.findall(text)
            if name.endswith((*SUFFIXES, "/")) and name not in SUFFIXES and not EXAMPLES.search(name)]


def exists(name: str, folder: Path) -> bool:
    if (folder / name).exists() or (command.ROOT / name).exists():
        return True
    return "/" not in name and any(folder.rglob(name))  # a file of a folder below, named in a row of its own


@pytest.mark.parametrize("readme", READMES, ids=readable)
def test_named_paths_exist(readme):
    missing = [name for name in named_files(readme.read_text()) if not exists(name, readme.parent)]
    assert not missing


@pytest.mark.parametrize("readme", READMES, ids=readable)
def test_a_readme_is_markdown(readme):
    """A formatter of C++ that is given one joins headings and lists to what stands before them."""
    text = re.sub(r"^```.*?^```", "", readme.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert text.startswith("# ")
    assert not re.search(r"^[ \t]*#+[A-Za-z]|^[ \t]+#+ ", text, flags=re.MULTILINE)


def test_readmes_name_files_at_all():
    assert sum(len(named_files(readme.read_text())) for readme in READMES) > 30


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_a_readme_that_names_its_children(folder):
    readme = command.ROOT / folder / "README.md"
    text = readme.read_text()
    children = subprocess.run(["git", "ls-files", folder], cwd=command.ROOT, capture_output=True, text=True, check=True).stdout
    below = {path.split("/")[1] for path in children.splitlines() if path.count("/") > 1}
    assert not [child for child in sorted(below) if f"{child}/" not in text]


def command_lines() -> list[tuple[str, str]]:
    lines = []
    for readme in READMES:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", readme.read_text(), re.DOTALL):
            joined = block.replace("\\\n", " ")
            lines += [(readable(readme), line.strip().removeprefix("$ ")) for line in joined.splitlines()
                      if re.match(r"\s*(\$ )?(build/bin/)?whence ", line)]
    return lines


@pytest.mark.parametrize("readme, line", command_lines(), ids=lambda value: value[:60])
def test_commands_and_their_options_exist(readme, line):
    words = line.split("#")[0].split()
    text = command.run(words[1], "--help").stdout if not words[1].startswith("--") else command.run("--help").stdout
    for option in re.findall(r"(?<!\S)--[a-z-]+", line.split("#")[0]):
        assert option in text, f"{readme}: {option}"


def test_make_targets_exist():
    makefile = (command.ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {target for readme in READMES for target in re.findall(r"`make ([a-z]+)", readme.read_text())}
    assert {"demo", "test"} <= named <= targets
