"""Copies the tree and inserts the mutants of mutants.txt into the copy. All of them are compiled; the environment
variable WHENCE_MUTANT selects the active one."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import command

LIST = Path(__file__).with_name("mutants.txt")
MARK = re.compile("«(.*?) → (.*?)»", re.DOTALL)


@dataclass(frozen=True)
class Mutant:
    number: int  # from 1, in the order of the list
    line: int  # line in the list
    file: str
    text: str  # with the marked change

    @property
    def room(self) -> str:
        return "/".join(self.file.split("/")[:2 if self.file.startswith(("annotator", "recorder")) else 1])

    @property
    def original(self) -> str:
        return MARK.sub(lambda mark: mark[1], self.text)

    @property
    def planted(self) -> str:
        def choose(mark: re.Match) -> str:
            if mark[1].endswith(";"):
                return f"{{ if (is_mutant({self.number})) {{ {mark[2]} }} else {{ {mark[1]} }} }}"
            return f"(is_mutant({self.number}) ? ({mark[2]}) : ({mark[1]}))"

        return MARK.sub(choose, self.text)


def read_list(text: str) -> list[Mutant]:
    mutants, line = [], 1
    for block in text.split("\n\n"):
        if block.strip() and not block.startswith("#"):
            file, body = block.strip("\n").split("\n", 1)
            if len(MARK.findall(body)) != 1:
                raise SystemExit(f"{LIST.name}:{line}: expected one change between « and »")
            mutants.append(Mutant(len(mutants) + 1, line, file, body))
        line += block.count("\n") + 2
    return mutants


def with_mutants(text: str, mutants: list[Mutant]) -> str:
    """Returns a file's text with its mutants. Exits if the original text of a mutant does not occur exactly once."""
    for mutant in mutants:
        if text.count(mutant.original) != 1:
            raise SystemExit(f"{LIST.name}:{mutant.line}: {mutant.file} contains this text "
                             f"{text.count(mutant.original)} times, not once; update the mutant:\n{mutant.text}")
    for mutant in mutants:
        text = text.replace(mutant.original, mutant.planted)
    return '#include "tests/mutants/mutant.h"\n' + text if mutants else text


def tracked_files() -> list[str]:
    result = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=command.ROOT,
                            capture_output=True, text=True, check=True)
    return [path for path in result.stdout.splitlines() if (command.ROOT / path).is_file()]


def plant(mutants: list[Mutant], folder: Path) -> None:
    """Writes the tree with its mutants to `folder`. Does not rewrite unchanged files, so that a build compiles few."""
    files = tracked_files()
    unknown = {mutant.file for mutant in mutants} - set(files)
    if unknown:
        raise SystemExit(f"{LIST.name}: these files do not exist: {', '.join(sorted(unknown))}")
    contents = {path: (command.ROOT / path).read_bytes() for path in files}
    for file in {mutant.file for mutant in mutants}:
        contents[file] = with_mutants(contents[file].decode(), [each for each in mutants if each.file == file]).encode()
    for path, content in contents.items():
        copy = folder / path
        if not copy.exists() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
            copy.chmod((command.ROOT / path).stat().st_mode)
    for copy in sorted(folder.rglob("*")):
        path = copy.relative_to(folder)
        if path.parts[0] != "build" and copy.is_file() and str(path) not in contents and "__pycache__" not in path.parts:
            copy.unlink()
