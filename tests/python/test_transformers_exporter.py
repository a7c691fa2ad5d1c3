"""`whence.exporters.transformers.OnnxExporter`: transformers' exporter with an origin on every node."""

import ast
import copy
import json
import os
import subprocess
import sys
import warnings

import onnx_ir
import onnxruntime
import pytest
import torch

import command
import whence

pytestmark = pytest.mark.usefixtures("quiet")

transformers = pytest.importorskip("transformers")
exporters = pytest.importorskip("transformers.exporters")


def language_model() -> tuple:
    """Returns a Llama with grouped heads, and inputs with a cache of six tokens."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      intermediate_size=128, vocab_size=100, max_position_embeddings=64)
    model = transformers.LlamaForCausalLM(config).eval()
    return model, inputs_with_cache(model, batch=2, past=6, new=3)


def inputs_with_cache(model, batch: int, past: int, new: int) -> dict:
    tokens = torch.randint(0, 100, (batch, past + new))
    with torch.no_grad():
        cache = model(tokens[:, :past]).past_key_values
    return {"input_ids": tokens[:, past:], "attention_mask": torch.ones(batch, past + new, dtype=torch.int64),
            "past_key_values": cache}


def prompt_model() -> tuple:
    """Returns the same Llama without a cache in its inputs, which is in the results only."""
    model, _ = language_model()
    return model, {"input_ids": torch.randint(0, 100, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}


def encoder() -> tuple:
    torch.manual_seed(0)
    config = transformers.BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                     vocab_size=100, max_position_embeddings=64)
    return transformers.BertModel(config).eval(), {"input_ids": torch.randint(0, 100, (2, 7)),
                                                   "attention_mask": torch.ones(2, 7, dtype=torch.int64)}


MODELS = {"language model": language_model, "prompt": prompt_model, "encoder": encoder}
ATTENTIONS = {"GroupQueryAttention", "MultiHeadAttention"}


def exported(case: str, fusions: str | None):
    from whence.exporters.transformers import OnnxExporter

    model, inputs = MODELS[case]()
    return model, OnnxExporter().export(model, inputs, config=exporters.OnnxConfig(dynamic=True, ort_fusions=fusions))


def keys(node: onnx_ir.Node) -> dict[str, str]:
    return {key.removeprefix("pkg.whence."): value for key, value in node.metadata_props.items() if key.startswith("pkg.whence.")}


def is_size_of_input(node: onnx_ir.Node) -> bool:
    """True for the nodes at the start of PyTorch's graph that read the sizes of the inputs outside of any module."""
    source = node.inputs[0].producer() if node.inputs else None
    return node.op_type == "Shape" or node.op_type == "Squeeze" and source is not None and source.op_type == "Shape"


# fusions, and how many attention operators and packed products there are
@pytest.mark.parametrize("case, fusions, attentions, packed", [
    ("language model", None, 0, 0), ("language model", "cuda", 2, 2), ("prompt", "cpu", 2, 2), ("prompt", "webgpu", 2, 2),
    ("encoder", "cpu", 0, 2), ("encoder", "dml", 2, 2)])
def test_every_node_has_an_origin(case, fusions, attentions, packed):
    model, result = exported(case, fusions)
    names = {name for name, _ in model.named_modules()}
    nodes = list(result.program.graph.all_nodes())
    assert all(keys(node)["module"] in names for node in nodes)
    assert all(keys(node)["confidence"] in ("matched", "inferred") for node in nodes if not is_size_of_input(node))
    primary = [keys(node).get("primary", keys(node)["module"]) for node in nodes if node.op_type in ATTENTIONS]
    layer = "encoder.layer.{}.attention.self" if case == "encoder" else "model.layers.{}.self_attn"
    assert primary == [layer.format(number) for number in range(2)][:attentions]
    projections = ("query", "key", "value") if case == "encoder" else ("q_proj", "k_proj", "v_proj")
    products = [node for node in nodes if node.op_type in ("MatMul", "Gemm")
                and sum(each in keys(node).get("modules", "") for each in projections) == 3]
    assert [keys(node)["primary"] for node in products] == [layer.format(number) for number in range(2)][:packed]
    for number, node in enumerate(products):
        assert {f"{layer.format(number)}.{each}" for each in projections} <= set(json.loads(keys(node)["modules"]))


def gpt2() -> tuple:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, n_positions=64)
    model = transformers.GPT2LMHeadModel(config).eval()
    return model, inputs_with_cache(model, batch=2, past=6, new=3)


@pytest.mark.parametrize("make", [language_model, gpt2])
def test_a_size_belongs_around_its_readers(make):
    """The recording has one node for a size that several modules read. The last of them, such as `lm_head`, does not
    compute the size of an input for the others. PyTorch states the modules of the readers."""
    from whence.exporters.transformers import OnnxExporter

    model, inputs = make()
    nodes = list(OnnxExporter().export(model, inputs, config=exporters.OnnxConfig(dynamic=True)).program.graph)
    sizes = [node for node in nodes if node.op_type == "Squeeze" and is_size_of_input(node)]
    assert len(sizes) > 2
    for node in sizes:
        module = keys(node).get("primary", keys(node)["module"])
        readers = {stated_module(use.node) for use in node.outputs[0].uses()} - {None}
        assert readers and all(f"{reader}.".startswith(f"{module}." if module else "") for reader in readers), node.name


