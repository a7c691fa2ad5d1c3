"""Compares what `whence validate --sidecar` reports on recorded operations and parameters with results by hand."""

import json

import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import command
from models import zoo
from validate.onnx_files import known, model, node
from validate.test_coverage import schema
from views.page_data import Page


class Mixed(nn.Module):
    """Ten operations: conv, norm, relu, drop, mean, two calls of twice with a relu between, weight norm, wn."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout()
        self.unused = nn.Linear(5, 5)
        self.twice = nn.Linear(4, 4)
        self.wn = nn.utils.weight_norm(nn.Linear(4, 2))
        self.id = nn.Identity()

    def forward(self, x):
        y = self.drop(torch.relu(self.norm(self.conv(x)))).mean((2, 3))
        return self.id(self.wn(self.twice(torch.relu(self.twice(y)))))


def mixed() -> Mixed:
    torch.manual_seed(0)
    network = Mixed()
    zoo.add_noise(network)
    return network.eval()


INPUT = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module", params=["pt", "pt2"])
def exported(request, tmp_path_factory):
    """Returns whence's ONNX file and a sidecar with digests, from both kinds of archive."""
    folder = tmp_path_factory.mktemp("mixed")
    archive, options = folder / f"m.{request.param}", []
    if request.param == "pt":
        zoo.trace_module(mixed(), {"x": INPUT}).save(str(archive))
        options = ["--input", "x=float32[1,3,8,8]"]
    else:
        torch.export.save(torch.export.export(mixed(), (INPUT,)), archive)
    command.run("record", archive, "-o", folder / "m.json", *options)
    command.run("export", archive, "-o", folder / "m.onnx", *options)
    return folder / "m.onnx", folder / "m.json"


def hierarchy(*arguments, code=0) -> dict:
    report = command.run_json("validate", *arguments, code=code)
    schema("validate").validate(report)
    return report["hierarchy"]


def fates(row: dict) -> tuple:
    assert row["operations"] == sum(row[fate] for fate in ("arrived", "fused", "folded", "eliminated", "unknown"))
    return tuple(row[key] for key in ("calls", "nodes", "operations", "arrived", "fused", "folded", "eliminated"))


def test_operations_are_counted_by_module(exported):
    found = hierarchy(exported[0], "-s", exported[1])
    rows = {row["path"]: fates(row) for row in found["modules"]}
    # TorchScript's weight norm runs in a hook of wn, and a trace attributes a hook's operations to the root.
    hook = [row["module"] for row in found["operations_without_own_node"] if row["op"] == "aten::_weight_norm"]
    in_wn = hook == ["wn"]
    assert hook in (["wn"], [""])
    assert rows == {
        # calls, nodes, operations, arrived, fused, folded, eliminated
        "": (1, 7, 10, 6, 2, 1, 1),
        "conv": (1, 1, 1, 0, 1, 0, 0), "norm": (1, 1, 1, 0, 1, 0, 0), "drop": (1, 0, 1, 0, 0, 0, 1),
        "unused": (0, 0, 0, 0, 0, 0, 0), "twice": (2, 2, 2, 2, 0, 0, 0),
        "wn": (1, 1, 2, 1, 0, 1, 0) if in_wn else (1, 1, 1, 1, 0, 0, 0),
        "id": (rows["id"][0], 0, 0, 0, 0, 0, 0),
    }


def test_an_operation_without_a_node_has_a_reason(exported):
    lost = {row["op"]: (row["fate"], row["reason"])
            for row in hierarchy(exported[0], "-s", exported[1])["operations_without_own_node"]}
    convolution = next(op for op in lost if "conv" in op)
    assert lost == {convolution: ("fused", None), "aten::batch_norm": ("fused", None),
                    "aten::dropout": ("eliminated", "identity"), "aten::_weight_norm": ("folded", None)}


