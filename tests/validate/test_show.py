"""Tests `whence show`: module trees of sidecars, archives and ONNX files."""

import math

import numpy as np
import onnx
import pytest
import torch

import command
from models import zoo
from record.test_record_modules import expected_modules
from validate.onnx_files import chain, known, model
from validate.test_coverage import annotated, schema


def modules(*arguments) -> dict:
    return {row["path"]: row for row in command.run_json("show", *arguments)["modules"]}


def test_a_sidecar_has_the_models_module_tree():
    rows = modules(annotated("bert_tiny")[1])
    truth = {row["path"]: row for row in expected_modules(zoo.MODELS["bert_tiny"].model())}
    assert list(rows) == list(truth)
    for path, row in rows.items():
        for column, true_column in [("type", "type"), ("parent", "parent"), ("aliases", "aliases"),
                             ("parameters", "parameters_total"), ("trainable", "parameters_trainable")]:
            assert row[column] == truth[path][true_column], path
    assert rows["encoder.layer.0.attention.self.query"]["operators"] == {"aten::linear": 1}
    assert rows[""]["operations"] >= rows["encoder"]["operations"] + rows["embeddings"]["operations"]


def test_layers_are_in_numeric_order(tmp_path):
    """The file may have another order, because exporters put constants of later layers first."""
    layers = [11, 2, 10, 0, 1]
    model(chain(*(known(f"layers.{layer}") for layer in layers)), tmp_path / "m.onnx")
    expected = ["", "layers", *(f"layers.{layer}" for layer in sorted(layers))]
    assert list(modules(tmp_path / "m.onnx")) == expected
    assert [row["path"] for row in command.run_json("validate", tmp_path / "m.onnx")["modules"]] == expected


def test_the_tree_of_a_torch_export_archive_needs_no_libtorch(tmp_path):
    entry, path = zoo.MODELS["bert_tiny"], tmp_path / "m.pt2"
    torch.export.save(zoo.program("bert_tiny"), path)
    rows = modules(path)
    assert set(rows) == {row["path"] for row in expected_modules(entry.model())}
    assert rows["encoder.layer.1.attention.self.query"]["operators"] == {"aten::linear": 1}
    assert rows[""]["parameters"] == modules(annotated("bert_tiny")[1])[""]["parameters"]
    schema("show").validate(command.run_json("show", path))
    assert "BertModel" in command.run("show", path, "--depth", 1, env={"WHENCE_RECORDER": "/nowhere"}).stdout


def test_a_torchscript_archive_has_the_tree_of_its_sidecar(tmp_path):
    path = zoo.trace("shared_block")
    command.run("record", path, "-o", tmp_path / "m.json", "--inputs", zoo.inputs_file("shared_block"))
    assert modules(path) == modules(tmp_path / "m.json")
    assert "E0307" in command.run("show", path, code=4, env={"WHENCE_RECORDER": "/nowhere"}).stderr


def test_invalid_archives_are_refused(tmp_path):
    (tmp_path / "m.pt2").write_bytes(b"PK\x03\x04" + bytes(60))
    (tmp_path / "n.pt2").write_bytes(b"not a zip")
    for name in ("m.pt2", "n.pt2"):
        assert "E020" in command.run("show", tmp_path / name, code=3).stderr


def test_shared_modules_show_aliases_and_calls():
    rows = modules(annotated("shared_block")[1])
    assert (rows["block"]["calls"], rows["block"]["aliases"]) == (3, ["tail.3"])
    assert (rows["first_name"]["calls"], rows["first_name"]["aliases"]) == (2, ["second_name"])
    assert (rows["unused"]["calls"], rows["unused"]["operations"]) == (0, 0)


def test_the_tree_of_an_annotated_file_counts_nodes():
    path, sidecar = annotated("bert_tiny")
    plain, with_sidecar = modules(path), modules(path, "--sidecar", sidecar)
    assert set(plain) <= set(with_sidecar)
    for module, row in plain.items():
        assert row["nodes"] == with_sidecar[module]["nodes"]
        if row["own_nodes"]:
            assert row["type"] == with_sidecar[module]["type"]
    assert plain[""]["nodes"] == command.run_json("show", path)["nodes"]


def test_an_onnx_file_has_the_models_parameter_counts():
    """This includes parameters that the export stores transposed, under new names, or as selected rows."""
    file = annotated("bert_tiny")[0]
    rows, network = modules(file), zoo.MODELS["bert_tiny"].model()
    stored_rows = {tensor.name.removesuffix(".rows"): int(np.prod(tensor.dims))
             for tensor in onnx.load(file).graph.initializer if tensor.name.endswith(".rows")}
    assert stored_rows
    for path, row in rows.items():
        prefix = path + "." if path else ""
        stored = {prefix + name: p.numel() for name, p in network.get_submodule(path).named_parameters()}
        assert row["parameters"] == sum(stored_rows.get(name, size) for name, size in stored.items()), path


