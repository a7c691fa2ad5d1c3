"""``whence annotate --values`` finds the origin of a value by its numbers, without names, bytes or structure."""

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
    """Returns a recorded trace, and a file of PyTorch's exporter in which every name is changed."""
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


def blurred(file: onnx.ModelProto) -> None:
    """Replaces the factors by vectors, because a constant of the model would be stronger evidence than values."""
    constants = {each.name: numpy_helper.to_array(each) for each in file.graph.initializer}
    constants |= {node.output[0]: numpy_helper.to_array(node.attribute[0].t) for node in file.graph.node
                  if node.op_type == "Constant"}
    for at, node in enumerate([each for each in file.graph.node if each.op_type == "Mul"]):
        slot = next(slot for slot, name in enumerate(node.input) if name in constants)
        factors = np.full(24, constants[node.input[slot]], np.float32)
        file.graph.initializer.append(numpy_helper.from_array(factors, f"factors_{at}"))
        node.input[slot] = f"factors_{at}"


def truth(file: onnx.ModelProto, path, model, x) -> dict[str, str]:
    """Returns, for each Tanh's result, the branch that returns the same numbers in PyTorch."""
    extended = onnx.ModelProto.FromString(file.SerializeToString())
    names = [node.output[0] for node in file.graph.node if node.op_type == "Tanh"]
    extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    onnx.save(extended, path)
    got = onnxruntime.InferenceSession(str(path)).run(names, {"x": x.numpy()})
    with torch.no_grad():
        expected = {name: getattr(model, name)(model.mix(x)).numpy() for name in ("slow", "fast")}
    return {name: next(path for path, array in expected.items() if np.allclose(array, value, atol=1e-5))
            for name, value in zip(names, got, strict=True)}


def branches(annotated) -> dict[str, tuple]:
    return {node.output[0]: (keys(node)["module"], keys(node)["confidence"], keys(node).get("evidence", ""))
            for node in onnx.load(annotated).graph.node if node.op_type == "Tanh"}


@pytest.mark.parametrize("swapped", [False, True])
def test_branches_distinguished_only_by_numbers(recorded, swapped, run_here):
    folder, model, x, file = recorded
    if swapped:  # the sum is the same
        for node in [each for each in file.graph.node if each.op_type == "Add"]:
            operands = list(node.input)
            node.input[:] = operands[::-1]
    blurred(file)
    onnx.save(file, folder / "file.onnx")
    expected = truth(file, folder / "extended.onnx", model, x)
    run_here("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--values",
             folder / "v.safetensors", "-o", folder / "out.onnx")
    found = branches(folder / "out.onnx")
    assert {name: (module, word) for name, (module, word, _) in found.items()} == {
        name: (module, "matched") for name, module in expected.items()}
    assert all(f"values: {module}" in evidence for module, _, evidence in found.values())


def test_without_values_no_branch_is_certain(recorded):
    folder, _, _, file = recorded
    blurred(file)
    onnx.save(file, folder / "file.onnx")
    command.run("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "-o", folder / "out.onnx")
    assert {word for _, word, _ in branches(folder / "out.onnx").values()}.isdisjoint({"exact", "matched"})


def test_the_values_of_another_runtime(recorded, run_here):
    """The file is not run: its values come from a dump."""
    folder, model, x, file = recorded
    blurred(file)
    onnx.save(file, folder / "file.onnx")
    expected = truth(file, folder / "extended.onnx", model, x)
    names = list(expected)
    arrays = onnxruntime.InferenceSession(str(folder / "extended.onnx")).run(names, {"x": x.numpy()})
    np.savez(folder / "dump.npz", **dict(zip(names, arrays, strict=True)))
    run_here("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--values",
             folder / "v.safetensors", "--outputs", folder / "dump.npz", "-o", folder / "out.onnx")
    assert {name: module for name, (module, _, _) in branches(folder / "out.onnx").items()} == expected


def test_the_same_in_python(recorded):
    folder, model, x, file = recorded
    blurred(file)
    onnx.save(file, folder / "file.onnx")
    expected = truth(file, folder / "extended.onnx", model, x)
    report = whence.annotate(folder / "file.onnx", folder / "model.whence.json", values=folder / "v.safetensors",
                             output=folder / "out.onnx")
    assert report.matched > 0
    assert {name: module for name, (module, _, _) in branches(folder / "out.onnx").items()} == expected
    with pytest.raises(whence.WhenceError) as raised:
        whence.annotate(folder / "file.onnx", folder / "model.whence.json", outputs=folder / "dump.npz")
    assert raised.value.code == "E0101"


def test_equal_numbers_prove_nothing(tmp_path, run_here):
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
    run_here("annotate", tmp_path / "file.onnx", "--sidecar", tmp_path / "model.whence.json", "--values",
             tmp_path / "v.safetensors", "-o", tmp_path / "out.onnx")
    found = branches(tmp_path / "out.onnx")
    assert found and all("values:" not in evidence and (word not in {"exact", "matched"} or module == "")
                         for module, word, evidence in found.values())  # a node shared by both belongs to their parent


def test_values_of_another_model(recorded, tmp_path, run_here):
    folder, _, _, file = recorded
    onnx.save(file, folder / "file.onnx")
    other = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.Sigmoid()), torch.randn(5, 24))
    whence.record_values(other, (torch.randn(5, 24),), folder / "other.safetensors", operations=True)
    before = (folder / "file.onnx").read_bytes()
    written = run_here("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--values",
                       folder / "other.safetensors", "-o", folder / "out.onnx", code=3)
    assert "E0206" in written.err
    assert not (folder / "out.onnx").exists() and (folder / "file.onnx").read_bytes() == before


