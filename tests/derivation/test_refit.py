"""whence refit: the file has the bytes that the same tools give for the new model, or nothing is written."""

import json

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
import whence
from safetensors.torch import load_file, save_file

import onnx_tools
import small_models as models
from command import run

# Static quantisation also measures the activations of the new model, whose ranges a refitted file does not get.
TOOLS = [tool for tool in models.TOOLS if not tool.startswith("static")]


def refit(path, files, new_weights, target, *options, code=0):
    return run("refit", path, "--base", files.weights, "--sidecar", files.sidecar, "--weights", new_weights, "-o", target,
               *options, code=code)


def require_equal(found, expected, rounding=0.0):
    """`rounding`: relative to the number, for functions that PyTorch does not round correctly."""
    found, expected = models.numbers_of(found), models.numbers_of(expected)
    assert found.keys() == expected.keys()
    for name, numbers in found.items():
        if rounding:
            np.testing.assert_allclose(numbers, expected[name], rtol=rounding, atol=rounding, err_msg=name)
        else:
            assert numbers.tobytes() == expected[name].tobytes(), name


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("name", ["images", "text", "series"])
def test_an_export_gets_the_weights_of_another_model(files_of, tmp_path, name, exporter):
    old, new = files_of(name), files_of(name, 1)
    refit(old.export(exporter), old, new.weights, tmp_path / "new.onnx")
    # The TorchScript exporter folds norms with PyTorch's square root, which is not always the nearest number.
    rounding = 1e-6 if (name, exporter) == ("images", "torchscript") else 0
    require_equal(tmp_path / "new.onnx", new.export(exporter), rounding)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", ["images", "text", "series"])
def test_a_file_of_a_tool_gets_the_weights_of_another_model(files_of, tmp_path, name, tool):
    old, new = files_of(name), files_of(name, 1)
    refit(old.tool("dynamo", tool), old, new.weights, tmp_path / "new.onnx")
    require_equal(tmp_path / "new.onnx", new.tool("dynamo", tool))


@pytest.mark.parametrize("tool", ["static", "static_channels", "static_operators"])
def test_static_quantisation_keeps_the_ranges_of_activations(files_of, tmp_path, tool):
    old, new = files_of("images"), files_of("images", 1)
    report = json.loads(refit(old.tool("dynamo", tool), old, new.weights, tmp_path / "new.onnx", "--json").stdout)
    assert report["calibrated"] > 0
    found, anew = models.numbers_of(tmp_path / "new.onnx"), models.numbers_of(new.tool("dynamo", tool))
    weights = [name for name, numbers in found.items() if numbers.dtype in (np.int8, np.uint8) and numbers.size > 1]
    assert weights
    assert all(np.array_equal(found[name], anew[name]) for name in weights)


def test_static_quantisation_computes_the_biases_of_norms(files_of, tmp_path):
    """They are 32-bit integers with the scale of the norm's input, which stays, and that of its weight."""
    old, new = files_of("text"), files_of("text", 1)
    refit(old.tool("dynamo", "static"), old, new.weights, tmp_path / "new.onnx")
    found = models.numbers_of(tmp_path / "new.onnx")
    norms = [name for name in found if name.endswith("norm.bias_quantized")]
    assert len(norms) == 2
    for name in norms:
        expected = new.model.get_parameter(name.removesuffix("_quantized")).detach().numpy()
        np.testing.assert_allclose(found[name] * found[name + "_scale"], expected, atol=1e-3)


def test_the_new_file_computes_what_the_new_model_computes(files_of, tmp_path):
    old, new = files_of("text"), files_of("text", 1)
    refit(old.export("dynamo"), old, new.weights, tmp_path / "new.onnx")
    ids = torch.randint(0, 100, (2, 7), generator=torch.Generator().manual_seed(5))
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    [found] = session.run(None, {session.get_inputs()[0].name: ids.numpy()})
    np.testing.assert_allclose(found, new.model(ids).detach().numpy(), atol=1e-4)


