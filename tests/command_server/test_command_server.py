"""Tests that running the command through the command server makes no difference."""

import os
import signal
import subprocess

import pytest

import command
from command_server.client import WITH_LIBTORCH, WITHOUT_LIBTORCH
from models import zoo

ENVIRONMENT = dict(os.environ)


@pytest.fixture(scope="module", params=[WITH_LIBTORCH, WITHOUT_LIBTORCH], ids=["with LibTorch", "without"])
def server(request):
    assert command.has_server(), f"no {command.SERVER}, or it is older than the command: build all"
    return command.server(request.param)


def run_both(server, *arguments, env=ENVIRONMENT) -> list[subprocess.CompletedProcess]:
    line = [str(argument) for argument in arguments]
    return [server.run([str(command.BINARY), *line], env, command.TIMEOUT), command.run_process(line, env)]


@pytest.mark.parametrize("arguments, code", [
    (["--version"], 0), ([], 2), (["export"], 2), (["export", "no such file.pt"], 2), (["export", "--help"], 0),
    (["record", __file__, "-o", "out.json"], 3), (["record", "Größe.pt", "--json"], 2), (["export", ""], 2),
    ])
def test_output_and_exit_code_are_the_same(server, arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    served, direct = run_both(server, *arguments)
    assert (served.returncode, served.stdout, served.stderr) == (direct.returncode, direct.stdout, direct.stderr)
    assert served.returncode == code


@pytest.mark.parametrize("subcommand", ["record", "export"])
@pytest.mark.parametrize("name", ["bert_tiny", "lstm_tagger"])
def test_files_are_the_same(server, subcommand, name, tmp_path, monkeypatch):
    results = []
    for run in (lambda line: server.run([str(command.BINARY), *line], ENVIRONMENT, command.TIMEOUT),
                lambda line: command.run_process(line, ENVIRONMENT)):
        folder = tmp_path / str(len(results))
        folder.mkdir()
        monkeypatch.chdir(folder)  # the path of the output is relative
        result = run([subcommand, str(zoo.trace(name)), "--inputs", str(zoo.inputs_file(name)), "-o", "out"])
        results.append(((folder / "out").read_bytes(), result.returncode, result.stdout, result.stderr))
    assert results[0] == results[1] and results[0][1] == 0


@pytest.mark.parametrize("line", ["annotate {model} --sidecar {sidecar} -o out", "validate {model}", "show {model}",
                                  "show {sidecar} --json", "diff {model} {sidecar}", "dot {model} -o out",
                                  "report {model} -o out --format md", "explain {model} nothing", "ops"])
def test_other_subcommands_are_the_same(server, line, small_export, tmp_path, monkeypatch):
    model, sidecar = small_export
    arguments, results = line.format(model=model, sidecar=sidecar).split(), []
    for run in (lambda: server.run([str(command.BINARY), *arguments], ENVIRONMENT, command.TIMEOUT),
                lambda: command.run_process(arguments, ENVIRONMENT)):
        monkeypatch.chdir(tmp_path)
        result = run()
        out = tmp_path / "out"
        results.append((out.exists() and out.read_bytes(), result.returncode, result.stdout, result.stderr))
        out.unlink(missing_ok=True)
    assert results[0] == results[1]


def test_the_environment_of_a_request_is_used(server, small_archive, tmp_path):
    environment = {**ENVIRONMENT, "WHENCE_RECORDER": "/nowhere/recorder.so"}
    assert not server.can_run(environment), "variables read while libraries are loaded need a new process"
    assert server.can_run({**ENVIRONMENT, "NO_COLOR": "1"})
    result = command.run("record", small_archive, "-o", tmp_path / "out", env=environment, code=4)
    assert "/nowhere/recorder.so" in result.stderr


def test_signals_are_passed_on(server):
    for number in (signal.SIGKILL, signal.SIGTERM):
        running = server.start([str(command.BINARY), "ops", "--json"], ENVIRONMENT)
        os.kill(running.process, signal.SIGSTOP)
        os.kill(running.process, number)
        os.kill(running.process, signal.SIGCONT)
        assert running.finish(command.TIMEOUT).returncode == -number


def test_a_process_is_killed_after_the_timeout(server):
    running = server.start([str(command.BINARY), "ops", "--json"], ENVIRONMENT)
    os.kill(running.process, signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        running.finish(0.1)
    assert server.run([str(command.BINARY), "--version"], ENVIRONMENT, command.TIMEOUT).returncode == 0


def test_several_processes_end_in_any_order(server):
    running = [server.start([str(command.BINARY), "ops", "--json"], ENVIRONMENT) for _ in range(5)]
    expected = command.run_process(["ops", "--json"], ENVIRONMENT).stdout
    assert all(each.finish(command.TIMEOUT).stdout == expected for each in reversed(running))


@pytest.mark.parametrize("code, error", [(-11, ""), (-6, "E0204 corrupt file"), (70, "E0901 internal error"),
                                         (3, "E0901 internal error: this was caught")])
def test_an_unexpected_defect_fails_a_test(code, error, monkeypatch):
    finished = subprocess.CompletedProcess([], code, "", error)
    monkeypatch.setattr(command, "run_quickly", lambda arguments, environment: finished)
    for expected in (0, 3, 4, None):
        if expected != code:
            with pytest.raises(AssertionError, match="defect in whence"):
                command.run("show", "model.onnx", code=expected)
    assert command.run("show", "model.onnx", code=code) is finished