def test_parameters_have_a_fate(exported):
    found = {row["name"]: row["how"] for row in hierarchy(exported[0], "-s", exported[1])["parameters"]}
    assert found == {
        "conv.weight": "name", "conv.bias": "name", "twice.weight": "name", "twice.bias": "name", "wn.bias": "name",
        "norm.weight": "fused", "norm.bias": "fused", "norm.running_mean": "fused", "norm.running_var": "fused",
        "norm.num_batches_tracked": "unused", "unused.weight": "unused", "unused.bias": "unused",
        "wn.weight_g": "folded", "wn.weight_v": "folded"}


def test_parameters_of_a_correct_file_are_all_accounted_for(exported):
    """The parameters of a folded BatchNorm are merged into the Conv and not missing."""
    for row in hierarchy(exported[0], "-s", exported[1])["modules"]:
        counts = [row[f"parameters_{fate}"] for fate in ("arrived", "merged", "unused", "missing")]
        assert row["parameters"] == sum(counts) and counts[-1] == 0
    text = command.run("validate", exported[0], "-s", exported[1]).stdout
    assert "parameters  kept  merged  unused  missing" in text and "merged: combined into other initializers" in text


def test_the_text_has_all_counts(exported):
    text = command.run("validate", exported[0], "-s", exported[1]).stdout
    for line in ["arrived     6   60.0 %", "fused       2   20.0 %", "folded      1   10.0 %",
                 "eliminated  1   10.0 %"]:
        assert " ".join(line.split()) in " ".join(text.split())
    assert "compute nothing in evaluation" in text and "wn.weight_g" in text
    silent = text[text.index("modules without a node"):]
    assert next(line for line in silent.splitlines() if line.startswith("  unused ")).endswith("never called")


