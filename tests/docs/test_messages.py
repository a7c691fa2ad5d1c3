"""The English of messages and comments: words and fragments that are not idiomatic must not return."""

import ast
import re
import subprocess
import tokenize
from pathlib import Path

import command

FOLDERS = ["annotator", "include", "python", "recorder", "samples", "schema", "tools"]
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


# What is not said, and what is said instead.
WORDS = {
    r"\b(nobody|somebody)\b": "nothing, a caller, another tool; or the passive",
    r"\btold of\b": "reported, warned",
    r"\bheed(s|ed)?\b": "honour",
    r"\bfor who\b": "for a caller that ...",
    r"^\s*(//|#) Whether (?!it is a parameter or|a container grows)": "True if ...: a comment is a sentence, or says what is returned",
}
# A comment or docstring that opens with these has no subject: "Of any dtype." is to be "True for any dtype."; behind
# code, "// of the channels" is to be "// axis of the channels".
FRAGMENT = re.compile(r'^\s*(?://|#|r?""") ?(?:What|Of|Where|How|Which) |\S +(?://|#) (?:[Ww]hat|[Oo]f|[Ww]here) ')


def test_words_that_slow_a_reader_do_not_return():
    files = subprocess.run(["git", "ls-files", *FOLDERS], cwd=command.ROOT, capture_output=True, text=True, check=True)
    sources = [name for name in files.stdout.split("\n") if name.endswith((".cpp", ".h", ".py", ".md", ".js", ".sh", ".cmake"))]
    assert len(sources) > 500 and all(re.search(pattern, text, re.MULTILINE) for pattern, text in zip(WORDS, [
        "nobody reads it", "users are told of it", "to heed", "for who calls it", "// Whether it fits."], strict=True))
    wrong = [f"{name}:{number}: {line.strip()[:90]}  ({instead})" for name in sources
             for number, line in enumerate((command.ROOT / name).read_text().splitlines(), 1)
             for pattern, instead in WORDS.items() if re.search(pattern, line)]
    assert not wrong, "\n".join(wrong)


def test_comments_do_not_open_as_fragments():
    for fragment in ["// Of any dtype.", "  // What follows needs the arguments of one write.", "# Where it lies.",
                     "// How long each run is.",
                     "int axis;  // of the channels", "int end = 0;  // Where the last window ends.",
                     "found = []  # what was found", '    """Of an argument that was not given."""']:
        assert FRAGMENT.search(fragment), fragment
    for sentence in ["// True for any dtype.", "// The arguments of one write.", "// Offset of the file.",
                     "int axis;  // axis of the channels", "if (x) return;  // nothing is known of what it holds",
                     "found = []  # the nodes found", '    """The default of an argument."""', "// Whatever it is.",
                     "// It is known\n// of it alone that"]:
        assert not any(FRAGMENT.search(line) for line in sentence.split("\n")), sentence
    files = subprocess.run(["git", "ls-files", *FOLDERS], cwd=command.ROOT, capture_output=True, text=True, check=True)
    sources = [name for name in files.stdout.split("\n")
               if name.endswith((".cpp", ".h", ".py", ".js", ".sh", ".cmake", "CMakeLists.txt"))]
    assert len(sources) > 500
    wrong = [f"{name}:{number}: {line.strip()[:90]}" for name in sources
             for number, line in enumerate((command.ROOT / name).read_text().splitlines(), 1) if FRAGMENT.search(line)]
    assert not wrong, "a comment says what the thing is or returns:\n" + "\n".join(wrong)
