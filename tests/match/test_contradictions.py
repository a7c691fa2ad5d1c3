"""Evidence from a node's neighbours and from an exporter's names. Readers distinguish layers that compute their tables
identically. A node with confidence `ancestor` states no operation."""

import ast

import onnx
import onnxslim
import pytest
import torch
from transformers import ModernBertConfig, ModernBertModel

import command
import whence
from match.test_calls import keys

OPERATION_KEYS = {"namespace", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.fx_node",
                   "pkg.torch.onnx.stack_trace", "pkg.whence.source", "pkg.whence.modules", "pkg.whence.op"}


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


@pytest.fixture(scope="module")
def rotary(tmp_path_factory):
    """A model with two kinds of layers, each with different tables of angles, recorded with dynamic sizes. Returns a folder
    with PyTorch's file without metadata, also optimised, and the modules that the metadata stated, by node output."""
    folder = tmp_path_factory.mktemp("rotary")
    torch.manual_seed(0)
    config = ModernBertConfig(vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
                              num_attention_heads=4, max_position_embeddings=64, local_attention=8, pad_token_id=0,
                              global_attn_every_n_layers=3, reference_compile=False, attn_implementation="sdpa",
                              bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    model = ModernBertModel(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.01 * torch.randn_like(parameter)
    ids = torch.randint(3, 60, (2, 16))
    sizes = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("seq", min=2, max=64)}
    arguments = {"kwargs": {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
                 "dynamic_shapes": {"input_ids": sizes, "attention_mask": sizes}}
    with whence.record(folder / "model.json"):
        torch.export.export(model, (), **arguments)
    torch.onnx.export(model, (), folder / "model.onnx", dynamo=True, verbose=False, external_data=False, **arguments)
    file = onnx.load(folder / "model.onnx")
    truth = {}
    for node in file.graph.node:
        scopes = metadata(node).get("pkg.torch.onnx.name_scopes", "[]")
        truth[node.output[0]] = ast.literal_eval(scopes)[-2:-1]
        del node.metadata_props[:]
    onnx.save(file, folder / "plain.onnx")
    onnx.save(onnxslim.slim(str(folder / "plain.onnx")), folder / "slim.onnx")
    return folder, truth


@pytest.mark.parametrize("file", ["plain", "slim"])
def test_neighbours_prevent_wrong_modules(rotary, file, tmp_path):
    folder, truth = rotary
    command.run("annotate", folder / f"{file}.onnx", "--sidecar", folder / "model.json", "-o", tmp_path / "out.onnx")
    compared, wrong_rows = 0, []
    for node in onnx.load(tmp_path / "out.onnx").graph.node:
        entries = keys(node)
        [module] = truth.get(node.output[0], []) or [None]
        if module is None or module.startswith("_empty") or entries["confidence"] not in {"matched", "inferred"}:
            continue
        compared += 1
        if module not in {entries["module"], *ast.literal_eval(entries.get("modules", "[]"))}:
            wrong_rows.append((entries["confidence"], node.name, module))
    assert compared > 150
    assert not [row for row in wrong_rows if row[0] == "matched"]
    assert len(wrong_rows) <= 1  # one inferred Unsqueeze of a table, after onnxslim


def test_an_ancestor_states_no_operation(rotary, tmp_path):
    folder, _ = rotary
    command.run("annotate", folder / "plain.onnx", "--sidecar", folder / "model.json", "-o", tmp_path / "out.onnx")
    nodes = onnx.load(tmp_path / "out.onnx").graph.node
    ancestors = [node for node in nodes if keys(node)["confidence"] == "ancestor"]
    assert ancestors
    for node in ancestors:
        assert not OPERATION_KEYS & set(metadata(node)), node.name
    output = command.run("explain", tmp_path / "out.onnx", ancestors[0].name, "--sidecar", folder / "model.json").stdout
    assert "\n  source" not in output and ".py:" not in output and "operation" not in output
    cosines = [keys(node) for node in nodes if node.op_type == "Cos"]
    assert len(cosines) == 2 and {entries["module"] for entries in cosines} == {"rotary_emb"}


class Tables(torch.nn.Module):
    """Sines and cosines of positions, with frequencies that depend on the layer."""

    def __init__(self, base: float):
        super().__init__()
        self.base = base

    def forward(self, x):
        angles = torch.arange(x.shape[1]).unsqueeze(-1) * torch.linspace(self.base, 0.1, x.shape[2] // 2)
        return torch.cat([angles.cos(), angles.sin()], -1)


class Layer(torch.nn.Module):
    def __init__(self, base: float):
        super().__init__()
        self.tables, self.proj = Tables(base), torch.nn.Linear(16, 16)

    def forward(self, x):
        return x + self.proj(x * self.tables(x))


def test_torch_export_names_identify_tables(tmp_path):
    """The recording has fixed sizes and constant tables; the file has dynamic sizes and computes the tables."""
    model, x = torch.nn.Sequential(Layer(1), Layer(2), Layer(3)).eval(), torch.randn(2, 6, 16)
    sizes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("seq", min=2)},)
    with whence.record(tmp_path / "model.json"):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=True, verbose=False, external_data=False,
                      dynamic_shapes=sizes)
    file = onnx.load(tmp_path / "model.onnx")
    truth = {node.output[0]: ast.literal_eval(metadata(node)["pkg.torch.onnx.name_scopes"])[-2] for node in file.graph.node
             if node.op_type in {"Cos", "Sin"}}
    for node in file.graph.node:
        del node.metadata_props[:]
    onnx.save(file, tmp_path / "plain.onnx")
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json", "-o", tmp_path / "out.onnx")
    annotated = {node.output[0]: keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node}
    for output, module in truth.items():
        assert module in {annotated[output]["module"], *ast.literal_eval(annotated[output].get("modules", "[]"))}
        assert annotated[output]["confidence"] in {"matched", "inferred"}


@pytest.mark.parametrize("fixed", [True, False])
def test_a_note_recommends_recording_with_dynamic_sizes(fixed, tmp_path):
    """The note appears only for a file with dynamic sizes in which some nodes have no certain module."""
    model, x = torch.nn.Sequential(Layer(1), Layer(2)).eval(), torch.randn(2, 6, 16)
    sizes = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("seq", min=2)},)
    with whence.record(tmp_path / "model.json"):
        torch.export.export(model, (x,), dynamic_shapes=None if fixed else sizes)
    for shapes, has_note in (sizes, fixed), (None, False):
        torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=True, verbose=False, external_data=False,
                          dynamic_shapes=shapes)
        file = onnx.load(tmp_path / "model.onnx")
        for number, node in enumerate(file.graph.node):
            del node.metadata_props[:]
            node.name = f"n{number}"
        onnx.save(file, tmp_path / "plain.onnx")
        report = command.run_json("annotate", tmp_path / "plain.onnx", "--sidecar", tmp_path / "model.json",
                                  "-o", tmp_path / "out.onnx")
        notes = [diagnostic["message"] for diagnostic in report["diagnostics"] if "dynamic_shapes" in diagnostic["remedy"]]
        uncertain = report["ancestor"] + report["unattributed"]
        assert len(notes) == (has_note and uncertain > 0)
        if shapes and fixed:
            assert uncertain and f" {uncertain} nodes" in notes[0]
