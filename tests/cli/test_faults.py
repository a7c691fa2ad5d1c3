"""Injects a fault at every system call of a command. The command must leave either the old or the new files, and the
next run must remove its temporary files. docs/reliability.md states the guarantees; faults.cpp injects the faults."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import save_file

import command
from cli.test_files import write_model
from command_server.client import WITHOUT_LIBTORCH, CommandServer

# Calls that change the disk, including `open`, which may create a file: processes are killed only at these.
DISK_CALLS = ("open", "write", "copy_file_range", "fsync", "rename", "link", "unlink", "rmdir", "mkdir", "chmod",
              "close")
ERRORS = {
    "open": ("EACCES", "ENOSPC", "EMFILE", "EIO", "EROFS"),
    "write": ("ENOSPC", "EIO", "EINTR", "short"),
    "read": ("EIO", "EINTR", "short"),
    "pread": ("EIO", "EINTR", "short"),
    "copy_file_range": ("EXDEV", "ENOSPC", "EIO", "EINTR", "short"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "rename": ("EACCES", "EIO", "ENOSPC"),
    "link": ("EPERM", "EIO", "ENOSPC"),
    "unlink": ("EACCES", "EIO"),
    "rmdir": ("EACCES", "EIO"),
    "mkdir": ("ENOSPC", "EACCES", "EIO"),
    "chmod": ("EPERM", "EIO"),
    "close": ("EIO",),
    "flock": ("ENOLCK", "EINTR"),
    "opendir": ("EACCES", "EMFILE"),
    "mmap": ("ENOMEM", "EACCES"),
    "stat": ("EACCES", "EIO"),
    "fstat": ("EIO",),
}
REMOVALS = ("unlink", "rmdir", "opendir")  # if one of these fails, a temporary file stays until the next run


@dataclass
class Writer:
    """A command that writes `targets` and renames them in this order."""

    words: str  # with paths in the folders in/ and out/
    targets: tuple[str, ...]
    slow: bool = False  # each run loads LibTorch, which takes a second


DATA = ("one.onnx.data", "one.onnx")
WRITERS = {
    "annotate": Writer("annotate in/model.onnx --sidecar in/model.whence.json -o out/one.onnx", ("one.onnx",)),
    "annotate in place": Writer("annotate out/one.onnx --sidecar in/model.whence.json -o out/one.onnx", ("one.onnx",)),
    "annotate data": Writer("annotate in/data.onnx -o out/one.onnx --overwrite", DATA),
    "annotate functions": Writer("annotate in/data.onnx --functions modules=* -o out/one.onnx --overwrite", DATA),
    "annotate weights": Writer("annotate in/model.onnx --weights in/model.safetensors -o out/one.onnx", ("one.onnx",)),
    "attest": Writer("attest in/model.onnx --weights in/model.safetensors --sidecar in/model.whence.json -o out/one.json "
                     "--bom out/one.bom", ("one.bom", "one.json")),
    "refit": Writer("refit in/model.onnx --base in/model.safetensors --weights in/model.safetensors "
                    "--sidecar in/model.whence.json -o out/one.onnx", ("one.onnx",)),
    "weights": Writer("weights in/model.onnx --base in/model.safetensors --sidecar in/model.whence.json -o out/one.safetensors "
                      "--overwrite", ("one.safetensors",)),
    "carry": Writer("carry in/named.onnx -o out/one.onnx -- cp {in} {out}", ("one.onnx",)),
    "strip": Writer("strip in/data.onnx -o out/one.onnx --overwrite", DATA),
    "functions": Writer("functions in/annotated.onnx --depth 1 -o out/one.onnx --overwrite", DATA),
    "place": Writer("place in/annotated.onnx --rule cpu=** --default cpu -o out/one.onnx --overwrite", DATA),
    "inline": Writer("inline in/functions.onnx -o out/one.onnx --overwrite", DATA),
    "extract": Writer("extract in/annotated.onnx --module up -o out/one.onnx --overwrite", DATA),
    "export": Writer("export in/model.pt2 -o out/one.onnx --external-data --overwrite", DATA),
    "export everything": Writer("export in/model.pt2 -o out/one.onnx --external-data --overwrite --annotate "
                                "--sidecar-out out/one.json --report out/one.md", (*DATA, "one.json", "one.md")),
    "export torchscript": Writer("export in/model.pt -o out/one.onnx --external-data --overwrite "
                                 "--external-data-threshold 0", DATA, slow=True),
    "record": Writer("record in/model.pt2 -o out/one.json", ("one.json",)),
    "record torchscript": Writer("record in/model.pt -o out/one.json", ("one.json",), slow=True),
    "report html": Writer("report in/model.onnx -o out/one.html", ("one.html",)),
    "report md": Writer("report in/model.onnx -o out/one.md", ("one.md",)),
    "report both": Writer("report in/model.onnx -o out/one.md -o out/one.html", ("one.html", "one.md")),
    "validate": Writer("validate in/named.onnx --format sarif -o out/one.sarif --format json -o out/one.json",
                       ("one.json", "one.sarif")),
    "select": Writer("select in/annotated.onnx --modules up -o out/one.txt", ("one.txt",)),
    "dot": Writer("dot in/model.onnx -o out/one.dot", ("one.dot",)),
    "graphml": Writer("graphml in/model.onnx -o out/one.graphml", ("one.graphml",)),
    "model-explorer": Writer("model-explorer in/model.onnx -o out/one.json", ("one.json",)),
    "diff html": Writer("diff in/model.onnx in/named.onnx --html out/one.html", ("one.html",)),
    "profile": Writer("profile in/named.onnx --ort-profile in/profile.json --format speedscope -o out/one.json",
                      ("one.json",)),
    "completions": Writer("completions bash -o out/one.bash", ("one.bash",)),
}
QUICK = [name for name, writer in WRITERS.items() if not writer.slow]
EVERY = [pytest.param(name, marks=[pytest.mark.matrix] if writer.slow else []) for name, writer in WRITERS.items()]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("faults") / "faults.so"
    source = command.ROOT / "tests" / "cli" / "faults.cpp"
    subprocess.run(["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


@pytest.fixture(scope="module")
def server(library):
    """Forks the thousands of processes that preload the library."""
    if not command.has_server():
        return None
    return CommandServer(command.SERVER, WITHOUT_LIBTORCH, {"LD_PRELOAD": str(library)})


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, small_archive, small_export):
    """Fills the folder `in` of every writer."""
    folder = tmp_path_factory.mktemp("inputs") / "in"
    folder.mkdir()
    command.run("annotate", small_export[0], "-o", folder / "named.onnx")
    for source, name in ((small_export[0], "model.onnx"), (small_export[1], "model.whence.json"),
                         (small_archive, "model.pt")):
        shutil.copy(source, folder / name)
    save_file({each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy())
               for each in onnx.load(small_export[0]).graph.initializer}, folder / "model.safetensors")
    write_model(folder, 1, "data.onnx")
    command.run("annotate", folder / "data.onnx", "-o", folder / "annotated.onnx")
    command.run("functions", folder / "annotated.onnx", "-o", folder / "functions.onnx", "--depth", "1")
    torch.manual_seed(0)
    torch.export.save(torch.export.export(torch.nn.Linear(64, 64), (torch.zeros(1, 64),)), folder / "model.pt2")
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "run")
    session = onnxruntime.InferenceSession(str(folder / "named.onnx"), options, providers=["CPUExecutionProvider"])
    session.run(None, {session.get_inputs()[0].name: torch.ones(3, 4).numpy()})
    os.rename(session.end_profiling(), folder / "profile.json")
    return folder


@dataclass
class Stage:
    """A folder with `in` and `out`, in which a writer runs many times."""

    writer: Writer
    root: Path
    library: Path
    server: CommandServer | None
    old: dict[str, bytes] | None = None  # contents of the targets before a run
    new: dict[str, bytes] | None = None
    stderr: str = ""  # of the last run with a fault

    @property
    def out(self) -> Path:
        return self.root / "out"

    def reset(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        for name in self.writer.targets:
            (self.out / name).write_text(f"old {name}")
        if "out/" in re.split(" -o | --html ", self.writer.words)[0]:
            shutil.copy(self.root / "in/model.onnx", self.out / "one.onnx")

    def command(self, fault: str = "", log: str = "", words: str = "") -> tuple[list, dict]:
        arguments = [str(self.root / word) if re.match("(in|out)/", word) else word
                     for word in (words or self.writer.words).split()]
        environment = {"LD_PRELOAD": str(self.library), "WHENCE_FAULT_FOLDER": str(self.root),
                       "WHENCE_FAULT": fault, "WHENCE_FAULT_LOG": log}
        return [str(command.BINARY), *arguments], {**os.environ, **environment}

    def run(self, fault: str = "", log: str = "", words: str = "") -> subprocess.CompletedProcess:
        arguments, environment = self.command(fault, log, words)
        if self.server:
            return self.server.run(arguments, environment, timeout=60)
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=60, check=False)

    def calls(self) -> list[tuple[int, str, str]]:
        """Returns the counted calls of a run without a fault: number, name, path."""
        self.reset()
        log = self.root / "log"
        log.unlink(missing_ok=True)
        assert self.run(log=str(log)).returncode == 0
        found = [line.split(" ", 2) for line in log.read_text().splitlines()]
        self.new = self.files()
        assert len(found) > 5 and set(self.new) == set(self.writer.targets)
        return [(int(number), call, path.replace(str(self.root) + "/", "")) for number, call, path in found]

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.out.iterdir() if not path.name.startswith(".whence-")}

    def temporaries(self) -> list[str]:
        return [name for name in os.listdir(self.out) if name.startswith(".whence-")]

    def state(self, code: int = 0) -> str:
        """Returns o(ld) or n(ew) for each target, in the order of their renames."""
        files = self.files()
        if code != 0 and "one.md" in self.old and b"**Nothing was written" in files["one.md"]:
            files["one.md"] = self.old["one.md"]  # the report of a failed export contains the reason
        assert set(files) <= {*self.writer.targets, "other.dot"}, files.keys()
        letters = ""
        for name in self.writer.targets:
            new = without_times(name, files.get(name)) == without_times(name, self.new[name])
            assert new or files.get(name) == self.old[name], f"{name} is neither old nor new"
            letters += "n" if new else "o"
        return letters


def without_times(name: str, content: bytes | None) -> bytes | None:
    """Removes the durations from the report of an export."""
    return re.sub(rb"\d+\.\d\d\d", b"", content) if content and name.endswith(".md") else content


@pytest.fixture
def stage(request, library, server, inputs, tmp_path):
    result = Stage(WRITERS[request.param], tmp_path, library, server)
    shutil.copytree(inputs, tmp_path / "in")
    result.reset()
    result.old = result.files()
    return result


def disk_changes(calls) -> list[int]:
    return [number for number, call, path in calls if call in DISK_CALLS and path.startswith("out")]


@pytest.mark.parametrize("stage", EVERY, indirect=True)
def test_a_kill_at_any_call_leaves_old_or_new_files(stage):
    """Each target is old or new, and targets that refer to others are renamed last. The next run of any command in the
    folder makes all targets old or all new, and removes the temporary files of the killed process."""
    states = set()
    points = disk_changes(stage.calls())
    for number in points:
        stage.reset()
        assert stage.run(f"kill {number}").returncode == -signal.SIGKILL
        state = stage.state()
        assert re.fullmatch("n*o*", state), state
        states.add(state)
        assert stage.run(words="dot in/model.onnx -o out/other.dot").returncode == 0
        after = stage.state()
        assert set(after) in ({"o"}, {"n"}) and (state != "o" * len(state) or after == state)
        assert stage.temporaries() == []
        assert stage.run().returncode == 0 and set(stage.state()) == {"n"} and stage.temporaries() == []
    assert len(states) == len(stage.writer.targets) + 1 and len(points) > 5  # including kills between two renames


@pytest.mark.parametrize("stage", QUICK, indirect=True)
def test_sigterm_at_any_call_leaves_old_or_new_files(stage):
    """The targets are all old or all new, because the signal is blocked during the renames."""
    for number in disk_changes(stage.calls()):
        stage.reset()
        done = stage.run(f"SIGTERM {number}")
        assert done.returncode == -signal.SIGTERM and done.stderr == ""
        assert set(stage.state()) in ({"o"}, {"n"}) and stage.temporaries() == []


def require_old_or_new(stage, call: str, fault: str):
    stage.reset()
    done = stage.run(fault)
    stage.stderr = done.stderr
    message = f"{fault} at {call}: exit {done.returncode}\n{done.stderr}"
    command.require_no_defect(done.returncode, done.stderr, message)
    assert done.returncode in (0, 2, 3, 4, 5, 6), message  # 6: weights without a status may lie outside the folder
    assert set(stage.state(done.returncode)) == {"n" if done.returncode == 0 else "o"}, message
    assert done.returncode == 0 or re.match(r"E0[1-5]\d\d ", done.stderr) and "; try: " in done.stderr, message
    if call in REMOVALS or done.returncode == 0:
        stage.run()
    assert stage.temporaries() == [], message


@pytest.mark.parametrize("stage", QUICK, indirect=True)
def test_one_error_at_every_call(stage):
    """The test below tries all errors at each call."""
    for number, call, _ in stage.calls():
        errors = ERRORS[call]
        require_old_or_new(stage, call, f"{errors[number % len(errors)]} {number}")


@pytest.mark.matrix
@pytest.mark.parametrize("stage", EVERY, indirect=True)
def test_every_error_at_every_call(stage):
    for number, call, _ in stage.calls():
        for error in ERRORS[call]:
            require_old_or_new(stage, call, f"{error} {number}")


@pytest.mark.parametrize("stage", QUICK, indirect=True)
def test_files_are_on_the_disk_before_they_get_their_names(stage):
    """After a power loss, no name refers to unwritten bytes, and the files of a successful run are complete."""
    unwritten, folder_is_written = set(), False
    for _, call, path in stage.calls():
        paths = [name for name in path.split(" ") if name.startswith("out")]
        if call in ("write", "copy_file_range"):
            unwritten |= set(paths)
        elif call == "fsync":
            unwritten -= set(paths)
            folder_is_written = paths == ["out"]
        elif call in ("rename", "link") and ".whence-" in paths[1]:  # to another temporary name
            if paths[0] in unwritten:
                unwritten.add(paths[1])
        elif call in ("rename", "link"):
            assert paths[0] not in unwritten, f"{paths[1]} was named before its bytes were on the disk"
            folder_is_written = False
    assert folder_is_written, "the folder was not synced after the last rename"


# ---- two processes at once -----------------------------------------------------------------------------------------

def writer_of(folder) -> str:
    """Returns which of the two runs wrote `one.onnx` and its weights; fails if each wrote one of them."""
    weights = {name: (folder.parent / name / "one.onnx.data").read_bytes() for name in ("first", "second")}
    models = {name: (folder.parent / name / "one.onnx").read_bytes() for name in ("first", "second")}
    found = [name for name in weights if (folder / "one.onnx").read_bytes() == models[name]
             and (folder / "one.onnx.data").read_bytes() == weights[name]]
    assert len(found) == 1, "a model with the weights of another"
    return found[0]


@pytest.mark.parametrize("stage", ["annotate data"], indirect=True)
def test_two_concurrent_writers_do_not_mix_models_and_weights(stage):
    """Stops the first process at every call while the second runs. The first keeps its temporary files, and the final
    model has its own weights."""
    write_model(stage.root / "in", 2, "other.onnx", first="o.bin")
    words = {"first": stage.writer.words, "second": stage.writer.words.replace("data.onnx", "other.onnx")}
    points = disk_changes(stage.calls())
    for name in words:
        stage.reset()
        assert stage.run(words=words[name]).returncode == 0
        shutil.copytree(stage.out, stage.root / name)
    winners = []
    for number in points:
        stage.reset()
        arguments, environment = stage.command(f"stop {number}")
        first = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        before = stage.temporaries()
        arguments, environment = stage.command(words=words["second"])
        second = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True)
        try:
            second.wait(0.2)  # it waits while the first renames files
        except subprocess.TimeoutExpired:
            pass
        assert set(before) <= set(stage.temporaries()), "a running process lost its temporary files"
        first.send_signal(signal.SIGCONT)
        assert second.wait(30) == 0, second.stderr.read()
        assert first.wait(30) in (0, 5), first.stderr.read()
        winners.append(writer_of(stage.out))
        assert stage.temporaries() == []
    assert set(winners) == {"first", "second"}


@pytest.mark.parametrize("stage", ["annotate data"], indirect=True)
def test_weights_replaced_after_the_comparison_are_an_error(stage):
    """The first process reuses the equal weights on the disk; the second replaces them before the first ends."""
    write_model(stage.root / "in", 2, "other.onnx", first="o.bin")
    stage.calls()
    stage.reset()
    assert stage.run().returncode == 0
    shutil.copytree(stage.out, stage.root / "first")
    second = stage.writer.words.replace("data.onnx", "other.onnx")
    log = stage.root / "log"
    log.unlink()
    assert stage.run(log=str(log)).returncode == 0
    numbers = [int(line.split()[0]) for line in log.read_text().splitlines() if " fsync " in line]
    arguments, environment = stage.command(f"stop {numbers[0]}")
    first = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    assert stage.run(words=second).returncode == 0
    shutil.copytree(stage.out, stage.root / "second")
    first.send_signal(signal.SIGCONT)
    assert first.wait(30) == 5
    message = first.stderr.read()
    assert message.startswith("E0401") and "one.onnx.data was replaced by another process" in message
    assert writer_of(stage.out) == "second"


@pytest.mark.parametrize("stage", ["annotate data"], indirect=True)
def test_a_file_changed_by_another_program_is_not_restored(stage):
    renames = [number for number, call, path in stage.calls() if call == "rename" and path.endswith("out/one.onnx")]
    stage.reset()
    assert stage.run(f"kill {renames[0]}").returncode == -signal.SIGKILL
    (stage.out / "one.onnx").write_text("of another program")
    data = (stage.out / "one.onnx.data").read_bytes()
    assert stage.run(words="dot in/model.onnx -o out/other.dot").returncode == 0
    assert (stage.out / "one.onnx").read_text() == "of another program"
    assert (stage.out / "one.onnx.data").read_bytes() == data and stage.temporaries() == []


def test_a_copied_journal_has_no_effect(tmp_path, small_export):
    """The journals of an unpacked archive, for example, were not written on this disk."""
    target, other = tmp_path / "victim.onnx", tmp_path / ".whence-1-1.old"
    target.write_text("original")
    other.write_text("replacement")
    fields = ["victim.onnx", other.name, "1 2 3 4", "5 6 7 8", "complete"]
    (tmp_path / ".whence-1-0.undo").write_text("/".join(fields))
    (tmp_path / ".whence-1-2.undo").write_text("../" * 20 + "etc/passwd/x/1 2 3 4//complete")
    (tmp_path / ".whence-1-3.undo").write_bytes(bytes(range(256)) * 64)
    command.run("dot", small_export[0], "-o", tmp_path / "one.dot")
    assert target.read_text() == "original" and sorted(os.listdir(tmp_path)) == ["one.dot", "victim.onnx"]


# ---- inputs that change, limited memory ----------------------------------------------------------------------------

@pytest.mark.parametrize("stage", [name for name in QUICK if name not in ("annotate in place", "completions")], indirect=True)
def test_an_input_that_shrinks_is_not_a_defect(stage):
    """Truncates a file at each mmap; the SIGBUS must not be reported as a defect. Completions read no file."""
    contents = {path: path.read_bytes() for path in (stage.root / "in").iterdir()}
    codes = set()
    for number, call, path in stage.calls():
        if call == "mmap" and path.startswith("in/"):
            require_old_or_new(stage, call, f"short {number}")
            codes |= {stage.stderr[:5]} if stage.stderr else set()
            for name, content in contents.items():
                name.write_bytes(content)
    assert codes and codes <= {"E0201", "E0202", "E0203", "E0204", "E0209"}, codes


LIMITED = {
    "annotate": "annotate in/large.onnx -o in/other.onnx",
    "strip": "strip in/large.onnx -o in/other.onnx",
    "functions": "functions in/large.onnx --depth 1 -o in/other.onnx",
    "inline": "inline in/large.onnx --all -o in/other.onnx",
    "extract": "extract in/large.onnx --module up -o in/other.onnx",
    "validate": "validate in/large.onnx",
    "show": "show in/large.onnx",
    "explain": "explain in/large.onnx /up/MatMul",
    "diff": "diff in/large.onnx in/large.onnx",
    "select": "select in/large.onnx --modules up",
    "place": "place in/large.onnx --rule cpu=** --default cpu -o in/other.onnx",
    "report": "report in/large.onnx -o out/one.html",
    "dot": "dot in/large.onnx -o out/one.dot",
    "graphml": "graphml in/large.onnx -o out/one.graphml",
    "model-explorer": "model-explorer in/large.onnx -o out/one.json",
}
COPYING = {"annotate copy": "annotate in/large.onnx -o out/one.onnx", "strip copy": "strip in/large.onnx -o out/one.onnx"}


def limited(arguments: list[str], mebibytes: int) -> subprocess.CompletedProcess:
    """Limits the memory that a process allocates: RLIMIT_DATA excludes files that are mapped for reading."""
    size = mebibytes << 20
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size)))


@pytest.fixture(scope="module")
def large_dir(tmp_path_factory):
    """A model with 1 GiB of external weights in a sparse file."""
    folder = tmp_path_factory.mktemp("large")
    for name in ("in", "out"):
        (folder / name).mkdir()
    write_model(folder / "in", 1, "large.onnx")
    command.run("annotate", folder / "in/large.onnx", "-o", folder / "in/large.onnx")
    model = onnx.load(folder / "in/large.onnx", load_external_data=False)
    weight = model.graph.initializer[0]
    weight.dims[:] = [4, 1 << 26]
    model.graph.node[0].input[1] = model.graph.node[2].input[1]  # no node reads the large weight
    for entry in weight.external_data:
        entry.value = {"offset": "4096", "length": str(1 << 30)}.get(entry.key, entry.value)
    (folder / "in/large.onnx").write_bytes(model.SerializeToString())
    os.truncate(folder / "in/w.bin", 4096 + (1 << 30))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", [*LIMITED, *(pytest.param(name, marks=pytest.mark.matrix) for name in COPYING)])
def test_512_mib_of_memory_are_enough(name, large_dir):
    words = {**LIMITED, **COPYING}[name].split()
    arguments = [str(command.BINARY),
                 *(str(large_dir / word) if re.match("(in|out)/", word) else word for word in words)]
    done = limited(arguments, 512)
    assert done.returncode in ((0, 1) if name in ("validate", "diff") else (0,)), done.stderr


@pytest.fixture(scope="module")
def long_dir(tmp_path_factory):
    """A model of 100,000 nodes."""
    folder = tmp_path_factory.mktemp("long")
    nodes = [onnx.helper.make_node("Relu", [f"v{number}"], [f"v{number + 1}"], name=f"/block.{number // 10}/Relu_{number}")
             for number in range(100_000)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("v0", "v100000")]
    graph = onnx.helper.make_graph(nodes, "graph", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)]),
              folder / "plain.onnx")
    command.run("annotate", folder / "plain.onnx", "-o", folder / "long.onnx")
    return folder


LONG = ["annotate plain.onnx", "strip long.onnx", "functions long.onnx --depth 1", "extract long.onnx --module block.7",
        "report long.onnx --format html", "dot long.onnx", "graphml long.onnx", "model-explorer long.onnx"]


@pytest.mark.parametrize("words", [LONG[0], *(pytest.param(words, marks=pytest.mark.matrix) for words in LONG[1:])])
def test_failed_allocations_are_reported(words, long_dir, tmp_path):
    """The command reports E0306 and leaves the file unchanged."""
    target, ends = tmp_path / "out", set()
    for mebibytes in (34, 48, 64, 96, 160, 512, 2048):
        if limited([str(command.BINARY), "--version"], mebibytes).returncode != 0:
            continue  # the allocator itself does not start
        target.write_bytes(b"old")
        arguments = [str(long_dir / word) if word.endswith(".onnx") else word for word in words.split()]
        done = limited([str(command.BINARY), *arguments, "-o", str(target)], mebibytes)
        command.require_no_defect(done.returncode, done.stderr, f"{mebibytes} MiB")
        assert done.returncode in (0, 4) and (done.returncode == 0 or "E0306" in done.stderr), done.stderr
        assert (target.read_bytes() == b"old") == (done.returncode != 0) and os.listdir(tmp_path) == ["out"]
        ends.add(done.returncode)
    assert ends == {0, 4}


def test_every_writing_command_has_a_case():
    names = re.findall(r"^  ([\w-]+)  ", command.run("--help").stdout, re.MULTILINE)
    writing = {name for name in names if "-o [ --output ]" in command.run(name, "--help").stdout}
    assert writing and writing | {"diff"} == {writer.words.split()[0] for writer in WRITERS.values()}  # diff --html


class Doubles(torch.nn.Module):
    def forward(self, x, y):
        for _ in range(x.size(0)):
            y = torch.cat([y, y])
        return y


def test_trial_runs_that_exceed_the_memory_are_skipped(tmp_path):
    """The command also limits its own memory while it runs."""
    torch.jit.script(Doubles()).save(tmp_path / "m.pt")
    arguments = [str(command.BINARY), "export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[3,1]",
                 "--input", "y=float32[2,3]", "--dynamic", "x:0=m,y:0=k"]
    done = limited(arguments, 3 << 10)
    assert done.returncode == 0, done.stderr
    x, y = torch.rand(5, 1), torch.rand(3, 3)
    feeds = {"x": x.numpy(), "y": y.numpy()}
    assert (onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, feeds)[0] == Doubles()(x, y).numpy()).all()
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        limit = "unlimited"
        while running.poll() is None and limit == "unlimited":
            limits = Path(f"/proc/{running.pid}/limits").read_text()
            limit = re.search(r"Max data size +(\S+)", limits)[1]
        running.kill()
    assert int(limit) >= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