def test_external_data_is_written_under_the_new_name(files_of, tmp_path):
    old, new = files_of("text"), files_of("text", 1)
    model = onnx.load(old.export("dynamo"))
    onnx.save(model, tmp_path / "old.onnx", save_as_external_data=True, location="old.onnx.data", size_threshold=0)
    before = (tmp_path / "old.onnx.data").read_bytes()
    refit(tmp_path / "old.onnx", old, new.weights, tmp_path / "new.onnx")
    assert (tmp_path / "old.onnx.data").read_bytes() == before
    require_equal(tmp_path / "new.onnx", new.export("dynamo"))
    written = (tmp_path / "new.onnx.data").read_bytes()
    result = refit(tmp_path / "old.onnx", old, old.weights, tmp_path / "new.onnx", code=5)
    assert "which exists with other content" in result.stderr and "--overwrite" in result.stderr
    assert (tmp_path / "new.onnx.data").read_bytes() == written
    refit(tmp_path / "old.onnx", old, old.weights, tmp_path / "new.onnx", "--overwrite")
    require_equal(tmp_path / "new.onnx", old.export("dynamo"))


def test_a_statement_replaces_the_first_checkpoint(files_of, tmp_path):
    old, new = files_of("text"), files_of("text", 1)
    path = old.tool("dynamo", "dynamic")
    run("attest", path, "--weights", old.weights, "--sidecar", old.sidecar, "-o", tmp_path / "statement.json")
    run("refit", path, "--statement", tmp_path / "statement.json", "--weights", new.weights, "-o", tmp_path / "new.onnx")
    require_equal(tmp_path / "new.onnx", new.tool("dynamo", "dynamic"))


def test_a_statement_of_another_file_is_refused(files_of, tmp_path):
    old = files_of("text")
    run("attest", old.export("dynamo"), "--weights", old.weights, "--sidecar", old.sidecar, "-o", tmp_path / "statement.json")
    result = run("refit", old.tool("dynamo", "dynamic"), "--statement", tmp_path / "statement.json", "--weights", old.weights,
                 "-o", tmp_path / "new.onnx", code=3)
    assert "E0206" in result.stderr
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize("change", [
    {"step": "pick", "runs": [[90, 50, 1]]}, {"step": "transpose", "order": [0, 0]}, {"step": "reshape", "dims": [7]},
    {"step": "concatenate", "inputs": []}, {"step": "unknown"}, {"step": "quantise"}, {"step": 5}])
def test_a_statement_with_an_impossible_step_is_refused(files_of, tmp_path, change):
    files = files_of("text")
    path = files.export("dynamo")
    run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "-o", tmp_path / "statement.json")
    statement = json.loads((tmp_path / "statement.json").read_text())
    tensor = next(tensor for tensor in statement["predicate"]["tensors"] if tensor["dims"] == [100, 32])
    tensor["derivation"] = {"inputs": [tensor["derivation"]], **change}
    (tmp_path / "statement.json").write_text(json.dumps(statement))
    result = run("refit", path, "--statement", tmp_path / "statement.json", "--weights", files.weights, "-o",
                 tmp_path / "new.onnx", code=3)
    assert "E0204" in result.stderr
    assert not (tmp_path / "new.onnx").exists()


# ---- refusals

def changed_weights(files, target, change):
    state = files.model.state_dict()
    state = {name: tensor.clone().contiguous() for name, tensor in state.items()}
    change(state)
    save_file(state, target)
    return target


@pytest.mark.parametrize("change, name", [
    (lambda state: state.pop("layers.0.query.weight"), "layers.0.query.weight"),
    (lambda state: state.update({"layers.1.up.bias": torch.ones(64)}), "layers.1.up.bias"),
    (lambda state: state.update({"layers.1.up.bias": torch.ones(128, dtype=torch.int8)}), "layers.1.up.bias")])
def test_a_missing_parameter_and_other_sizes_are_refused_by_name(files_of, tmp_path, change, name):
    old = files_of("text")
    new = changed_weights(old, tmp_path / "new.safetensors", change)
    result = refit(old.export("dynamo"), old, new, tmp_path / "new.onnx", code=3)
    assert "E0211" in result.stderr and name in result.stderr
    assert not (tmp_path / "new.onnx").exists()


