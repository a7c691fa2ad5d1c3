"""``whence annotate --values`` finds the origin of a value by comparing numbers, without names, bytes or structure."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import whence
from onnx import numpy_helper

import command
from accuracy import rename
from match.test_calls import keys


class Twins(torch.nn.Module):
    """Two branches without weights that compute different results with equal names, sizes and operators."""

    class Scale(torch.nn.Module):
        def __init__(self, number: float):
            super().__init__()
            self.number = number

        def forward(self, x):
            return torch.tanh(x * self.number)

    def __init__(self):
        super().__init__()
        self.slow, self.fast = Twins.Scale(0.5), Twins.Scale(2.0)
        self.mix = torch.nn.Linear(24, 24)

    def forward(self, x):
        x = self.mix(x)
        return self.slow(x) + self.fast(x)


@pytest.fixture
def recorded(tmp_path):
    """Records a trace; returns its folder, the model, its input, and PyTorch's export with every name changed."""
    torch.manual_seed(3)
    model, x = Twins().eval(), torch.randn(5, 24)
    torch.jit.trace(model, (x,), check_trace=False).save(tmp_path / "model.pt")
    np.savez(tmp_path / "inputs.npz", x=x.numpy())
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.whence.json", "--inputs", tmp_path / "inputs.npz")
    whence.record_values(torch.jit.load(tmp_path / "model.pt"), (x,), tmp_path / "v.safetensors", operations=True)
    torch.onnx.export(model, (x,), tmp_path / "exported.onnx", dynamo=False, opset_version=20, verbose=False,
                      input_names=["x"])
    file = onnx.load(tmp_path / "exported.onnx")
    rename.rename_everything(file)
    return tmp_path, model, x, file


def replace_factors(file: onnx.ModelProto) -> None:
    """Replaces the scalar factors with vectors, because a constant of the model would be stronger evidence."""
    constants = {initializer.name: numpy_helper.to_array(initializer) for initializer in file.graph.initializer}
    constants |= {node.output[0]: numpy_helper.to_array(node.attribute[0].t) for node in file.graph.node
                  if node.op_type == "Constant"}
    for at, node in enumerate([node for node in file.graph.node if node.op_type == "Mul"]):
        slot = next(slot for slot, name in enumerate(node.input) if name in constants)
        factors = np.full(24, constants[node.input[slot]], np.float32)
        file.graph.initializer.append(numpy_helper.from_array(factors, f"factors_{at}"))
        node.input[slot] = f"factors_{at}"


def expected_branches(file: onnx.ModelProto, path, model, x) -> dict[str, str]:
    """Maps each Tanh result to the branch that returns the same numbers in PyTorch."""
    extended = onnx.ModelProto.FromString(file.SerializeToString())
    names = [node.output[0] for node in file.graph.node if node.op_type == "Tanh"]
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    onnx.save(extended, path)
    results = onnxruntime.InferenceSession(str(path)).run(names, {"x": x.numpy()})
    with torch.no_grad():
        expected = {name: getattr(model, name)(model.mix(x)).numpy() for name in ("slow", "fast")}
    return {name: next(path for path, array in expected.items() if np.allclose(array, value, atol=1e-5))
            for name, value in zip(names, results, strict=True)}


def branches(annotated) -> dict[str, tuple]:
    return {node.output[0]: (keys(node)["module"], keys(node)["confidence"], keys(node).get("evidence", ""))
            for node in onnx.load(annotated).graph.node if node.op_type == "Tanh"}


@pytest.mark.parametrize("swapped", [False, True])
def test_branches_distinguished_only_by_numbers(recorded, swapped, run_main):
    folder, model, x, file = recorded
    if swapped:  # does not change the sum
        for node in [node for node in file.graph.node if node.op_type == "Add"]:
            operands = list(node.input)
            node.input[:] = operands[::-1]
    replace_factors(file)
    onnx.save(file, folder / "file.onnx")
    expected = expected_branches(file, folder / "extended.onnx", model, x)
    run_main("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--values",
             folder / "v.safetensors", "-o", folder / "out.onnx")
    actual = branches(folder / "out.onnx")
    assert {name: (module, word) for name, (module, word, _) in actual.items()} == {
        name: (module, "matched") for name, module in expected.items()}
    assert all(f"values: {module}" in evidence for module, _, evidence in actual.values())


