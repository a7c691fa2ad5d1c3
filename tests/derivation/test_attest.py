"""whence attest: honest files are accounted for, changed ones are found."""

import hashlib
import json
import re
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
import whence
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat, quantize_static

import small_models as models
from command import run

EXPORTERS = ("dynamo", "torchscript")


def attest(path, files, *options, code=0, with_program=True):
    program = ["--sidecar", files.sidecar] if with_program else []
    return json.loads(run("attest", path, "--weights", files.weights, *program, "--json", *options, code=code).stdout)


def unaccounted(statement):
    predicate = statement["predicate"]
    return ([tensor["name"] for tensor in predicate["tensors"] if tensor["verdict"] == "unaccounted"],
            [node["name"] for node in predicate["nodes"] if node["verdict"] == "unaccounted"])


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize("name", ["images", "text", "series"])
def test_exports_are_accounted_for(files_of, name, exporter):
    files = files_of(name)
    statement = attest(files.export(exporter), files)
    totals = statement["predicate"]["totals"]
    assert totals["tensors"]["unaccounted"] == totals["nodes"]["unaccounted"] == 0
    known = totals["bytes"]["exact"] + totals["bytes"]["bounded"]
    assert known > 0.9 * sum(totals["bytes"].values())


@pytest.mark.parametrize("tool", [tool for tool in models.TOOLS if tool != "static_operators"])
@pytest.mark.parametrize("name", ["images", "text", "series"])
def test_files_of_tools_are_accounted_for(files_of, name, tool):
    files = files_of(name)
    assert unaccounted(attest(files.tool("dynamo", tool), files)) == ([], [])


@pytest.mark.parametrize("name", ["images", "text", "series"])
def test_weights_of_quantised_operators_are_accounted_for(files_of, name):
    files = files_of(name)
    # Some additions of biases between integers correspond to no operation, so the exit code is 1 for some models.
    statement = attest(files.tool("dynamo", "static_operators"), files, code=None)
    assert unaccounted(statement)[0] == []


def test_whence_exports_are_accounted_for(files_of, tmp_path):
    import whence
    files = files_of("text")
    whence.export(files.model, models.inputs_of("text"), tmp_path / "text.onnx")
    assert unaccounted(attest(tmp_path / "text.onnx", files)) == ([], [])


def test_a_checkpoint_in_16_bits_is_the_source_of_a_file_in_32(files_of, tmp_path):
    files = files_of("text")
    half = models.model_of("text").bfloat16()
    models.save_weights(half, tmp_path / "half.safetensors")
    models.export(half.float(), "text", "dynamo", tmp_path / "wide.onnx")
    statement = json.loads(run("attest", tmp_path / "wide.onnx", "--weights", tmp_path / "half.safetensors", "--sidecar",
                               files.sidecar, "--json").stdout)
    assert unaccounted(statement) == ([], [])


# ---- changed files

def edited(source, target, name, edit):
    """Copies a file with one initializer edited: `edit` changes a flat array in place."""
    model = onnx.load(source)
    for tensor in model.graph.initializer:
        if tensor.name == name:
            numbers = numpy_helper.to_array(tensor).copy()
            edit(numbers.reshape(-1))
            tensor.CopyFrom(numpy_helper.from_array(numbers, name))
    onnx.save(model, target)
    return target


def largest(source, dtype, but=()):
    """Returns the name of the largest matrix of a dtype."""
    matrices = {name: numbers for name, numbers in models.numbers_of(source).items()
                if numbers.ndim > 1 and numbers.dtype == dtype and name not in but}
    return max(matrices, key=lambda name: matrices[name].size)


def next_number(numbers):
    numbers[5] = np.nextafter(numbers[5], np.float32(9))


