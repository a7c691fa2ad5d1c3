"""`whence extract`: an extracted module returns the same results as in PyTorch."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
import whence
from accuracy import tools
from functions import graphs
from functions.graphs import node, weight
from models import zoo
from results import assert_same_results


def submodule_call(model, name: str, inputs: dict):
    """Runs the complete model once. Returns the arguments and the result of module `name`."""
    call = {}
    module = model.get_submodule(name)
    hook = module.register_forward_hook(lambda _, args, kwargs, out: call.update(args=args, kwargs=kwargs, out=out),
                                        with_kwargs=True)
    with torch.no_grad():
        model(**inputs)
    hook.remove()
    return call


@pytest.mark.parametrize("zoo_name, module", [
    ("bert_tiny", "encoder.layer.1"), ("bert_tiny", "encoder.layer.0.intermediate"), ("resnet50", "layer2.0"),
    ("resnet50", "layer3.1")])
def test_an_extracted_module_equals_pytorch(exported, tmp_path, zoo_name, module):
    entry = zoo.MODELS[zoo_name]
    model = exported.model(zoo_name)
    inputs = dict(entry.inputs(entry.first))
    call = submodule_call(model, module, inputs)
    path = exported(zoo_name)
    part = tmp_path / "part.onnx"
    report = command.run_json("extract", path, "--module", module, "-o", part)
    extracted = onnx.load(part)
    onnx.checker.check_model(extracted, full_check=True)
    assert [value.split()[0] for value in report["inputs"]] == [value.name for value in extracted.graph.input]

    # The complete file computes the inputs of the extracted module.
    complete = onnx.load(path)
    interface = {value.name for value in [*complete.graph.input, *complete.graph.output]}
    for value in extracted.graph.input:
        if value.name not in interface:
            complete.graph.output.append(value)
    onnx.save(complete, tmp_path / "complete.onnx")
    feeds = {key: value.numpy() for key, value in inputs.items()}
    names = [value.name for value in complete.graph.output]
    values = dict(zip(names, graphs.run(tmp_path / "complete.onnx", feeds), strict=True)) | feeds
    results = graphs.run(part, {value.name: values[value.name] for value in extracted.graph.input})

    expected = call["out"][0] if isinstance(call["out"], tuple) else call["out"]
    candidates = [result for result in results if result.shape == tuple(expected.shape)]
    assert_same_results(candidates[-1:], [expected], (1e-4, 1e-4), scaled=True)


def two_calls(tmp_path):
    path = tmp_path / "model.onnx"
    graphs.model([node("Add", ["x", "block.weight"], ["a"], "block:Block"), node("Exp", ["a"], ["b"]),
                  node("Add", ["b", "block.weight"], ["y"], "block:Block#1")],
                 [weight("block.weight", 3)], {"x": [3]}, ["y"], path)
    return path


def test_a_single_call_is_extracted(tmp_path):
    path, part = two_calls(tmp_path), tmp_path / "part.onnx"
    for call, name in ((0, "x"), (1, "b")):
        report = command.run_json("extract", path, "--module", "block", "--call", call, "-o", part)
        assert report["inputs"] == [f"{name} float32[3]"] and report["weights"] == 1
    x = np.ones(3, np.float32)
    np.testing.assert_allclose(graphs.run(part, {"b": x})[0], x + graphs.numpy_helper.to_array(weight("w" * 12, 3)))


def test_the_extracted_call_is_reported(tmp_path):
    path, part = two_calls(tmp_path), tmp_path / "part.onnx"
    assert "call 0, one of 2 calls of block; --call takes another" in command.run(
        "extract", path, "--module", "block", "-o", part).stdout
    stdout = command.run("extract", path, "--module", "block", "--call", "1", "-o", part).stdout
    assert "call 1, one of 2 calls of block\n" in stdout
    report = command.run_json("extract", path, "--module", "block", "-o", part)
    assert (report["call"], report["calls"]) == (0, [0, 1])


@pytest.mark.parametrize("options, code, fragment", [
    (["--module", "blok"], 2, "the nearest are block"),
    (["--module", "block", "--call", "2"], 2, "its calls are 0 to 1"),
])
def test_unknown_modules_and_calls_are_errors(tmp_path, options, code, fragment):
    part = tmp_path / "part.onnx"
    result = command.run("extract", two_calls(tmp_path), *options, "-o", part, code=code)
    assert fragment in result.stderr and not part.exists()


def annotated(op: str, inputs: list, outputs: list, module: str, confidence: str, *modules: str) -> onnx.NodeProto:
    """Makes a node with whence's keys. `modules` lists the modules of a fused node."""
    proto = onnx.helper.make_node(op, inputs, outputs, name="_".join([op, *outputs]))
    proto.metadata_props.add(key="pkg.whence.module", value=module)
    proto.metadata_props.add(key="pkg.whence.confidence", value=confidence)
    proto.metadata_props.add(key="pkg.whence.rule", value="dataflow")
    if modules:
        proto.metadata_props.add(key="pkg.whence.modules", value=json.dumps(modules))
    return proto


