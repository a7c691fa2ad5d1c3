"""Compares the metadata of exported .pt2 archives, value by value, with PyTorch's dynamo exporter.

Both exporters get the same archive, once as torch.export saves it and once decomposed by the dynamo exporter.
PyTorch's exporter decomposes its input and renames the nodes; whence keeps the archive's names. Nodes are therefore
matched by the name of their fx node if the archive is decomposed, else by source and scopes. Each allowed difference
has a function below that states the reason and checks it.
"""

import ast
import functools
import os
import warnings
from pathlib import Path

import onnx
import pytest
import torch
from torch.onnx._internal.exporter import _core, _registration

import command
import file_cache
from models import writing, zoo
from sidecar import Sidecar

MODELS = list(zoo.MODELS)
SCOPES = ["namespace", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.name_scopes"]
KEYS = [*SCOPES, "pkg.torch.onnx.fx_node", "pkg.torch.onnx.stack_trace"]
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
RANGES = "pkg.torch.export.ExportedProgram.range_constraints"
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
OUTPUT_KIND = "pkg.torch.export.graph_signature.OutputSpec.kind"
ORIGINAL = "pkg.torch.onnx.original_node_name"


@functools.cache
def registry():
    return _registration.ONNXRegistry.from_torchlib()


def metadata(holder) -> dict:
    entries = [(entry.key, entry.value) for entry in holder.metadata_props]
    assert len(dict(entries)) == len(entries), f"{holder.name} has a key twice"
    return dict(entries)


def save(program, path):
    torch.export.save(program, path)
    return torch.export.load(path)


def load(path) -> torch.export.ExportedProgram:
    import transformers.modeling_outputs  # noqa: F401, registers the classes that models of the zoo return

    return torch.export.load(path)


def cached_file(name: str, make) -> Path:
    """Returns a file made by PyTorch for a zoo model; it is created once and reused in later runs."""
    return file_cache.cached(file_cache.folder("metadata_parity", Path(__file__), *zoo.SOURCES) / name, make)


@functools.cache  # positional-only, because the cache would distinguish f(False) from f(decomposed=False)
def save_archive(name: str, decomposed: bool, /):
    """Saves the model's archive, decomposed twice on request, so that the exporter's decomposition keeps all names."""
    if not decomposed:
        return cached_file(f"{name}.plain.pt2", lambda path: torch.export.save(zoo.program(name), path))

    def make(path):
        program = load(save_archive(name, False))
        for _ in range(2):
            program = _core._prepare_exported_program_for_export(program, registry=registry())
        torch.export.save(program, path)

    return cached_file(f"{name}.decomposed.pt2", make)


@functools.cache
def signature(name: str, decomposed: bool, /) -> torch.export.ExportGraphSignature:
    return load(save_archive(name, decomposed)).graph_signature


@functools.cache
def export_with_both(name: str, decomposed: bool, /):
    """Exports the archive with both exporters; returns (PyTorch's model, whence's model) without weights."""
    archive = save_archive(name, decomposed)

    def make(path):
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(load(archive), (), path, dynamo=True, verbose=False, optimize=False,
                              opset_version=18, external_data=True)

    reference, actual = cached_file(f"{archive.stem}.dynamo.onnx", make), zoo.folder() / f"{archive.stem}.whence.onnx"
    command.run("export", archive, "-o", actual, "--annotate", "--opset", "18")
    return tuple(onnx.load(file, load_external_data=False) for file in (reference, actual))


def fx_name(keys: dict) -> str:
    return keys["pkg.torch.onnx.fx_node"].split(" ")[0]


def by_fx_name(model: onnx.ModelProto) -> dict:
    """Maps each fx node to PyTorch's metadata, which all its ONNX nodes share."""
    return {fx_name(keys): keys for keys in map(metadata, model.graph.node)}


def scopes(keys: dict) -> list[str]:
    return ast.literal_eval(keys["pkg.torch.onnx.name_scopes"])[:-1]


# ---- allowed differences -------------------------------------------------------------------------------------------


def belongs_to_several_modules(actual: dict, reference: dict) -> bool:
    """Conv and BatchNorm are fused into one node, which belongs to the common ancestor of both modules."""
    if not actual["pkg.whence.op"].startswith("fused:"):
        return False
    common = scopes(actual)
    return common == scopes(reference)[:len(common)] and len(ast.literal_eval(actual["pkg.whence.modules"])) > 1


def is_another_name_of_the_module(name: str, actual: dict, reference: dict) -> bool:
    """The module has two names: whence writes the first, PyTorch the one through which it is called."""
    model = zoo.MODELS[name].model()
    pairs = list(zip(scopes(actual), scopes(reference), strict=True))
    return all(model.get_submodule(a) is model.get_submodule(b) for a, b in pairs) and any(a != b for a, b in pairs)


def may_differ(name: str, key: str, actual: dict, reference: dict) -> bool:
    if key not in SCOPES:
        return False
    return belongs_to_several_modules(actual, reference) or is_another_name_of_the_module(name, actual, reference)


@pytest.mark.parametrize("name", MODELS)
def test_metadata_of_nodes_equals_pytorch(name):
    reference, actual = export_with_both(name, True)
    expected_by_name = by_fx_name(reference)
    for node in actual.graph.node:
        keys = metadata(node)
        assert fx_name(keys) in expected_by_name, node.name
        expected = expected_by_name[fx_name(keys)]
        for key in KEYS:
            assert keys[key] == expected[key] or may_differ(name, key, keys, expected), (node.name, key)


@pytest.mark.parametrize("name", MODELS)
def test_metadata_of_nodes_in_an_undecomposed_archive(name):
    """The fx node is the archive's; modules and source lines equal those on PyTorch's decomposed nodes."""
    reference, actual = export_with_both(name, False)
    texts, model = set(computing_nodes(save_archive(name, False))), zoo.MODELS[name].model()

    def origin(keys):
        return [id(model.get_submodule(path)) for path in scopes(keys)], keys["pkg.torch.onnx.stack_trace"]

    expected = [origin(metadata(node)) for node in reference.graph.node]
    for node in actual.graph.node:
        keys = metadata(node)
        assert keys["pkg.torch.onnx.fx_node"] in texts, node.name
        assert origin(keys) in expected or keys["pkg.whence.op"].startswith(("fused:", "shared:")), node.name


# ---- every fx node ------------------------------------------------------------------------------------------------


class ArgumentKinds(torch.nn.Module):
    """Uses devices, dtypes, layouts, None, strings, infinities, nested lists, keywords, several results, sizes."""

    def forward(self, x, mask):
        first, _ = torch.split(x, [2, 3], dim=1)
        _, where = torch.max(x, 1)
        filled = x.masked_fill(mask, float("-inf")).clamp(min=None, max=3e-07)
        table = torch.zeros(x.shape[0] * 2, 3, dtype=torch.float16, device="cpu") + torch.full((3,), 2.5)
        return (first, where, torch.nn.functional.gelu(filled, approximate="tanh"), table, x[:, [0, 2]],
                x.to(torch.float64).contiguous(), torch.einsum("ij,ij->i", x, x), x.sum(dim=(0, 1), keepdim=True))


def archive_of_all_kinds(tmp_path):
    path = tmp_path / "kinds.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    x = torch.randn(4, 5)
    torch.export.save(torch.export.export(ArgumentKinds(), (x, x > 0), dynamic_shapes=({0: batch}, {0: batch})), path)
    return path


@functools.cache
def computing_nodes(path) -> list[str]:
    """Returns the text of each computing node, without checks and unused results, which PyTorch's export removes."""
    graph = load(path).graph
    for node in reversed(list(graph.nodes)):
        check = "_assert" in str(node.target)
        if check or (node.op == "call_function" and "getitem" in str(node.target) and not node.users):
            graph.erase_node(node)
    return [node.format_node() for node in graph.nodes
            if node.op == "call_function" and "getitem" not in str(node.target)]


@pytest.mark.parametrize("name", [*MODELS, "argument kinds"])
def test_the_text_of_every_fx_node_equals_pytorch(name, tmp_path):
    path = archive_of_all_kinds(tmp_path) if name == "argument kinds" else save_archive(name, False)
    command.run("record", path, "-o", tmp_path / "m.whence.json")
    texts = [row["text"] for row in Sidecar(tmp_path / "m.whence.json").table("operations")]
    assert texts == [text for text in computing_nodes(path) if "higher_order" not in text]


def test_the_text_of_a_functionalized_operator_equals_pytorch(tmp_path):
    torch.export.save(writing.program().run_decompositions(), tmp_path / "m.pt2")
    command.run("record", tmp_path / "m.pt2", "-o", tmp_path / "m.whence.json")
    texts = [row["text"] for row in Sidecar(tmp_path / "m.whence.json").table("operations")]
    assert texts == computing_nodes(tmp_path / "m.pt2") and "(whence_writing_lib.add_into.default,)" in texts[1]


# ---- the graph and its values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("decomposed", [True, False], ids=["decomposed", "plain"])
@pytest.mark.parametrize("name", MODELS)
def test_metadata_of_the_graph_equals_pytorch(name, decomposed):
    reference, actual = (metadata(model.graph) for model in export_with_both(name, decomposed))
    if not decomposed:
        reference[SIGNATURE] = str(signature(name, False))
    assert actual == reference
    assert set(actual) == {SIGNATURE, RANGES}


@pytest.mark.parametrize("decomposed", [True, False], ids=["decomposed", "plain"])
@pytest.mark.parametrize("name", MODELS)
def test_metadata_of_inputs_and_outputs_equals_pytorch(name, decomposed):
    reference, actual = export_with_both(name, decomposed)
    returned = signature(name, decomposed).user_outputs
    assert [metadata(value) for value in actual.graph.input] == [metadata(value) for value in reference.graph.input]
    for value, expected, name_in_archive in zip(actual.graph.output, reference.graph.output, returned, strict=True):
        keys = metadata(value)
        if ORIGINAL in keys:  # the output is named after its field, as by output_names of torch.onnx
            assert keys.pop(ORIGINAL) == name_in_archive != value.name
        # PyTorch loses the metadata of an output that is computed by the function inlined last.
        assert keys == (metadata(expected) or {OUTPUT_KIND: "USER_OUTPUT"})


@pytest.mark.parametrize("name", MODELS)
def test_metadata_of_parameters_and_buffers_equals_pytorch(name):
    reference, actual = export_with_both(name, True)
    model = zoo.MODELS[name].model()
    tensors = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    expected = {metadata(value)[ORIGINAL]: metadata(value)
                for value in reference.graph.value_info if ORIGINAL in metadata(value)}
    names_of = {id(tensor): {name for name, alias in tensors.items() if alias is tensor}
                for tensor in tensors.values()}
    by_name = {value.name: metadata(value) for value in actual.graph.value_info}
    for initializer in actual.graph.initializer:
        if initializer.name not in tensors:
            continue
        keys = by_name[initializer.name]
        if keys[ORIGINAL] in expected:
            assert keys == expected[keys[ORIGINAL]]
        else:  # tied: PyTorch keeps the last name, whence the first
            assert len(names_of[id(tensors[initializer.name])]) > 1
            original_name = original_name_of_tied_tensor(expected, names_of, tensors, initializer.name)
            assert {KIND: keys[KIND]}.items() <= expected[original_name].items()


def original_name_of_tied_tensor(expected: dict, names_of: dict, tensors: dict, name: str) -> str:
    """Returns PyTorch's choice among the original node names of a tied tensor."""
    others = {"p_" + other.replace(".", "_").lower() for other in names_of[id(tensors[name])]}
    return (others & set(expected)).pop()


def test_weights_in_another_layout_keep_the_parameters_metadata():
    _, actual = export_with_both("bert_tiny", True)
    names = {metadata(value).get(ORIGINAL) for value in actual.graph.value_info}
    assert "p_encoder_layer_0_attention_self_query_weight" in names


def test_range_constraints_of_dynamic_sizes_equal_pytorch(tmp_path):
    path = tmp_path / "dynamic.pt2"
    batch = torch.export.Dim("batch", min=2, max=64)
    save(torch.export.export(torch.nn.Linear(3, 4), (torch.randn(5, 3),), dynamic_shapes=({0: batch},)), path)
    program = torch.onnx.export(torch.export.load(path), (), dynamo=True, verbose=False, optimize=False)
    command.run("export", path, "-o", tmp_path / "actual.onnx")
    actual = metadata(onnx.load(tmp_path / "actual.onnx").graph)
    assert actual[RANGES] == program.model.graph.metadata_props[RANGES] != "{}"


class DataDependent(torch.nn.Module):
    """Computes sizes and numbers that depend on data, with and without bounds."""

    def forward(self, x):
        positive, total = x[x > 0], x.sum().to(torch.int64).item()
        few = x.mean().to(torch.int64).item()
        torch._check(few >= 0)
        torch._check(few <= 3)
        return positive * total, x[:few], x * x.sum().item()


@pytest.mark.parametrize("decomposed", [False, True])
def test_range_constraints_of_data_dependent_sizes_equal_pytorch(decomposed, tmp_path):
    path = tmp_path / "data.pt2"
    program = torch.export.export(DataDependent(), (torch.rand(5, 3),))
    program = save(program.run_decompositions() if decomposed else program, path)
    reference = torch.onnx.export(program, (), dynamo=True, verbose=False, optimize=False)
    command.run("export", path, "-o", tmp_path / "actual.onnx")
    actual = metadata(onnx.load(tmp_path / "actual.onnx").graph)
    assert actual[RANGES] == reference.model.graph.metadata_props[RANGES] and "VR[-int_oo, int_oo]" in actual[RANGES]


class ReturnsUnchanged(torch.nn.Module):
    """Returns an input, a parameter and a buffer unchanged."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("state", torch.ones(4))

    def forward(self, x, y):
        return x, y + self.weight, self.weight, self.state, x


def test_values_returned_unchanged_have_an_input_and_an_output_kind(tmp_path):
    program = save(torch.export.export(ReturnsUnchanged(), (torch.randn(2, 4), torch.randn(2, 4))), tmp_path / "m.pt2")
    reference = torch.onnx.export(program, (), dynamo=True, verbose=False, optimize=False).model_proto
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx")
    actual = onnx.load(tmp_path / "m.onnx")
    assert [metadata(value) for value in actual.graph.input] == [metadata(value) for value in reference.graph.input]
    for value, expected in zip(actual.graph.output, reference.graph.output, strict=True):
        keys = metadata(value)
        assert keys.pop(ORIGINAL) == metadata(expected).get(ORIGINAL, expected.name)
        assert keys == {key: text for key, text in metadata(expected).items() if key != ORIGINAL}
    by_name = {value.name: metadata(value) for value in actual.graph.value_info}
    for value in reference.graph.value_info:
        if value.name in ("weight", "state"):
            assert by_name[value.name] == metadata(value)


class WritesToBuffers(torch.nn.Module):
    """Writes to a buffer, to a part of another, and to an input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("table", torch.zeros(3, 4), persistent=False)
        self.register_buffer("read", torch.ones(4))

    def forward(self, x, state):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.table[1:].view(8).add_(1)
        state += 1
        return x - self.mean + self.read


def mutations(signature: str) -> list[tuple]:
    outputs = signature.split("# outputs")[1].strip().splitlines()
    return [tuple(line.split(": ", 1)[1].split(" ")) for line in outputs]


@pytest.mark.parametrize("decomposed", [False, True])
def test_writes_to_buffers_and_inputs_are_outputs_of_the_signature(decomposed, tmp_path):
    path, inputs = tmp_path / "m.pt2", (torch.randn(2, 4), torch.zeros(4))
    program = torch.export.export(WritesToBuffers(), inputs)
    program = save(program.run_decompositions() if decomposed else program, path)
    command.run("export", path, "-o", tmp_path / "m.onnx")
    actual = metadata(onnx.load(tmp_path / "m.onnx").graph)
    assert actual[SIGNATURE] == str(program.graph_signature)
    mutation = {("BUFFER_MUTATION", "target='table'")} & set(mutations(actual[SIGNATURE]))
    assert bool(mutation) == decomposed  # an undecomposed write is an ordinary operator


class Branches(torch.nn.Module):
    """Calls modules inside a branch of a submodule."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.rest = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.rest(self.first(x)), lambda x: x * 2, (x,))


class LoopBody(torch.nn.Module):
    def forward(self, x):
        return torch._higher_order_ops.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def nodes_within(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_within(attribute.g)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("model", [torch.nn.Sequential(Branches()), torch.nn.Sequential(LoopBody())])
def test_metadata_of_bodies_equals_pytorch(model, decomposed, tmp_path):
    """In a body, PyTorch records no modules, only frames of generated torch.fx code; whence's keys contain modules, and
    PyTorch's keys those that parameters show."""
    program = torch.export.export(model, (torch.randn(3, 4),))
    program = save(program.run_decompositions() if decomposed else program, tmp_path / "m.pt2")
    reference = torch.onnx.export(program, (), dynamo=True, verbose=False, optimize=False, opset_version=18).model_proto
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate", "--opset", "18")

    def scopes_and_stack(keys):  # without names, because PyTorch decomposes the program, possibly again
        return scopes(keys), keys["pkg.torch.onnx.stack_trace"]

    expected = [scopes_and_stack(metadata(node)) for node in nodes_within(reference.graph)]
    every = [metadata(node) for node in nodes_within(onnx.load(tmp_path / "m.onnx").graph)]
    inferred = [keys for keys in every if keys["pkg.whence.confidence"] == "inferred"]
    assert all(ast.literal_eval(keys["pkg.torch.onnx.name_scopes"])[-2] == keys["pkg.whence.module"] for keys in inferred)
    actual = [keys for keys in every if keys["pkg.whence.confidence"] != "inferred"]
    assert [keys for keys in actual if scopes_and_stack(keys) not in expected] == []
    keys_of_body = [keys for keys in actual if keys["pkg.torch.onnx.name_scopes"].count(",") == 0]
    assert keys_of_body and all("<eval_with_key>" in keys["pkg.torch.onnx.stack_trace"] for keys in keys_of_body)
    assert all(ast.literal_eval(keys["pkg.whence.scopes"])[:2] == ["", "0"] for keys in keys_of_body)
    assert "<eval_with_key>" not in "".join(keys.get("pkg.whence.source", "") for keys in actual)


# ---- TorchScript archives, and strip -------------------------------------------------------------------------------


def test_the_signature_of_a_torchscript_archive_lists_parameters_and_inputs(tmp_path):
    command.run("export", zoo.trace("bert_tiny"), "-o", tmp_path / "m.onnx", "--inputs", zoo.inputs_file("bert_tiny"))
    traced = metadata(onnx.load(tmp_path / "m.onnx", load_external_data=False).graph)
    exported = metadata(export_with_both("bert_tiny", True)[1].graph)
    assert set(traced) == {SIGNATURE}  # a trace has no ranges
    inputs = [text.split("\n# outputs")[0].split("\n")[2:] for text in (traced[SIGNATURE], exported[SIGNATURE])]
    assert {line for line in inputs[0] if "PARAMETER" in line or "USER_INPUT" in line} <= set(inputs[1])
    assert any("PARAMETER" in line for line in inputs[0]) and "input_ids: USER_INPUT" in inputs[0]


def test_strip_restores_the_bytes_and_annotating_twice_changes_nothing(tmp_path):
    archive = save_archive("lstm_tagger", False)
    plain, sidecar, once, twice, back = (tmp_path / file for file in ("a.onnx", "a.json", "b.onnx", "c.onnx", "d.onnx"))
    command.run("export", archive, "-o", plain, "--sidecar-out", sidecar)
    command.run("annotate", plain, "--sidecar", sidecar, "-o", once)
    command.run("annotate", once, "--sidecar", sidecar, "-o", twice)
    command.run("strip", once, "-o", back)
    assert os.path.getsize(once) > os.path.getsize(plain)
    assert once.read_bytes() == twice.read_bytes()
    assert back.read_bytes() == plain.read_bytes()
