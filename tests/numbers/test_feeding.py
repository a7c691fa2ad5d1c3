"""Where a file's inputs come from: recorded inputs (by name, by the caller's names or by position) and extra inputs."""

import json

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import whence


class WeightedDifference(nn.Module):
    """x and y are [5, 6], so sizes cannot tell them apart; mask is [5]."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x, y, mask):
        return self.head((self.first(x) - 2 * self.second(y)) * mask[:, None])


ARGS = (torch.arange(30.0).reshape(5, 6) / 7, torch.arange(30.0).reshape(5, 6).cos(), torch.tensor([1.0, 0.5, 2.0, 0.3, 0.7]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns the folder of m.onnx, m.whence.json and v.safetensors."""
    folder = tmp_path_factory.mktemp("weighing")
    model = WeightedDifference().eval()
    whence.export(model, ARGS, folder / "m.onnx")
    whence.record_values(model, ARGS, folder / "v.safetensors")
    return folder


def save_changed(folder, path, change):
    file = onnx.load(folder / "m.onnx")
    change(file.graph)
    del file.graph.value_info[:]
    onnx.save(file, path)
    return path


def rename_inputs(**names):
    def change(graph):
        for value in graph.input:
            value.name = names.get(value.name, value.name)
        for node in graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
    return change


def lift_bias(graph):
    """Turns the head's bias into an input, as an exporter does with a tensor attribute."""
    head = next(node for node in graph.node if node.op_type == "Gemm" and list(node.output) == [graph.output[0].name])
    bias = next(initializer for initializer in graph.initializer if initializer.name == head.input[2])
    graph.input.append(helper.make_tensor_value_info("held", TensorProto.FLOAT, list(bias.dims)))
    graph.initializer.remove(bias)
    head.input[2] = "held"


BIAS = WeightedDifference().head.bias.detach().numpy()


def assert_fails(code, call):
    with pytest.raises(whence.WhenceError) as raised:
        call()
    assert raised.value.code == code and raised.value.remedy, raised.value
    return raised.value


def test_inputs_match_by_position_if_all_names_differ(folder, tmp_path):
    path = save_changed(folder, tmp_path / "m.onnx", rename_inputs(x="a", y="b", mask="c"))
    report = whence.accuracy(path, folder / "v.safetensors")
    assert report.first is None and any("a=x, b=y, c=mask" in note for note in report.notes), str(report)


def test_the_callers_names_override_position(folder, tmp_path):
    """The file has x and y in the opposite order, so matching by position feeds the wrong inputs."""
    path = save_changed(folder, tmp_path / "m.onnx", rename_inputs(x="b", y="a", mask="c"))
    file = onnx.load(path)
    inputs = {value.name: value for value in file.graph.input}
    del file.graph.input[:]
    file.graph.input.extend(inputs[name] for name in "abc")
    onnx.save(file, path)
    assert whence.accuracy(path, folder / "v.safetensors").first is not None
    for names in ({"a": "y", "b": "x"}, ["a=y", "b=x"]):
        assert whence.accuracy(path, folder / "v.safetensors", input_names=names).first is None


def test_sizes_decide_if_the_file_has_fewer_inputs(folder, tmp_path):
    def without_y(graph):
        rename_inputs(mask="weights")(graph)
        graph.initializer.append(numpy_helper.from_array(ARGS[1].numpy(), "y"))
        graph.input.remove(next(value for value in graph.input if value.name == "y"))

    path = save_changed(folder, tmp_path / "m.onnx", without_y)
    # No other recorded input has the mask's size.
    assert whence.accuracy(path, folder / "v.safetensors").first is None
    all_renamed = save_changed(folder, tmp_path / "n.onnx",
                               lambda graph: (without_y(graph), rename_inputs(x="data")(graph)))
    failure = assert_fails("E0104", lambda: whence.accuracy(all_renamed, folder / "v.safetensors"))
    assert "'data', 'weights'" in str(failure) and "--input-name data=RECORDED" in failure.remedy
    assert whence.accuracy(all_renamed, folder / "v.safetensors", input_names={"data": "x"}).first is None


def test_extra_inputs_supply_unrecorded_inputs(folder, tmp_path):
    path = save_changed(folder, tmp_path / "m.onnx", lift_bias)
    failure = assert_fails("E0104", lambda: whence.accuracy(path, folder / "v.safetensors"))
    assert "'held'" in str(failure) and "--extra-inputs" in failure.remedy and "extra_inputs" in failure.remedy
    right, wrong = {"held": BIAS}, {"held": torch.from_numpy(BIAS) + 1}
    assert whence.accuracy(path, folder / "v.safetensors", extra_inputs=right).first is None
    report = whence.accuracy(path, folder / "v.safetensors", extra_inputs=wrong, sidecar=folder / "m.whence.json")
    with torch.no_grad():
        expected = WeightedDifference()(*ARGS)
    assert report.first.module == "head"
    assert report.of("head").relative == pytest.approx(float(torch.ones_like(expected).norm() / expected.norm()), rel=1e-4)
    assert whence.accuracy(path, folder / "v.safetensors", extra_inputs={"held": BIAS.astype("f8")}).first is None
    differences = [whence.accuracy(path, folder / "v.safetensors", extra_inputs=right, runtime=runtime).first
                   for runtime in ("reference", "openvino")]
    assert differences == [None, None]


