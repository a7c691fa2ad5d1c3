"""The module call of each node after fusion, annotated with the tool's input or by names only."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
import whence


class ConvRelu(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.ReLU()

    def forward(self, x):
        return self.act(self.conv(x))


class Gated(torch.nn.Module):
    """Its child has fused nodes; the module itself is called several times."""

    def __init__(self):
        super().__init__()
        self.inner = ConvRelu()

    def forward(self, x):
        return torch.sigmoid(self.inner(x)) + x


class Repeated(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        y = self.block(x)
        return self.block(self.block(y * 2).transpose(2, 3)) + y


def keys(node: onnx.NodeProto) -> dict:
    return {entry.key.removeprefix("pkg.whence."): entry.value for entry in node.metadata_props}


def export_annotated(model, sample, folder, name: str):
    """Exports with whence, and annotates the file."""
    torch.jit.trace(model, (sample,)).save(folder / "model.pt")
    command.run("export", folder / "model.pt", "-o", folder / "unannotated.onnx", "--sidecar-out", folder / "model.json")
    command.run("annotate", folder / "unannotated.onnx", "-o", folder / name, "--sidecar", folder / "model.json")
    return folder / name


def fuse(source, target, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    assert any(node.domain.startswith("com.microsoft") for node in onnx.load(target).graph.node)


@pytest.fixture(params=[ConvRelu, Gated], ids=["fused", "fused in child"])
def repeated(request, tmp_path):
    """Returns ONNX Runtime's file, annotated with --from, and the (input, output) of each call of the block."""
    torch.manual_seed(3)
    model, example = Repeated(request.param()).eval(), torch.randn(1, 4, 6, 6)
    torch.onnx.export(model, (example,), tmp_path / "exported.onnx", dynamo=True, external_data=False, verbose=False)
    torch.jit.trace(model, (example,)).save(tmp_path / "model.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.json")
    command.run("annotate", tmp_path / "exported.onnx", "-o", tmp_path / "before.onnx",
                "--sidecar", tmp_path / "model.json")
    fuse(tmp_path / "before.onnx", tmp_path / "fused.onnx")
    command.run("annotate", tmp_path / "fused.onnx", "-o", tmp_path / "after.onnx", "--from", tmp_path / "before.onnx")
    calls = []
    hook = model.block.register_forward_hook(lambda _, sample, result: calls.append((sample[0], result)))
    with torch.no_grad():
        model(torch.randn(1, 4, 6, 6))
    hook.remove()
    return tmp_path / "after.onnx", calls


@pytest.mark.parametrize("call", [None, 0, 1, 2])
def test_each_call_is_extracted(repeated, tmp_path, call):
    path, calls = repeated
    part = tmp_path / "part.onnx"
    command.run("extract", path, "--module", "block", "-o", part, *([] if call is None else ["--call", call]))
    session = onnxruntime.InferenceSession(part)
    assert len(session.get_inputs()) == 1
    sample, expected = calls[call or 0]
    results = session.run(None, {session.get_inputs()[0].name: sample.numpy()})
    np.testing.assert_allclose(results[0], expected.numpy(), 1e-4, 1e-5)


def test_the_calls_become_one_function(repeated, tmp_path):
    path, _ = repeated
    functions_file = tmp_path / "functions.onnx"
    command.run("functions", path, "--modules", "block", "-o", functions_file)
    model = onnx.load(functions_file)
    assert len(model.functions) == 1
    name = model.functions[0].name
    assert [node.op_type for node in model.graph.node].count(name) == 3
    sample = np.random.default_rng(1).standard_normal((1, 4, 6, 6), np.float32)
    results = [onnxruntime.InferenceSession(file).run(None, {model.graph.input[0].name: sample})[0]
               for file in (path, functions_file)]
    np.testing.assert_allclose(*results, 1e-5, 1e-6)