def flip_a_hundredth(numbers):
    chosen = np.random.default_rng(0).choice(numbers.size, numbers.size // 100, replace=False)
    numbers[chosen] = np.where(numbers[chosen] > 0, numbers[chosen] - 1, numbers[chosen] + 1)


def test_one_element_changed_by_an_ulp_is_found(files_of, tmp_path):
    files = files_of("text")
    source = files.export("dynamo")
    name = largest(source, np.float32, but=("words.weight", "head.weight"))
    changed = edited(source, tmp_path / "changed.onnx", name, next_number)
    assert unaccounted(attest(changed, files, code=1)) == ([name], [])


@pytest.mark.parametrize("tool, dtype", [("dynamic", np.int8), ("blocks_of_4_asymmetric", np.uint8)])
def test_flipped_roundings_are_found(files_of, tmp_path, tool, dtype):
    files = files_of("text")
    source = files.tool("dynamo", tool)
    name = largest(source, dtype)
    changed = edited(source, tmp_path / "changed.onnx", name, flip_a_hundredth)
    statement = attest(changed, files, code=1)
    assert name in unaccounted(statement)[0]
    [remark] = [tensor["remark"] for tensor in statement["predicate"]["tensors"] if tensor["name"] == name]
    count = models.numbers_of(source)[name].size * (2 if tool.startswith("blocks") else 1)
    assert re.search(rf"within (one step|two steps) of .*: \d+ of {count} integers are not the nearest ones", remark)


def test_a_changed_scale_is_found(files_of, tmp_path):
    files = files_of("text")
    source = files.tool("dynamo", "blocks_of_4")
    name = next(name for name in models.numbers_of(source) if name.endswith("_scales"))
    changed = edited(source, tmp_path / "changed.onnx", name, next_number)
    statement = attest(changed, files, code=1)
    assert name in unaccounted(statement)[0]
    [row] = [row for row in statement["predicate"]["tensors"] if row["name"] == name]
    assert row["modules"] and row["modules"][0].startswith("layers.")


def test_a_changed_bias_of_integers_is_found(files_of, tmp_path):
    """A short list of integers that a DequantizeLinear reads is not a list of sizes."""
    files = files_of("text")
    source = files.tool("dynamo", "static")
    name = next(name for name, numbers in models.numbers_of(source).items() if name.endswith("norm.bias_quantized") and numbers.dtype == np.int32)
    changed = edited(source, tmp_path / "changed.onnx", name, lambda numbers: np.copyto(numbers, numbers[::-1].copy()))
    assert name in unaccounted(attest(changed, files, code=1))[0]


@pytest.mark.parametrize("scale", [np.nan, -0.1, 0])  # the range of a mask with infinite numbers is infinite
def test_a_scale_that_nobody_measured_is_found(files_of, tmp_path, scale):
    files = files_of("text")
    source = files.tool("dynamo", "static")
    statement = attest(source, files)
    name = next(row["name"] for row in statement["predicate"]["tensors"] if row["verdict"] == "calibrated" and row["dtype"] == "float32")
    changed = edited(source, tmp_path / "changed.onnx", name, lambda numbers: numbers.fill(scale))
    assert name in unaccounted(attest(changed, files, code=1))[0]


def test_a_row_of_an_embedding_that_replaces_another_is_found(files_of, tmp_path):
    files = files_of("text")
    source = files.export("dynamo")
    name = next(name for name, numbers in models.numbers_of(source).items() if numbers.shape == (100, 32))

    def copy_row(numbers):
        numbers[3 * 32:4 * 32] = numbers[7 * 32:8 * 32]

    assert unaccounted(attest(edited(source, tmp_path / "changed.onnx", name, copy_row), files, code=1)) == ([name], [])


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_exchanged_layers_are_found(files_of, tmp_path, exporter):
    files = files_of("text")
    model = onnx.load(files.export(exporter))
    pair = [tensor for tensor in model.graph.initializer if list(tensor.dims) in ([32, 128], [128, 32])][:4]
    same = [tensor for tensor in pair if tensor.dims == pair[0].dims]
    same[0].raw_data, same[-1].raw_data = same[-1].raw_data, same[0].raw_data
    onnx.save(model, tmp_path / "changed.onnx")
    tensors, nodes = unaccounted(attest(tmp_path / "changed.onnx", files, code=1))
    assert tensors or nodes


def test_an_added_branch_is_found(files_of, tmp_path):
    files = files_of("text")
    model = onnx.load(files.export("dynamo"))
    graph = model.graph
    at, add = next((i, node) for i, node in enumerate(graph.node) if node.op_type == "Add" and i > len(graph.node) // 2)
    result = add.output[0]
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == result:
                node.input[i] = "branched"
    graph.initializer.append(numpy_helper.from_array(np.random.default_rng(0).normal(size=32).astype(np.float32), "trigger"))
    graph.node.insert(at + 1, helper.make_node("Mul", [result, "trigger"], ["scaled"], "scaled"))
    graph.node.insert(at + 2, helper.make_node("Add", [result, "scaled"], ["branched"], "branched"))
    onnx.save(model, tmp_path / "changed.onnx")
    tensors, nodes = unaccounted(attest(tmp_path / "changed.onnx", files, code=1))
    assert tensors == ["trigger"]
    assert nodes


# ---- the statement

def test_without_a_program_no_node_is_accounted_for(files_of):
    files = files_of("images")
    statement = attest(files.export("dynamo"), files, code=1, with_program=False)
    assert {node["verdict"] for node in statement["predicate"]["nodes"]} == {"unaccounted"}


def test_the_statement_names_all_files_by_sha256(files_of, tmp_path):
    files = files_of("images")
    path = files.export("dynamo")
    statement = attest(path, files, "-o", tmp_path / "statement.json", "--bom", tmp_path / "bom.json")
    assert json.loads((tmp_path / "statement.json").read_text())["subject"] == statement["subject"]
    digests = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (path, files.weights, files.sidecar)}
    named = {each["name"]: each["digest"]["sha256"] for each in statement["subject"] + statement["predicate"]["sources"]}
    assert named == digests
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    bom = json.loads((tmp_path / "bom.json").read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.6")
    component = bom["metadata"]["component"]
    assert component["type"] == "machine-learning-model"
    assert component["hashes"] == [{"alg": "SHA-256", "content": digests[path.name]}]
    references = {each["bom-ref"] for each in [component, *bom["components"]]}
    assert {each["ref"] for each in bom["dependencies"]} == references


@pytest.mark.parametrize("options, code, label", [
    ([], 2, "E0101"), (["--weights", "missing.safetensors"], 2, "E0102")])
def test_wrong_options(files_of, options, code, label):
    assert label in run("attest", files_of("images").export("dynamo"), *options, code=code).stderr


@pytest.mark.parametrize("attributes", [{"K": -5}, {"N": 1 << 40}, {"block_size": 0}, {"block_size": -32}, {"bits": 3}])
def test_attributes_of_a_hostile_file_are_no_defect(files_of, tmp_path, attributes):
    files = files_of("text")
    model = onnx.load(files.tool("dynamo", "blocks_of_4"))
    node = next(node for node in model.graph.node if node.op_type == "MatMulNBits")
    for attribute in node.attribute:
        attribute.i = attributes.get(attribute.name, attribute.i)
    onnx.save(model, tmp_path / "hostile.onnx")
    assert node.input[1] in unaccounted(attest(tmp_path / "hostile.onnx", files, code=1, with_program=False))[0]


def test_a_tensor_with_too_few_bytes_is_called_corrupt(files_of, tmp_path):
    files = files_of("images")
    model = onnx.load(files.tool("dynamo", "ort_all"))
    tensor = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.raw_data = tensor.raw_data[:-8]
    onnx.save(model, tmp_path / "short.onnx")
    assert "E0204" in run("attest", tmp_path / "short.onnx", "--weights", files.weights, code=3).stderr


def test_a_tensor_with_values_in_two_fields_is_called_corrupt(files_of, tmp_path):
    """Readers take one of the fields, and not all the same one."""
    files = files_of("images")
    model = onnx.load(files.tool("dynamo", "ort_all"))
    tensor = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    tensor.float_data.extend(2 * numpy_helper.to_array(tensor).reshape(-1))
    onnx.save(model, tmp_path / "two.onnx")
    assert "states its values in two fields" in run("attest", tmp_path / "two.onnx", "--weights", files.weights, code=3).stderr


def test_an_output_never_replaces_an_input(files_of):
    files = files_of("images")
    before = files.weights.read_bytes()
    result = run("attest", files.export("dynamo"), "--weights", files.weights, "-o", files.weights, code=2)
    assert "E0101" in result.stderr
    assert files.weights.read_bytes() == before


# ---- changes of the graph and of the order of elements

def in_rows(source, target, shape, order):
    """Copies a file with the rows of its first matrix of these sizes in another order."""
    name = next(name for name, numbers in models.numbers_of(source).items() if numbers.shape == shape)

    def reorder(numbers):
        matrix = numbers.reshape(shape)
        matrix[:] = matrix[order(shape[0])]

    return name, edited(source, target, name, reorder)


@pytest.mark.parametrize("order", [lambda n: np.arange(n)[::-1], lambda n: np.roll(np.arange(n), n // 2),
                                   lambda n: np.r_[0:n:2, 1:n:2]], ids=["reversed", "rolled", "interleaved"])
@pytest.mark.parametrize("shape", [(100, 32), (32, 128)])
def test_elements_in_another_order_are_found(files_of, tmp_path, shape, order):
    files = files_of("text")
    name, changed = in_rows(files.export("dynamo"), tmp_path / "changed.onnx", shape, order)
    statement = attest(changed, files, code=1)
    assert name in unaccounted(statement)[0]
    assert "in another order" in next(row["remark"] for row in statement["predicate"]["tensors"] if row["name"] == name)


def changed_graph(source, target, change):
    model = onnx.load(source)
    change(model)
    onnx.save(model, target)
    return target


def replace_operator(old, new):
    def change(model):
        node = next(node for node in model.graph.node if node.op_type == old)
        node.op_type = new
        del node.attribute[:]
    return change


@pytest.mark.parametrize("name, old, new", [("images", "Relu", "Elu"), ("images", "Relu", "Sigmoid"), ("text", "Softmax", "Hardmax"),
                                            ("text", "Gelu", "Relu")])
def test_an_operator_of_another_kind_is_found(files_of, tmp_path, name, old, new):
    files = files_of(name)
    source = files.export("dynamo")
    node = next(node for node in onnx.load(source).graph.node if node.op_type == old)
    changed = changed_graph(source, tmp_path / "changed.onnx", replace_operator(old, new))
    statement = attest(changed, files, code=1)
    assert node.name in unaccounted(statement)[1]
    assert all(row["modules"] for row in statement["predicate"]["nodes"] if row["verdict"] == "unaccounted")


def test_a_local_function_is_not_believed_by_its_name(files_of, tmp_path):
    files = files_of("images")

    def define(model):
        node = next(node for node in model.graph.node if node.op_type == "Relu")
        node.domain = "custom"
        model.functions.append(helper.make_function("custom", "Relu", ["x"], ["y"], [helper.make_node("Sigmoid", ["x"], ["y"])],
                                                    list(model.opset_import)))
        model.opset_import.append(helper.make_opsetid("custom", 1))

    changed = changed_graph(files.export("dynamo"), tmp_path / "changed.onnx", define)
    assert len(unaccounted(attest(changed, files, code=1))[1]) == 1


def test_a_condition_that_negates_a_weight_is_found(files_of, tmp_path):
    files = files_of("text")
    source = files.export("dynamo")
    name = largest(source, np.float32)

    def add_branch(model):
        branch = [helper.make_graph([helper.make_node(op, [name], ["out_" + op])], op, [],
                                    [helper.make_tensor_value_info("out_" + op, 1, None)]) for op in ("Neg", "Identity")]
        ids = model.graph.input[0].name
        model.graph.initializer.append(numpy_helper.from_array(np.array(95, np.int64), "trigger"))
        nodes = [helper.make_node("ReduceMax", [ids], ["largest_id"], keepdims=0),
                 helper.make_node("Equal", ["largest_id", "trigger"], ["triggered"]),
                 helper.make_node("If", ["triggered"], ["chosen"], then_branch=branch[0], else_branch=branch[1])]
        for node in model.graph.node:
            for i, value in enumerate(node.input):
                if value == name:
                    node.input[i] = "chosen"
        for node in reversed(nodes):
            model.graph.node.insert(0, node)

    changed = changed_graph(source, tmp_path / "changed.onnx", add_branch)
    rows = attest(changed, files, code=1)["predicate"]["nodes"]
    assert "If" in {row["op_type"] for row in rows if row["verdict"] == "unaccounted"}


def test_numbers_outside_of_tensors_are_found(files_of, tmp_path):
    files = files_of("series")

    def replace(model):
        bias = next(tensor for tensor in model.graph.initializer if tensor.dims == [5])
        model.graph.initializer.remove(bias)
        model.graph.node.insert(0, helper.make_node("Constant", [], [bias.name], name="hidden", value_floats=[1.0, 2.0, 3.0, 4.0, 5.0]))

    changed = changed_graph(files.export("dynamo"), tmp_path / "changed.onnx", replace)
    assert "hidden" in unaccounted(attest(changed, files, code=1))[1]


class WithFactor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.factor = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.tensor(0.37))

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.factor


@pytest.mark.parametrize("quant_format", ["QDQ", "QOperator"])
def test_a_quantised_factor_of_one_element_is_accounted_for(tmp_path, quant_format):
    model, x = WithFactor().eval(), torch.randn(4, 8)
    models.save_weights(model, tmp_path / "model.safetensors")
    with whence.record(tmp_path / "model.whence.json"):
        torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=True, external_data=False, verbose=False)
    feeds = iter([{"x": x.numpy()}])
    quantize_static(tmp_path / "model.onnx", tmp_path / "static.onnx", SimpleNamespace(get_next=lambda: next(feeds, None)),
                    quant_format=QuantFormat[quant_format])
    done = run("attest", tmp_path / "static.onnx", "--weights", tmp_path / "model.safetensors", "--sidecar",
               tmp_path / "model.whence.json", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)["predicate"]["tensors"]}
    assert any(row.get("from", "").endswith("(factor)") for row in rows.values())


