"""Errors of the plugin in separate scripts, and the files that remain afterwards."""

import json
import subprocess
import sys
import textwrap

import pytest

import command
from live_python import forking
from live_python.live import PLUGIN

HEAD = """
import json, os, signal, threading, time, warnings
import torch
warnings.simplefilter("ignore")
torch.ops.load_library({plugin!r})
whence = torch.ops.whence

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def trace(model=None):
    return torch.jit.trace((model or Net()).eval(), torch.randn(2, 4), check_trace=False)
"""


def script(body: str, folder, code: int = 0, own_process: bool = False) -> str:
    """Runs HEAD and `body` as a script in `folder` and returns its output. With own_process, starts a new interpreter
    instead of forking."""
    file = folder.with_suffix(".py")  # torch.jit.script reads the source
    file.write_text(HEAD.format(plugin=str(PLUGIN)) + textwrap.dedent(body))
    if own_process:
        result = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=folder,
                                timeout=forking.TIMEOUT, check=False)
    else:
        result = forking.run(file, folder)
    assert result.returncode == code, result.stderr[-3000:]
    return result.stdout + result.stderr


def sidecar(folder, name: str = "m.whence.json") -> dict:
    return json.loads((folder / name).read_text())


def test_start_twice(tmp_path):
    output = script("""
        whence.start("a.whence.json")
        try: whence.start("b.whence.json")
        except RuntimeError as error: print(error)
        """, tmp_path)
    assert "E0106" in output and "a.whence.json" in output and "try: end it first" in output


def test_start_while_another_thread_records(tmp_path):
    """Stopping would end the other thread's recording, so the only remedy is to wait."""
    output = script("""
        import threading
        def second():
            try: whence.start("b.whence.json")
            except RuntimeError as error: print(error)
        whence.start("a.whence.json")
        other = threading.Thread(target=second)
        other.start(), other.join()
        trace()
        whence.stop()
        whence.start("b.whence.json")  # the first recording has ended
        trace()
        whence.stop()
        """, tmp_path)
    assert "E0106" in output and "another thread records to 'a.whence.json'" in output and "stop" not in output
    assert sidecar(tmp_path, "a.whence.json") and sidecar(tmp_path, "b.whence.json")


def test_stop_without_start_and_without_a_trace(tmp_path):
    output = script("""
        for step in (whence.stop, lambda: (whence.start("m.whence.json"), whence.stop())):
            try: step()
            except RuntimeError as error: print(error)
        """, tmp_path)
    assert output.count("E0106") == 2 and "no recording is running" in output and "nothing was traced" in output


def test_unwritable_path_is_refused(tmp_path):
    output = script("""
        try: whence.start("missing/m.whence.json")
        except RuntimeError as error: print(error)
        print(whence.status())
        """, tmp_path)
    assert "E0401" in output and '"recording":false' in output


def test_two_processes_cannot_record_to_one_file(tmp_path):
    output = script(f"""
        import subprocess, sys
        whence.start("m.whence.json")
        other = f'''import torch; torch.ops.load_library({str(PLUGIN)!r}); torch.ops.whence.start("m.whence.json")'''
        print(subprocess.run([sys.executable, "-c", other], capture_output=True, text=True).stderr)
        trace(); whence.stop()
        """, tmp_path)
    assert "E0106" in output and "another process" in output
    assert [path.name for path in tmp_path.iterdir()] == ["m.whence.json"]


