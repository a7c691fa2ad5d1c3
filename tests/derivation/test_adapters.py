"""whence refit --lora: an adapter of PEFT is merged into a file, or added as nodes and inputs."""

import json
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_tools
import onnxruntime as ort
import pytest
import torch
import whence
from safetensors.torch import load_file, save_file

import small_models as models
from command import run


def write_adapter(folder, factors, **config):
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 8, **config}))
    save_file({f"base_model.model.{module}.lora_{which}.weight": tensor for module, pair in factors.items()
               for which, tensor in zip("AB", pair, strict=True)}, folder / "adapter_model.safetensors")
    return folder


def test_an_adapter_is_merged(files_of, tmp_path):
    old = files_of("text")
    generator = torch.Generator().manual_seed(3)
    factors = {f"layers.{i}.{part}": (torch.randn(4, 32, generator=generator), 0.1 * torch.randn(32, 4, generator=generator))
               for i in range(2) for part in ("query", "value")}
    adapter = write_adapter(tmp_path / "adapter", factors)
    report = json.loads(run("refit", old.export("dynamo"), "--base", old.weights, "--sidecar", old.sidecar, "--lora", adapter,
                            "-o", tmp_path / "new.onnx", "--json").stdout)
    assert report["adapted"] == 4
    merged = models.model_of("text")
    with torch.no_grad():
        for module, (a, b) in factors.items():
            merged.get_submodule(module).weight += 8 / 4 * (b @ a)
    ids = models.inputs_of("text")[0]
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    [found] = session.run(None, {session.get_inputs()[0].name: ids.numpy()})
    np.testing.assert_allclose(found, merged(ids).detach().numpy(), atol=1e-4)


@pytest.mark.parametrize("factors, config, label", [
    ({"layers.7.query": (4, 32, 32)}, {}, "E0211"),   # no such module
    ({"layers.0.query": (4, 16, 32)}, {}, "E0211"),   # other sizes
    *(({"layers.0.query": (4, 32, 32)}, config, "E0303") for config in (
        {"use_dora": True}, {"init_lora_weights": "pissa_niter_4"}, {"init_lora_weights": "olora"}, {"lora_bias": True},
        {"alora_invocation_tokens": [1, 2]}, {"layer_replication": [[0, 1]]}, {"peft_type": "LOHA"}, {"peft_type": 3},
        {"alpha_pattern": {"(": 4}}, {"alpha_pattern": {"query": "4"}}))])
def test_an_adapter_that_does_not_fit_is_refused(files_of, tmp_path, factors, config, label):
    old = files_of("text")
    adapter = write_adapter(tmp_path / "adapter", {module: (torch.ones(rank, inputs), torch.ones(outputs, rank))
                                                   for module, (rank, inputs, outputs) in factors.items()}, **config)
    result = run("refit", old.export("dynamo"), "--base", old.weights, "--lora", adapter, "-o", tmp_path / "new.onnx", code=None)
    assert result.returncode != 0
    assert label in result.stderr
    assert not (tmp_path / "new.onnx").exists()


def test_an_adapter_of_small_floats_is_refused(files_of, tmp_path):
    old = files_of("text")
    factors = {"layers.0.query": (torch.ones(4, 32).to(torch.float8_e4m3fn), torch.ones(32, 4).to(torch.float8_e4m3fn))}
    result = run("refit", old.export("dynamo"), "--base", old.weights, "--lora", write_adapter(tmp_path / "adapter", factors),
                 "-o", tmp_path / "new.onnx", code=None)
    assert "E0303" in result.stderr and not (tmp_path / "new.onnx").exists()


@pytest.mark.parametrize("pattern", ["layers.0.query", r"layers\.\d\.query", "query", ".*query"])
def test_an_alpha_pattern_is_a_regular_expression(files_of, tmp_path, pattern):
    """As in PEFT: the first pattern whose match ends the module's name, after a dot or as a whole."""
    old = files_of("text")
    a, b = torch.ones(4, 32), 0.1 * torch.ones(32, 4)
    adapter = write_adapter(tmp_path / "adapter", {"layers.0.query": (a, b)}, alpha_pattern={"uery": 100, pattern: 20, "layers.0.query$": 50})
    run("refit", old.export("dynamo"), "--base", old.weights, "--sidecar", old.sidecar, "--lora", adapter, "-o",
        tmp_path / "new.onnx")
    expected = old.model.layers[0].query.weight.detach() + 20 / 4 * (b @ a)
    numbers = models.numbers_of(tmp_path / "new.onnx").values()
    assert any(each.shape == (32, 32) and (np.allclose(each, expected) or np.allclose(each.T, expected)) for each in numbers)


