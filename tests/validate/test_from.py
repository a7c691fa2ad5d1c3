"""Tests `annotate --from`, which reads the tool's input: it finds the same recorded operations and parameters as
with the sidecar, but only those that the previous file contains."""

import json

import onnx
import onnxruntime
import pytest
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn

import command
from match.test_annotate_foreign import keys
from models import zoo
from validate.test_hierarchy import fates, hierarchy


class Block(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
        self.norm, self.act = nn.BatchNorm2d(outer), nn.SiLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Net(nn.Module):
    """Blocks that shapes cannot distinguish. ONNX Runtime stores the channels in blocks of eight (NCHWc)."""

    def __init__(self):
        super().__init__()
        self.stem, self.last, self.head = Block(8, 16), Block(16, 32), nn.Linear(32, 10)
        self.layers = nn.ModuleList([Block(16, 16) for _ in range(3)])

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.last(x).mean((2, 3)))


def optimise(source, target):
    options = onnxruntime.SessionOptions()  # at its default level
    options.optimized_model_filepath = str(target)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def int8(source, target):
    quantize_dynamic(source, target, weight_type=QuantType.QInt8)


TOOLS = {"optimised": optimise, "int8": int8}


@pytest.fixture(scope="module", params=["whence", "torchscript", "unfolded"])
def folder(request, tmp_path_factory):
    """Contains model.onnx from one exporter; before.onnx, annotated with model.json; and the output of each tool: bare,
    annotated from before.onnx, and annotated with the sidecar."""
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    model, x = Net(), torch.randn(1, 8, 16, 16)
    zoo.add_noise(model)
    model.eval()
    torch.export.save(torch.export.export(model, (x,)), folder / "model.pt2")
    command.run("record", folder / "model.pt2", "-o", folder / "model.json")
    if request.param == "whence":
        command.run("export", folder / "model.pt2", "-o", folder / "model.onnx")
    else:
        options = {} if request.param == "torchscript" else {
            "training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
        torch.onnx.export(model, (x,), folder / "model.onnx", dynamo=False, input_names=["x"], opset_version=17,
                          **options)
    command.run("annotate", folder / "model.onnx", "--sidecar", folder / "model.json", "-o", folder / "before.onnx")
    for name, tool in TOOLS.items():
        tool(folder / "model.onnx", folder / f"{name}.onnx")
        for how, reference in (("from", "before.onnx"), ("sidecar", "model.json")):
            command.run("annotate", folder / f"{name}.onnx", f"--{how}", folder / reference,
                        "-o", folder / f"{name}.{how}.onnx")
    return folder


def stamps(path) -> list:
    return [keys(node).get("op") for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_same_parameters_are_found_as_with_the_sidecar(folder, tool):
    assert tool != "optimised" or "nchwc" in {node.domain.rpartition(".")[2]
                                              for node in onnx.load(folder / "optimised.onnx").graph.node}
    found = {how: hierarchy(folder / f"{tool}.{how}.onnx", "-s", folder / "model.json", code=None)
             for how in ("from", "sidecar")}
    for report in found.values():
        assert [row["name"] for row in report["parameters"] if row["how"] == "missing"] == []
        assert report["modules"][0]["unknown"] == 0
    assert found["from"]["parameters"] == found["sidecar"]["parameters"]
    by_module = {how: [(row["path"], *fates(row)[2:]) for row in found[how]["modules"]] for how in found}
    assert by_module["from"] == by_module["sidecar"]
    report = command.run_json("validate", folder / f"{tool}.from.onnx", "-s", folder / "model.json", code=None)
    assert not [each for each in report["findings"] if each["code"] == "V302"]
    command.run("report", folder / f"{tool}.from.onnx", "-s", folder / "model.json", "-o", folder / "report.md")
    table = (folder / "report.md").read_text().partition("| merged | unused | missing |\n")[2].splitlines()[1:]
    assert table[0].startswith("| `(root)` |") and all(row.endswith("| 0 |") for row in table if row.startswith("|"))


@pytest.mark.parametrize("tool", TOOLS)
def test_operations_of_nodes_come_from_the_file_before(folder, tool):
    """The operations of each node belong to the node's modules."""
    recorded = json.loads(command.run("validate", folder / "before.onnx", "-s", folder / "model.json", "--json").stdout)
    assert recorded["hierarchy"]["modules"][0]["unknown"] == 0
    explained = 0
    for node in onnx.load(folder / f"{tool}.from.onnx").graph.node:
        metadata = keys(node)
        if "op" not in metadata or metadata["confidence"] == "ancestor" or metadata["op"].startswith("shared:"):
            continue
        modules = set(json.loads(metadata.get("modules", json.dumps([metadata["module"]]))))
        found = command.run_json("explain", folder / f"{tool}.from.onnx", node.name or node.output[0], "-s",
                                 folder / "model.json")["operations"]
        assert {each["scope"][-1]["module"] if each["scope"] else "" for each in found} == modules, node.name
        explained += 1
    assert explained > 15


@pytest.mark.parametrize("tool", TOOLS)
def test_annotate_from_is_idempotent_and_undone_by_strip(folder, tool, tmp_path):
    command.run("strip", folder / f"{tool}.from.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (folder / f"{tool}.onnx").read_bytes()
    command.run("annotate", folder / f"{tool}.from.onnx", "--from", folder / "before.onnx",
                "-o", tmp_path / "twice.onnx")
    assert (tmp_path / "twice.onnx").read_bytes() == (folder / f"{tool}.from.onnx").read_bytes()


def test_operations_survive_two_tools(folder, tmp_path):
    """The previous file was also annotated with --from."""
    int8(folder / "model.onnx", tmp_path / "int8.onnx")
    optimise(tmp_path / "int8.onnx", tmp_path / "both.onnx")
    command.run("annotate", tmp_path / "both.onnx", "--from", folder / "int8.from.onnx", "-o", tmp_path / "out.onnx")
    found = hierarchy(tmp_path / "out.onnx", "-s", folder / "model.json", code=None)
    assert [row["name"] for row in found["parameters"] if row["how"] == "missing"] == []


def test_a_node_without_operations_contributes_none(folder, tmp_path):
    before = onnx.load(folder / "before.onnx")
    without_operations = {node.name for node in before.graph.node if node.op_type == "Conv"}
    for node in before.graph.node:
        if node.name in without_operations:
            for entry in [entry for entry in node.metadata_props if entry.key == "pkg.whence.op"]:
                node.metadata_props.remove(entry)
    onnx.save(before, tmp_path / "before.onnx")
    command.run("annotate", folder / "optimised.onnx", "--from", tmp_path / "before.onnx", "-o", tmp_path / "out.onnx")
    for node in onnx.load(tmp_path / "out.onnx").graph.node:
        assert node.op_type != "Conv" or "op" not in keys(node) and keys(node)["confidence"] != "unattributed"
    found = hierarchy(tmp_path / "out.onnx", "-s", folder / "model.json", code=None)
    assert "missing" in {row["how"] for row in found["parameters"]}


def test_a_file_with_only_module_names_has_no_operations(folder, tmp_path):
    """Unless whence exported it with stamps, the file may belong to a different program from the sidecar."""
    command.run("annotate", folder / "model.onnx", "-o", tmp_path / "before.onnx")
    exported_by_whence = onnx.load(tmp_path / "before.onnx").producer_name == "whence"
    command.run("annotate", folder / "optimised.onnx", "--from", tmp_path / "before.onnx", "-o", tmp_path / "out.onnx")
    assert (set(stamps(tmp_path / "out.onnx")) == {None}) != exported_by_whence
    assert not {entry.key for entry in onnx.load(tmp_path / "out.onnx").metadata_props} & {"pkg.whence.stamped"}