@pytest.mark.parametrize("position", ["before", "after"])
@pytest.mark.parametrize("confidence, refused", [("ancestor", True), ("unattributed", True), ("inferred", False),
                                                 ("exact", False)])
def test_a_module_with_uncertain_nodes_is_refused(tmp_path, position, confidence, refused):
    """The adjacent node belongs to the parent module or to any module in it, so it may belong to the block."""
    path, part = tmp_path / "model.onnx", tmp_path / "part.onnx"
    adjacent = {"before": "Abs_a", "after": "Relu_y"}[position]
    nodes = [annotated("Abs", ["x"], ["a"], "outer", "exact"), annotated("Exp", ["a"], ["b"], "outer.block", "matched"),
             annotated("Neg", ["b"], ["c"], "outer.block", "matched"), annotated("Relu", ["c"], ["y"], "outer", "exact")]
    for entry in next(node for node in nodes if node.name == adjacent).metadata_props:
        entry.value = confidence if entry.key == "pkg.whence.confidence" else entry.value
    graphs.model(nodes, [], {"x": [3]}, ["y"], path)
    result = command.run("extract", path, "--module", "outer.block", "-o", part, code=4 if refused else 0)
    assert part.exists() != refused
    if refused:
        assert adjacent in result.stderr and "may belong to it" in result.stderr and "--partial" in result.stderr
        stderr = command.run("extract", path, "--module", "outer.block", "-o", part, "--partial").stderr
        assert stderr.startswith("warning") and adjacent in stderr
        assert [node.op_type for node in onnx.load(part).graph.node] == ["Exp", "Neg"]


def test_a_module_that_shares_a_fused_node_is_refused(tmp_path):
    path, part = tmp_path / "model.onnx", tmp_path / "part.onnx"
    graphs.model([annotated("Abs", ["x"], ["a"], "", "matched", "outer.conv", "outer.act"),
                  annotated("Exp", ["a"], ["b"], "outer.conv", "matched"),
                  annotated("Neg", ["b"], ["y"], "last", "matched")], [], {"x": [3]}, ["y"], path)
    stderr = command.run("extract", path, "--module", "outer.conv", "-o", part, code=4).stderr
    assert "1 node" in stderr and "Abs 'Abs_a'" in stderr
    stderr = command.run("extract", path, "--module", "outer.act", "-o", part, code=4).stderr
    assert "outer.act" in stderr and "Abs 'Abs_a'" in stderr
    assert not part.exists()
    command.run("extract", path, "--module", "last", "-o", part)


class Masked(torch.nn.Module):
    """The root multiplies the result of each stage, so the product is an input of the next stage."""

    def __init__(self):
        super().__init__()
        self.stages = torch.nn.ModuleList(Block() for _ in range(3))
        self.last = torch.nn.Linear(8, 2)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x) * torch.arange(x.shape[0]).unsqueeze(1).to(x.dtype).cos()
        return self.last(x)


def export_annotated(model, x, tmp_path):
    archive, path = tmp_path / "m.pt2", tmp_path / "m.onnx"
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), archive)
    command.run("export", archive, "--annotate", "-o", path)
    return path


