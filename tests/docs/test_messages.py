"""The English of messages: string literals of C++ and Python, in which words that are not idiomatic must not return."""

import ast
import re
import subprocess
import tokenize
from pathlib import Path

import command

FOLDERS = ["annotator", "python", "recorder", "samples", "schema", "tools"]
# "'xml' is no format" is to be "'xml' is not a format". "There is no file" and "it is no longer needed" are English.
NO_NOUN = re.compile(r"(?<!there )(?<!where )\b(is|are) no(?! longer\b| more\b)(?= |$)", re.IGNORECASE)
# Nothing between two literals but space: one literal.
LITERALS = re.compile(r'//[^\n]*|R"\((?P<raw>.*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)


def literals_in_cpp(text: str) -> list[tuple[int, str]]:
    found, end = [], -1
    for each in LITERALS.finditer(text):
        literal = each["raw"] or each["text"]
        if literal is None:
            continue
        if found and not text[end:each.start()].strip():
            found[-1] = (found[-1][0], found[-1][1] + literal)
        else:
            found.append((text.count("\n", 0, each.start()) + 1, literal))
        end = each.end()
    return found


def literals_in_python(path: Path) -> list[tuple[int, str]]:
    with tokenize.open(path) as file:
        tree = ast.parse(file.read())
    return [(node.lineno, node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def literals() -> list[tuple[str, str]]:
    """(place, literal) of every source file."""
    files = subprocess.run(["git", "ls-files", *FOLDERS], cwd=command.ROOT, capture_output=True, text=True, check=True)
    found = []
    for name in files.stdout.split("\n"):
        path = command.ROOT / name
        if name.endswith((".cpp", ".h")):
            each = literals_in_cpp(path.read_text())
        elif name.endswith(".py"):
            each = literals_in_python(path)
        else:
            continue
        found += [(f"{name}:{line}", literal) for line, literal in each]
    return found


def test_literals_are_found_where_comments_and_code_are_not():
    text = 'f("a is " /* b */ "no c");  // "d"\nchar q = \'"\';\nfail("one "\n     "text");\nR"(raw)"'
    assert [literal for _, literal in literals_in_cpp(text)] == ["a is ", "no c", "one text", "raw"]
    assert len(literals()) > 5000


def test_a_thing_is_not_another_thing():
    assert NO_NOUN.search("'xml' is no format") and NO_NOUN.search("they are no tensors") and NO_NOUN.search("x is no")
    assert not NO_NOUN.search("there is no file; it is no longer there, and what is not a file is none")
    wrong = [f"{place}: {text.strip()[:100]}" for place, text in literals() if NO_NOUN.search(" ".join(text.split()))]
    assert not wrong, "write 'is not a ...', 'are not ...':\n" + "\n".join(wrong)