OPTIONS = {"accuracy": [], "validate": [], "annotate": ["-o", "{folder}/out.onnx"],
           "sensitivity": ["--modules", "first", "--no-time"]}


@pytest.mark.parametrize("subcommand", OPTIONS)
@pytest.mark.parametrize("form", ["npz", "pt"])
def test_every_command_accepts_the_input_options(folder, tmp_path, run_main, monkeypatch, subcommand, form):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = save_changed(folder, tmp_path / "m.onnx", lambda graph: (lift_bias(graph), rename_inputs(x="a")(graph)))
    if form == "npz":
        numpy.savez(tmp_path / "extra.npz", held=BIAS)
    else:
        torch.save({"held": torch.from_numpy(BIAS)}, tmp_path / "extra.pt")
    arrays = (tensor.numpy() for tensor in ARGS)
    numpy.savez(tmp_path / "inputs.npz", **dict(zip(("x", "y", "mask"), arrays, strict=True)))
    inputs = ["--inputs", tmp_path / "inputs.npz"] if subcommand == "sensitivity" else \
        ["--values", folder / "v.safetensors", "--sidecar", folder / "m.whence.json"]
    arguments = [subcommand, path, *inputs, *(option.format(folder=tmp_path) for option in OPTIONS[subcommand])]
    assert "E0104" in run_main(*arguments, code=2).err
    output = run_main(*arguments, "--input-name", "a=x", "--extra-inputs", tmp_path / f"extra.{form}", "--json").out
    document = json.loads(output)
    if subcommand == "accuracy":
        assert document["first"] is None and not document["notes"]
    if subcommand == "validate":
        assert document["proof"]["proved"] == document["proof"]["calls"] == 4
    if subcommand == "sensitivity":
        assert [row["module"] for row in document["modules"]] == ["first"] and document["modules"][0]["error"] < 0.2


def test_every_function_accepts_the_input_options(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = save_changed(folder, tmp_path / "m.onnx", lambda graph: (lift_bias(graph), rename_inputs(x="a")(graph)))
    options = {"input_names": {"a": "x"}, "extra_inputs": {"held": BIAS}}
    values, sidecar = folder / "v.safetensors", folder / "m.whence.json"
    assert whence.validate(path, sidecar, values=values, **options).proof.proved == 4
    assert whence.annotate(path, sidecar, values=values, output=tmp_path / "out.onnx", **options).unattributed == 0
    inputs = dict(zip(("x", "y", "mask"), ARGS, strict=True))
    (row,) = whence.sensitivity(path, [inputs], modules=["first"], time=False, **options).modules
    assert row.status == "measured"
    assert whence.verify(path, WeightedDifference().eval(), ARGS, **options).ok
    report = whence.verify(path, WeightedDifference().eval(), ARGS, input_names={"a": "x"},
                           extra_inputs={"held": BIAS + 1})
    assert not report.ok and report.first_module == "head"


def test_invalid_input_options_are_refused(folder, tmp_path):
    path = save_changed(folder, tmp_path / "m.onnx", lift_bias)

    def run(**options):
        return lambda: whence.accuracy(path, folder / "v.safetensors", **options)

    assert_fails("E0101", run(input_names={"nothing": "x"}))
    assert_fails("E0101", run(input_names={"x": "nothing"}))
    assert_fails("E0101", run(input_names=["x"]))
    assert_fails("E0101", run(input_names="x=y"))
    assert_fails("E0101", run(extra_inputs={"nothing": BIAS}))
    assert_fails("E0101", run(extra_inputs={"held": "text"}))
    assert_fails("E0101", run(extra_inputs={"held": BIAS, "x": ARGS[0] + 1}))  # x was recorded
    assert_fails("E0101", run(input_names={"held": "mask"}, extra_inputs={"held": BIAS}))
    assert_fails("E0104", run(extra_inputs={"held": BIAS[:1]}))
    assert_fails("E0104", run(extra_inputs={"held": BIAS.astype("i8")}))
    assert_fails("E0102", run(extra_inputs=tmp_path / "no.npz"))
    torch.save([torch.zeros(3)], tmp_path / "list.pt")
    assert_fails("E0101", run(extra_inputs=tmp_path / "list.pt"))
    numpy.savez(tmp_path / "dump.npz", **{onnx.load(path).graph.node[0].output[0]: BIAS})
    assert_fails("E0101", run(outputs=tmp_path / "dump.npz", extra_inputs={"held": BIAS}))
    assert_fails("E0101", lambda: whence.annotate(path, folder / "m.whence.json", output=tmp_path / "out.onnx",
                                                  extra_inputs={"held": BIAS}))