def test_an_uncalled_container_is_extracted_with_its_modules(tmp_path):
    """`extract` extracts all nodes that `show` counts for the container."""
    torch.manual_seed(5)
    model, x = Masked().eval(), torch.randn(4, 8)
    path, part = export_annotated(model, x, tmp_path), tmp_path / "part.onnx"
    rows = {row["path"]: row for row in command.run_json("show", path)["modules"]}
    assert rows["stages"]["nodes"] > 0 and not rows["stages"]["calls"]
    report = command.run_json("extract", path, "--module", "stages", "-o", part)
    assert report["nodes"] >= rows["stages"]["nodes"] and report["calls"] == [0]
    input_names = {value.name for value in onnx.load(part).graph.input}
    assert "x" in input_names and len(onnx.load(part).graph.output) == 1
    sample = torch.randn(6, 8)
    expected = sample
    with torch.no_grad():
        for stage in model.stages[:2]:
            expected = stage(expected) * torch.arange(6).unsqueeze(1).cos()
        expected = model.stages[2](expected)
    complete = onnx.load(path)
    complete.graph.output.extend(value for value in onnx.load(part).graph.input if value.name != "x")
    onnx.save(complete, tmp_path / "complete.onnx")
    names = [value.name for value in complete.graph.output]
    results = graphs.run(tmp_path / "complete.onnx", {"x": sample.numpy()})
    values = dict(zip(names, results, strict=True)) | {"x": sample.numpy()}
    result, = graphs.run(part, {name: values[name] for name in input_names})
    np.testing.assert_allclose(result, expected.numpy(), rtol=0, atol=1e-5)
    command.run("extract", path, "--module", "stages.1", "-o", part)


def test_a_module_interrupted_by_another_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    graphs.model([node("Relu", ["x"], ["a"], "one:Block"), node("Exp", ["a"], ["b"], "two:Block"),
                  node("Neg", ["b"], ["y"], "one:Block")], [], {"x": [3]}, ["y"], path)
    result = command.run("extract", path, "--module", "one", "-o", tmp_path / "part.onnx", code=4)
    assert "Exp 'Exp_b' of two" in result.stderr
    assert not (tmp_path / "part.onnx").exists()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + torch.relu(self.linear(x)))