def test_without_values_no_branch_is_certain(recorded):
    folder, _, _, file = recorded
    replace_factors(file)
    onnx.save(file, folder / "file.onnx")
    command.run("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "-o", folder / "out.onnx")
    assert {word for _, word, _ in branches(folder / "out.onnx").values()}.isdisjoint({"exact", "matched"})


def test_values_from_another_runtime(recorded, run_main):
    """Reads the file's values from a dump instead of running the file."""
    folder, model, x, file = recorded
    replace_factors(file)
    onnx.save(file, folder / "file.onnx")
    expected = expected_branches(file, folder / "extended.onnx", model, x)
    names = list(expected)
    arrays = onnxruntime.InferenceSession(str(folder / "extended.onnx")).run(names, {"x": x.numpy()})
    np.savez(folder / "dump.npz", **dict(zip(names, arrays, strict=True)))
    run_main("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--values",
             folder / "v.safetensors", "--outputs", folder / "dump.npz", "-o", folder / "out.onnx")
    assert {name: module for name, (module, _, _) in branches(folder / "out.onnx").items()} == expected


def test_annotate_in_python_accepts_values(recorded):
    folder, model, x, file = recorded
    replace_factors(file)
    onnx.save(file, folder / "file.onnx")
    expected = expected_branches(file, folder / "extended.onnx", model, x)
    report = whence.annotate(folder / "file.onnx", folder / "model.whence.json", values=folder / "v.safetensors",
                             output=folder / "out.onnx")
    assert report.matched > 0
    assert {name: module for name, (module, _, _) in branches(folder / "out.onnx").items()} == expected
    with pytest.raises(whence.WhenceError) as raised:
        whence.annotate(folder / "file.onnx", folder / "model.whence.json", outputs=folder / "dump.npz")
    assert raised.value.code == "E0101"


def test_equal_numbers_identify_no_branch(tmp_path, run_main):
    """Both branches return the same numbers, so neither can be identified."""
    torch.manual_seed(4)
    model, x = Twins().eval(), torch.randn(5, 24)
    model.fast.number = model.slow.number = 0.5
    torch.jit.trace(model, (x,), check_trace=False).save(tmp_path / "model.pt")
    torch.save((x,), tmp_path / "inputs.pt")
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.whence.json", "--inputs", tmp_path / "inputs.pt")
    whence.record_values(torch.jit.load(tmp_path / "model.pt"), (x,), tmp_path / "v.safetensors", operations=True)
    torch.onnx.export(model, (x,), tmp_path / "file.onnx", dynamo=False, opset_version=20, verbose=False, input_names=["x"])
    file = onnx.load(tmp_path / "file.onnx")
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "file.onnx")
    run_main("annotate", tmp_path / "file.onnx", "--sidecar", tmp_path / "model.whence.json", "--values",
             tmp_path / "v.safetensors", "-o", tmp_path / "out.onnx")
    actual = branches(tmp_path / "out.onnx")
    assert actual and all("values:" not in evidence and (word not in {"exact", "matched"} or module == "")
                          for module, word, evidence in actual.values())  # a node shared by both belongs to their parent


def test_values_of_another_model_are_refused(recorded, tmp_path, run_main):
    folder, _, _, file = recorded
    onnx.save(file, folder / "file.onnx")
    other = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.Sigmoid()), torch.randn(5, 24))
    whence.record_values(other, (torch.randn(5, 24),), folder / "other.safetensors", operations=True)
    before = (folder / "file.onnx").read_bytes()
    output = run_main("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--values",
                      folder / "other.safetensors", "-o", folder / "out.onnx", code=3)
    assert "E0206" in output.err
    assert not (folder / "out.onnx").exists() and (folder / "file.onnx").read_bytes() == before