def test_unused_parameters_with_the_same_name_share_a_line(tmp_path):
    """Every BatchNorm has a batch counter; only --all lists each of them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3)) for _ in range(3)])
    torch.export.save(torch.export.export(model.eval(), (INPUT,)), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json")
    lines = {}
    for options in ((), ("--all",)):
        text = command.run("validate", tmp_path / "m.onnx", "-s", tmp_path / "m.json", *options).stdout
        lines[options] = [line.split() for line in text.splitlines() if "num_batches_tracked" in line]
    assert lines[()] == [["*.num_batches_tracked", "int64[]", "3", "unused"]]
    assert lines["--all",] == [[f"{i}.1.num_batches_tracked", "int64[]", "unused"] for i in range(3)]


def rewrite(path, target, change) -> str:
    """Renames the initializers to weight_0, weight_1, ..., and applies `change` to their values."""
    proto = onnx.load(path)
    names = {tensor.name: f"weight_{i}" for i, tensor in enumerate(proto.graph.initializer)}
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)), names[tensor.name]))
    for each in proto.graph.node:
        each.input[:] = [names.get(name, name) for name in each.input]
    del proto.graph.value_info[:]  # has the old names
    target.write_bytes(proto.SerializeToString())
    return str(target)


def test_renamed_parameters_are_recognised_by_content(exported, tmp_path):
    path = rewrite(exported[0], tmp_path / "m.onnx", lambda values: values)
    found = {row["name"]: row for row in hierarchy(path, "-s", exported[1])["parameters"]}
    for name in ("twice.weight", "twice.bias", "wn.bias"):
        assert found[name]["how"] == "content" and found[name]["initializer"].startswith("weight_")
    # The fold changed the convolution's weights. Only one parameter has the shape [4,3,3,3], but five have [4].
    assert found["conv.weight"]["how"] == "shape" and found["conv.bias"]["how"] == "fused"


def test_renamed_and_changed_parameters_are_recognised_by_shape(exported, tmp_path):
    path = rewrite(exported[0], tmp_path / "m.onnx", lambda values: values + 1 if values.dtype.kind == "f" else values)
    found = {row["name"]: row for row in hierarchy(path, "-s", exported[1])["parameters"]}
    assert (found["twice.weight"]["how"], found["wn.bias"]["how"]) == ("shape", "shape")
    # Of the two remaining initializers of shape [4], the nodes of twice read one.
    inputs = {name for each in onnx.load(path).graph.node if each.op_type == "Gemm" for name in each.input}
    assert found["twice.bias"]["how"] == "reader" and found["twice.bias"]["arrived"] and found["twice.bias"]["initializer"] in inputs


def test_a_changed_parameter_is_not_identified_by_an_inferred_node(exported, tmp_path):
    path = rewrite(exported[0], tmp_path / "m.onnx", lambda values: values + 1 if values.dtype.kind == "f" else values)
    command.run("annotate", path, "--sidecar", exported[1], "-o", tmp_path / "a.onnx")
    proto = onnx.load(tmp_path / "a.onnx")
    for each in proto.graph.node:
        for entry in each.metadata_props:
            if each.op_type == "Gemm" and entry.key == "pkg.whence.confidence":
                entry.value = "inferred"
    (tmp_path / "a.onnx").write_bytes(proto.SerializeToString())
    parameters = hierarchy(tmp_path / "a.onnx", "-s", exported[1], code=None)["parameters"]
    assert [row["how"] for row in parameters if row["name"] == "twice.bias"] == ["missing"]


def test_nodes_that_lost_their_stamps_leave_operations_unknown(exported, tmp_path):
    proto = onnx.load(exported[0])
    linear = next(each for each in proto.graph.node if each.op_type == "Gemm")  # the first call of twice
    del linear.metadata_props[:]
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    found = hierarchy(tmp_path / "m.onnx", "-s", exported[1], code=None)
    unknown = [(row["module"], row["call"]) for row in found["operations_without_own_node"] if row["fate"] == "unknown"]
    # The file lists the operations in its constants, and dropout computes nothing.
    assert unknown == [("twice", 0)]
    lost = {row["op"]: row["fate"] for row in found["operations_without_own_node"]}
    assert lost["aten::dropout"] == "eliminated" and lost["aten::_weight_norm"] == "folded"


def test_operations_of_a_file_without_stamps_are_unknown_until_it_is_annotated(exported, tmp_path):
    plain, annotated = tmp_path / "plain.onnx", tmp_path / "annotated.onnx"
    command.run("strip", exported[0], "-o", plain)
    proto = onnx.load(plain)
    del proto.metadata_props[:]
    for each in proto.graph.node:
        del each.metadata_props[:]
    plain.write_bytes(proto.SerializeToString())
    found = hierarchy(plain, "-s", exported[1], code=1)
    assert not found["belongs"] and fates(found["modules"][0])[2:] == (10, 0, 0, 0, 0)
    assert found["modules"][0]["unknown"] == 10
    reasons = {row["path"]: row["reason"]
               for row in command.run_json("validate", plain, "-s", exported[1], code=1)["modules_without_node"]}
    assert reasons["conv"] == "unknown" and reasons["unused"] == "never_called"
    command.run("annotate", plain, "--sidecar", exported[1], "-o", annotated)
    annotated_hierarchy = hierarchy(annotated, "-s", exported[1])
    assert fates(annotated_hierarchy["modules"][0]) == (1, 7, 10, 6, 2, 1, 1)


class Sizes(nn.Module):
    """Two transposes that cancel each other, and a size, which need no nodes."""

    def forward(self, x):
        return x.transpose(1, 2).transpose(1, 2).reshape(x.size(0), -1) + 1


def test_absorbed_operations_and_sizes_need_no_node(tmp_path):
    batch = {"x": {0: torch.export.Dim("batch")}}
    torch.export.save(torch.export.export(Sizes(), (torch.ones(2, 3, 4),), dynamic_shapes=batch), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json")
    found = hierarchy(tmp_path / "m.onnx", "-s", tmp_path / "m.json")
    lost = sorted((row["op"], row["fate"], row["reason"]) for row in found["operations_without_own_node"])
    assert lost == [("aten::size", "eliminated", "number"), ("aten::transpose", "eliminated", "absorbed"),
                    ("aten::transpose", "eliminated", "absorbed")]
    assert fates(found["modules"][0]) == (1, 2, 5, 2, 0, 0, 3)  # reshape and add remain


def test_sizes_that_the_recorder_fixed_are_folded(tmp_path):
    zoo.trace_module(Sizes(), {"x": torch.ones(2, 3, 4)}).save(str(tmp_path / "m.pt"))
    command.run("export", tmp_path / "m.pt", "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json",
                "--input", "x=float32[2,3,4]")
    lost = hierarchy(tmp_path / "m.onnx", "-s", tmp_path / "m.json")["operations_without_own_node"]
    assert {row["fate"] for row in lost if row["op"] in ("aten::size", "prim::NumToTensor", "aten::Int")} == {"folded"}


class Wide(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(2, 2), nn.Dropout()) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_the_text_on_large_models_is_short(tmp_path):
    """The model has 170 layers of three modules, and 512 modules with the list and the root."""
    torch.export.save(torch.export.export(Wide(170).eval(), (torch.ones(1, 2),)), tmp_path / "m.pt2")
    command.run("export", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", "--sidecar-out", tmp_path / "m.json")
    arguments = ["validate", tmp_path / "m.onnx", "-s", tmp_path / "m.json"]
    text = command.run(*arguments).stdout
    assert len(text.splitlines()) < 180
    # 40 rows are shown: the root, the list, 38 layers. Hidden are 132 layers, and the 340 linears and dropouts in all
    # layers. Incomplete are the 132 layers and the 170 dropouts.
    assert "and 472 more modules, 302 of them incomplete: --all shows them" in text
    complete = command.run(*arguments, "--all").stdout
    assert "more" not in complete and len(complete.splitlines()) > 2 * 512


# ---- the naming of nodes -------------------------------------------------------------------------------------------

SCOPES, CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"


def relus(*nodes) -> list:
    """Returns a chain of Relu nodes with these (name, metadata) pairs."""
    values = ["x", *(f"v{i}" for i in range(len(nodes)))]
    return [node("Relu", [values[i]], values[i + 1], name, keys) for i, (name, keys) in enumerate(nodes)]


MIXED_NAMES = relus(
    ("n0", known("encoder.0")), ("n1", {SCOPES: "['', 'encoder', 'relu']"}),                      # modules by metadata
    ("n2", {"namespace": ": Net/encoder: nn.Encoder/relu: aten.relu.default"}),
    ("/encoder/0/Relu", {}),                                                                       # module only by name
    ("n4", {CLASSES: "['Net', 'torch.nn.Linear', 'aten.relu.default']"}),                          # only classes
    ("Linear_3", {}), ("Net/Linear_2/Relu", {}),
    ("Relu_7", {}), ("node_relu_8", {}), ("", {}))                                                 # neither


KINDS = ("full_hierarchies", "names_alone", "class_scopes", "simple_names")


def test_naming_is_counted_without_a_sidecar(tmp_path):
    report = command.run_json("validate", model(MIXED_NAMES, tmp_path / "m.onnx"), code=1)
    schema("validate").validate(report)
    naming = report["naming"]
    assert [naming[key] for key in KINDS] == [3, 1, 3, 3]
    assert naming["named_modules"] == 2  # encoder and encoder.0
    # A node has a module in both tables or in neither.
    assert naming["full_hierarchies"] == len(MIXED_NAMES) - report["coverage"]["unattributed"]
    assert [row["class"] for row in naming["classes"]] == ["torch.nn.Linear", "Linear", "Linear"]
    assert naming["ambiguous"] is None and report["hierarchy"] is None and report["baseline"] is None


def test_classes_are_compared_with_the_sidecars_modules(exported, tmp_path):
    """Three modules are a Linear (unused, twice, wn), one is a Conv2d, and there is no Gelu."""
    # A torch.export archive does not contain the class of a module that was never called.
    linears = 3 if json.loads(exported[1].read_text())["source"]["kind"] == "torchscript" else 2
    nodes = relus(("Linear_3", {}), ("Conv2d_1", {}), ("Gelu_2", {}), ("/twice/Relu", {}), ("/twice_1/Relu", {}),
                  ("/elsewhere/Relu", {}))
    arguments = ["validate", model(nodes, tmp_path / "m.onnx"), "-s", exported[1]]
    naming = command.run_json(*arguments, code=1)["naming"]
    assert [naming[key] for key in KINDS] == [0, 2, 2, 2]
    assert naming["classes"] == [{"node": "Linear_3", "class": "Linear", "instances": linears},
                                 {"node": "Conv2d_1", "class": "Conv2d", "instances": 1}]
    assert naming["ambiguous"] == 1 and naming["named_modules"] == 1
    assert f"Linear_3  one of {linears} modules Linear" in command.run(*arguments, code=1).stdout


def test_an_onnx_file_may_be_the_baseline(tmp_path):
    before = model(relus(("Linear_0", {}), ("Relu_1", {}), ("/head/Relu", {})), tmp_path / "plain.onnx")
    after = model(relus(("a", known("body")), ("b", known("body")), ("c", known("head", "ancestor"))),
                  tmp_path / "m.onnx")
    report = command.run_json("validate", after, "--baseline", before)
    schema("validate").validate(report)
    assert report["baseline"]["file"] == "plain.onnx"
    assert report["baseline"]["naming"] == dict(zip(KINDS, (0, 1, 1, 1), strict=True))
    assert report["baseline"]["coverage"]["unattributed"] == 3 and report["coverage"]["exact"] == 2
    lines = [line.split() for line in command.run("validate", after, "--baseline", before).stdout.splitlines()]
    for line in (["full", "hierarchies", "0", "0.0", "%", "3", "100.0", "%"],
                 ["only", "in", "the", "name", "1", "33.3", "%", "0", "0.0", "%"],
                 ["class", "scopes", "1", "33.3", "%", "0", "0.0", "%"],
                 ["simple", "names", "1", "33.3", "%", "0", "0.0", "%"],
                 ["exact", "0", "0.0", "%", "2", "66.7", "%"], ["covered", "0", "0.0", "%", "2", "66.7", "%"]):
        assert line in lines
    # With both files exchanged, the file is worse than its baseline.
    worse = command.run_json("validate", before, "--baseline", after, code=1)["shortfalls"]
    assert [(each["code"], each["what"], each["nodes"], each["modules"]) for each in worse] == [
        ("V503", "covered", 2, ["body"])]


def test_reports_of_older_versions_have_no_naming(tmp_path):
    path = model(relus(("a", known("body"))), tmp_path / "m.onnx")
    report = command.run_json("validate", path)
    del report["naming"]
    (tmp_path / "before.json").write_text(json.dumps(report))
    assert command.run_json("validate", path, "--baseline", tmp_path / "before.json")["baseline"]["naming"] is None


def test_a_baseline_of_another_format_is_an_error(tmp_path):
    path = model(relus(("a", known("body"))), tmp_path / "m.onnx")
    (tmp_path / "wrong.bin").write_bytes(b"PK\x03\x04 not a model")
    result = command.run("validate", path, "--baseline", tmp_path / "wrong.bin", code=3)
    assert result.stderr.startswith("E02") and result.stdout == ""


def test_hostile_names_are_escaped(tmp_path):
    path = model(relus(("Linear\x1b[31m_1", {CLASSES: "['Net', 'a\x1bLinear', 'op']"})), tmp_path / "m.onnx")
    assert "\x1b" not in command.run("validate", path, "--all", code=None).stdout


# ---- reports --------------------------------------------------------------------------------------------------------

def test_markdown_lists_incomplete_modules(exported, tmp_path):
    command.run("report", exported[0], "--sidecar", exported[1], "-o", tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    assert "| `(root)` | 1 | 10 | 6 | 2 | 1 | 1 | 0 | 14 | 5 | 6 | 3 | 0 |" in text
    assert "| `drop` | 1 | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| `norm` | 1 | 1 | 0 | 1 | 0 | 0 | 0 | 5 | 0 | 4 | 1 | 0 |" in text
    assert "| `twice` | 2 |" not in text  # all its operations arrived
    assert "| full hierarchies | 0 |" in text or "| full hierarchies | 7 |" in text


def test_the_page_has_the_fates_of_each_module(exported, tmp_path):
    command.run("report", exported[0], "--sidecar", exported[1], "-o", tmp_path / "r.html")
    page = Page(tmp_path / "r.html")
    paths = page.texts("paths")
    modules = {paths[int(row)]: recorded for row, recorded in page.tables["modules"]["recorded"].items()}
    assert modules["twice"] == [2, 0, 0, 0, 0, 2, 0, 0, 0] and modules["drop"] == [0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert modules["norm"][5:] == [0, 4, 1, 0]
    command.run("report", exported[0], "-o", tmp_path / "plain.html")
    assert '"recorded":{}' in (tmp_path / "plain.html").read_text()


def test_transposed_weights_match_the_sidecar_of_the_export(tmp_path):
    """They also match the sidecar from `whence record`, which has the same digests."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).eval()
    archive, file = tmp_path / "m.pt2", tmp_path / "m.onnx"
    torch.export.save(torch.export.export(network, (torch.ones(2, 4, 3),)), archive)
    command.run("export", archive, "-o", file, "--annotate", "--sidecar-out", tmp_path / "m.json")
    assert any(tensor.name.endswith(".T") for tensor in onnx.load(file).graph.initializer)
    command.run("record", archive, "-o", tmp_path / "recorded.json")
    for sidecar in ("m.json", "recorded.json"):
        parameters = command.run_json("validate", file, "--sidecar", tmp_path / sidecar)["hierarchy"]["parameters"]
        assert {each["name"]: each["how"] for each in parameters} == {
            "0.weight": "content", "0.bias": "name", "2.weight": "content", "2.bias": "name"}


