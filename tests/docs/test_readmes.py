"""Compares READMEs and the pages of docs/ with the repository: paths, links and options exist, folders are described,
and README.md stays short."""

import re
import subprocess
from pathlib import Path

import pytest

import command

READMES = sorted(path for path in command.ROOT.rglob("README.md") if "build" not in path.relative_to(command.ROOT).parts)
PAGES = sorted((command.ROOT / "docs").glob("*.md"))
DOCUMENTS = sorted({*READMES, *PAGES, command.ROOT / "CONTRIBUTING.md", command.ROOT / "SECURITY.md"})
MAX_WORDS = 900  # in README.md, counted like `wc -w`
FOLDERS = ["annotator", "recorder", "samples", "schema", "tests", "tools"]
NAMED = re.compile(r"`([\w./-]+)`")
SUFFIXES = (".h", ".cpp", ".py", ".sh", ".json", ".txt", ".md", ".cmake", ".in")
# Names of files that whence writes or that users have, which are not in the repository.
EXAMPLES = re.compile(r"(^|/)(model|minilm|bert|out|plain|name)\b|^build/|\.whence\.json$|\.onnx$|\.pt$|\.npz$|^lib/|^bin/|compile_commands")


def readable(path: Path) -> str:
    return str(path.relative_to(command.ROOT))


def named_files(text: str) -> list[str]:
    return [name for name in NAMED.findall(text)
            if name.endswith((*SUFFIXES, "/")) and name not in SUFFIXES and not EXAMPLES.search(name)]


def exists(name: str, folder: Path) -> bool:
    if (folder / name).exists() or (command.ROOT / name).exists():
        return True
    return "/" not in name and any(folder.rglob(name))  # a file in a subfolder with its own row


def test_the_rules_in_matching_md_match_explain():
    row = re.compile(r'RuleText\{MatchRule::\w+, "(\w+)",\s*"([^"]*)"\}')
    explained = dict(row.findall((command.ROOT / "annotator/match/evidence.cpp").read_text()))
    assert explained.pop("none")
    table = re.findall(r"^\| `(\w+)` \| (.*) \|$", (command.ROOT / "docs/matching.md").read_text(), re.MULTILINE)
    written = {name: sentence.replace("`", "") for name, sentence in table if name in explained}
    assert written == explained and len(explained) > 10


@pytest.mark.parametrize("readme", DOCUMENTS, ids=readable)
def test_named_paths_exist(readme):
    missing = [name for name in named_files(readme.read_text()) if not exists(name, readme.parent)]
    assert not missing


@pytest.mark.parametrize("readme", DOCUMENTS, ids=readable)
def test_a_readme_is_markdown(readme):
    """A C++ formatter that is applied to Markdown by mistake joins headings and lists to the preceding text."""
    text = re.sub(r"^```.*?^```", "", readme.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert text.startswith("# ")
    assert not re.search(r"^[ \t]*#+[A-Za-z]|^[ \t]+#+ ", text, flags=re.MULTILINE)


def test_paths_are_recognised():
    assert sum(len(named_files(readme.read_text())) for readme in READMES) > 30
    assert sum(len(named_files(page.read_text())) for page in PAGES) > 10


def test_the_readme_is_short():
    assert len((command.ROOT / "README.md").read_text().split()) < MAX_WORDS


def test_the_readme_describes_every_top_level_folder():
    tracked = subprocess.run(["git", "ls-files"], cwd=command.ROOT, capture_output=True, text=True, check=True).stdout
    folders = {path.split("/")[0] for path in tracked.splitlines() if "/" in path and not path.startswith(".")}
    described = set(re.findall(r"^\| `(\w+)/` \|", (command.ROOT / "README.md").read_text(), re.MULTILINE))
    assert len(folders) > 5 and described == folders


def without_code(text: str) -> str:
    """Removes code blocks and code spans from Markdown."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def links(document: Path) -> list[str]:
    """Returns the link targets within the repository."""
    found = re.findall(r"\]\(([^()\s]+)\)", without_code(document.read_text()))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(document: Path) -> set[str]:
    """Returns the anchors of a page's headings: lower case, hyphens for spaces, no punctuation."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_broken(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = document.parent / path if path else document
    return not file.exists() or bool(anchor) and anchor not in anchors(file)


@pytest.mark.parametrize("document", DOCUMENTS, ids=readable)
def test_links_resolve(document):
    assert not [target for target in links(document) if is_broken(document, target)]


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n## What it is, and how\n\n[a](page.md#what-it-is-and-how) [b](#a-page) [c](gone.md) "
                    "[d](#gone) [e](https://example.org) `[f](code.md)`\n")
    assert [target for target in links(page) if is_broken(page, target)] == ["gone.md", "#gone"]