def test_biases_of_adapted_layers_are_replaced(files_of, tmp_path):
    """PEFT saves the trained bias of an adapted layer under the name of its wrapper."""
    old = files_of("text")
    adapter = write_adapter(tmp_path / "adapter", {"layers.0.query": (torch.zeros(4, 32), torch.zeros(32, 4))}, bias="lora_only")
    tensors = load_file(adapter / "adapter_model.safetensors")
    save_file({**tensors, "base_model.model.layers.0.query.base_layer.bias": torch.arange(32.0)}, adapter / "adapter_model.safetensors")
    run("refit", old.export("dynamo"), "--base", old.weights, "--sidecar", old.sidecar, "--lora", adapter, "-o",
        tmp_path / "new.onnx")
    assert any(np.array_equal(each, np.arange(32)) for each in models.numbers_of(tmp_path / "new.onnx").values())


# ---- as inputs

def factors_of(seed, rank=4):
    generator = torch.Generator().manual_seed(seed)
    return {f"layers.{i}.{part}": (torch.randn(rank, 32, generator=generator), 0.1 * torch.randn(32, rank, generator=generator))
            for i in range(2) for part in ("query", "value")}


def merged_model(factors, scale):
    model = models.model_of("text")
    with torch.no_grad():
        for module, (a, b) in factors.items():
            model.get_submodule(module).weight += scale * (b @ a)
    return model


def with_inputs(source, files, adapter, target, *options):
    return json.loads(run("refit", source, "--base", files.weights, "--sidecar", files.sidecar, "--lora", adapter,
                          "--lora-as-inputs", "-o", target, "--json", *options).stdout)


def results(path, ids, **more):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    ids_name = next(each.name for each in session.get_inputs() if "lora" not in each.name)
    return session.run(None, {ids_name: ids.numpy(), **more})[0]


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_adapter_becomes_inputs_with_its_numbers_as_defaults(files_of, tmp_path, exporter):
    old, factors = files_of("text"), factors_of(3)
    adapter = write_adapter(tmp_path / "adapter", factors)
    assert with_inputs(old.export(exporter), old, adapter, tmp_path / "new.onnx")["products"] == 4
    onnx.checker.check_model(tmp_path / "new.onnx", full_check=True)
    ids = models.inputs_of("text", 7)[0]
    np.testing.assert_allclose(results(tmp_path / "new.onnx", ids), merged_model(factors, 2)(ids).detach(), atol=1e-4)


def test_another_adapter_with_another_rank_needs_no_new_file(files_of, tmp_path):
    """Inputs have the names of PEFT's file, so that its tensors are passed as they are."""
    old = files_of("text")
    with_inputs(old.export("dynamo"), old, write_adapter(tmp_path / "first", factors_of(3)), tmp_path / "new.onnx")
    ids, others = models.inputs_of("text", 7)[0], factors_of(5, rank=2)
    tensors = load_file(write_adapter(tmp_path / "second", others) / "adapter_model.safetensors")
    found = results(tmp_path / "new.onnx", ids, **{name: tensor.numpy() for name, tensor in tensors.items()})
    np.testing.assert_allclose(found, merged_model(others, 2)(ids).detach(), atol=1e-4)
    scalings = {f"base_model.model.{module}.lora_scaling": np.zeros((), np.float32) for module in others}
    np.testing.assert_allclose(results(tmp_path / "new.onnx", ids, **scalings), old.model(ids).detach(), atol=1e-4)


def test_onnxruntime_activates_another_adapter(files_of, tmp_path):
    old, others = files_of("text"), factors_of(5, rank=2)
    with_inputs(old.export("dynamo"), old, write_adapter(tmp_path / "first", factors_of(3)), tmp_path / "new.onnx")
    tensors = load_file(write_adapter(tmp_path / "second", others) / "adapter_model.safetensors")
    adapters = ort.AdapterFormat()
    adapters.set_parameters({name: ort.OrtValue.ortvalue_from_numpy(each.numpy()) for name, each in tensors.items()})
    adapters.export_adapter(str(tmp_path / "second.onnx_adapter"))
    adapter = ort.LoraAdapter()
    adapter.Load(str(tmp_path / "second.onnx_adapter"))
    options = ort.RunOptions()
    options.add_active_adapter(adapter)
    session = ort.InferenceSession(tmp_path / "new.onnx", providers=["CPUExecutionProvider"])
    ids = models.inputs_of("text", 7)[0]
    [found] = session.run(None, {session.get_inputs()[0].name: ids.numpy()}, options)
    np.testing.assert_allclose(found, merged_model(others, 2)(ids).detach(), atol=1e-4)