def stated_module(node: onnx_ir.Node) -> str | None:
    """Returns the module that PyTorch's exporter states for the node."""
    scopes = [scope for scope in ast.literal_eval(node.metadata_props.get("pkg.torch.onnx.name_scopes", "[]"))[:-1]
              if not scope.startswith("_empty")]
    return scopes[-1] if scopes else None


def test_saved_files_and_numbers(tmp_path):
    """The file has PyTorch's results at other sizes, the sidecar is next to it, and transformers loads the folder."""
    model, result = exported("language model", "cpu")
    assert isinstance(result, exporters.ExportedModel) and list(result.sidecars) == ["model"]
    result.save_pretrained(tmp_path / "out")
    report = whence.validate(tmp_path / "out" / "model.onnx", tmp_path / "out" / "model.whence.json")
    sizes = [node for node in result.program.graph if is_size_of_input(node)]
    assert report.coverage.nodes == len(list(result.program.graph)) > 100
    assert report.coverage.nodes - len(sizes) <= report.coverage.covered
    assert {row.path for row in whence.show(tmp_path / "out" / "model.onnx")} >= {"model.layers.1.self_attn.o_proj"}
    loaded = exporters.ExportedModel.from_pretrained(tmp_path / "out")
    inputs = inputs_with_cache(model, batch=3, past=9, new=2)
    with torch.no_grad():
        got = loaded(**with_copied_cache(inputs)).logits
        expected = model(**inputs).logits
    torch.testing.assert_close(torch.as_tensor(got), expected, rtol=1e-3, atol=1e-4)


def image_model() -> tuple:
    """Returns a Swinv2, whose windows fit only images of the example's size; any number of images fits."""
    torch.manual_seed(0)
    config = transformers.Swinv2Config(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2],
                                       window_size=4)
    return transformers.Swinv2Model(config).eval(), {"pixel_values": torch.randn(2, 3, 32, 32)}


def test_warnings_on_sizes_are_true_and_name_the_model():
    from whence.exporters.transformers import OnnxExporter

    model, inputs = image_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", whence.WhenceWarning)
        program = OnnxExporter().export(model, inputs, config=exporters.OnnxConfig(dynamic=True)).program
    messages = [str(each.message) for each in caught if "E0304" in str(each.message)]
    assert messages and all("Swinv2Model" in each and ".pt2" not in each for each in messages)
    assert any("axis 2 of 'pixel_values'" in each for each in messages)
    assert not any("axis 0 of" in each for each in messages)
    session = onnxruntime.InferenceSession(onnx_ir.to_proto(program).SerializeToString())
    images = torch.randn(5, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(session.run(None, {"pixel_values": images.numpy()})[0]),
                                   model(images)[0], rtol=1e-3, atol=1e-4)


def with_copied_cache(inputs: dict) -> dict:
    """Returns the inputs with a copy of the cache, because forward appends to it."""
    return {**inputs, "past_key_values": copy.deepcopy(inputs["past_key_values"])}


def test_only_metadata_and_names_of_nodes_differ_from_transformers():
    model, inputs = encoder()
    config = exporters.OnnxConfig(dynamic=True, ort_fusions="cpu")
    plain = exporters.OnnxExporter().export(model, dict(inputs), config=config).program
    _, result = exported("encoder", "cpu")
    def structure(program):
        return [(node.op_type, node.domain, [value.name for value in node.outputs]) for node in program.graph]
    assert structure(result.program) == structure(plain)


def test_each_stage_of_a_generation_has_its_sidecar(tmp_path):
    from whence.exporters.transformers import OnnxExporter

    model, inputs = prompt_model()
    result = OnnxExporter().export_for_generation(model, inputs, config=exporters.OnnxConfig(dynamic=True))
    assert len(result.components) > 1 and sorted(result.sidecars) == sorted(result.components)
    result.save_pretrained(tmp_path)
    for name, component in result.components.items():
        assert all(keys(node)["confidence"] != "unattributed" for node in component.program.graph.all_nodes())
        assert json.loads((tmp_path / f"{name}.whence.json").read_text()) == json.loads(result.sidecars[name])


def test_quantised_nodes_keep_their_modules():
    from transformers.exporters.quantizers import OnnxRuntimeDynamicConfig, OnnxRuntimeQuantizer
    from whence.exporters.transformers import OnnxExporter

    model, inputs = encoder()
    config = exporters.OnnxConfig(dynamic=True, quantizer=OnnxRuntimeQuantizer(OnnxRuntimeDynamicConfig()))
    program = OnnxExporter().export(model, inputs, config=config).program
    products = [keys(node) for node in program.graph if node.op_type == "MatMulInteger"]
    assert {each["module"] for each in products} >= {f"encoder.layer.{n}.attention.self.{name}"
                                                     for n in range(2) for name in ("query", "key", "value")}
    assert all(keys(node).get("confidence", "unattributed") != "unattributed" for node in program.graph.all_nodes())


@pytest.mark.parametrize("module, package", [("transformers", "transformers"), ("olive", "olive-ai")])
def test_without_the_library_the_error_names_its_package(module, package):
    program = (f"import sys; sys.modules['{module}'] = None\nimport whence\n"
               f"try:\n    import whence.exporters.{module}\nexcept whence.WhenceError as raised:\n    print(raised)")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(command.ROOT / "python")})
    assert done.stdout.startswith("E0307") and f"pip install {package}\n" in done.stdout
