"""`whence annotate` on files from other exporters: with a sidecar, with the tool's input, or with names only."""

import copy
import itertools
import json
import re
import shutil

import numpy as np
import onnx
import onnxruntime
import onnxslim
import pytest
import torch
from onnx import helper, numpy_helper

import command
from models import zoo
from validate import onnx_files

NAME = "unet"  # PyTorch's TorchScript exporter exports it unchanged, folds its BatchNorm and names its scopes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with the sidecar, PyTorch's file, and a copy with all nodes, values and initializers renamed."""
    folder = tmp_path_factory.mktemp("match")
    command.run("record", zoo.trace(NAME), "-o", folder / "model.json", "--inputs", zoo.inputs_file(NAME))
    entry = zoo.MODELS[NAME]
    inputs = entry.inputs(entry.first)
    torch.onnx.export(entry.model(), tuple(inputs.values()), folder / "exported.onnx", dynamo=False, opset_version=17,
                      input_names=list(inputs), output_names=["out"])
    model = onnx.load(folder / "exported.onnx")
    rename(model)
    onnx.save(model, folder / "renamed.onnx")
    return folder


def rename(model: onnx.ModelProto) -> None:
    interface = {value.name for value in [*model.graph.input, *model.graph.output]}
    names = {}

    def new_name(name: str) -> str:
        return name if name in interface or not name else names.setdefault(name, f"v{len(names)}")

    for i, node in enumerate(model.graph.node):
        node.name = f"n{i}"
        node.input[:] = [new_name(name) for name in node.input]
        node.output[:] = [new_name(name) for name in node.output]
    for tensor in model.graph.initializer:
        tensor.name = new_name(tensor.name)
    del model.graph.value_info[:]


def keys(node: onnx.NodeProto) -> dict:
    entries = {entry.key.removeprefix("pkg.whence."): entry.value for entry in node.metadata_props}
    assert len(entries) == len(node.metadata_props), "a repeated key"
    return entries


def modules(path) -> list:
    return [keys(node).get("module") for node in onnx.load(path).graph.node]


def annotate(path, output, *options, code=0):
    return command.run("annotate", path, "-o", output, *options, code=code)


def test_parameter_counts_do_not_overlap(folder, tmp_path):
    output = annotate(folder / "exported.onnx", tmp_path / "out.onnx", "--sidecar", folder / "model.json").stdout
    counts_line = re.search(r"of (\d+) parameters (\d+) were found by their bytes, (\d+) more by name, "
                      r"(\d+) more by some of their elements, (\d+) more by shape\n", output)
    assert counts_line, output
    parameters, *counts = map(int, counts_line.groups())
    assert 0 < sum(counts) <= parameters


def test_renamed_nodes_get_the_same_modules(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "a.onnx", "--sidecar", folder / "model.json")
    annotate(folder / "renamed.onnx", tmp_path / "b.onnx", "--sidecar", folder / "model.json")
    assert None not in modules(tmp_path / "a.onnx")
    agree = [a == b for a, b in zip(modules(tmp_path / "a.onnx"), modules(tmp_path / "b.onnx"), strict=True)]
    assert sum(agree) >= 0.98 * len(agree)


def test_a_folded_convolution_has_both_modules(folder, tmp_path):
    annotate(folder / "renamed.onnx", tmp_path / "a.onnx", "--sidecar", folder / "model.json")
    convolutions = [keys(node) for node in onnx.load(tmp_path / "a.onnx").graph.node if node.op_type == "Conv"]
    assert any(node.get("modules") == '["stem.0","stem.1"]' and node["module"] == "stem" for node in convolutions)


class Scaling(torch.nn.Module):
    """Scales each channel, like a frozen batch norm."""

    def __init__(self, channels):
        super().__init__()
        self.register_buffer("scale", torch.rand(1, channels, 1, 1) + 0.5)
        self.register_buffer("shift", torch.rand(1, channels, 1, 1))

    def forward(self, x):
        return x * self.scale + self.shift


class Upsampling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.act = torch.nn.ConvTranspose2d(4, 8, 2, 2), Scaling(8), torch.nn.Hardswish()
        self.pool, self.last = torch.nn.MaxPool2d(2), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.pool(self.act(self.norm(self.up(torch.relu(x))))).mean((2, 3)))


class Folded(torch.nn.Module):
    """The model after an optimiser: the norm is folded and the activation is decomposed."""

    def __init__(self, model):
        super().__init__()
        self.up, self.pool, self.last = copy.deepcopy(model.up), model.pool, model.last
        with torch.no_grad():
            self.up.weight *= model.norm.scale
            self.up.bias.copy_(self.up.bias * model.norm.scale.flatten() + model.norm.shift.flatten())

    def forward(self, x):
        x = self.up(torch.relu(x))
        return self.last(self.pool(x * torch.nn.functional.hardsigmoid(x)).mean((2, 3)))