class Folded(torch.nn.Module):
    """Two convolutions whose norms an export folds; the second convolution has no bias."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16)
        self.conv2, self.bn2 = torch.nn.Conv2d(16, 8, 3, bias=False), torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))


@pytest.mark.parametrize("exporter", ["whence", "torchscript", "dynamo"])
def test_weights_with_a_folded_norm_count_once(tmp_path, exporter):
    """They count for the Conv, by name, or for the parent module, never for the norm with its 32 or 16 numbers."""
    torch.manual_seed(0)
    network, x = Folded().eval(), torch.randn(1, 3, 9, 9)
    for norm in (network.bn1, network.bn2):
        norm.running_mean.uniform_(), norm.running_var.uniform_(0.5, 1), norm.bias.data.uniform_()
    archive, sidecar, path = (tmp_path / name for name in ("m.pt", "m.json", "m.onnx"))
    torch.jit.trace(network, x).save(str(archive))
    if exporter == "whence":
        command.run("export", archive, "-o", path, "--annotate")
    else:
        torch.save((x,), tmp_path / "x.pt")
        command.run("record", archive, "--inputs", tmp_path / "x.pt", "-o", sidecar)
        torch.onnx.export(network, (x,), tmp_path / "plain.onnx", dynamo=exporter == "dynamo", input_names=["x"],
                          **({"verbose": False} if exporter == "dynamo" else {}))
        command.run("annotate", tmp_path / "plain.onnx", "--sidecar", sidecar, "-o", path)
    assert [node.op_type for node in onnx.load(path).graph.node].count("Conv") == 2
    rows = modules(path)
    stored = sum(int(np.prod(tensor.dims)) for tensor in onnx.load(path).graph.initializer)
    assert rows[""]["parameters"] == stored == 3 * 9 * 16 + 16 + 16 * 9 * 8 + 8
    for norm, size in (("bn1", 32), ("bn2", 16)):
        assert rows.get(norm, {"parameters": 0})["parameters"] <= size
    children = sum(rows.get(name, {"parameters": 0})["parameters"] for name in ("conv1", "bn1", "conv2", "bn2"))
    assert children <= stored


def test_depth_and_select_choose_the_rows():
    sidecar = annotated("bert_tiny")[1]
    assert list(modules(sidecar, "--depth", 0)) == [""]
    assert list(modules(sidecar, "--depth", 1)) == ["", "embeddings", "encoder", "pooler"]
    assert list(modules(sidecar, "--select", "encoder.layer.*.attention", "--depth", 0)) == [
        "encoder.layer.0.attention", "encoder.layer.1.attention"]
    assert list(modules(sidecar, "--select", "**.query")) == [
        "encoder.layer.0.attention.self.query", "encoder.layer.1.attention.self.query"]
    assert list(modules(sidecar, "--select", "pooler")) == ["pooler", "pooler.dense", "pooler.activation"]


@pytest.mark.parametrize("glob", ["layer", "encoder.lay", "encoder.layer.?.att", "Pooler"])
def test_globs_compare_whole_segments(glob):
    assert "E0105" in command.run("show", annotated("bert_tiny")[1], "--select", glob, code=2).stderr


def test_unattributed_nodes_are_shown(tmp_path):
    path = model(chain(known("a"), {}, {}), tmp_path / "m.onnx")
    assert "2 of 3 nodes have no module" in command.run("show", path).stdout
    assert command.run_json("show", path)["unattributed"] == 2


def test_types_come_from_pytorchs_metadata(tmp_path):
    keys = {**known("a"), "pkg.torch.onnx.name_scopes": "['', 'a', 'relu']",
            "pkg.torch.onnx.class_hierarchy": "['my.Net', 'torch.nn.modules.activation.ReLU', 'aten.relu.default']"}
    rows = modules(model(chain(keys), tmp_path / "m.onnx"))
    assert (rows[""]["type"], rows["a"]["type"]) == ("my.Net", "torch.nn.modules.activation.ReLU")


class Tied(torch.nn.Module):
    """One parameter that the file stores twice: unchanged and transposed."""

    def __init__(self):
        super().__init__()
        self.emb, self.out = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, x):
        return self.out(self.emb(x))


def test_without_a_sidecar_stored_weights_are_counted(tmp_path):
    torch.jit.trace(Tied(), torch.tensor([[1, 2]])).save(tmp_path / "tied.pt")
    command.run("export", tmp_path / "tied.pt", "-o", tmp_path / "tied.onnx", "--annotate", "--sidecar-out",
                tmp_path / "tied.json")
    stored = sum(math.prod(each.dims) for each in onnx.load(tmp_path / "tied.onnx").graph.initializer)
    assert modules(tmp_path / "tied.onnx")[""]["parameters"] == stored == 2 * 88
    assert "weights read" in command.run("show", tmp_path / "tied.onnx").stdout
    shown = command.run("show", tmp_path / "tied.onnx", "-s", tmp_path / "tied.json").stdout
    assert "weights" not in shown and shown.splitlines()[1].split()[4] == "88"


def test_text_shows_the_tree():
    lines = command.run("show", annotated("bert_tiny")[1], "--depth", 1).stdout.splitlines()
    assert lines[0].split() == ["module", "type", "calls", "operations", "parameters", "operators"]
    assert lines[1].startswith("(root)") and "BertModel" in lines[1] and "4,385,920" in lines[1]
    assert lines[3].startswith("  encoder")
    # Columns are aligned: all types start below their title.
    start = lines[0].index("type")
    assert all(line[start - 1] == " " and line[start] != " " for line in lines[1:])


@pytest.mark.parametrize("subcommand", ["show", "validate"])
@pytest.mark.parametrize("options", [("--depth", "-1"), ("--depth", "1001"), ("--depth", "x")])
def test_invalid_depths_are_usage_errors(subcommand, options):
    path, sidecar = annotated("bert_tiny")
    error = command.run(subcommand, path, "-s", sidecar, *options, code=2).stderr
    assert "E0101" in error and "--depth takes" in error


def test_json_follows_its_schema():
    path, sidecar = annotated("shared_block")
    for arguments in [(sidecar,), (path,), (path, "-s", sidecar)]:
        schema("show").validate(command.run_json("show", *arguments))