def test_diff_pairs_nodes_of_one_call(repeated):
    """ONNX Runtime may also change the layout and rename all values."""
    path, _ = repeated
    folder = path.parent
    fuse(folder / "before.onnx", folder / "layout.onnx", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    command.run("annotate", folder / "layout.onnx", "-o", folder / "blocked.onnx", "--from", folder / "before.onnx")
    for after in (path, folder / "blocked.onnx"):
        nodes = command.run_json("diff", folder / "before.onnx", after, code=None)["changed_nodes"]
        groups = [node["fused"] for node in nodes if node["change"] == "fused" and "Conv" in node["op_type"]]
        assert len(groups) == 3
        for names in groups:
            numbers = {name.rsplit("/", 1)[1].partition("_")[2] for name in names}
            assert {name.split()[0] for name in names} == {"Conv", "Relu"} and len(numbers) == 1, groups


def test_each_convolution_with_folded_norm_is_one_call(tmp_path):
    """Each call has one node, which belongs to both modules."""
    torch.manual_seed(4)
    block = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.BatchNorm2d(4))
    block[1].running_mean.normal_()
    block[1].running_var.uniform_(0.5, 2)
    model = Repeated(block).eval()
    path = export_annotated(model, torch.randn(1, 4, 6, 6), tmp_path, "model.onnx")
    sample = torch.randn(1, 4, 6, 6)
    for call in range(3):
        command.run("extract", path, "--module", "block", "--call", call, "-o", tmp_path / "part.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "part.onnx")
        result = session.run(None, {session.get_inputs()[0].name: sample.numpy()})[0]
        with torch.no_grad():
            np.testing.assert_allclose(result, block(sample).numpy(), 1e-4, 1e-5)


def test_an_unattributed_node_stays_unattributed(tmp_path):
    """Neighbours that have a module do not override the previous file."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Sigmoid(), torch.nn.Flatten(0), torch.nn.Linear(10, 3))
    before = onnx.load(export_annotated(model, torch.randn(2, 5), tmp_path, "annotated.onnx"))
    for node in before.graph.node:
        if node.op_type in ("Sigmoid", "Reshape", "Flatten"):
            del node.metadata_props[:]
            node.metadata_props.add(key="pkg.whence.confidence", value="unattributed")
    onnx.save(before, tmp_path / "before.onnx")
    file = onnx.load(tmp_path / "before.onnx")
    for node in file.graph.node:
        del node.metadata_props[:]
    del file.metadata_props[:]
    onnx.save(file, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "-o", tmp_path / "after.onnx", "--from", tmp_path / "before.onnx")
    after = onnx.load(tmp_path / "after.onnx")
    unattributed = [node.op_type for node in after.graph.node if keys(node)["confidence"] == "unattributed"]
    assert "Sigmoid" in unattributed and len(unattributed) == 2, unattributed


class Twice(torch.nn.Module):
    """`lin_1` is a module, but PyTorch's exporter writes act_1 and norm_2_1 for second calls of `act` and `norm_2`."""

    def __init__(self):
        super().__init__()
        self.lin, self.lin_1 = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.act, self.norm_2 = torch.nn.Tanh(), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm_2(self.act(self.lin_1(self.norm_2(self.act(self.lin(x))))))


def test_second_call_names_are_not_modules(tmp_path):
    model = torch.nn.ModuleDict({"a": Twice(), "b": Twice()})
    model.forward = lambda x: model["b"](model["b"](model["a"](x)))
    torch.onnx.export(model.eval(), (torch.randn(2, 4),), tmp_path / "model.onnx", dynamo=False, verbose=False)
    names = {node.name for node in onnx.load(tmp_path / "model.onnx").graph.node}
    assert any("/act_1/" in name for name in names) and any("/norm_2_1/" in name for name in names), names
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "annotated.onnx")
    modules = {f"{a}.{b}" for a in "ab" for b in ("lin", "lin_1", "act", "norm_2")} | {"a", "b", ""}
    annotated = {keys(node).get("module") for node in onnx.load(tmp_path / "annotated.onnx").graph.node}
    assert annotated - {None} <= modules
    assert {"a.act", "b.act", "a.norm_2", "b.norm_2", "a.lin_1", "b.lin_1"} <= annotated


class Heads(torch.nn.Module):
    """PyTorch's older exporter omits `heads` and `tails` in names because nothing calls them. Both contain `k`."""

    def __init__(self):
        super().__init__()
        def layer():
            return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

        self.heads = torch.nn.ModuleDict({"k": layer(), "q": layer()})
        self.tails = torch.nn.ModuleDict({"k": layer()})

    def forward(self, x):
        return self.tails["k"](self.heads["k"](x) + self.heads["q"](x))


def test_parameters_identify_containers_missing_in_names(tmp_path):
    model = torch.nn.Sequential(Heads(), Heads()).eval()
    torch.onnx.export(model, (torch.randn(2, 4),), tmp_path / "model.onnx", dynamo=False, verbose=False)
    assert any(node.name.startswith("/1/q/") for node in onnx.load(tmp_path / "model.onnx").graph.node)
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "annotated.onnx")
    paths = {name for name, _ in model.named_modules()}
    nodes = [(node.op_type, keys(node)) for node in onnx.load(tmp_path / "annotated.onnx").graph.node]
    assert {metadata["module"] for _, metadata in nodes if "module" in metadata} <= paths
    products = [metadata["module"] for op, metadata in nodes if op == "Gemm"]
    assert sorted(products) == sorted(f"{block}.{layer}.0" for block in "01"
                                      for layer in ("heads.k", "heads.q", "tails.k"))
    activations = [metadata["module"] for op, metadata in nodes if op == "Tanh" and metadata["confidence"] == "inferred"]
    assert {"0.heads.q.1", "1.heads.q.1"} <= set(activations)


