"""Tests that completions and manual pages have all options, and work in real shells."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

import command
from cli.test_command_line import SUBCOMMANDS


def require_program(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed: apt-get install {program}")
    return path


@pytest.fixture(scope="module")
def commands() -> dict[str, dict]:
    return {each["command"]: each for each in command.run_json("completions")["commands"]}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("scripts")
    paths = {shell: folder / name for shell, name in (("bash", "whence"), ("zsh", "_whence"), ("fish", "whence.fish"))}
    for shell, path in paths.items():
        path.write_text(command.run("completions", shell).stdout)
        assert command.run_json("completions", shell)["script"] == path.read_text()
    return paths


def test_every_option_of_the_help_is_described(commands):
    assert set(commands) == set(SUBCOMMANDS)
    for name, description in commands.items():
        text = command.run(name, "--help").stdout
        text = text[:text.find("\nexamples:")]
        listed = set(re.findall(r"^  (?:-\w \[ )?--([a-z0-9-]+)", text, re.MULTILINE))
        options = {each["name"] for each in description["options"]}
        assert {"help", "json"} <= options and listed <= options, name


def test_options_of_python_subcommands_match_their_parsers():
    done = subprocess.run([sys.executable, command.ROOT / "tools/setup/python_commands.py"], capture_output=True, text=True,
                          check=True, env=os.environ)
    table = command.ROOT / "tools/whence/python_commands.json"
    assert json.loads(done.stdout) == json.loads(table.read_text()), (
        f"PYTHONPATH=python build/venv/bin/python tools/setup/python_commands.py > {table}")


def test_options_implemented_in_python_are_listed(commands):
    options = {name: {each["name"] for each in commands[name]["options"]} for name in ("record", "accuracy", "validate")}
    assert {"values", "operations", "full", "no-run"} <= options["record"]
    assert {"values", "max-error", "runtime"} <= options["accuracy"]
    assert {"values", "min-covered", "input-name"} <= options["validate"]


@pytest.mark.parametrize("arguments", [["completions"], ["completions", "tcsh"], ["completions", "bash", "zsh"], ["man", "exprot"],
                                       ["man", "export", "show"]])
def test_unknown_names_are_refused(arguments):
    error = command.run(*arguments, code=2).stderr
    assert error.startswith("E0101") and "; try: " in error
    assert "`whence man export`" in error or arguments[-1] != "exprot"


# (words, expected completions, a word that must not be among them)
LINES = [(["ex"], ["explain", "export", "extract"], "show"),
         (["export", "--ann"], ["--annotate"], "--json"),
         (["accuracy", "--max"], ["--max-error"], "--html"),
         (["export", "--operators", ""], ["fused", "plain"], "model.onnx"),
         (["validate", "--format", "s"], ["sarif"], "text"),
         (["accuracy", "--runtime", "o"], ["onnxruntime", "openvino"], "reference"),
         (["help", "expl"], ["explain"], "export"),
         (["completions", "z"], ["zsh"], "bash"),
         (["show", "mo"], ["model.onnx"], "--depth"),
         (["annotate", "x.onnx", "--sidecar", "mod"], ["model.onnx"], "--json")]


def complete_in_bash(script, words: list[str], folder) -> list[str]:
    line = " ".join(f"'{word}'" for word in ["whence", *words])
    text = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _whence; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, check=True, cwd=folder)
    assert not done.stderr
    return done.stdout.split()


def complete_in_fish(script, words: list[str], folder) -> list[str]:
    fish = require_program("fish")
    done = subprocess.run([fish, "--no-config", "-c", f"source {script}; complete -C 'whence {' '.join(words)}'"],
                          capture_output=True, text=True, check=True, cwd=folder)
    assert not done.stderr
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("words, expected, other", LINES, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
@pytest.mark.parametrize("shell", [complete_in_bash, complete_in_fish])
def test_words_are_completed(scripts, tmp_path, shell, words, expected, other):
    (tmp_path / "model.onnx").touch()
    completions = shell(scripts["bash" if shell is complete_in_bash else "fish"], words, tmp_path)
    assert set(expected) <= set(completions) and other not in completions


@pytest.mark.parametrize("words, expected, other", [
    (["validate", "--format", "=", "s"], "sarif", "text"), (["validate", "--format", "="], "junit", "--json"),
    (["carry", "m.onnx", "-o", "o.onnx", "--", "pytho"], "python3", "--json"),
    (["carry", "m.onnx", "-o", "o.onnx", "--", "python3", "mo"], "model.onnx", "more")], ids=str)
def test_words_that_bash_splits_are_completed(scripts, tmp_path, words, expected, other):
    (tmp_path / "model.onnx").touch()
    completions = complete_in_bash(scripts["bash"], words, tmp_path)
    assert expected in completions and other not in completions


def type_into(arguments: list[str], steps: list[tuple[str, str]], folder) -> None:
    """Types keys into a shell. After each step, waits until the expected text is shown."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.environ.update(TERM="dumb", PS1="> ", HOME=str(folder))
        os.execv(arguments[0], arguments)
    try:
        for keys, expected in steps:
            os.write(terminal, keys.encode())
            shown, end = "", time.monotonic() + 30
            while expected not in shown:
                ready = select.select([terminal], [], [], max(end - time.monotonic(), 0))[0]
                assert ready, f"{keys!r} showed {shown!r}, not {expected!r}"
                shown += os.read(terminal, 4096).decode(errors="replace")
    finally:
        os.close(terminal)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