def test_two_models_in_one_recording(tmp_path):
    script("""
        whence.start("m.whence.json")
        net = Net(); trace(net); trace(net); trace(torch.nn.Sequential(torch.nn.Linear(4, 2)))
        print(whence.stop())
        """, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.2.whence.json", "m.whence.json"]


@pytest.mark.parametrize("kind", ["file", "link"])
def test_numbered_sidecar_replaces_only_sidecars(kind, tmp_path):
    user_file, numbered = tmp_path / "user_file.txt", tmp_path / "m.2.whence.json"
    user_file.write_text("user_file")
    numbered.symlink_to(user_file) if kind == "link" else numbered.write_text("user_file")
    two_traces = """
        whence.start("m.whence.json")
        net = Net(); trace(net); trace(torch.nn.Sequential(torch.nn.Linear(4, 2)))
        try: print(whence.stop())
        except RuntimeError as refused: print(refused)
        """
    output = script(two_traces, tmp_path)
    assert "E0401" in output and "m.2.whence.json" in output
    assert user_file.read_text() == numbered.read_text() == "user_file" and numbered.is_symlink() == (kind == "link")
    numbered.unlink()
    for _ in range(2):  # the second time, the existing file is a sidecar
        assert "E0401" not in script(two_traces, tmp_path) and '"whence-sidecar"' in numbered.read_text()[:60]


def test_forward_that_raises_leaves_a_partial_record(tmp_path):
    output = script("""
        class Bad(Net):
            def forward(self, x):
                x = self.first(x)
                raise ValueError("no")
        whence.start("m.whence.json")
        try: trace(Bad())
        except ValueError as error: print("user's own:", error)
        print(whence.stop())
        """, tmp_path)
    assert "user's own: no" in output and '"complete":false' in output
    partial = sidecar(tmp_path)
    assert partial["complete"] is False and len(partial["operations"]["rows"]) == 1


def test_killed_process_leaves_a_partial_record(tmp_path):
    script("""
        class Killed(Net):
            def forward(self, x):
                for _ in range(3):
                    time.sleep(0.6)
                    x = self.first(x)
                os.kill(os.getpid(), signal.SIGKILL)
        whence.start("m.whence.json")
        trace(Killed())
        """, tmp_path, code=-9, own_process=True)  # the time of a write depends on the cost of the last one
    partial = sidecar(tmp_path)
    assert partial["complete"] is False and len(partial["operations"]["rows"]) >= 2


@pytest.mark.parametrize("own_process", [True, False])
def test_script_that_ends_without_stop(own_process, tmp_path):
    script("""
        whence.start("m.whence.json")
        trace()
        """, tmp_path, own_process=own_process)
    assert "complete" not in sidecar(tmp_path)


def test_a_trace_that_ends_with_contiguous_has_its_output(tmp_path):
    """PyTorch runs no operation for a tensor that is contiguous already."""
    script("""
        class Contiguous(Net):
            def forward(self, x):
                return self.first(x).contiguous()
        whence.start("m.whence.json")
        trace(Contiguous())
        whence.stop()
        """, tmp_path)
    assert "complete" not in sidecar(tmp_path) and len(sidecar(tmp_path)["outputs"]["rows"]) == 1


def test_two_threads_trace_at_once(tmp_path):
    """Records all operations and reports that PyTorch has only one map of modules for both traces."""
    output = script("""
        class Slow(Net):
            def __init__(self, extra):
                super().__init__()
                self.extra = extra
            def forward(self, x):
                for _ in range(self.extra):
                    time.sleep(0.02)
                    x = self.first(x)
                return self.second(x)
        whence.start("m.whence.json")
        threads = [threading.Thread(target=trace, args=(Slow(extra),)) for extra in (5, 9)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(whence.stop())
        """, tmp_path)
    counts = sorted(len(sidecar(tmp_path, name)["operations"]["rows"]) for name in ("m.whence.json", "m.2.whence.json"))
    assert counts == [6, 10]
    assert "E0310" in output and "one map of modules" in output
    assert all(sidecar(tmp_path, name)["complete"] is False for name in ("m.whence.json", "m.2.whence.json"))


def test_killed_process_leaves_no_temporary_files(tmp_path):
    script("""
        whence.start("m.whence.json")
        trace()
        os.kill(os.getpid(), signal.SIGKILL)
        """, tmp_path, code=-9)
    assert [path.name for path in tmp_path.iterdir()] == ["m.whence.json"]


@pytest.mark.parametrize("path", ["", "folder/", "x" * 300])
def test_invalid_file_name_is_refused(tmp_path, path):
    output = script(f"""
        try: whence.start({path!r})
        except RuntimeError as error: print(error)
        print(whence.status())
        """, tmp_path)
    assert "E0401" in output and "try:" in output and '"recording":false' in output


def test_branch_on_data_is_reported_with_its_line(tmp_path):
    (tmp_path / "branch.py").write_text(textwrap.dedent("""
        import torch
        class Branch(torch.nn.Module):
            def forward(self, x):
                if x.sum() > 0:
                    return x + 1
                return x - 1
        """))
    output = script("""
        import sys; sys.path.insert(0, ".")
        import branch
        whence.start("m.whence.json"); trace(branch.Branch()); print(whence.stop())
        """, tmp_path)
    assert "E0309" in output and "branch.py:5 forward" in output


def test_check_trace_records_one_model(tmp_path):
    script("""
        whence.start("m.whence.json")
        torch.jit.trace(Net().eval(), torch.randn(2, 4))
        assert len(json.loads(whence.stop())["files"]) == 1
        """, tmp_path)


def test_operations_of_scripted_submodules_are_recorded(tmp_path):
    output = script("""
        @torch.jit.script
        def twice(x):
            return x * 2 + 1
        class Mixed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.net = torch.jit.script(Net())
            def forward(self, x):
                return twice(self.net(x)) + x
        whence.start("m.whence.json"); trace(Mixed()); print(whence.stop())
        """, tmp_path)
    record = sidecar(tmp_path)
    text = record["strings"]
    modules = [text[row[0]] for row in record["modules"]["rows"]]
    placed = [(text[row[0]], modules[record["scopes"]["rows"][row[2]][1]]) for row in record["operations"]["rows"]]
    assert placed == [("aten::linear", "net.first"), ("aten::relu", "net"), ("aten::linear", "net.second"),
                      ("aten::mul", ""), ("aten::add", ""), ("aten::add", "")], output
    assert len(record["outputs"]["rows"]) == 1


def test_annotate_warns_about_an_incomplete_record(tmp_path):
    script("""
        class Bad(Net):
            def forward(self, x):
                self.first(x)
                raise ValueError("no")
        whence.start("m.whence.json")
        try: trace(Bad())
        except ValueError: pass
        whence.stop()
        torch.onnx.export(Net().eval(), (torch.randn(2, 4),), "m.onnx", dynamo=False)
        """, tmp_path)
    result = command.run("annotate", tmp_path / "m.onnx", "-o", tmp_path / "a.onnx", "--allow-different-weights",
                         code=None)
    assert "incomplete" in result.stdout + result.stderr


@pytest.mark.parametrize("step", ["save", "freeze", "freeze and save"])
def test_recording_annotates_an_export_of_the_archive(tmp_path, step):
    """A recording of the trace identifies every node exported from its archive, frozen or not."""
    script(f"""
        class Folding(Net):
            def forward(self, x):
                return super().forward(x + torch.arange(4) * 0.5)
        whence.start("m.whence.json")
        traced = trace(Folding())
        whence.stop()
        if {step!r} == "freeze":
            frozen = torch.jit.freeze(traced)
            torch.onnx.export(frozen, (torch.randn(2, 4),), "m.onnx", input_names=["x"], dynamo=False)
        (torch.jit.freeze(traced) if {step!r} == "freeze and save" else traced).save("m.pt")
        """, tmp_path)
    if step.endswith("save"):
        command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--input", "x=float32[2,4]")
    report = command.run_json("annotate", tmp_path / "m.onnx", "--sidecar", tmp_path / "m.whence.json", "-o",
                              tmp_path / "annotated.onnx")
    assert report["exact"] + report["matched"] == report["nodes"], report
    findings = command.run_json("validate", tmp_path / "annotated.onnx", "--sidecar", tmp_path / "m.whence.json")
    assert not [finding for finding in findings["findings"] if finding["rule"] == "V302"], findings
    command.run("strip", tmp_path / "annotated.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
