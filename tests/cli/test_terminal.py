"""Tests show, explain and diff on a terminal: aligned trees, colours, and no pager for long text."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest

import command
from validate.onnx_files import chain, known, model

COLOUR = re.compile(r"\x1b\[\d+m")


@pytest.fixture
def path(tmp_path):
    """Thirty modules in a list: 32 rows of a tree, with the root and the list, after a row of titles."""
    return model(chain(*(known(f"layers.{i}") for i in range(30))), tmp_path / "m.onnx")


@pytest.fixture
def other(tmp_path):
    """The same model with each node in an inner module, so that every module differs."""
    return model(chain(*(known(f"layers.{i}.inner") for i in range(30))), tmp_path / "other.onnx")


def on_terminal(*arguments, rows=24, columns=120, code=0, **environment) -> str:
    """Returns the output of whence on a pseudo-terminal of this size."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    process = subprocess.Popen([command.BINARY, *map(str, arguments)], stdin=terminal, stdout=terminal, stderr=terminal,
                               env={**inherited, "TERM": "xterm", **environment}, start_new_session=True)
    os.close(terminal)
    output, deadline = b"", time.monotonic() + 30
    while time.monotonic() < deadline:
        if not select.select([controller], [], [], 0.2)[0]:
            continue
        try:
            chunk = os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        output += chunk
    os.close(controller)
    assert process.wait(timeout=10) == code, output
    return output.decode().replace("\r\n", "\n")


# ---- the tree -------------------------------------------------------------------------------------------------------

def test_show_diff_and_explain_print_the_same_tree(path, other):
    tree = ["(root)", "  layers", "    0", "    1"]
    for text in (command.run("show", path).stdout, command.run("diff", path, other).stdout):
        lines = text[text.index("module"):].splitlines()
        assert [re.match(r" *\S+", line).group() for line in lines[1:5]][:3] == tree[:3]
    assert "\n      inner " in command.run("diff", path, other).stdout
    lines = command.run("explain", other, "n7").stdout.splitlines()
    assert [line.rstrip() for line in lines[:6]] == ["n7", "  module       type  call", "  (root)", "    layers",
                                                     "      7",
                                                     "        inner"]


def test_selected_branches_begin_with_their_qualified_name(other):
    lines = command.run("show", other, "--select", "layers.*").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["layers.0", "inner", "layers.1", "inner"]
    assert lines[1].startswith("layers.0 ") and lines[2].startswith("  inner ")


@pytest.mark.parametrize("arguments", [["show", "A"], ["diff", "A", "B", "--all"], ["explain", "A", "n0"]])
def test_columns_are_below_their_titles(path, other, arguments):
    files = {"A": path, "B": other}
    lines = command.run(*(files.get(word, word) for word in arguments)).stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("module"))
    header = lines[start]
    if "nodes" not in header:
        assert lines[start + 1].index("(root)") == header.index("module")
        return
    end = header.index("nodes") + len("nodes")  # numbers are right-aligned with their titles
    assert all(line[:end].rstrip()[-1].isdigit() and len(line[:end].rstrip()) == end
               for line in lines[start + 1:start + 20])


def test_a_node_of_several_modules_shows_all_of_them(tmp_path):
    fused = {**known("a"), "pkg.whence.modules": '["a.conv", "a.norm"]'}
    text = command.run("explain", model(chain(fused), tmp_path / "m.onnx"), "n0").stdout
    assert "\n    a\n      conv\n      norm\n" in "\n".join(line.rstrip() for line in text.splitlines())


# ---- colours --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["show", "explain", "diff"])
def test_colours_on_a_terminal_unless_no_color_is_set(path, other, name):
    arguments = {"show": ["show", path], "explain": ["explain", path, "n0"], "diff": ["diff", path, other]}[name]
    plain = command.run(*arguments).stdout
    assert not COLOUR.search(plain)
    coloured = on_terminal(*arguments)
    assert COLOUR.search(coloured) and COLOUR.sub("", coloured) == plain
    assert on_terminal(*arguments, NO_COLOR="1") == plain


# ---- text that is longer than the screen ----------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["show", "explain", "diff"])
def test_long_text_is_not_paged(path, other, name):
    arguments = {"show": ["show", path], "explain": ["explain", path, "n0"], "diff": ["diff", path, other]}[name]
    assert on_terminal(*arguments, rows=5, NO_COLOR="1", PAGER="echo paged") == command.run(*arguments).stdout
    result = command.run(*arguments, "--no-pager", code=2)
    assert "--no-pager was removed" in result.stderr and "less -R" in result.stderr
