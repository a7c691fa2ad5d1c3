"""`whence export` on the model zoo: valid files, results equal to PyTorch's, sizes close to PyTorch's exporters."""

import functools

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import command
from models import baselines, zoo

onnxruntime.set_default_logger_severity(3)
SHAPES = ["static", "dynamic"]
pytestmark = [pytest.mark.parametrize("name", zoo.MODELS), pytest.mark.parametrize("shape", SHAPES)]


@functools.cache
def exported_file(name: str, shape: str) -> str:
    path = zoo.folder() / f"{name}.{shape}.onnx"
    dynamic = zoo.MODELS[name].dynamic_options() if shape == "dynamic" else []
    command.run("export", zoo.trace(name), "-o", path, "--inputs", zoo.inputs_file(name), *dynamic)
    return str(path)


@functools.cache
def load_exported(name: str, shape: str) -> onnx.ModelProto:
    return onnx.load(exported_file(name, shape))


@functools.cache
def model(name: str) -> torch.nn.Module:
    return zoo.MODELS[name].model()


@functools.cache
def expected(name: str, size: str) -> list[tuple]:
    """Returns (PyTorch's float32 result, its largest difference from the float64 result) for each output."""
    entry = zoo.MODELS[name]
    inputs = entry.inputs(getattr(entry, size))
    float64_inputs = {key: value.double() if value.is_floating_point() else value for key, value in inputs.items()}
    results = zip(zoo.run(model(name), inputs), zoo.run(entry.model().double(), float64_inputs), strict=True)
    return [(result.numpy(), float((result - truth).abs().max())) for result, truth in results]


def assert_equals_pytorch(name: str, shape: str, size: str) -> None:
    """Compares within float32 tolerances plus PyTorch's own rounding error on this model: with random weights,
    rounding in ResNet-50's fifty layers changes outputs of about 3.5 by 2e-4 in every runtime."""
    entry = zoo.MODELS[name]
    session = onnxruntime.InferenceSession(exported_file(name, shape), providers=["CPUExecutionProvider"])
    results = session.run(None, {key: value.numpy() for key, value in entry.inputs(getattr(entry, size)).items()})
    for actual, (reference, rounding) in zip(results, expected(name, size), strict=True):
        assert actual.dtype == reference.dtype and actual.shape == reference.shape
        scale = max(1.0, float(np.abs(reference).max()))
        np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-5 * scale + 3 * rounding)


def test_passes_the_full_checker(name, shape):
    onnx.checker.check_model(exported_file(name, shape), full_check=True)
    onnx.shape_inference.infer_shapes(load_exported(name, shape), check_type=True, strict_mode=True, data_prop=True)


def test_defaults_are_opset_20_and_ir_10(name, shape):
    proto = load_exported(name, shape)
    assert [(entry.domain, entry.version) for entry in proto.opset_import if entry.domain == ""] == [("", 20)]
    assert proto.ir_version >= 10


def test_inputs_have_the_argument_names_of_forward(name, shape):
    entry = zoo.MODELS[name]
    assert [value.name for value in load_exported(name, shape).graph.input] == list(entry.inputs(entry.first))


def test_input_shapes_are_as_requested(name, shape):
    entry = zoo.MODELS[name]
    example = entry.inputs(entry.first)
    for value in load_exported(name, shape).graph.input:
        shape_in_file = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        requested = list(example[value.name].shape)
        if shape == "dynamic":
            for axis, symbol in entry.dynamic[value.name].items():
                requested[axis] = symbol
        assert shape_in_file == requested


def test_results_equal_pytorch_at_the_example_size(name, shape):
    assert_equals_pytorch(name, shape, "first")


def test_results_at_another_size_equal_pytorch_or_are_refused(name, shape):
    if shape == "dynamic":
        assert_equals_pytorch(name, shape, "second")
    else:
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="dimensions"):
            assert_equals_pytorch(name, shape, "second")


def test_node_count_is_close_to_the_best_exporter(name, shape):
    node_count = baselines.count_nodes(load_exported(name, shape).graph)
    best = min(count for count in baselines.read_table()["nodes"][name][shape].values() if count is not None)
    assert node_count <= 1.1 * best


def test_weights_are_stored_once(name, shape):
    """Tied weights stay tied and have no transposed or cast copy, so the file is no larger than the model."""
    stored = sum(initializer.ByteSize() for initializer in load_exported(name, shape).graph.initializer)
    size = sum(tensor.numel() * tensor.element_size() for tensor in [*model(name).parameters(), *model(name).buffers()])
    small = 64 * 1024  # names, shape constants, masks
    assert stored <= size + small


def test_weights_have_parameter_names(name, shape):
    """Every initializer with the size of a weight is named after its parameter, with a suffix if it was transformed."""
    names = [key for key, _ in [*model(name).named_parameters(remove_duplicate=False),
                                *model(name).named_buffers(remove_duplicate=False)]]
    sizes = {tensor.numel() for tensor in model(name).parameters()}
    initializers = load_exported(name, shape).graph.initializer
    assert len({initializer.name for initializer in initializers}) == len(initializers)
    for initializer in initializers:
        if len(initializer.dims) < 2 or int(np.prod(initializer.dims)) not in sizes:
            continue
        assert any(initializer.name == key or initializer.name.startswith(key) for key in names), initializer.name


def test_all_constants_are_folded(name, shape):
    """Lookups in a parameter are not folded: a position embedding keeps its node, its name and its complete table."""
    graph = load_exported(name, shape).graph
    parameters = {key for key, _ in model(name).named_parameters(remove_duplicate=False)}
    constants = {initializer.name for initializer in graph.initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    assert [node.name for node in graph.node if node.op_type == "Identity"] == []
    unfolded = [node.name for node in graph.node
                if node.op_type != "Constant" and node.input and all(entry in constants for entry in node.input)
                and not (node.op_type == "Gather" and node.input[0] in parameters)]
    assert unfolded == [], "all inputs of these nodes are constant"


def test_names_are_unique_and_set(name, shape):
    names = [node.name for node in load_exported(name, shape).graph.node]
    assert all(names) and len(set(names)) == len(names)
    values = [output for node in load_exported(name, shape).graph.node for output in node.output if output]
    assert len(set(values)) == len(values)


def test_every_node_is_stamped(name, shape):
    keys = [{entry.key for entry in node.metadata_props} for node in load_exported(name, shape).graph.node]
    assert all("pkg.whence.op" in present for present in keys)