def test_nodes_around_an_activation_merged_into_quantisation(tmp_path, run_main):
    """QuantizeLinear with zero point 0 clips like Relu, so the Relu is removed. The first Gemm belongs to its layer,
    possibly also to the Relu; the second only to its own layer."""
    torch.manual_seed(7)
    model, x = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU(), torch.nn.Linear(24, 8)).eval(), torch.randn(6, 16)
    torch.jit.trace(model, (x,), check_trace=False).save(tmp_path / "model.pt")
    np.savez(tmp_path / "inputs.npz", input=x.numpy())
    command.run("record", tmp_path / "model.pt", "-o", tmp_path / "model.whence.json", "--inputs", tmp_path / "inputs.npz")
    whence.record_values(torch.jit.load(tmp_path / "model.pt"), (x,), tmp_path / "v.safetensors", operations=True)
    torch.onnx.export(model, (x,), tmp_path / "file.onnx", dynamo=False, opset_version=20, verbose=False, input_names=["x"])
    file = onnx.load(tmp_path / "file.onnx")
    [relu] = [node for node in file.graph.node if node.op_type == "Relu"]
    with torch.no_grad():
        scale = float(model[:2](x).max()) / 255
    file.graph.initializer.extend([numpy_helper.from_array(np.float32(scale), "scale"),
                                   numpy_helper.from_array(np.uint8(0), "zero")])
    at = list(file.graph.node).index(relu)
    file.graph.node.remove(relu)
    for offset, (operator, source, target) in enumerate((
            ("QuantizeLinear", relu.input[0], "stored"), ("DequantizeLinear", "stored", relu.output[0]))):
        file.graph.node.insert(at + offset, onnx.helper.make_node(operator, [source, "scale", "zero"], [target]))
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "file.onnx")
    run_main("annotate", tmp_path / "file.onnx", "--sidecar", tmp_path / "model.whence.json", "--values",
             tmp_path / "v.safetensors", "-o", tmp_path / "out.onnx")
    first, last = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Gemm"]
    assert json.loads(first.get("modules", "[]")) == ["0", "1"] or first["module"] == "0"
    assert (last["module"], last["confidence"]) == ("2", "matched") and "modules" not in last


PAIRS = {"format": "whence-value-pairs", "version": 1, "program": None, "pairs": [{"value": "v", "operation": 0, "output": 0}]}
WRONG_PAIRS = [
    ("text", "not JSON", "E0203"),
    ("another format", PAIRS | {"format": "other"}, "E0203"),
    ("a newer version", PAIRS | {"version": 2}, "E0205"),
    ("an invalid version", PAIRS | {"version": "1"}, "E0203"),
    ("not a list", PAIRS | {"pairs": {}}, "E0203"),
    ("another program", PAIRS | {"program": "0" * 32}, "E0206"),
    ("an unknown operation", PAIRS | {"pairs": [{"value": "v", "operation": 99, "output": 0}]}, "E0204"),
    ("an unknown output", PAIRS | {"pairs": [{"value": "v", "operation": 0, "output": 1}]}, "E0204"),
    ("a negative operation", PAIRS | {"pairs": [{"value": "v", "operation": -1, "output": 0}]}, "E0204"),
    ("a fractional operation", PAIRS | {"pairs": [{"value": "v", "operation": 0.5, "output": 0}]}, "E0204"),
    ("a missing value", PAIRS | {"pairs": [{"operation": 0, "output": 0}]}, "E0204"),
    ("a number as a pair", PAIRS | {"pairs": [3]}, "E0204"),
]


@pytest.mark.parametrize("document, code", [row[1:] for row in WRONG_PAIRS], ids=[row[0] for row in WRONG_PAIRS])
def test_invalid_pairs_are_refused(recorded, document, code):
    folder, _, _, file = recorded
    onnx.save(file, folder / "file.onnx")
    program = json.loads((folder / "model.whence.json").read_text())["program_digest"]
    if isinstance(document, dict) and document["program"] is None:
        document = document | {"program": program}
    (folder / "pairs.json").write_text(document if isinstance(document, str) else json.dumps(document))
    result = command.run("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--value-pairs",
                         folder / "pairs.json", "-o", folder / "out.onnx", code=3)
    assert code in result.stderr and not (folder / "out.onnx").exists()


def test_conflicting_options_are_refused_before_anything_runs(recorded, run_main):
    folder, _, _, file = recorded
    onnx.save(file, folder / "file.onnx")
    values, sidecar = folder / "v.safetensors", folder / "model.whence.json"
    output = run_main("annotate", folder / "file.onnx", "--values", values, "-o", folder / "out.onnx", code=2)
    assert "E0101" in output.err and "sidecar" in output.err
    for option in ("--weights", "--from"):
        output = run_main("annotate", folder / "file.onnx", option, folder / "w", "--values", values, "-o",
                          folder / "out.onnx", code=2)
        assert "E0101" in output.err and f"{option} and --values exclude each other" in output.err
    before = values.read_bytes()
    output = run_main("annotate", folder / "file.onnx", "--sidecar", sidecar, "--values", values, "-o", values, code=2)
    assert "E0101" in output.err and values.read_bytes() == before
    result = command.run("annotate", folder / "file.onnx", "--value-pairs", folder / "pairs.json", "-o",
                         folder / "out.onnx", code=2)
    assert "E0101" in result.stderr
    assert not (folder / "out.onnx").exists()