def test_every_page_is_listed():
    """docs/README.md lists the pages in reading order."""
    listed = set(links(command.ROOT / "docs" / "README.md"))
    assert len(PAGES) > 10
    assert not [page.name for page in PAGES if page.name != "README.md" and page.name not in listed]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_has_a_readme_that_names_its_children(folder):
    readme = command.ROOT / folder / "README.md"
    text = readme.read_text()
    children = subprocess.run(["git", "ls-files", folder], cwd=command.ROOT, capture_output=True, text=True, check=True).stdout
    below = {path.split("/")[1] for path in children.splitlines() if path.count("/") > 1}
    assert not [child for child in sorted(below) if f"{child}/" not in text]


ROOMS = sorted({header.parent.relative_to(command.ROOT) for part in ("annotator", "recorder", "schema")
                for header in (command.ROOT / part).rglob("*.h")})


@pytest.mark.parametrize("folder", ROOMS, ids=str)
def test_every_header_is_named_in_a_readme(folder):
    """The README may be in the header's folder or in the parent folder."""
    readmes = [command.ROOT / each / "README.md" for each in (folder, folder.parent)]
    text = "".join(readme.read_text() for readme in readmes if readme.exists())
    headers = sorted((command.ROOT / folder).glob("*.h"))
    assert headers and not [header.name for header in headers if header.stem not in text]


def test_every_metadata_key_is_described():
    headers = (command.ROOT / "annotator" / "origin" / "keys").glob("*.h")
    keys = {key for header in headers for key in re.findall(r'"(pkg\.[\w.]+|namespace)"', header.read_text())}
    page = (command.ROOT / "docs" / "metadata-keys.md").read_text()
    assert len(keys) > 30
    assert not [key for key in sorted(keys) if f"`{key}`" not in page]


def test_every_exit_code_is_described():
    line = next(line for line in command.run("--help").stdout.splitlines() if line.startswith("exit codes:"))
    page = (command.ROOT / "docs" / "errors.md").read_text()
    codes = re.findall(r"\b(\d+) ", line)
    assert len(codes) > 5
    assert not [code for code in codes if f"\n| {code} | " not in page]


NOT_PLAIN = re.compile(r"\b(nobody|somebody|told of|heeds?|is told)\b|(?<!there )\bis no (?!longer)", re.IGNORECASE)


@pytest.mark.parametrize("page", [command.ROOT / "README.md", *PAGES], ids=readable)
def test_pages_are_plain_english(page):
    assert NOT_PLAIN.search("nobody") and NOT_PLAIN.search("x is no file") and not NOT_PLAIN.search("there is no file")
    assert not [match.group() for match in NOT_PLAIN.finditer(" ".join(page.read_text().split()))]


def command_lines() -> list[tuple[str, str]]:
    lines = []
    for readme in DOCUMENTS:
        for block in re.findall(r"```(?:sh|console)\n(.*?)```", readme.read_text(), re.DOTALL):
            joined = block.replace("\\\n", " ")
            lines += [(readable(readme), line.strip().removeprefix("$ ")) for line in joined.splitlines()
                      if re.match(r"\s*(\$ )?(build/bin/)?whence ", line)]
    for page in [command.ROOT / "README.md", *PAGES]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines += [(readable(page), " ".join(span.split())) for span in re.findall(r"`(whence [a-z][^`]*)`", text)]
    return lines


@pytest.mark.parametrize("readme, line", command_lines(), ids=lambda value: value[:60])
def test_commands_and_their_options_exist(readme, line):
    words = line.split("#")[0].split()
    text = command.run(words[1], "--help").stdout if not words[1].startswith("--") else command.run("--help").stdout
    for option in re.findall(r"(?<!\S)--[a-z-]+", line.split("#")[0]):
        assert option in text, f"{readme}: {option}"


def test_options_named_in_prose_exist():
    """An option in a code span without a subcommand must belong to some subcommand."""
    names = re.findall(r"^  ([a-z]+)  ", command.run("--help").stdout.split("commands:")[1].split("options:")[0], re.MULTILINE)
    known = {option for name in names for option in re.findall(r"--[a-z-]+", command.run(name, "--help").stdout)}
    named = {option for page in [command.ROOT / "README.md", *PAGES]
             for span in re.findall(r"`(--[^`\n]*)`", page.read_text()) for option in re.findall(r"(?<!\S)--[a-z-]+", span)}
    assert len(names) > 15 and len(named) > 20
    assert not named - known


def test_the_cpp_api_is_described():
    """The page describes every installed header, and the functions that it names exist in the header."""
    rows = re.findall(r"^\| `include/whence/(\w+\.h)` \| ([^|]*)", (command.ROOT / "docs" / "cpp.md").read_text(), re.MULTILINE)
    headers = {path.name: path.read_text() for path in (command.ROOT / "include" / "whence").glob("*.h")}
    assert {name for name, _ in rows} == set(headers) and len(headers) > 5
    for name, contents in rows:
        assert not [word for word in re.findall(r"`(\w+)`", contents) if not re.search(rf"\b{word}\b", headers[name])]


def test_make_targets_exist():
    makefile = (command.ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    named = {target for document in DOCUMENTS for target in re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", document.read_text(), re.MULTILINE)}
    assert {"demo", "test"} <= named <= targets