def test_zeros_of_another_parameter_are_no_scale_of_a_norm(files_of, tmp_path):
    """A new model has biases of zeros: these bytes are known, but not as the scale of a norm."""
    files = files_of("text")
    source = files.export("dynamo")
    tensors = {key: value.clone() for key, value in files.model.state_dict().items()}
    name = next(name for name in tensors if name.endswith("norm.bias"))
    tensors[name] *= 0
    weights = SimpleNamespace(weights=tmp_path / "new.safetensors", sidecar=files.sidecar)
    models.save_file(tensors, weights.weights)
    zeroed = edited(source, tmp_path / "zero_bias.onnx", name, lambda numbers: numbers.fill(0))
    assert unaccounted(attest(zeroed, weights)) == ([], [])
    scale = name.removesuffix("bias") + "weight"
    changed = edited(zeroed, tmp_path / "changed.onnx", scale, lambda numbers: numbers.fill(0))
    assert scale in unaccounted(attest(changed, weights, code=1))[0]


def test_a_tensor_that_a_caller_may_replace_gets_a_remark(files_of, tmp_path):
    """An initializer that is an input as well is only the default of that input."""
    files = files_of("text")
    model = onnx.load(files.export("dynamo"))
    tensor = next(each for each in model.graph.initializer if each.name == "layers.0.query.bias")
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.save(model, tmp_path / "replaceable.onnx")
    result = run("attest", tmp_path / "replaceable.onnx", "--weights", files.weights, "--sidecar", files.sidecar, "--json")
    assert "1 tensor is the default of an input" in result.stdout
    rows = {row["name"]: row for row in json.loads(result.stdout)["predicate"]["tensors"]}
    assert rows[tensor.name]["verdict"] == "exact"
    assert [name for name, row in rows.items() if row.get("remark") == "the default of an input"] == [tensor.name]