@pytest.mark.parametrize("tool", ["dynamic", "blocks_of_4", "blocks_of_8", "onnxslim"])
def test_quantised_products_get_the_adapter_in_floating_point(files_of, tmp_path, tool):
    """The error that is left is of the size of the quantiser's without the adapter."""
    old, factors = files_of("text"), factors_of(3)
    source = old.tool("dynamo", tool)
    with_inputs(source, old, write_adapter(tmp_path / "adapter", factors), tmp_path / "new.onnx")
    ids = models.inputs_of("text", 7)[0]
    old_model, merged = old.model(ids).detach().numpy(), merged_model(factors, 2)(ids).detach().numpy()
    error = np.linalg.norm(results(tmp_path / "new.onnx", ids) - merged)
    assert error < 3 * np.linalg.norm(results(source, ids) - old_model) + 1e-3
    assert error < 0.3 * np.linalg.norm(merged - old_model)


def test_a_product_with_a_quantised_bias_gets_the_adapter(tmp_path):
    """The integers of the bias follow from the scale of the weight, which stays."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).eval()
    x = torch.randn(64, 16)
    files = SimpleNamespace(weights=tmp_path / "old.safetensors", sidecar=tmp_path / "old.whence.json")
    models.save_weights(model, files.weights)
    with whence.record(files.sidecar):
        torch.export.export(model, (x,))
    torch.onnx.export(model, (x,), tmp_path / "exported.onnx", dynamo=True, external_data=False, verbose=False)
    name = onnx.load(tmp_path / "exported.onnx").graph.input[0].name
    onnx_tools.static_int8("QDQ")(tmp_path / "exported.onnx", tmp_path / "old.onnx", [{name: x.numpy()}])
    assert any(each.name.endswith("bias_quantized") for each in onnx.load(tmp_path / "old.onnx").graph.initializer)
    generator = torch.Generator().manual_seed(3)
    a, b = 0.1 * torch.randn(4, 32, generator=generator), 0.1 * torch.randn(8, 4, generator=generator)
    before = model(x).detach().numpy()
    with_inputs(tmp_path / "old.onnx", files, write_adapter(tmp_path / "adapter", {"2": (a, b)}), tmp_path / "new.onnx")
    with torch.no_grad():
        model[2].weight += 8 / 4 * (b @ a)
    merged = model(x).detach().numpy()
    error = np.linalg.norm(results(tmp_path / "new.onnx", x) - merged)
    assert error < 3 * np.linalg.norm(results(tmp_path / "old.onnx", x) - before)
    assert error < 0.3 * np.linalg.norm(merged - before)


def test_the_new_nodes_name_their_modules(files_of, tmp_path):
    old = files_of("text")
    with_inputs(old.export("dynamo"), old, write_adapter(tmp_path / "adapter", factors_of(3)), tmp_path / "new.onnx")
    nodes = onnx.load(tmp_path / "new.onnx").graph.node
    modules = [{each.key: each.value for each in node.metadata_props} for node in nodes if "lora" in node.name]
    assert len(modules) == 24
    assert {each["pkg.whence.module"] for each in modules} == {f"layers.{i}.{part}" for i in range(2) for part in ("query", "value")}
    assert {each["pkg.whence.confidence"] for each in modules} == {"ancestor"}
    assert len({node.name for node in nodes}) == len(nodes)


def test_an_adapter_of_joined_weights_is_refused_by_name(files_of, tmp_path):
    """The operator of a runtime reads the weights of query, key and value as one tensor."""
    old = files_of("text")
    model = onnx.load(old.export("dynamo"))
    joined = torch.cat([old.model.get_submodule(f"layers.0.{part}").weight for part in ("query", "key")]).detach().numpy()
    model.graph.initializer.append(onnx.numpy_helper.from_array(joined, "joined"))
    model.graph.node.append(onnx.helper.make_node("Identity", ["joined"], ["unread"]))
    onnx.save(model, tmp_path / "joined.onnx")
    adapter = write_adapter(tmp_path / "adapter", factors_of(3))
    result = run("refit", tmp_path / "joined.onnx", "--base", old.weights, "--sidecar", old.sidecar, "--lora", adapter,
                 "--lora-as-inputs", "-o", tmp_path / "new.onnx", code=3)
    assert "layers.0.query.weight" in result.stderr and "joined" in result.stderr
    assert not (tmp_path / "new.onnx").exists()


def test_inputs_need_an_adapter(files_of):
    old = files_of("text")
    result = run("refit", old.export("dynamo"), "--base", old.weights, "--weights", old.weights, "--lora-as-inputs", code=2)
    assert "--lora" in result.stderr
