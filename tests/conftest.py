"""Configures all Python tests, requires a built command, and provides fixtures with a small archive."""

import gc
import os
import random
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

# Tests run in parallel, so each process uses one core. PyTorch reads this when it is loaded, here and in subprocesses.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Subcommands written in Python run from this tree.
os.environ.setdefault("WHENCE_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).resolve().parents[1] / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])

# Imports and exports create millions of long-lived objects. By default, they are scanned after every 700 new objects.
gc.set_threshold(50_000, 20, 100)

import torch

import command
import skips
import torch_caches
from shards import shard


MEMORY = Path("/dev/shm")
REQUIRED_SPACE = 4 << 30  # bytes; test files need at most a sixth


def pytest_addoption(parser):
    parser.addoption("--matrix", metavar="SHARD/OF", help="also run one of OF shards of the tests marked matrix; "
                     "1/1 runs all of them; the default is none")


def pytest_report_header(config):
    lines = [f"matrix: shard {config.option.matrix}"] if config.option.matrix else []
    if not command.has_server():
        lines.append(f"slow: {command.SERVER} is missing or older than the command: `make build`")
    return lines


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    torch_caches.share()
    put_files_into_memory(config)
    if config.option.matrix:
        shard(config.option.matrix)


def put_files_into_memory(config):
    """Puts test files into memory, because tests write thousands of files and whence waits until each is on the disk.
    ``--basetemp`` selects another folder."""
    if hasattr(config, "workerinput") or config.option.basetemp:
        return
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK) or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return  # some tests run programs that they write
    if shutil.disk_usage(MEMORY).free > REQUIRED_SPACE:
        config.option.basetemp = config.files_in_memory = MEMORY / f"whence-tests-{os.getpid()}"


def pytest_unconfigure(config):
    if folder := getattr(config, "files_in_memory", None):
        shutil.rmtree(folder, ignore_errors=True)


def deselect_other_shards(config, items):
    """Keeps only the requested shard of the many tests marked matrix. Neighbouring tests are similar and take equal
    time, so they go to different shards."""
    marked = [item for item in items if item.get_closest_marker("matrix")]
    selected = set()
    if config.option.matrix:
        number, count = shard(config.option.matrix)
        selected = set(marked[number - 1::count])
    config.hook.pytest_deselected(items=[item for item in marked if item not in selected])
    items[:] = [item for item in items if item in selected or not item.get_closest_marker("matrix")]


def pytest_sessionstart(session):
    if not command.BINARY.exists():
        pytest.exit(f"no command at {command.BINARY}: `make build` first, or set WHENCE to it", returncode=2)


def skipped(config) -> list[tuple[str, str]]:
    """Returns (test id, reason) of every skipped test; with xdist, in the controller process."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return [(report.nodeid.removeprefix("tests/"), report.longrepr[2].removeprefix("Skipped: "))
            for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)] if reporter else []


def pytest_sessionfinish(session):
    if session.exitstatus == pytest.ExitCode.OK and skips.unexpected(skipped(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Reports each unexpected skip as an error, because the last line would otherwise state that all tests passed."""
    errors = [pytest.TestReport(line, (__file__, None, ""), {}, "failed", line, "teardown")
              for line in skips.unexpected(skipped(config))]
    for error in errors:
        terminalreporter.write_line(error.nodeid, red=True)
    if errors:
        terminalreporter.stats.setdefault("error", []).extend(errors)


def pytest_runtest_setup():
    """Makes random numbers independent of earlier tests."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed records a stack for each absent kind of device
    np.random.seed(0)
    random.seed(0)


def pytest_collection_finish():
    """Excludes millions of long-lived objects of imported libraries from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """With --dist loadgroup, one process runs all tests of a file, all of native/ (which would wait for each other's
    build) and all of samples/ (which share imports). The tests of ops/ are independent and run last, in any free
    process."""
    deselect_other_shards(config, items)
    items.sort(key=lambda item: Path(item.path).parent.name == "ops")
    for item in items:
        folder = Path(item.path).parent
        if folder.name != "ops":
            item.add_marker(pytest.mark.xdist_group(str(folder if folder.name in ("native", "samples") else item.path)))


@pytest.fixture(autouse=True)
def fail_on_defects_in_package_commands(monkeypatch):
    """A crash of the command in the package also fails a test that expects a WhenceError. The package uses the command
    server, like the tests."""
    package = sys.modules.get("whence.command.process")
    if package is None:
        return
    translate = package.from_command
    monkeypatch.setattr(package, "run", run_for_package(package.run))

    def translate_checked(output: str, error: str, code: int):
        try:
            command.require_no_defect(code, error + output, "whence, run by the Python package")
        except AssertionError as defect:
            pytest.fail(str(defect))  # not caught by any `except Exception` between here and the test
        return translate(output, error, code)

    monkeypatch.setattr(package, "from_command", translate_checked)


def run_for_package(run):
    """Returns a `run` for the package that uses the command server, which has already loaded this LibTorch."""
    def run_quickly(arguments: list[str], variables: dict):
        if arguments[0] != str(command.BINARY):
            return run(arguments, variables)
        if variables.get("WHENCE_TORCH_DIR") == str(Path(torch.__file__).parent):
            variables = {name: value for name, value in variables.items() if name != "WHENCE_TORCH_DIR"}
        return command.run_quickly(arguments[1:], variables)

    return run_quickly


class Small(torch.nn.Module):
    """x: float32[n, 4] -> float32[n, 2]"""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.second = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="session")
def small_archive(tmp_path_factory):
    """Returns the archive of a traced Small, which includes the traced input; tests must not change it."""
    path = tmp_path_factory.mktemp("small") / "small.pt"
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(Small().eval(), torch.randn(3, 4)).save(str(path))
    return path


@pytest.fixture(scope="session")
def small_export(small_archive, tmp_path_factory):
    """Returns the export of Small: (ONNX file, sidecar)."""
    folder = tmp_path_factory.mktemp("small_export")
    model, sidecar = folder / "small.onnx", folder / "small.whence.json"
    command.run("export", small_archive, "-o", model, "--sidecar-out", sidecar)
    return model, sidecar