def test_a_folded_transposed_convolution_has_both_modules(tmp_path):
    torch.manual_seed(1)
    model, x = Upsampling().eval(), torch.randn(1, 4, 6, 6)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(Folded(model).eval(), (x,), tmp_path / "exported.onnx", dynamo=False, input_names=["x"],
                      opset_version=18)
    folded = onnx.load(tmp_path / "exported.onnx")
    rename(folded)
    onnx.save(folded, tmp_path / "folded.onnx")
    annotate(tmp_path / "folded.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json")
    metadata = {node.op_type: keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node}
    assert json.loads(metadata["ConvTranspose"].get("modules", "[]")) == ["up", "norm"]
    assert metadata["ConvTranspose"]["module"] == ""


class Pooled(torch.nn.Module):
    """With `mean`, pools with a mean, as PyTorch's newer exporter does."""

    def __init__(self, mean=False):
        super().__init__()
        self.mean, self.stem, self.norm = mean, torch.nn.Linear(6, 16), torch.nn.LayerNorm(16)
        self.pool, self.head = torch.nn.AdaptiveAvgPool1d(1), torch.nn.Linear(16, 3)

    def forward(self, x):
        x = self.norm(self.stem(x)).transpose(1, 2)
        return self.head(torch.flatten(x.mean(2, keepdim=True) if self.mean else self.pool(x), 1))


def test_a_mean_after_a_norm_does_not_belong_to_the_norm(tmp_path):
    model, x = Pooled().eval(), torch.randn(1, 5, 6)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    variant = Pooled(mean=True).eval()
    variant.load_state_dict(model.state_dict())
    torch.onnx.export(variant, (x,), tmp_path / "exported.onnx", dynamo=False, input_names=["x"], opset_version=18)
    renamed = onnx.load(tmp_path / "exported.onnx")
    rename(renamed)
    onnx.save(renamed, tmp_path / "renamed.onnx")
    annotate(tmp_path / "renamed.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json")
    metadata = {node.op_type: keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node}
    assert metadata["LayerNormalization"]["module"] == "norm" and metadata["ReduceMean"]["module"] in ("pool", "")


class Excitation(torch.nn.Module):
    """Squeeze and excitation. Pools with a mean or a sum according to `pooling`, or with a module if it is None."""

    def __init__(self, pooling=None):
        super().__init__()
        self.pooling, self.stem, self.pool = pooling, torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1)
        self.squeeze, self.act = torch.nn.Conv2d(8, 4, 1), torch.nn.ReLU()
        self.excite, self.gate = torch.nn.Conv2d(4, 8, 1), torch.nn.Sigmoid()
        self.last, self.last_act = torch.nn.Conv2d(8, 6, 3), torch.nn.ReLU()

    def pooled(self, x):
        if self.pooling == "mean":
            return x.mean((2, 3), keepdim=True)
        return self.pool(x) if self.pooling is None else x.sum((2, 3), keepdim=True) * (1 / 36)

    def forward(self, x):
        x = self.stem(x)
        x = x * self.gate(self.excite(self.act(self.squeeze(self.pooled(x)))))
        return self.pooled(self.last_act(self.last(x)))


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_an_activation_after_a_rewritten_pooling_is_fused(tmp_path, pooling):
    torch.manual_seed(2)
    model, x = Excitation().eval(), torch.randn(1, 3, 8, 8)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    variant = Excitation(pooling).eval()
    variant.load_state_dict(model.state_dict())
    torch.onnx.export(variant, (x,), tmp_path / "exported.onnx", dynamo=False, input_names=["x"], opset_version=18)
    fused = onnx.load(optimise(str(tmp_path / "exported.onnx"), tmp_path / "fused.onnx"))
    rename(fused)
    onnx.save(fused, tmp_path / "fused.onnx")
    annotate(tmp_path / "fused.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json")
    convolutions = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "FusedConv"]
    assert [json.loads(node.get("modules", "[]")) for node in convolutions] == [["squeeze", "act"], ["excite", "gate"],
                                                                         ["last", "last_act"]]
    assert {node["confidence"] for node in convolutions} == {"matched"}