def test_weights_merged_by_an_exporter_do_not_identify_modules(tmp_path):
    """Untrained norms have equal weights, which the file stores once, under the name of the first norm."""
    class Norms(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)) for _ in range(2))

        def forward(self, x):
            return self.q(self.p(x).tanh())

    torch.onnx.export(Norms().eval(), (torch.randn(2, 8),), tmp_path / "model.onnx", dynamo=True, external_data=False,
                      verbose=False)
    model = onnx.load(tmp_path / "model.onnx")
    norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
    assert norms[0].input[1] == norms[1].input[1] == "p.1.weight"
    for i, node in enumerate(model.graph.node):
        del node.metadata_props[:]
        node.name = f"n{i}"
    onnx.save(model, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "-o", tmp_path / "annotated.onnx")
    metadata = {node.op_type: keys(node) for node in onnx.load(tmp_path / "annotated.onnx").graph.node}
    assert not metadata["LayerNormalization"].get("module", "").startswith("p")  # it belongs to q
    assert metadata["Gemm"]["module"] == "q.0"


def test_calls_without_numbers_are_not_extracted(tmp_path):
    """Names do not distinguish the calls, and a node between the calls belongs to another module."""
    class Between(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.once = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.once(self.a(self.a(x).relu()))

    model = Between().eval()
    torch.onnx.export(model, (torch.randn(2, 4),), tmp_path / "model.onnx", dynamo=False, verbose=False)
    command.run("annotate", tmp_path / "model.onnx", "-o", tmp_path / "annotated.onnx")
    refused = command.run("extract", tmp_path / "annotated.onnx", "--module", "a", "-o", tmp_path / "part.onnx", code=4)
    assert "does not number the calls of the module" in refused.stderr and "Relu" in refused.stderr
    assert not (tmp_path / "part.onnx").exists()
    command.run("extract", tmp_path / "annotated.onnx", "--module", "a", "-o", tmp_path / "part.onnx", "--partial")
    once = command.run("extract", tmp_path / "annotated.onnx", "--module", "once", "-o", tmp_path / "once.onnx")
    assert "1 of its 1 nodes are only inferred" in once.stderr
    sample = torch.randn(2, 4)
    session = onnxruntime.InferenceSession(tmp_path / "once.onnx")
    result = session.run(None, {session.get_inputs()[0].name: sample.numpy()})[0]
    np.testing.assert_allclose(result, model.once(sample).detach().numpy(), 1e-5, 1e-6)


def test_products_of_repeated_calls_are_not_merged(tmp_path):
    """Three calls of a cell share a weight. A Split divides the result of each product into three gates."""
    class Cells(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.lstm = torch.nn.GRUCell(8, 8), torch.nn.LSTM(8, 8, batch_first=True)

        def forward(self, x):
            state = torch.zeros(x.shape[0], 8)
            for step in range(3):
                state = self.cell(x[:, step], state)
            return state, self.lstm(x)[0]

    torch.manual_seed(6)
    before = export_annotated(Cells().eval(), torch.randn(2, 3, 8), tmp_path, "before.onnx")
    truth = {output: keys(node)["module"] for node in onnx.load(before).graph.node for output in node.output}
    file = onnx.load(before)
    for i, node in enumerate(file.graph.node):
        node.name = f"n{i}"
        del node.metadata_props[:]
    onnx.save(file, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "-o", tmp_path / "after.onnx", "--from", before)
    nodes = onnx.load(tmp_path / "after.onnx").graph.node
    assert sum(node.op_type == "Split" and keys(node)["module"] == "cell" for node in nodes) >= 3
    assert all(keys(node)["module"] == truth[node.output[0]] for node in nodes
               if keys(node)["confidence"] in ("exact", "matched"))


def test_shared_sizes_of_recurrent_layers_have_no_module_without_a_confidence(tmp_path):
    """Both layers read the sizes of the batch, and the layers' operators were matched without recorded operations."""
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.g = torch.nn.LSTM(7, 9, batch_first=True), torch.nn.GRU(9, 5)

        def forward(self, x):
            return self.g(self.a(x)[0].transpose(0, 1))[0]

    auto = torch.export.Dim.AUTO
    with whence.record(tmp_path / "model.json"):
        torch.onnx.export(Recurrent().eval(), (torch.randn(2, 5, 7),), tmp_path / "model.onnx", dynamo=True, verbose=False,
                          dynamic_shapes={"x": {0: auto, 1: auto}})
    command.run("annotate", tmp_path / "model.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    command.run("validate", tmp_path / "out.onnx")
    for node in onnx.load(tmp_path / "out.onnx").graph.node:
        assert ("module" in keys(node)) == (keys(node)["confidence"] != "unattributed"), node