CLEAR = "\x15"  # Ctrl-U clears the line


def test_tab_completes_in_bash(scripts, tmp_path):
    type_into([require_program("bash"), "--norc", "--noprofile", "-i"],
              [(f"source {scripts['bash']}; echo rea''dy\n", "ready\r\n"), ("whence explai\t", "whence explain "),
               (f"{CLEAR}whence export --anno\t", "whence export --annotate "),
               (f"{CLEAR}whence validate --format=jun\t", "--format=junit ")], tmp_path)


def test_tab_completes_in_zsh(scripts, tmp_path):
    zsh = require_program("zsh")
    (tmp_path / "model.onnx").touch()
    subprocess.run([zsh, "-n", scripts["zsh"]], check=True)
    setup = f"fpath=({scripts['zsh'].parent} $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy\n"
    type_into([zsh, "-f", "-i"],
              [(setup, "ready\r\n"), ("whence explai\t", "whence explain "),
               (f"{CLEAR}whence export --anno\t", "whence export --annotate "),
               (f"{CLEAR}whence validate --format sar\t", "--format sarif "),
               (f"{CLEAR}whence validate --format=jun\t", "--format=junit "),
               (f"{CLEAR}whence show mod\t", "whence show model.onnx ")], tmp_path)


def test_manual_pages_format_without_warnings(commands, tmp_path):
    groff = require_program("groff")
    files = command.run_json("man", "--all", tmp_path / "man1")["files"]
    assert len(files) == len(commands) + 1
    for path in files:
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-K", "utf8", path], capture_output=True, text=True, check=True)
        assert not done.stderr, done.stderr
        page = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout).replace("\u2010", "-").replace("\u2212", "-")
        name = path.rpartition("/")[2].removeprefix("whence-").removesuffix(".1")
        assert "EXIT STATUS" in page
        if name in commands:
            assert not [each["name"] for each in commands[name]["options"] if f"--{each['name']}" not in page], name
    assert command.run("man", "export").stdout == (tmp_path / "man1" / "whence-export.1").read_text()
    assert command.run_json("man")["page"] == (tmp_path / "man1" / "whence.1").read_text()


def test_man_shows_a_page(tmp_path):
    man = require_program("man")
    command.run("man", "--all", tmp_path / "man1")
    shown = subprocess.run([man, "--warnings", "-l", tmp_path / "man1" / "whence-annotate.1"], capture_output=True, text=True,
                           env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
    if "has been minimized" in shown.stdout:
        pytest.skip("man is not installed: this system has a placeholder for it")
    assert "whence-annotate" in shown.stdout.replace("\u2010", "-") and not shown.stderr