class ScaledQuery(torch.nn.Module):
    """Scales its queries and turns off the attention's own scaling."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (torch.nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        def heads(y):
            return y.view(2, 5, 4, 4).transpose(1, 2)

        q, k, v = heads(self.q_proj(x) * 0.5), heads(self.k_proj(x)), heads(self.v_proj(x))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
        return self.out_proj(y.transpose(1, 2).reshape(2, 5, 16))


class ScaledBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = torch.nn.LayerNorm(16), ScaledQuery()

    def forward(self, x):
        return x + self.attention(self.norm(x))


@pytest.mark.parametrize("option", ["sidecar", "from"])
@pytest.mark.parametrize("names", ["original", "renamed"])
def test_a_scaling_folded_into_a_projection_has_both_modules(tmp_path, option, names):
    """The reference also scales by one, which tools remove."""
    torch.manual_seed(1)
    model, x = ScaledBlock().eval(), torch.randn(2, 5, 16)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "exported.onnx", dynamo=False, input_names=["x"], opset_version=18)
    onnxslim.slim(str(tmp_path / "exported.onnx"), str(tmp_path / "slim.onnx"))
    slim = onnx.load(tmp_path / "slim.onnx")
    if names == "renamed":
        rename(slim)
        onnx.save(slim, tmp_path / "slim.onnx")
    annotate(tmp_path / "exported.onnx", tmp_path / "before.onnx", "--sidecar", tmp_path / "model.json")
    reference = tmp_path / ("model.json" if option == "sidecar" else "before.onnx")
    annotate(tmp_path / "slim.onnx", tmp_path / "out.onnx", f"--{option}", reference)
    projections = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Gemm"]
    assert all(node["confidence"] == "matched" for node in projections)
    assert sorted((node["module"], node.get("modules", "")) for node in projections) == [
        ("attention", '["attention.q_proj","attention"]'),
        *((f"attention.{name}", "") for name in ("k_proj", "out_proj", "v_proj"))]


class RootMeanSquare(torch.nn.Module):
    def forward(self, x):
        y = x.to(torch.float32)  # a Cast from float32 to float32, which onnxslim removes
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class NormedHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.q_norm = torch.nn.Linear(16, 16), RootMeanSquare()

    def forward(self, x):
        return self.q_norm(self.q_proj(x).view(2, 5, 4, 4)).transpose(1, 2)


class NormedBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.last = NormedHeads(), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.attention(x))


def test_a_reshape_with_the_name_of_a_removed_cast_keeps_its_module(tmp_path):
    torch.manual_seed(1)
    model, x = NormedBlock().eval(), torch.randn(2, 5, 16)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "exported.onnx", dynamo=False, input_names=["x"], opset_version=18)
    onnxslim.slim(str(tmp_path / "exported.onnx"), str(tmp_path / "slim.onnx"))
    annotate(tmp_path / "exported.onnx", tmp_path / "before.onnx", "--sidecar", tmp_path / "model.json")
    annotate(tmp_path / "slim.onnx", tmp_path / "out.onnx", "--from", tmp_path / "before.onnx")
    reshapes = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node
             if node.op_type == "Reshape" and "q_norm/Cast" in node.output[0]]
    assert len(reshapes) == 1, "the tool no longer names a Reshape after a Cast"
    assert reshapes[0]["module"] == "attention"


@pytest.mark.parametrize("name", ["exported", "renamed"])
def test_annotating_is_idempotent_and_strip_restores_the_bytes(folder, tmp_path, name):
    source = folder / f"{name}.onnx"
    annotate(source, tmp_path / "once.onnx", "--sidecar", folder / "model.json")
    annotate(tmp_path / "once.onnx", tmp_path / "twice.onnx", "--sidecar", folder / "model.json")
    assert (tmp_path / "twice.onnx").read_bytes() == (tmp_path / "once.onnx").read_bytes()
    command.run("strip", tmp_path / "once.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == source.read_bytes()


def test_annotating_does_not_change_the_results(folder, tmp_path):
    annotate(folder / "renamed.onnx", tmp_path / "a.onnx", "--sidecar", folder / "model.json")
    entry = zoo.MODELS[NAME]
    feeds = {name: tensor.numpy() for name, tensor in entry.inputs(entry.first).items()}
    results = [onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
               for path in (folder / "renamed.onnx", tmp_path / "a.onnx")]
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def optimise(source, target):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return target


def test_from_matches_an_optimised_file(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "before.onnx", "--sidecar", folder / "model.json")
    optimise(folder / "exported.onnx", tmp_path / "after.onnx")
    annotate(tmp_path / "after.onnx", tmp_path / "out.onnx", "--from", tmp_path / "before.onnx")
    nodes = onnx.load(tmp_path / "out.onnx").graph.node
    assert all("module" in keys(node) for node in nodes)
    fused = [keys(node) for node in nodes if node.op_type == "FusedConv"]
    assert any(node.get("modules", "").count(",") == 2 for node in fused)  # convolution, norm, activation
    command.run("strip", tmp_path / "out.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (tmp_path / "after.onnx").read_bytes()


def test_from_restores_node_names(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "before.onnx", "--sidecar", folder / "model.json")
    annotate(folder / "renamed.onnx", tmp_path / "out.onnx", "--from", tmp_path / "before.onnx")
    names = [[node.name for node in onnx.load(tmp_path / f"{name}.onnx").graph.node] for name in ("before", "out")]
    equal_names = sum(a == b for a, b in zip(*names, strict=True))
    assert equal_names >= 0.95 * len(names[0])


def test_from_reports_the_new_ir_version(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "before.onnx", "--sidecar", folder / "model.json")
    assert onnx.load(folder / "renamed.onnx").ir_version < 10
    output = annotate(folder / "renamed.onnx", tmp_path / "out.onnx", "--from", tmp_path / "before.onnx").stderr
    assert output.startswith("note: the IR version was raised from 8 to 10: older versions have no node metadata")


def number_names(path) -> None:
    """Replaces every name with a number, as a tool that runs after ONNX Runtime may do."""
    model = onnx.load(path)
    rename(model)
    onnx.save(model, path)


def test_carried_names_survive_lost_metadata_and_renaming(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "before.onnx", "--sidecar", folder / "model.json", "--carry")
    optimise(tmp_path / "before.onnx", tmp_path / "after.onnx")
    number_names(tmp_path / "after.onnx")
    annotate(tmp_path / "after.onnx", tmp_path / "out.onnx")  # without a reference
    before = {node.doc_string.removeprefix("whence: "): keys(node)["module"]
              for node in onnx.load(tmp_path / "before.onnx").graph.node}
    answers = [(before[node.doc_string.removeprefix("whence: ")], keys(node))
               for node in onnx.load(tmp_path / "out.onnx").graph.node if node.doc_string]
    assert len(answers) == 18 and {answer["rule"] for _, answer in answers} == {"tokens"}
    for old_module, answer in answers:  # a fused convolution belongs to the module around its parts
        assert answer["module"] == (old_module if answer["confidence"] == "inferred" else old_module.rpartition(".")[0])


@pytest.mark.parametrize("doc_string", [None, "", "a comment of\nthe exporter"])
def test_strip_removes_carried_names(folder, tmp_path, doc_string):
    model = onnx.load(folder / "exported.onnx")
    for node in model.graph.node:
        node.ClearField("doc_string")
        if doc_string is not None:
            node.doc_string = doc_string
    onnx.save(model, tmp_path / "source.onnx")
    annotate(tmp_path / "source.onnx", tmp_path / "a.onnx", "--sidecar", folder / "model.json", "--carry")
    annotate(tmp_path / "a.onnx", tmp_path / "twice.onnx", "--sidecar", folder / "model.json", "--carry")
    assert (tmp_path / "twice.onnx").read_bytes() == (tmp_path / "a.onnx").read_bytes()
    nodes = onnx.load(tmp_path / "a.onnx").graph.node
    assert all(node.doc_string.splitlines()[-1] == f"whence: {node.name}" for node in nodes)
    command.run("strip", tmp_path / "a.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (tmp_path / "source.onnx").read_bytes()


def test_a_name_with_two_lines_is_not_carried(folder, tmp_path):
    """strip removes only one line from the doc_string."""
    model = onnx.load(folder / "exported.onnx")
    model.graph.node[0].name = "/encoder/two\nlines/Softmax"
    onnx.save(model, tmp_path / "source.onnx")
    annotate(tmp_path / "source.onnx", tmp_path / "a.onnx", "--carry", "--no-names")
    first, second = onnx.load(tmp_path / "a.onnx").graph.node[:2]
    assert first.name == model.graph.node[0].name and not first.doc_string and second.doc_string.startswith("whence: ")
    command.run("strip", tmp_path / "a.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (tmp_path / "source.onnx").read_bytes()


def test_a_sidecar_adds_nothing_to_a_file_annotated_by_names(folder, tmp_path):
    """A tool may drop the nodes' metadata but not the model's, which names the sidecar."""
    annotate(folder / "exported.onnx", tmp_path / "known.onnx", "--sidecar", folder / "model.json")
    stripped_model = onnx.load(tmp_path / "known.onnx")
    for node in stripped_model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    onnx.save(stripped_model, tmp_path / "plain.onnx")
    annotate(tmp_path / "plain.onnx", tmp_path / "names.onnx")
    result = annotate(tmp_path / "names.onnx", tmp_path / "out.onnx", "--sidecar", folder / "model.json")
    assert "the sidecar adds nothing" in result.stderr and "whence strip" in result.stderr
    assert modules(tmp_path / "out.onnx") == modules(tmp_path / "names.onnx")
    result = annotate(tmp_path / "names.onnx", tmp_path / "out.onnx", "--from", tmp_path / "known.onnx")
    assert "the previous file adds nothing" in result.stderr
    command.run("strip", tmp_path / "names.onnx", "-o", tmp_path / "stripped.onnx")
    annotate(tmp_path / "stripped.onnx", tmp_path / "out.onnx", "--sidecar", folder / "model.json")
    assert modules(tmp_path / "out.onnx") == modules(tmp_path / "known.onnx")
    result = annotate(tmp_path / "out.onnx", tmp_path / "out2.onnx", "--sidecar", folder / "model.json")
    assert "adds nothing" not in result.stderr


def test_strip_restores_the_ir_version_of_the_tool(folder, tmp_path):
    """The metadata key holds the version before the tool, which must not be restored."""
    old = onnx.load(folder / "exported.onnx")
    old.ir_version = 8
    onnx.save(old, tmp_path / "old.onnx")
    annotate(tmp_path / "old.onnx", tmp_path / "before.onnx", "--sidecar", folder / "model.json")
    annotated = onnx.load(tmp_path / "before.onnx")
    assert annotated.ir_version == 10
    for node in annotated.graph.node:
        del node.metadata_props[:]
    onnx.save(annotated, tmp_path / "tool.onnx")
    annotate(tmp_path / "tool.onnx", tmp_path / "after.onnx", "--from", tmp_path / "before.onnx")
    command.run("strip", tmp_path / "after.onnx", "-o", tmp_path / "stripped.onnx")
    assert onnx.load(tmp_path / "stripped.onnx").ir_version == 10


def test_from_needs_an_annotated_file(folder, tmp_path):
    error = annotate(folder / "exported.onnx", tmp_path / "out.onnx", "--from", folder / "renamed.onnx", code=3).stderr
    assert "annotate that file first" in error and not (tmp_path / "out.onnx").exists()


def test_annotate_uses_names_without_a_reference(folder, tmp_path):
    shutil.copy(folder / "exported.onnx", tmp_path / "alone.onnx")
    annotate(tmp_path / "alone.onnx", tmp_path / "out.onnx")
    confidences = [keys(node).get("confidence") for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert set(confidences) <= {"inferred", "ancestor", "unattributed"}
    assert confidences.count("inferred") > len(confidences) // 4


class Convolutions(torch.nn.Sequential):
    """Some convolutions have a unique shape. Only their neighbours distinguish the others."""

    def __init__(self):
        channels = [3, 8, 8, 8, 16, 16, 16, 8, 8]
        super().__init__(*(torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, padding=1, bias=False), torch.nn.BatchNorm2d(b),
                                               torch.nn.ReLU()) for a, b in itertools.pairwise(channels)))


def test_suffixes_from_tools_are_not_modules(tmp_path):
    names = {
        "/enc/norm/Mul_1/LayerNormFusion/": ("LayerNormalization", "enc.norm"),
        "/enc/k_proj/MatMul/MatMulAddFusion": ("Gemm", "enc.k_proj"),
        "/enc/attn/MatMul/MatMulScaleFusion//MatmulTransposeFusion/": ("MatMul", "enc.attn"),
        "/enc/Slice_5/GatherSliceToSplitFusion": ("Relu", "enc"),
        "/enc/act/Sigmoid_quant": ("Sigmoid", "enc.act"),
        "/enc/Conv/Conv": ("Tanh", "enc.Conv"),  # a module with an operator's name
        "/Add_3/SomeFusion": ("Neg", ""),
    }
    weights = [numpy_helper.from_array(np.ones(4, np.float32), "scale"),
               numpy_helper.from_array(np.eye(4, dtype=np.float32), "matrix")]
    parameters = {"LayerNormalization": ["scale"], "Gemm": ["matrix"], "MatMul": ["matrix"]}
    nodes, previous = [], "x"
    for i, (name, (op, _)) in enumerate(names.items()):
        nodes.append(helper.make_node(op, [previous, *parameters.get(op, [])], [f"v{i}"], name=name))
        previous = f"v{i}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [2, 4])], [value(previous, 1, [2, 4])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
              tmp_path / "fused.onnx")
    annotate(tmp_path / "fused.onnx", tmp_path / "out.onnx")
    modules_in_file = [keys(node)["module"] for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert modules_in_file == [module for _, module in names.values()]


def test_the_name_of_a_fused_weight_identifies_its_module(tmp_path):
    weight = numpy_helper.from_array(np.ones((1, 1, 3, 3), np.float32), "ConvMulFusion_W_net.stem.conv.weight")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Conv", ["x", weight.name], ["y"], name="node_Conv_7")], "g",
                              [value("x", 1, [1, 1, 8, 8])], [value("y", 1, [1, 1, 6, 6])], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
              tmp_path / "folded.onnx")
    annotate(tmp_path / "folded.onnx", tmp_path / "out.onnx")
    metadata = keys(onnx.load(tmp_path / "out.onnx").graph.node[0])
    assert "net.stem.conv".startswith(metadata["module"]) and metadata["module"]


def test_a_renamed_part_with_folded_norms_has_both_modules(tmp_path):
    model = Convolutions().eval()
    with torch.no_grad():  # otherwise folding would not change any byte
        for parameter in [*model.parameters(), *model.buffers()]:
            if parameter.is_floating_point():
                parameter.uniform_(0.5, 1.5)
    x = torch.randn(1, 3, 8, 8)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "whole.onnx", dynamo=False, opset_version=17)
    full_model = onnx.load(tmp_path / "whole.onnx")
    rename(full_model)
    full_model = onnx.shape_inference.infer_shapes(full_model)
    convolutions = [node for node in full_model.graph.node if node.op_type == "Conv"]
    part = onnx.utils.Extractor(full_model).extract_model([convolutions[1].input[0]], [convolutions[6].output[0]])
    onnx.save(part, tmp_path / "part.onnx")
    annotate(tmp_path / "part.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json")
    annotated = [node for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Conv"]
    assert [keys(node)["modules"] for node in annotated] == [f'["{i}.0","{i}.1"]' for i in range(1, 7)]


def test_different_weights_are_refused_unless_allowed(folder, tmp_path):
    command.run("record", zoo.trace("vit"), "-o", tmp_path / "vit.json", "--inputs", zoo.inputs_file("vit"))
    entry = zoo.MODELS["vit"]
    model = entry.model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25)
    program = torch.onnx.export(model, kwargs=entry.inputs(entry.first), dynamo=True, verbose=False)
    program.save(str(tmp_path / "other.onnx"))
    refused = annotate(tmp_path / "other.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "vit.json", code=3)
    assert "E0206" in refused.stderr and "match by digest" in refused.stderr
    assert not (tmp_path / "out.onnx").exists()
    annotate(tmp_path / "other.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "vit.json",
             "--allow-different-weights")
    assert "vit.layers.0.attention.q_proj" in modules(tmp_path / "out.onnx")


def test_the_sidecar_of_another_model_is_refused(folder, tmp_path):
    command.run("record", zoo.trace("lstm_tagger"), "-o", tmp_path / "other.json", "--inputs",
                zoo.inputs_file("lstm_tagger"))
    for options in ([], ["--allow-different-weights"]):
        refused = annotate(folder / "exported.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "other.json",
                           *options, code=3)
        assert "another model" in refused.stderr and not (tmp_path / "out.onnx").exists()


def transformer(seed: int, layers: int, normed: bool) -> torch.nn.Module:
    torch.manual_seed(seed)
    blocks = []
    for _ in range(layers):
        blocks += [torch.nn.Linear(16, 16), torch.nn.Tanh() if normed else torch.nn.ReLU(), torch.nn.Linear(16, 16)]
        blocks += [torch.nn.LayerNorm(16)] if normed else []
    return torch.nn.Sequential(*blocks).eval()


def test_a_different_model_with_equal_sizes_is_refused(tmp_path):
    x = torch.randn(2, 16)
    torch.onnx.export(transformer(0, 3, normed=True), (x,), tmp_path / "a.onnx", dynamo=False, input_names=["tokens"])
    model = onnx.load(tmp_path / "a.onnx")
    rename(model)
    onnx.save(model, tmp_path / "a.onnx")
    torch.jit.trace(transformer(1, 8, normed=False), x).save(str(tmp_path / "b.pt"))
    command.run("record", tmp_path / "b.pt", "-o", tmp_path / "b.json")
    refused = annotate(tmp_path / "a.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "b.json", code=3)
    assert "E0206" in refused.stderr and not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("option", ["--sidecar", "--from"])
def test_inputs_are_not_overwritten(folder, tmp_path, option):
    annotate(folder / "exported.onnx", tmp_path / "known", "--sidecar", folder / "model.json")
    if option == "--sidecar":
        shutil.copy(folder / "model.json", tmp_path / "known")
    before = (tmp_path / "known").read_bytes()
    error = annotate(folder / "exported.onnx", tmp_path / "known", option, tmp_path / "known", code=2).stderr
    assert "E0101" in error and (tmp_path / "known").read_bytes() == before


def test_explain_shows_the_evidence(folder, tmp_path):
    annotate(folder / "exported.onnx", tmp_path / "a.onnx", "--sidecar", folder / "model.json")
    node = next(node for node in onnx.load(tmp_path / "a.onnx").graph.node if "evidence" in keys(node))
    text = command.run("explain", tmp_path / "a.onnx", node.name, "--sidecar", folder / "model.json").stdout
    assert "pkg.whence.evidence" in text and "because" in text and "operation" in text


def small_model(*nodes, functions=(), **tensors) -> onnx.ModelProto:
    info = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(list(nodes), "g", info[:1], info[1:],
                              [numpy_helper.from_array(array, name) for name, array in tensors.items()])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def write_broken(kind: str, folder) -> None:
    weight = np.arange(2, dtype=np.float32)
    model = small_model(helper.make_node("Add", ["x", "w"], ["y"]), w=weight)
    if kind == "cycle":
        model = small_model(helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]),
                            helper.make_node("Abs", ["b"], ["y"]))
    elif kind == "recursion":
        body = [helper.make_node("again", ["a"], ["b"], domain="local")]
        again = helper.make_function("local", "again", ["a"], ["b"], body, [helper.make_opsetid("local", 1)])
        model = small_model(helper.make_node("again", ["x"], ["y"], domain="local"), functions=[again])
    else:
        tensor = model.graph.initializer[0]
        location = {"outside": "../w.bin", "missing": "none.bin", "short": "w.bin"}[kind]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, "offset": "4", "length": "8"}.items():
            tensor.external_data.add(key=key, value=value)
        (folder / "w.bin").write_bytes(weight.tobytes())
    (folder / "broken.onnx").write_bytes(model.SerializeToString())


@pytest.mark.parametrize("kind, code, word", [
    ("cycle", 3, "cycle"), ("recursion", 3, "calls itself"), ("missing", 2, "none.bin"), ("short", 3, "ends before"),
    ("outside", 6, "outside its folder"),
])
def test_invalid_files_are_refused(tmp_path, kind, code, word):
    write_broken(kind, tmp_path)
    (tmp_path / "out.onnx").write_text("before")
    error = annotate(tmp_path / "broken.onnx", tmp_path / "out.onnx", code=code).stderr
    assert word in error and "try:" in error
    assert (tmp_path / "out.onnx").read_text() == "before"


def test_nodes_of_functions_are_annotated(folder, tmp_path):
    twice = helper.make_function("local", "twice", ["a"], ["b"], [
        helper.make_node("Abs", ["a"], ["c"], name="/inner/Abs"),
        helper.make_node("Neg", ["c"], ["b"], name="/inner/Neg"),
    ], [helper.make_opsetid("", 18)])
    model = small_model(helper.make_node("twice", ["x"], ["y"], domain="local"), functions=[twice])
    (tmp_path / "f.onnx").write_bytes(model.SerializeToString())
    annotate(tmp_path / "f.onnx", tmp_path / "out.onnx")
    annotated = onnx.load(tmp_path / "out.onnx")
    assert [keys(node)["module"] for node in annotated.functions[0].node] == ["inner", "inner"]
    assert keys(annotated.graph.node[0])["module"] == "inner"
    command.run("strip", tmp_path / "out.onnx", "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == (tmp_path / "f.onnx").read_bytes()


def test_a_new_name_differs_from_existing_names(tmp_path):
    nodes = onnx_files.chain(onnx_files.known("a"), {}, onnx_files.known("a"))
    nodes[0].name, nodes[2].name = "/a/Relu", "/a/Relu_1"
    annotate(onnx_files.model(nodes, tmp_path / "m.onnx"), tmp_path / "out.onnx")
    assert [node.name for node in onnx.load(tmp_path / "out.onnx").graph.node] == ["/a/Relu", "/a/Relu_2", "/a/Relu_1"]


def test_shared_parameters_identify_a_second_call(tmp_path):
    weight = numpy_helper.from_array(np.ones((2, 2), np.float32), "block.fc.weight")
    nodes = [onnx_files.node("MatMul", ["x", "block.fc.weight"], "a", "/block/fc/MatMul"),
             onnx_files.node("Relu", ["a"], "b", "/block/act/Relu"),
             onnx_files.node("MatMul", ["b", "block.fc.weight"], "c", "/block_1/fc/MatMul"),
             onnx_files.node("Relu", ["c"], "y", "/block_1/act/Relu")]
    annotate(onnx_files.model(nodes, tmp_path / "m.onnx", [weight]), tmp_path / "out.onnx")
    modules_in_file = [keys(node).get("module") for node in onnx.load(tmp_path / "out.onnx").graph.node]
    assert modules_in_file == ["block.fc", "block.act"] * 2


def test_a_function_call_has_the_module_around_its_nodes(tmp_path):
    function = helper.make_function("local", "both", ["a"], ["b"], [
        helper.make_node("Abs", ["a"], ["c"], name="/outer/first/Abs"),
        helper.make_node("Neg", ["c"], ["b"], name="/outer/second/Neg"),
    ], [helper.make_opsetid("", 18)])
    model = small_model(helper.make_node("both", ["x"], ["y"], domain="local"), functions=[function])
    (tmp_path / "f.onnx").write_bytes(model.SerializeToString())
    annotate(tmp_path / "f.onnx", tmp_path / "out.onnx")
    annotated = onnx.load(tmp_path / "out.onnx")
    assert [keys(node)["module"] for node in annotated.functions[0].node] == ["outer.first", "outer.second"]
    assert keys(annotated.graph.node[0])["module"] == "outer"


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.n(x + torch.tanh(self.a(x)))


class Repeated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.b, self.head = Block(), torch.nn.Linear(8, 3)

    def forward(self, x):
        for _ in range(3):
            x = self.b(x)
        return self.head(x)


@pytest.fixture
def repeated(tmp_path):
    """Returns a folder: model.onnx, its sidecar, and out.onnx, optimised by ONNX Runtime and annotated with --from."""
    torch.jit.trace(Repeated().eval(), torch.ones(2, 8)).save(str(tmp_path / "model.pt"))
    command.run("export", tmp_path / "model.pt", "-o", tmp_path / "model.onnx", "--sidecar-out",
                tmp_path / "model.whence.json")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), options, providers=["CPUExecutionProvider"])
    annotate(tmp_path / "model.onnx", tmp_path / "before.onnx", "--sidecar", tmp_path / "model.whence.json")
    annotate(tmp_path / "fused.onnx", tmp_path / "out.onnx", "--from", tmp_path / "before.onnx")
    return tmp_path


def test_fused_nodes_of_later_calls_have_both_modules(repeated):
    products = [keys(node) for node in onnx.load(repeated / "out.onnx").graph.node if node.op_type == "FusedGemm"]
    assert [(metadata["module"], json.loads(metadata["modules"])) for metadata in products] == [("b", ["b.a", "b"])] * 3


def test_a_file_annotated_with_from_fits_its_sidecar(repeated):
    report = command.run_json("validate", repeated / "out.onnx", "--sidecar", repeated / "model.whence.json")
    assert not [finding for finding in report["findings"] if finding["code"] == "V302"]


class Family(torch.nn.Module):
    """Models with different `sizes` have equal names and equal first weights."""

    def __init__(self, sizes):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b, bias=False) for a, b in itertools.pairwise(sizes))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def test_equal_names_and_a_few_equal_weights_are_not_enough(tmp_path):
    x = torch.ones(2, 4)
    torch.jit.trace(Family([4, 5, *range(20, 50)]).eval(), x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(Family([4, 5, *range(60, 90)]).eval(), (x,), tmp_path / "other.onnx", dynamo=False,
                      input_names=["x"])
    refused = annotate(tmp_path / "other.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json", code=3)
    assert "another model" in refused.stderr


def test_parameters_are_counted_once(tmp_path):
    model, x = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3)).eval(), torch.ones(1, 3, 8, 8)
    torch.jit.trace(model, x).save(str(tmp_path / "model.pt"))
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "exported.onnx", dynamo=False, input_names=["x"])
    counts = command.run_json("annotate", tmp_path / "exported.onnx", "-o", tmp_path / "out.onnx", "--sidecar",
                             tmp_path / "model.json")["parameters"]
    assert counts == {"known": 2, "by_name": 0, "by_digest": 2, "by_sketch": 0, "by_shape": 0}


class UnusedResults(torch.nn.Module):
    """Operators with several results; only the first is used and exported."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.native_layer_norm(self.linear(x), [4], None, None, 1e-5)[0]
        return torch.linalg.inv_ex(y @ y.mT + 4 * torch.eye(3))[0]


def test_operators_with_unused_results(tmp_path):
    torch.manual_seed(0)
    torch.jit.trace(UnusedResults().eval(), torch.randn(3, 4)).save(str(tmp_path / "model.pt"))
    command.run("export", tmp_path / "model.pt", "-o", tmp_path / "own.onnx", "--sidecar-out", tmp_path / "model.json")
    model = onnx.load(tmp_path / "own.onnx")
    for node in model.graph.node:
        del node.metadata_props[:]
    onnx.save(model, tmp_path / "bare.onnx")
    annotate(tmp_path / "bare.onnx", tmp_path / "out.onnx", "--sidecar", tmp_path / "model.json")
    paths = [entry.value for node in onnx.load(tmp_path / "out.onnx").graph.node for entry in node.metadata_props
             if entry.key == "pkg.whence.module"]
    assert "linear" in paths and "" in paths