def test_an_activation_merged_into_quantisation(tmp_path, run_here):
    """QuantizeLinear with zero point 0 clips like the Relu, so the Relu is removed and its numbers are those after the
    QuantizeLinear. The remaining nodes belong to the layer before it or to the next one, never to the Relu."""
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
    for offset, made in enumerate((("QuantizeLinear", relu.input[0], "stored"), ("DequantizeLinear", "stored", relu.output[0]))):
        file.graph.node.insert(at + offset, onnx.helper.make_node(made[0], [made[1], "scale", "zero"], [made[2]]))
    rename.rename_everything(file)
    onnx.save(file, tmp_path / "file.onnx")
    run_here("annotate", tmp_path / "file.onnx", "--sidecar", tmp_path / "model.whence.json", "--values",
             tmp_path / "v.safetensors", "-o", tmp_path / "out.onnx")
    first, last = [keys(node) for node in onnx.load(tmp_path / "out.onnx").graph.node if node.op_type == "Gemm"]
    assert json.loads(first.get("modules", "[]")) == ["0", "1"] or first["module"] == "0"
    assert (last["module"], last["confidence"]) == ("2", "matched") and "modules" not in last


PAIRS = {"format": "whence-value-pairs", "version": 1, "program": None, "pairs": [{"value": "v", "operation": 0, "output": 0}]}
WRONG_PAIRS = [
    ("text", "no JSON", "E0203"),
    ("another format", PAIRS | {"format": "other"}, "E0203"),
    ("a newer version", PAIRS | {"version": 2}, "E0205"),
    ("a version that is none", PAIRS | {"version": "1"}, "E0203"),
    ("no list", PAIRS | {"pairs": {}}, "E0203"),
    ("another program", PAIRS | {"program": "0" * 32}, "E0206"),
    ("an operation too many", PAIRS | {"pairs": [{"value": "v", "operation": 99, "output": 0}]}, "E0204"),
    ("an output too many", PAIRS | {"pairs": [{"value": "v", "operation": 0, "output": 1}]}, "E0204"),
    ("a negative operation", PAIRS | {"pairs": [{"value": "v", "operation": -1, "output": 0}]}, "E0204"),
    ("half an operation", PAIRS | {"pairs": [{"value": "v", "operation": 0.5, "output": 0}]}, "E0204"),
    ("no value", PAIRS | {"pairs": [{"operation": 0, "output": 0}]}, "E0204"),
    ("no pair", PAIRS | {"pairs": [3]}, "E0204"),
]


@pytest.mark.parametrize("document, code", [row[1:] for row in WRONG_PAIRS], ids=[row[0] for row in WRONG_PAIRS])
def test_invalid_pairs(recorded, document, code):
    folder, _, _, file = recorded
    onnx.save(file, folder / "file.onnx")
    program = json.loads((folder / "model.whence.json").read_text())["program_digest"]
    if isinstance(document, dict) and document["program"] is None:
        document = document | {"program": program}
    (folder / "pairs.json").write_text(document if isinstance(document, str) else json.dumps(document))
    ran = command.run("annotate", folder / "file.onnx", "--sidecar", folder / "model.whence.json", "--value-pairs",
                      folder / "pairs.json", "-o", folder / "out.onnx", code=3)
    assert code in ran.stderr and not (folder / "out.onnx").exists()


def test_refused_before_anything_runs(recorded, run_here):
    folder, _, _, file = recorded
    onnx.save(file, folder / "file.onnx")
    values, sidecar = folder / "v.safetensors", folder / "model.whence.json"
    written = run_here("annotate", folder / "file.onnx", "--values", values, "-o", folder / "out.onnx", code=2)
    assert "E0101" in written.err and "sidecar" in written.err
    for option in ("--weights", "--from"):
        written = run_here("annotate", folder / "file.onnx", option, folder / "w", "--values", values, "-o",
                           folder / "out.onnx", code=2)
        assert "E0101" in written.err and f"{option} and --values exclude each other" in written.err
    before = values.read_bytes()
    written = run_here("annotate", folder / "file.onnx", "--sidecar", sidecar, "--values", values, "-o", values, code=2)
    assert "E0101" in written.err and values.read_bytes() == before
    ran = command.run("annotate", folder / "file.onnx", "--value-pairs", folder / "pairs.json", "-o", folder / "out.onnx",
                      code=2)
    assert "E0101" in ran.stderr
    assert not (folder / "out.onnx").exists()
