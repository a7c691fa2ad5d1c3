"""Runs a small annotated model in ONNX Runtime and OpenVINO, for the tests of `whence profile`."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from jsonschema import Draft202012Validator

import command
from views import view_files

FEED = np.linspace(-1, 1, 8 * 64, dtype=np.float32).reshape(8, 64)


def schema(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((command.ROOT / "schema" / f"{name}.schema.json").read_text()))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act = torch.nn.LayerNorm(64), torch.nn.Linear(64, 256), torch.nn.GELU()
        self.down = torch.nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = torch.nn.ModuleList([Block(), Block()]), torch.nn.Linear(64, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x).softmax(-1)


def export(folder, network: torch.nn.Module | None = None) -> Path:
    torch.manual_seed(0)
    torch.export.save(torch.export.export((network or Net()).eval(), (torch.from_numpy(FEED),), strict=False), folder / "net.pt2")
    command.run("export", folder / "net.pt2", "-o", folder / "net.onnx", "--annotate")
    return folder / "net.onnx"


def modules_of(model) -> dict[str, str]:
    """Maps the name of each node, and the names of its output tensors, to its module."""
    modules = {}
    for node in onnx.load(model).graph.node:
        module = view_files.keys_of(node)["pkg.whence.module"]
        modules |= {name: module for name in [node.name, *node.output]}
    return modules


def run_onnxruntime(model, folder, runs: int, callers=1, **entries):
    """Runs the model once, then in `callers` concurrent threads. Returns the profile and ONNX Runtime's saved file."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "ort")
    options.log_severity_level, options.optimized_model_filepath = 3, str(folder / "saved.onnx")
    options.intra_op_num_threads = 1
    for key, value in entries.items():
        options.add_session_config_entry(key.replace("__", "."), value)
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = {each.name: np.resize(FEED, each.shape) for each in session.get_inputs()}

    barrier = threading.Barrier(callers)

    def call(times: int) -> None:
        barrier.wait()
        for _ in range(times):
            session.run(None, feeds)

    session.run(None, feeds)
    threads = [threading.Thread(target=call, args=(runs - 1,)) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Path(session.end_profiling()), folder / "saved.onnx"


def require_openvino(model) -> None:
    """Skips the test if OpenVINO crashes, as version 2026.4.1 does on processors without extensions after AVX2."""
    trial = subprocess.run([sys.executable, "-c", f"import openvino; openvino.Core().compile_model({str(model)!r}, 'CPU')"],
                           capture_output=True, text=True, check=False)
    if trial.returncode < 0:
        pytest.skip(f"OpenVINO ends with signal {-trial.returncode} while it compiles this model on this processor")
    assert trial.returncode == 0, trial.stderr


def run_openvino(model, folder, runs: int, counters=True):
    """Returns the runtime model as a file, and OpenVINO's counters of the last inference."""
    import openvino

    require_openvino(model)
    compiled = openvino.Core().compile_model(model, "CPU", {"PERF_COUNT": counters})
    request = compiled.create_infer_request()
    for _ in range(runs):
        request.infer([FEED])
    openvino.serialize(compiled.get_runtime_model(), folder / "runtime.xml", folder / "runtime.bin")
    return folder / "runtime.xml", request.get_profiling_info() if counters else []


def run_benchmark_app(model, folder) -> Path:
    require_openvino(model)
    program = Path(sys.executable).with_name("benchmark_app")
    subprocess.run([program, "-m", model, "-d", "CPU", "-niter", "3", "-nireq", "1", "-api", "sync", "-report_type",
                    "detailed_counters", "-report_folder", folder], check=True, capture_output=True)
    return folder / "benchmark_detailed_counters_report.csv"


def subtree_sums(sums: dict[str, int]) -> dict[str, int]:
    """Returns the sum over each module and its descendants."""
    totals: dict[str, int] = {}
    for module, own in sums.items():
        path = module
        totals[""] = totals.get("", 0) + own
        while path:
            totals[path] = totals.get(path, 0) + own
            path = path.rpartition(".")[0]
    return totals
