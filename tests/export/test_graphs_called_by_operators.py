"""Operators of a .pt2 that only call a graph are inlined with its modules; others are refused with a replacement. Nodes
without a module have that of a node that a pass made from the same operator."""

import json
import zipfile

import pytest
import torch
from torch._higher_order_ops import invoke_quant
from torch._higher_order_ops.foreach_map import foreach_map
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode

import command
from export.test_exported_programs import assert_same
from export.test_shared_regions import origins


class Model(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.call = call

    def forward(self, x):
        return self.call(self, x)


def with_hints(model, x):
    return hints_wrapper(lambda y: torch.relu(model.fc(y)), (x,), {}, hints={"fused": True})


def quantized(model, x):
    return invoke_quant(lambda y: torch.relu(model.fc(y)), x, scheme="nf4")


def for_each(model, x):
    return foreach_map(torch.add, (x, model.fc(x)), (x, x))[1]


def activated(model, x):
    """What with_hints and quantized compute; PyTorch cannot run the latter."""
    return torch.relu(model.fc(x))


def without_gradients(model, x):
    with torch.no_grad():
        return torch.relu(model.fc(x))


@pytest.fixture(autouse=True)
def no_compiled_code():
    torch._dynamo.reset()


def model_of(call):
    torch.manual_seed(0)
    return Model(call).eval().requires_grad_(False)


def saved(folder, call, shape=(3, 8), decomposed=False, **options):
    model = model_of(call)
    program = torch.export.export(model, (), {"x": torch.randn(shape)}, **options)
    torch.export.save(program.run_decompositions() if decomposed else program, folder / "m.pt2")
    return model


def edit_program(path, edit) -> None:
    """Replaces the archive's program, a JSON document, by edit(document)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (program,) = (name for name in members if "/models/" in name and name.endswith(".json"))
    members[program] = json.dumps(edit(json.loads(members[program]))).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_first_node(change):
    """Returns an edit of a program that calls change(node) on its first node."""

    def edit(document):
        change(document["graph_module"]["graph"]["nodes"][0])
        return document

    return edit


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("call", [with_hints, quantized, for_each])
def test_an_operator_that_calls_a_graph_is_inlined(tmp_path, call, decomposed):
    saved(tmp_path, call, decomposed=decomposed, strict=True)
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate")
    reference = call if call is for_each else activated
    assert_same(tmp_path / "m.onnx", model_of(reference), {"x": torch.randn(3, 8)})
    if call is for_each:  # the product is outside, the sum has the module stack of the operator
        expected = [("Gemm", "fc", "0", "exact"), ("Add", "", "0", "ancestor")]
    elif decomposed:  # PyTorch copies the module stack of the operator to the nodes
        expected = [("Gemm", "fc", "0", "inferred"), ("Relu", "", "0", "ancestor")]
    else:
        expected = [("Gemm", "fc", "0", "exact"), ("Relu", "", "0", "exact")]
    assert origins(tmp_path / "m.onnx") == expected


def test_an_activation_checkpoint_is_inlined(tmp_path):
    """PyTorch 2.13 cannot export one; its operands have the form of those of invoke_quant."""
    saved(tmp_path, quantized, strict=True)
    target = {"target": "torch.ops.higher_order.tag_activation_checkpoint"}
    edit_program(tmp_path / "m.pt2", with_first_node(lambda node: node.update(target)))
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate")
    assert_same(tmp_path / "m.onnx", model_of(activated), {"x": torch.randn(3, 8)})
    assert [row[:2] for row in origins(tmp_path / "m.onnx")] == [("Gemm", "fc"), ("Relu", "")]


REFUSED = {
    "strict_mode": (lambda model, x: strict_mode(lambda y: torch.relu(model.fc(y)), (x,)), "call the function directly"),
    "out_dtype": (lambda model, x: out_dtype(torch.ops.aten.mm.default, torch.int32, x.to(torch.int8), x.t().to(torch.int8)),
                  "convert the operands"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_operators_that_call_graphs_are_refused(tmp_path, name):
    call, remedy = REFUSED[name]
    saved(tmp_path, call, strict=False)
    result = command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", code=4)
    assert "E0303" in result.stderr and name in result.stderr and remedy in result.stderr
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("decomposed", [False, True])
def test_modules_in_branches_of_a_strict_program_are_exact(tmp_path, decomposed):
    def branch(model, x):
        return torch.cond(x.sum() > 0, lambda y: torch.relu(model.fc(y)), lambda y: y * 2, (x,))

    model = saved(tmp_path, branch, decomposed=decomposed, strict=True)
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate")
    for sign in (1, -1):
        assert_same(tmp_path / "m.onnx", model, {"x": sign * torch.rand(3, 8)})
    assert ("Gemm", "fc", "0", "exact") in origins(tmp_path / "m.onnx")


def test_a_node_has_the_module_of_one_made_from_the_same_operator(tmp_path):
    """Decomposed, the product of three axes becomes a view, a product and a view. Only the product reads parameters."""

    def branch(model, x):
        return torch.cond(x.sum() > 0, lambda y: torch.relu(model.fc(y)), lambda y: y * 2, (x,))

    model = saved(tmp_path, branch, shape=(2, 3, 8), decomposed=True, strict=False)
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate", "--no-optimize")
    assert_same(tmp_path / "m.onnx", model, {"x": torch.rand(2, 3, 8)})
    rows = origins(tmp_path / "m.onnx")
    assert [row[1:] for row in rows if row[0] == "Reshape"] == [("fc", "0", "inferred")] * 2
    assert ("Relu", "", "0", "ancestor") in rows  # made from another operator


def test_nodes_that_only_share_a_context_do_not_share_a_module(tmp_path):
    """Decomposed, the nodes of a context have the context as their source, and no modules."""
    model = saved(tmp_path, without_gradients, decomposed=True, strict=True)
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--annotate")
    assert_same(tmp_path / "m.onnx", model, {"x": torch.randn(3, 8)})
    assert origins(tmp_path / "m.onnx") == [("Gemm", "fc", "0", "inferred"), ("Relu", "", "0", "ancestor")]


def drop_operands(node):
    node["inputs"] = node["inputs"][:1]


def drop_graph(node):
    node["inputs"] = [entry for entry in node["inputs"] if "as_graph" not in entry["arg"]]


@pytest.mark.parametrize("change", [drop_operands, drop_graph])
def test_a_call_without_its_operands_is_corrupt(tmp_path, change):
    saved(tmp_path, quantized, strict=True)
    edit_program(tmp_path / "m.pt2", with_first_node(change))
    assert "E0204" in command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", code=3).stderr