def test_a_tensor_of_unknown_origin_is_refused(files_of, tmp_path):
    old, new = files_of("text"), files_of("text", 1)
    model = onnx.load(old.export("dynamo"))
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "layers.0.up.bias")
    tensor.raw_data = np.ones(128, np.float32).cumsum(dtype=np.float32).tobytes()
    onnx.save(model, tmp_path / "other.onnx")
    result = refit(tmp_path / "other.onnx", old, new.weights, tmp_path / "new.onnx", code=3)
    assert "E0211" in result.stderr and "layers.0.up.bias" in result.stderr
    assert not (tmp_path / "new.onnx").exists()


def neutral_model(value):
    model = models.model_of("text")
    with torch.no_grad():
        for layer in model.layers:
            layer.output.bias.fill_(value)
            layer.down.bias.fill_(value)
    return model


def test_one_tensor_of_several_equal_parameters_is_refused_when_they_differ(files_of, tmp_path):
    equal = neutral_model(0.25)
    base = models.save_weights(equal, tmp_path / "base.safetensors")
    models.export(equal, "text", "torchscript", tmp_path / "old.onnx")
    new = files_of("text", 1)
    result = run("refit", tmp_path / "old.onnx", "--base", base, "--sidecar", files_of("text").sidecar, "--weights", new.weights,
                 "-o", tmp_path / "new.onnx", code=3)
    assert "E0211" in result.stderr and "bias" in result.stderr
    assert not (tmp_path / "new.onnx").exists()
    still_equal = models.save_weights(neutral_model(0.5), tmp_path / "still_equal.safetensors")
    run("refit", tmp_path / "old.onnx", "--base", base, "--sidecar", files_of("text").sidecar, "--weights", still_equal, "-o",
        tmp_path / "new.onnx")
    assert any(np.all(numbers == 0.5) for numbers in models.numbers_of(tmp_path / "new.onnx").values() if numbers.ndim == 1)


def test_a_parameter_that_an_exporter_left_out_is_refused_when_it_gets_an_effect(files_of, tmp_path):
    zero = neutral_model(0.0)
    base = models.save_weights(zero, tmp_path / "base.safetensors")
    models.export(zero, "text", "dynamo", tmp_path / "old.onnx")
    new = files_of("text", 1)
    result = run("refit", tmp_path / "old.onnx", "--base", base, "--sidecar", files_of("text").sidecar, "--weights", new.weights,
                 "-o", tmp_path / "new.onnx", code=3)
    assert "E0211" in result.stderr
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize("options", [[], ["--base", "x", "--statement", "y"], ["--base", "x"]])
def test_wrong_options(files_of, options):
    assert "E0101" in run("refit", files_of("images").export("dynamo"), *options, code=2).stderr


def test_the_model_itself_is_never_replaced(files_of):
    files = files_of("images")
    path = files.export("dynamo")
    before = path.read_bytes()
    assert "E0101" in refit(path, files, files.weights, path, code=2).stderr
    assert path.read_bytes() == before


def test_a_bias_that_does_not_fit_its_integers_is_refused(files_of, tmp_path):
    """The scale of a norm's bias is that of its input times that of its weight, which may become tiny."""
    old = files_of("text")
    new = changed_weights(old, tmp_path / "new.safetensors", lambda state: state["layers.0.norm.weight"].mul_(1e-9))
    result = refit(old.tool("dynamo", "static"), old, new, tmp_path / "new.onnx", code=3)
    assert "E0211" in result.stderr and "layers.0.norm.bias" in result.stderr
    assert not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize("tool", ["dynamic", "static_channels", "blocks_of_4_asymmetric"])
def test_scales_are_kept_on_request(files_of, tmp_path, tool):
    """The integers are the nearest ones with the old scales, computed here by the operators' definition."""
    old, new = files_of("text"), files_of("text", 1)
    refit(old.tool("dynamo", tool), old, new.weights, tmp_path / "new.onnx", "--keep-scales")
    before, found = models.numbers_of(old.tool("dynamo", tool)), models.numbers_of(tmp_path / "new.onnx")
    scales = [name for name in found if name.endswith(("_scale", "_scales")) and "bias" not in name]
    assert scales and all(np.array_equal(found[name], before[name]) for name in scales)
    if tool == "dynamic":
        name = next(name for name in found if found[name].dtype == np.int8 and found[name].shape == (32, 128))
        scale = found[name.removesuffix("_quantized") + "_scale"]
        expected = [np.clip(np.rint(each.detach().numpy().T / scale), -128, 127)
                    for key, each in new.model.named_parameters() if key.endswith("up.weight")]
        assert any(np.array_equal(found[name], each) for each in expected)