def test_operations_are_found_after_an_optimiser(tmp_path):
    """ONNX Runtime drops the metadata of nodes and keeps the exporter's name; annotate finds the operations again."""
    torch.manual_seed(2)
    network = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    network.eval()
    archive, file, sidecar = tmp_path / "m.pt2", tmp_path / "m.onnx", tmp_path / "m.json"
    torch.export.save(torch.export.export(network, (torch.randn(2, 3, 8),)), archive)
    command.run("export", archive, "-o", file, "--annotate", "--sidecar-out", sidecar)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.optimized_model_filepath = 3, str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(tmp_path / "optimised.onnx")
    assert not any(node.metadata_props for node in optimised.graph.node)
    assert any(node.op_type == "Gelu" for node in optimised.graph.node)  # five nodes before
    command.run("annotate", tmp_path / "optimised.onnx", "--sidecar", sidecar, "-o", tmp_path / "annotated.onnx")
    hierarchy = command.run_json("validate", tmp_path / "annotated.onnx", "--sidecar", sidecar)["hierarchy"]
    assert hierarchy["operations_without_own_node"] == []
    root = hierarchy["modules"][0]
    assert (root["operations"], root["arrived"], root["unknown"]) == (6, 6, 0)
    command.run("strip", tmp_path / "annotated.onnx", "-o", tmp_path / "stripped.onnx")
    assert list(onnx.load(tmp_path / "stripped.onnx").graph.node) == list(optimised.graph.node)