class Aliased(torch.nn.Module):
    """One block has three names and four calls. Another block has two names and two calls."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()
        self.alias = self.first
        self.chain = torch.nn.Sequential(self.first, torch.nn.ReLU(), self.second)

    def forward(self, x):
        x = self.alias(self.chain(self.first(x)))
        return self.first(x) + self.second(x)


def results_of_calls(model, name: str, x) -> list:
    results = []
    hook = model.get_submodule(name).register_forward_hook(lambda _, args, out: results.append((args[0], out)))
    with torch.no_grad():
        model(x)
    hook.remove()
    return results


@pytest.mark.parametrize("dynamo", [True, False])
def test_calls_of_a_module_with_several_names(tmp_path, dynamo):
    """PyTorch's exporters name nodes after the calls, or store the weights of equal norms twice. The record states the
    module and the call."""
    torch.manual_seed(3)
    model, x = Aliased().eval(), torch.randn(3, 8)
    archive, sidecar = tmp_path / "m.pt", tmp_path / "m.json"
    torch.jit.save(torch.jit.trace(model, x), archive)
    torch.save((x,), tmp_path / "inputs.pt")
    command.run("record", archive, "--inputs", tmp_path / "inputs.pt", "-o", sidecar)
    unannotated, path = tmp_path / "plain.onnx", tmp_path / "m.onnx"
    torch.onnx.export(model, (x,), unannotated, input_names=["x"], dynamo=dynamo, **({"verbose": False} if dynamo else {}))
    command.run("annotate", unannotated, "--sidecar", sidecar, "-o", path)
    for name in ("first", "second"):
        calls = results_of_calls(model, name, x)
        for call, (argument, returned) in enumerate(calls):
            part = tmp_path / "part.onnx"
            command.run("extract", path, "--module", name, "--call", call, "-o", part)
            extracted = onnx.load(part)
            assert len(extracted.graph.input) == len(extracted.graph.output) == 1
            result, = graphs.run(part, {extracted.graph.input[0].name: argument.numpy()})
            np.testing.assert_allclose(result, returned.numpy(), rtol=0, atol=1e-5)
    report = command.run_json("functions", path, "--types", "Block", "-o", tmp_path / "f.onnx")
    assert [(function["name"], function["calls"]) for function in report["functions"]] == [("Block", 6)] and not report["refused"]
    graphs.assert_same_results(path, tmp_path / "f.onnx")
    command.run("strip", path, "-o", tmp_path / "stripped.onnx")
    assert (tmp_path / "stripped.onnx").read_bytes() == unannotated.read_bytes()


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        if bool(x.sum() > 0):
            x = self.block(x)
        return x * 2


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    torch.manual_seed(0)
    model, folder = Branches().eval(), tmp_path_factory.mktemp("branches")
    torch.jit.save(torch.jit.script(model), folder / "m.pt")
    command.run("export", folder / "m.pt", "--input", "x=float32[2,8]", "--annotate", "-o", folder / "m.onnx")
    return model, folder / "m.onnx"


def test_a_module_in_a_branch_is_extracted(branches, tmp_path):
    model, path = branches
    report = command.run_json("extract", path, "--module", "block", "-o", tmp_path / "part.onnx")
    shown = {row["path"]: row["nodes"] for row in command.run_json("show", path)["modules"]}
    assert report["nodes"] == shown["block"]
    onnx.checker.check_model(tmp_path / "part.onnx", full_check=True)
    x = torch.randn(2, 8)
    with torch.no_grad():
        assert_same_results(graphs.run(tmp_path / "part.onnx", {report["inputs"][0].split()[0]: x.numpy()}),
                            [model.block(x)], (1e-5, 1e-6))


class BranchInLoop(torch.nn.Module):
    """Calls modules in a branch in a loop, with values of the loop as arguments."""

    def __init__(self):
        super().__init__()
        self.block, self.scale = Block(), torch.nn.Linear(8, 8)

    def forward(self, x, n: torch.Tensor):
        for i in range(int(n)):
            if bool(x.sum() > 0):
                x = self.block(self.scale(x) * i)
        return x


@pytest.mark.parametrize("module", ["block", "scale"])
def test_a_module_in_a_branch_in_a_loop_is_extracted(module, tmp_path):
    torch.manual_seed(0)
    model = BranchInLoop().eval()
    torch.jit.save(torch.jit.script(model), tmp_path / "m.pt")
    np.savez(tmp_path / "inputs.npz", x=np.ones((2, 8), "float32"), n=np.array(3))
    command.run("export", tmp_path / "m.pt", "--inputs", tmp_path / "inputs.npz", "--annotate",
                "-o", tmp_path / "m.onnx")
    report = command.run_json("extract", tmp_path / "m.onnx", "--module", module, "-o", tmp_path / "part.onnx")
    x = torch.randn(2, 8)
    with torch.no_grad():
        assert_same_results(graphs.run(tmp_path / "part.onnx", {report["inputs"][0].split()[0]: x.numpy()}),
                            [getattr(model, module)(x)], (1e-5, 1e-6))


def test_extract_and_show_count_the_same_nodes_of_a_branch(branches, tmp_path):
    _, path = branches
    report = command.run_json("extract", path, "--module", "", "-o", tmp_path / "part.onnx")
    assert report["nodes"] == command.run_json("show", path)["modules"][0]["nodes"]


def test_functions_in_a_branch_are_refused(branches, tmp_path):
    _, path = branches
    out = tmp_path / "part.onnx"
    for choice in (("--modules", "block.*"), ("--types", "Block")):
        stderr = command.run("functions", path, *choice, "-o", out, code=2).stderr
        assert "If '/If'" in stderr
    assert "no module of the file matches" in command.run("functions", path, "--modules", "x", "-o", out, code=2).stderr
    assert not out.exists()


class RmsNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def test_modules_after_an_operator_unknown_to_onnx_are_extracted(tmp_path):
    """ONNX Runtime puts SimplifiedLayerNormalization in ONNX's domain, and onnx infers no types after it."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), RmsNorm(16), torch.nn.Linear(16, 16), torch.nn.Tanh(),
                                RmsNorm(16), torch.nn.Linear(16, 4)).eval()
    x = torch.randn(2, 3, 16)
    torch.jit.trace(model, (x,)).save(tmp_path / "model.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    torch.onnx.export(model, (x,), tmp_path / "exported.onnx", dynamo=False, opset_version=17, verbose=False)
    tools.onnxruntime_offline("extended")("", tmp_path / "exported.onnx", tmp_path / "fused.onnx")
    fused = onnx.load(tmp_path / "fused.onnx")
    assert "SimplifiedLayerNormalization" in {node.op_type for node in fused.graph.node}
    del fused.graph.value_info[:]
    onnx.save(fused, tmp_path / "untyped.onnx")
    command.run("annotate", tmp_path / "untyped.onnx", "-o", tmp_path / "annotated.onnx",
                "--sidecar", tmp_path / "model.json")
    for module in "012345":
        part = tmp_path / f"{module}.onnx"
        command.run("extract", tmp_path / "annotated.onnx", "--module", module, "-o", part)
        call = submodule_call(model, module, {"input": torch.randn(5, 3, 16)[:2]})
        session = onnxruntime.InferenceSession(part, providers=["CPUExecutionProvider"])
        inputs = session.get_inputs()
        assert len(inputs) == 1
        shape = [size if isinstance(size, int) else 2 for size in inputs[0].shape]
        result = session.run(None, {inputs[0].name: call["args"][0].numpy().reshape(shape)})[0]
        np.testing.assert_allclose(result.reshape(call["out"].shape), call["out"].numpy(), rtol=1e-4, atol=1e-5)


class Attention(torch.nn.Module):
    """Computes sizes for Reshape and Expand, whose output shapes onnx cannot infer."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, -1).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ v
        return x + self.out(y.transpose(1, 2).reshape(batch, -1, width))


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 5)
        self.layers = torch.nn.ModuleList(Attention() for _ in range(3))

    def forward(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    torch.manual_seed(0)
    model, folder = Stack().eval(), tmp_path_factory.mktemp("stack")
    ids = torch.randint(0, 50, (2, 7))
    torch.jit.trace(model, ids, check_trace=False).save(str(folder / "m.pt"))
    torch.save((ids,), folder / "inputs.pt")
    command.run("export", folder / "m.pt", "-o", folder / "m.onnx", "--inputs", folder / "inputs.pt", "--annotate",
                "--dynamic", "ids:0=batch,1=seq")
    return model, folder / "m.onnx"


@pytest.mark.parametrize("options", [
    ["--modules", "layers.0", "--modules", "layers.1"], ["--modules", "layers.[0-1]"],
    ["--modules", "layers.1", "--modules", "layers.1.*", "--modules", "layers.0"]])
def test_several_modules_become_one_model(stack, tmp_path, options):
    """Extracts the first two layers. The dynamic axes keep their names."""
    model, path = stack
    report = command.run_json("extract", path, *options, "-o", tmp_path / "part.onnx")
    assert [value.split()[1] for value in report["inputs"] + report["outputs"]] == ["float32[batch,seq,16]"] * 2
    onnx.checker.check_model(tmp_path / "part.onnx", full_check=True)
    for sizes in ((2, 7), (3, 4), (1, 1)):
        x = torch.randn(*sizes, 16)
        results = graphs.run(tmp_path / "part.onnx", {report["inputs"][0].split()[0]: x.numpy()})
        with torch.no_grad():
            assert_same_results(results, [model.layers[1](model.layers[0](x))], (1e-4, 1e-5))


@pytest.mark.parametrize("modules", ["layers.*", "layers"])
def test_a_glob_and_a_container_extract_the_same_nodes(stack, tmp_path, modules):
    _, path = stack
    report = command.run_json("extract", path, "--modules", modules, "-o", tmp_path / "part.onnx")
    shown = {row["path"]: row for row in command.run_json("show", path)["modules"]}
    assert report["nodes"] == shown["layers"]["nodes"]


@pytest.mark.parametrize("options, error", [
    (["--modules", "layers.0", "--modules", "layers.2"], "E0303"), (["--modules", "layer.*"], "E0105"),
    (["--modules", "layers.0", "--module", "layers.1"], "E0101"), ([], "E0101")])
def test_invalid_selections_are_refused(stack, tmp_path, options, error):
    _, path = stack
    code = {"E0101": 2, "E0105": 2, "E0303": 4}[error]
    assert command.run("extract", path, *options, "-o", tmp_path / "part.onnx", code=code).stderr.startswith(error)
    assert not (tmp_path / "part.onnx").exists()


def test_python_accepts_one_or_several_modules(stack, tmp_path):
    _, path = stack
    for module, count in (("layers.1", 1), (["layers.1", "layers.2"], 2), (["layers.*"], 3)):
        part = whence.extract(path, module, tmp_path / f"{count}.onnx")
        assert sum(node.op_type == "Softmax" for node in onnx.load(part).graph.node) == count
