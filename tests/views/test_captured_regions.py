"""Files of PyTorch's exporter for models whose modules share a region: all nodes of the region have the keys of its first
call. No command believes them for another call."""

import json

import onnx
import pytest
import torch

import command
from export import shared_regions
from views.view_files import keys_of

ORIGINS = ("module", "confidence")


@pytest.fixture(scope="module")
def write_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regions")

    def write(name: str, optimize: bool = True, model=None):
        torch._dynamo.reset()
        inputs = shared_regions.inputs_of(name, 5, seed=1)
        program = torch.export.export(model or shared_regions.model_of(name), (), inputs, strict=True)
        path = folder / f"{name}.{optimize}.onnx"
        torch.onnx.export(program, dynamo=True, optimize=optimize, verbose=False).save(path)
        return path

    return write


def annotated(path) -> list[tuple[str, str, str]]:
    output = path.with_suffix(".annotated.onnx")
    command.run("annotate", path, "-o", output)
    return [(node.op_type, *(keys_of(node)[f"pkg.whence.{key}"] for key in ORIGINS)) for node in onnx.load(output).graph.node]


def explained(path) -> list[tuple[str, str, str]]:
    rows = []
    for node in onnx.load(path).graph.node:
        origin = json.loads(command.run("explain", path, node.name, "--json").stdout)
        rows.append((node.op_type, origin["module"], origin["confidence"]))
    return rows


def block(path: str) -> list[tuple[str, str, str]]:
    at = [("LayerNormalization", path + ".norm"), ("Gemm", path + ".fc"), ("Relu", path), ("Add", path)]
    return [(operator, module, "inferred") for operator, module in at]


READERS = {"annotate": annotated, "explain": explained}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("optimize", [True, False])
def test_nodes_have_the_modules_of_their_own_call(write_file, reader, optimize):
    path = write_file("layers", optimize)
    stated = [keys_of(node)["pkg.torch.onnx.name_scopes"] for node in onnx.load(path).graph.node]
    assert sum("_export_root.layers.0" in text for text in stated) == 12  # in all three calls
    expected = [*block("layers.0"), *block("layers.1"), *block("layers.2"), ("Gemm", "layers.3", "inferred")]
    assert READERS[reader](path) == expected


@pytest.mark.parametrize("reader", READERS)
def test_nodes_of_a_call_without_parameters_are_ancestors(write_file, reader):
    path = write_file("nested")
    for operator, module, confidence in READERS[reader](path):
        if operator in ("Mul", "Add"):  # of one of three blocks
            assert (module, confidence) == ("layers", "ancestor")
        else:
            assert confidence == "inferred" and module.endswith((".fc", ".act"))


def test_activations_have_the_module_of_the_product_before_them(write_file):
    rows = [row for row in explained(write_file("nested")) if row[0] in ("Gemm", "Gelu")]
    expected = [f"layers.{i}.{part}.{name}" for i in range(3) for part in ("first", "second") for name in ("fc", "act")]
    assert [module for _, module, _ in rows] == expected


def test_weights_that_are_equal_and_stored_once_do_not_show_the_module(write_file):
    """New norms have equal weights, of which the exporter keeps those of the first block."""
    torch.manual_seed(0)
    model = shared_regions.Chain(*(shared_regions.Block() for _ in range(3)), torch.nn.Linear(8, 3)).eval()
    path = write_file("layers", True, model.requires_grad_(False))
    for i, (operator, module, confidence) in enumerate(explained(path)[:12]):
        number = f"layers.{i // 4}"
        if confidence == "ancestor":
            assert number.startswith(module)
        else:
            assert module == {"LayerNormalization": number + ".norm", "Gemm": number + ".fc"}.get(operator, number)


def test_show_counts_the_nodes_of_each_call(write_file):
    tree = json.loads(command.run("show", write_file("layers"), "--json").stdout)
    nodes = {row["path"]: row["nodes"] for row in tree["modules"]}
    assert [nodes[f"layers.{i}"] for i in range(3)] == [4, 4, 4]
