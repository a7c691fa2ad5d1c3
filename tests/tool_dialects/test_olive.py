"""Olive's workflows with the passes of `whence.exporters.olive`, in Olive's environment (tools/setup/tool_environments.sh).

The expected modules are those of the network below, whose layers have weights of different shapes or operators.
"""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import command

pytestmark = pytest.mark.matrix

NETWORK = """
import torch

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(4, 4, 3, padding=1, bias=False), torch.nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = torch.nn.ModuleList([Block(), Block()]), torch.nn.Linear(4, 3)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean((2, 3)))

def load(path):
    torch.manual_seed(0)
    return Net().eval()
"""

PASSES = {"convert": {"type": "OnnxConversion", "target_opset": 18}, "peephole": {"type": "OnnxPeepholeOptimizer"},
          "quantize": {"type": "OnnxDynamicQuantization"}}


def environment() -> dict[str, str]:
    packages = list((command.ROOT / "build/tools/olive/lib").glob("python*/site-packages"))
    if not packages:
        pytest.skip("no environment of olive: tools/setup/tool_environments.sh makes it")
    path = os.pathsep.join(map(str, [command.ROOT / "python", *packages]))
    return {**os.environ, "WHENCE": str(command.BINARY), "PYTHONPATH": path, "OLIVE_DISABLE_TELEMETRY": "1"}


def python(*words, folder) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", *map(str, words)], env=environment(), cwd=folder, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def run_workflow(folder, passes: dict, *options) -> onnx.ModelProto:
    """Runs `olive run` on the network and returns the model that it writes."""
    (folder / "network.py").write_text(NETWORK)
    workflow = {"input_model": {"type": "PyTorchModel", "model_loader": "load", "model_script": str(folder / "network.py"),
                                "io_config": {"input_names": ["x"], "input_shapes": [[1, 4, 8, 8]], "output_names": ["y"]}},
                "passes": passes, "output_dir": str(folder / "out"), "cache_dir": str(folder / "cache")}
    (folder / "workflow.json").write_text(json.dumps(workflow))
    python("-m", "olive", "run", "--config", "workflow.json", *options, folder=folder)
    return onnx.load(folder / "out" / "model.onnx")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Returns the folder and the model of a workflow with whence's passes, and the model without them."""
    folder, plain = tmp_path_factory.mktemp("whence"), tmp_path_factory.mktemp("plain")
    (folder / "passes.json").write_text(python("-m", "whence.exporters.olive", folder=folder))
    return folder, run_workflow(folder, PASSES, "--package-config", "passes.json"), run_workflow(plain, PASSES)


def metadata(node) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def modules(node) -> list[str]:
    keys = metadata(node)
    return json.loads(keys["pkg.whence.modules"]) if "pkg.whence.modules" in keys else [keys["pkg.whence.module"]]


def test_every_node_has_its_module_after_conversion_peephole_and_quantisation(models):
    _, model, _ = models
    nodes = list(model.graph.node)
    by_type = {}
    for node in nodes:
        by_type.setdefault(node.op_type, []).append(modules(node))
    folded = [[f"blocks.{i}.conv", f"blocks.{i}.norm"] for i in range(2)]
    assert by_type["ConvInteger"] == folded and by_type["MatMulInteger"] == [["head"]]
    assert by_type["DynamicQuantizeLinear"] == [*folded, ["head"]] and by_type["Relu"] == [["blocks.0"], ["blocks.1"]]
    assert by_type["ReduceMean"] == [[""]] and by_type["Add"] == [[""], [""], ["head"]]
    assert {metadata(node)["pkg.whence.confidence"] for node in nodes} <= {"exact", "matched", "inferred"}


def test_olive_alone_loses_them(models):
    _, _, plain = models
    assert len(plain.graph.node) > 10 and not any(node.metadata_props for node in plain.graph.node)


def test_only_metadata_differs(models):
    _, model, plain = models
    for each in (model, plain):
        for node in each.graph.node:
            node.ClearField("metadata_props")
    assert list(model.graph.node) == list(plain.graph.node) and list(model.graph.initializer) == list(plain.graph.initializer)
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8), np.float32)
    results = [onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x})[0] for each in (model, plain)]
    np.testing.assert_array_equal(*results)


def test_sidecar_is_next_to_the_model(models):
    folder, _, _ = models
    shown = command.run_json("validate", folder / "out" / "model.onnx", "--sidecar", folder / "out" / "model.whence.json")
    assert shown["coverage"]["covered"] == shown["coverage"]["nodes"] > 10


def test_a_pass_can_do_without_origins(tmp_path):
    (tmp_path / "passes.json").write_text(python("-m", "whence.exporters.olive", folder=tmp_path))
    passes = {name: {**step, "origins": False} for name, step in PASSES.items()}
    model = run_workflow(tmp_path, passes, "--package-config", "passes.json")
    assert not any(key.startswith("pkg.whence") for node in model.graph.node for key in metadata(node))
    assert not (tmp_path / "out" / "model.whence.json").exists()


CLASSES = """
import json
from olive.hardware import DEFAULT_CPU_ACCELERATOR
from olive.package_config import OlivePackageConfig
from whence.exporters import olive
found = {}
configuration = OlivePackageConfig.model_validate(olive.package_config())
for name, entry in configuration.passes.items():
    if not entry.module_path.startswith("whence."):
        continue
    try:
        made = configuration.import_pass_module(name)
        own, theirs = (set(each.default_config(DEFAULT_CPU_ACCELERATOR)) for each in (made, made.original))
    except ImportError as failure:
        found[name] = None
    else:
        found[name] = [made.__name__.lower(), sorted(own - theirs), sorted(theirs - own)]
print()
print(json.dumps(found))
"""


def test_each_onnx_pass_of_olive_has_one_more_parameter(tmp_path):
    found = json.loads(python("-c", CLASSES, folder=tmp_path).splitlines()[-1])
    available = {name: each for name, each in found.items() if each is not None}
    assert len(found) > 35 and len(available) > 25
    assert available == {name: [name, ["origins"], []] for name in available}
