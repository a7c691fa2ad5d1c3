"""Opens whence's files in other viewers: Model Explorer groups nodes by module, Netron draws every node with its name.

Both packages are installed once into a folder in the cache, without dependencies for formats other than ONNX. If the
installation fails, the tests are skipped with the reason. Netron 9 draws no groups for ONNX files.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import torch

import command
from views import browser, view_files

VIEWERS = ["netron==9.3.3", "ai-edge-model-explorer==0.1.34", "model-explorer-onnx==0.4.2"]
DEPENDENCIES = ["flask", "portpicker", "dacite", "termcolor", "watchdog", "requests"]

MODEL_EXPLORER = """
import json, sys
from model_explorer_onnx.main import ONNXAdapter
graph = ONNXAdapter().convert(sys.argv[1], {})["graphs"][0]
print(json.dumps([[node.id, node.label, node.namespace] for node in graph.nodes]))
"""
NETRON = "import netron, sys; netron.start(sys.argv[1], (\'localhost\', int(sys.argv[2])), browse=False); netron.wait()"


@pytest.fixture(scope="module")
def viewers() -> dict:
    """Returns the environment of a process that can import the viewers."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whence"
    folder = cache / "_".join(["viewers", *(name.split("==")[1] for name in VIEWERS)])
    if not folder.exists():
        partial = cache / f"{folder.name}.{os.getpid()}"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", partial]
        for arguments in (["--no-deps", *VIEWERS], DEPENDENCIES):
            result = subprocess.run([*pip, *arguments], capture_output=True, text=True, timeout=300, check=False)
            if result.returncode != 0:
                shutil.rmtree(partial, ignore_errors=True)
                pytest.skip(f"pip could not fetch the viewers: {result.stderr.strip().splitlines()[-1]}")
        try:
            partial.rename(folder)
        except OSError:  # another worker was faster
            assert folder.exists()
            shutil.rmtree(partial)
    # The viewers use this environment's onnx and numpy, so their folder comes last.
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path[1:], str(folder)])}


class Block(torch.nn.Module):
    """Linear and ReLU with a residual."""

    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.relu(self.proj(x))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two blocks and a head, exported with every key."""
    folder = tmp_path_factory.mktemp("viewed")
    torch.manual_seed(0)
    module = torch.nn.Sequential(Block(), Block(), torch.nn.Linear(4, 2)).eval()
    torch.export.save(torch.export.export(module, (torch.randn(3, 4),)), folder / "m.pt2")
    command.run("export", folder / "m.pt2", "-o", folder / "m.onnx", "--annotate")
    return folder / "m.onnx"


def test_model_explorer_groups_nodes_by_their_modules(viewers, model):
    shown = subprocess.run([sys.executable, "-c", MODEL_EXPLORER, model], capture_output=True, text=True, env=viewers,
                           timeout=120, check=False)
    assert shown.returncode == 0, shown.stderr
    groups = {}
    for _, label, namespace in json.loads(shown.stdout.splitlines()[-1]):
        levels = [level.partition(": ")[0] for level in namespace.split("/")[2:]]  # after the graph and the root
        groups.setdefault(label, []).append(levels[:-1])  # the last one is the operation
    nodes = onnx.load(model).graph.node
    assert len(nodes) > 5
    for op_type in {node.op_type for node in nodes}:
        modules = [view_files.keys_of(node)["pkg.whence.module"] for node in nodes if node.op_type == op_type]
        expected = [[module.rpartition(".")[0], module] if "." in module else [module] for module in modules]
        assert sorted(groups[op_type]) == sorted(expected)


@pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))
def test_netron_draws_every_node_under_its_name(viewers, model, tmp_path):
    window = browser.Browser(tmp_path)
    port = browser.free_port()
    server = subprocess.Popen([sys.executable, "-c", NETRON, model, str(port)], env=viewers, stdout=subprocess.DEVNULL)
    try:
        window.go(f"http://localhost:{port}/")
        window.wait("document.body?.className.includes('notification')", 30)  # the licence must be accepted
        window.run("document.getElementById('message-button').click();")
        window.wait("document.querySelectorAll('[id^=\"node-name-\"]').length", 30)
        drawn = set(window.run("return [...document.querySelectorAll('[id^=\"node-name-\"]')].map((node) => node.id);"))
    finally:
        window.close()
        server.terminate()
        server.wait()
    assert drawn == {f"node-name-{node.name}" for node in onnx.load(model).graph.node}