class Scaled(torch.nn.Module):
    """A scale that is computed from a buffer. A recording of torch.jit.trace holds it as a constant."""

    def __init__(self, seed):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.linear = torch.nn.Linear(4, 6)
        self.linear.weight.data = torch.randn(6, 4, generator=generator)
        self.register_buffer("variance", torch.rand(6, generator=generator) + 0.5)

    def forward(self, x):
        return self.linear(x) * (self.variance + 1e-5).rsqrt()


@pytest.mark.parametrize("record", ["trace", "export"])
def test_what_was_computed_from_a_changed_buffer_never_stays(tmp_path, record):
    old, new, x = Scaled(0).eval(), Scaled(1).eval(), torch.randn(2, 4)
    for name, model in (("old", old), ("new", new)):
        save_file(dict(model.state_dict()), tmp_path / f"{name}.safetensors")
    torch.onnx.export(old, (x,), tmp_path / "old.onnx", dynamo=False)
    with whence.record(tmp_path / "model.whence.json"), torch.no_grad():
        torch.jit.trace(old, x) if record == "trace" else torch.export.export(old, (x,))
    done = run("refit", tmp_path / "old.onnx", "--base", tmp_path / "old.safetensors", "--weights", tmp_path / "new.safetensors",
               "--sidecar", tmp_path / "model.whence.json", "-o", tmp_path / "new.onnx", code=None)
    if done.returncode:
        assert "E0211" in done.stderr and "variance" in done.stderr and not (tmp_path / "new.onnx").exists()
        return
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    [found] = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, new(x).detach().numpy(), rtol=1e-5, atol=1e-6)


class Turned(torch.nn.Module):
    """A table of angles from a buffer that no checkpoint has, which the exporter computes, beside a weight."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16), persistent=False)

    def forward(self, x):
        angles = torch.arange(50)[:, None] * self.frequencies
        return self.linear(x) * torch.cat([angles.cos(), angles.sin()], -1)


def test_a_table_that_no_weight_touches_stays(tmp_path):
    x, paths = torch.randn(50, 16), {}
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = Turned().eval()
        models.save_weights(model, tmp_path / f"{seed}.safetensors")
        with whence.record(tmp_path / f"{seed}.whence.json"):
            torch.export.export(model, (x,))
        paths[seed] = tmp_path / f"{seed}.onnx"
        torch.onnx.export(model, (x,), paths[seed], dynamo=True, external_data=False, verbose=False)
    run("refit", paths[0], "--base", tmp_path / "0.safetensors", "--weights", tmp_path / "1.safetensors", "--sidecar",
        tmp_path / "0.whence.json", "-o", tmp_path / "new.onnx")
    require_equal(tmp_path / "new.onnx", paths[1])
    assert any(each.size == 400 or each.size == 800 for each in models.numbers_of(paths[1]).values())


def test_one_tensor_shows_the_range_of_a_converter_for_all(tmp_path):
    """Only new weights are near zero in the second layer, where the old ones do not say which range was used."""
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)).eval()
        for layer in (0, 1) if seed else (0,):
            model[layer].weight.data[layer, 2:5] = torch.tensor([2e-8, 7e-8, -1e-9])
        models.save_weights(model, tmp_path / f"{seed}.safetensors")
        torch.onnx.export(model, (torch.randn(2, 6),), tmp_path / f"{seed}.float32.onnx", dynamo=True, external_data=False,
                          verbose=False)
        onnx_tools.float16()(tmp_path / f"{seed}.float32.onnx", tmp_path / f"{seed}.onnx", [])
    run("refit", tmp_path / "0.onnx", "--base", tmp_path / "0.safetensors", "--weights", tmp_path / "1.safetensors", "-o",
        tmp_path / "new.onnx")
    require_equal(tmp_path / "new.onnx", tmp_path / "1.onnx")
