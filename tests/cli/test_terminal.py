"""What show, explain and diff do on a terminal: one aligned tree, colours, a pager for long text."""

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
    """Thirty modules in a list: 32 rows of a tree, with the root and the list, behind one of titles."""
    return model(chain(*(known(f"layers.{i}") for i in range(30))), tmp_path / "m.onnx")


@pytest.fixture
def other(tmp_path):
    """The same with each node in a module within: every module differs."""
    return model(chain(*(known(f"layers.{i}.inner") for i in range(30))), tmp_path / "other.onnx")


def on_terminal(*arguments, rows=24, columns=120, code=0, keys=b"", **environment) -> str:
    """What whence writes to a pseudo-terminal of that size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    inherited = {key: value for key, value in os.environ.items() if key not in ("PAGER", "NO_COLOR", "LESS")}
    process = subprocess.Popen([command.BINARY, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**inherited, "TERM": "xterm", **environment}, start_new_session=True)
    os.close(theirs)
    written, until = b"", time.monotonic() + 30
    while time.monotonic() < until:
        if not select.select([ours], [], [], 0.2)[0]:
            if keys:
                os.write(ours, keys)
            continue
        try:
            got = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not got:
            break
        written += got
    os.close(ours)
    assert process.wait(timeout=10) == code, written
    return written.decode().replace("\r\n", "\n")


def marking(folder) -> str:
    """A pager that marks what goes through it."""
    script = folder / "marking"
    script.write_text("#!/bin/sh\necho PAGED\ncat\n")
    script.chmod(0o755)
    return str(script)


# ---- the tree -------------------------------------------------------------------------------------------------------

def test_one_tree_in_show_diff_and_explain(path, other):
    tree = ["(root)", "  layers", "    0", "    1"]
    for text in (command.run("show", path).stdout, command.run("diff", path, other).stdout):
        lines = text[text.index("module"):].splitlines()
        assert [re.match(r" *\S+", line).group() for line in lines[1:5]][:3] == tree[:3]
    assert "\n      inner " in command.run("diff", path, other).stdout
    lines = command.run("explain", other, "n7").stdout.splitlines()
    assert [line.rstrip() for line in lines[:6]] == ["n7", "  module       type  call", "  (root)", "    layers",
                                                     "      7",
                                                     "        inner"]


def test_branches_that_are_shown_alone_begin_with_their_whole_name(other):
    lines = command.run("show", other, "--select", "layers.*").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["layers.0", "inner", "layers.1", "inner"]
    assert lines[1].startswith("layers.0 ") and lines[2].startswith("  inner ")


@pytest.mark.parametrize("arguments", [["show", "A"], ["diff", "A", "B", "--all"], ["explain", "A", "n0"]])
def test_columns_stand_below_their_titles(path, other, arguments):
    files = {"A": path, "B": other}
    lines = command.run(*(files.get(word, word) for word in arguments)).stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("module"))
    header = lines[start]
    if "nodes" not in header:
        assert lines[start + 1].index("(root)") == header.index("module")
        return
    end = header.index("nodes") + len("nodes")  # numbers end where their titles do
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
    coloured = on_terminal(*arguments, "--no-pager")
    assert COLOUR.search(coloured) and COLOUR.sub("", coloured) == plain
    assert on_terminal(*arguments, "--no-pager", NO_COLOR="1") == plain


# ---- the pager ------------------------------------------------------------------------------------------------------

def test_the_pager_takes_what_is_longer_than_the_screen(path, tmp_path):
    pager = marking(tmp_path)
    plain = command.run("show", path).stdout
    assert plain.count("\n") == 33
    paged = on_terminal("show", path, rows=33, PAGER=pager, NO_COLOR="1")
    assert paged == "PAGED\n" + plain
    # One row is left for the prompt.
    assert on_terminal("show", path, rows=34, PAGER=pager, NO_COLOR="1") == plain
    assert on_terminal("show", path, rows=5, PAGER=pager, NO_COLOR="1") == "PAGED\n" + plain


def test_lines_that_wrap_count_for_all_their_rows(path, tmp_path):
    pager = marking(tmp_path)
    assert not on_terminal("show", path, rows=40, PAGER=pager).startswith("PAGED")
    assert on_terminal("show", path, rows=40, columns=20, PAGER=pager).startswith("PAGED")


@pytest.mark.parametrize("name", ["show", "explain", "diff"])
def test_each_of_them_pages_and_can_be_told_not_to(path, other, tmp_path, name):
    arguments = {"show": ["show", path], "explain": ["explain", path, "n0"], "diff": ["diff", path, other]}[name]
    pager = marking(tmp_path)
    assert on_terminal(*arguments, rows=5, PAGER=pager).startswith("PAGED\n")
    assert "PAGED" not in on_terminal(*arguments, "--no-pager", rows=5, PAGER=pager)
    assert "PAGED" not in on_terminal(*arguments, "--json", rows=5, PAGER=pager)
    assert "PAGED" not in command.run(*arguments, env={"PAGER": pager}).stdout  # no terminal


@pytest.mark.parametrize("pager", ["", "cat", "/nowhere/pager"])
def test_without_a_pager_the_text_is_printed(path, pager):
    text = on_terminal("show", path, rows=5, PAGER=pager, NO_COLOR="1")
    assert text.endswith(command.run("show", path).stdout)


def test_a_pager_that_is_left_early_is_no_failure(path, tmp_path):
    script = tmp_path / "head"
    script.write_text("#!/bin/sh\nexec head -n 2\n")
    script.chmod(0o755)
    assert on_terminal("show", path, rows=5, PAGER=str(script), NO_COLOR="1").count("\n") == 2


def test_the_exit_code_stays_that_of_the_comparison(path, other, tmp_path):
    assert "PAGED" in on_terminal("diff", path, other, "--exit-code", rows=5, code=1, PAGER=marking(tmp_path))


@pytest.mark.skipif(subprocess.run(["sh", "-c", "command -v less"], capture_output=True).returncode != 0,
                    reason="no less here")
def test_less_by_default(path):
    text = on_terminal("show", path, rows=10, keys=b"q")
    assert "layers" in text and text.count("\n") < 33  # it stopped after a screen and was left
