"""`whence.share_weights`: models in one folder share a file that stores equal weights once."""

import numpy as np
import onnx
import onnxruntime
import pytest
import whence
from onnx import TensorProto, helper, numpy_helper


def save_sum(path, **weights):
    """Saves a model that adds each weight to x, in order."""
    nodes, last = [], "x"
    for name in weights:
        nodes.append(helper.make_node("Add", [last, name], [f"after_{name}"]))
        last = f"after_{name}"
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    row = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1000])
    graph = helper.make_graph(nodes, "sums", [row], [helper.make_tensor_value_info(last, TensorProto.FLOAT, [1000])],
                              tensors)
    onnx.save_model(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), str(path))
    return path


def weight(seed):
    return np.random.default_rng(seed).standard_normal(1000, np.float32)


def run_model(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(
        None, {"x": np.ones(1000, np.float32)})[0]


@pytest.fixture
def models(tmp_path):
    return [save_sum(tmp_path / "a.onnx", w=weight(0), v=weight(1)),
            save_sum(tmp_path / "b.onnx", u=weight(0), t=weight(2))]


def test_equal_weights_of_two_models_are_stored_once(models):
    expected = [run_model(path) for path in models]
    shared = whence.share_weights(models, "w.data")
    assert shared.shared == ("w",) and shared.saved == 4000 and shared.unused == ()
    assert shared.path == models[0].parent / "w.data" and 12000 <= shared.bytes < 12200
    for path, result in zip(models, expected, strict=True):
        assert np.array_equal(run_model(path), result)


def test_models_with_external_data(models):
    for path in models:
        onnx.save_model(onnx.load(str(path)), str(path), save_as_external_data=True, location=path.name + ".data")
    expected = [run_model(path) for path in models]
    shared = whence.share_weights(models, "w.data")
    assert [path.name for path in shared.unused] == ["a.onnx.data", "b.onnx.data"] and shared.unused[0].exists()
    again = whence.share_weights(models, "w.data")  # the shared file may be replaced
    assert again.bytes == shared.bytes and not again.unused
    for path, result in zip(models, expected, strict=True):
        assert np.array_equal(run_model(path), result)


def contents(models):
    return {path: path.read_bytes() for path in models[0].parent.iterdir()}


@pytest.mark.parametrize("change, code", [
    (lambda models: (models, "w.data"), "E0401"),
    (lambda models: (models, "a.onnx"), "E0101"),
    (lambda models: (models, "../w.data"), "E0101"),
    (lambda models: ([models[0], models[0]], "v.data"), "E0101"),
    (lambda models: ([models[0], models[0].parent / "link.onnx"], "v.data"), "E0101"),
    (lambda models: (str(models[0]), "v.data"), "E0101"),
    (lambda models: (None, "v.data"), "E0101"),
    (lambda models: ([1, 2], "v.data"), "E0101"),
    (lambda models: (models, None), "E0101"),
    (lambda models: (models, "v\0.data"), "E0101"),
    (lambda models: (models, "v" * 300), "E0101"),
    (lambda models: ([models[0], models[0].parent / "empty.onnx"], "v.data"), "E0204"),
    (lambda models: ([models[0], models[0].parent / "none.onnx"], "v.data"), "E0102"),
    (lambda models: ([models[0], models[0].parent / "w.data"], "v.data"), "E0204"),
    (lambda models: ([models[0], models[0].parent / "outside.onnx"], "v.data"), "E0502"),
    (lambda models: ([models[0], models[0].parent / "short.onnx"], "v.data"), "E0102"),
], ids=["existing-file", "a-model", "elsewhere", "twice", "by-a-link", "single-string", "not-a-list", "numbers",
        "no-name", "null-byte", "long-name", "empty", "missing", "not-a-model", "outside", "truncated"])
def test_refusals_change_no_file(models, change, code):
    folder = models[0].parent
    (folder / "w.data").write_bytes(b"\xffsomething else")
    for name, location in (("outside.onnx", "../secret"), ("short.onnx", "w.data")):
        model = onnx.load(str(models[0]))
        onnx.external_data_helper.set_external_data(model.graph.initializer[0], location, offset=0, length=4000)
        model.graph.initializer[0].ClearField("raw_data")
        (folder / name).write_bytes(model.SerializeToString())
    (folder / "empty.onnx").touch()
    (folder / "link.onnx").symlink_to(models[0])
    original = contents(models)
    with pytest.raises(whence.WhenceError) as raised:
        whence.share_weights(*change(models))
    assert raised.value.code == code and raised.value.remedy
    assert contents(models) == original


def test_weights_read_by_another_model_are_not_replaced(models):
    third = save_sum(models[0].parent / "c.onnx", s=weight(3))
    whence.share_weights([*models, third], "w.data")
    original = contents(models)
    with pytest.raises(whence.WhenceError, match="c.onnx also reads its weights") as raised:
        whence.share_weights(models, "w.data")
    assert raised.value.code == "E0401" and "c.onnx" in raised.value.remedy
    assert contents(models) == original
    assert whence.share_weights([*models, third], "w.data").bytes  # allowed, because no other model reads the file
    assert whence.share_weights(models, "v.data").unused == (third.parent / "w.data",)
    assert np.array_equal(run_model(third), 1 + weight(3))


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.BFLOAT16, TensorProto.UINT4, TensorProto.BOOL])
def test_weights_in_typed_fields(dtype, tmp_path):
    """onnx.helper.make_tensor stores numbers in typed fields, not in raw_data."""
    tensor = helper.make_tensor("w", dtype, [4001], np.arange(4001) % 2)
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [],
                              [helper.make_tensor_value_info("y", dtype, [4001])], [tensor])
    onnx.save_model(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]),
                    str(tmp_path / "a.onnx"))
    shared = whence.share_weights([tmp_path / "a.onnx"], "w.data")
    initializer = onnx.load(str(tmp_path / "a.onnx")).graph.initializer[0]
    assert shared.bytes >= 2001 and np.array_equal(numpy_helper.to_array(initializer).astype(int), np.arange(4001) % 2)
