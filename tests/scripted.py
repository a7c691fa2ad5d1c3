"""Scripted models with data-dependent control flow: forward(x, n) with x [6, 4] float32 and n a 0-d int64."""

import numpy as np
import onnx
import onnxruntime
import torch

import command
from results import assert_same_results


def export(model, tmp_path, *options, code=0):
    torch.manual_seed(0)
    archive, path = tmp_path / "m.pt", tmp_path / "m.onnx"
    torch.jit.script(model().eval()).save(str(archive))
    np.savez(tmp_path / "inputs.npz", x=torch.rand(6, 4).numpy(), n=np.array(3))
    completed = command.run("export", archive, "-o", path, "--inputs", tmp_path / "inputs.npz", *options, code=code)
    if code == 0:
        results = onnx.load(path, load_external_data=False).graph.output
        may_be_none = any(result.type.HasField("optional_type") for result in results)  # onnx does not infer it
        onnx.checker.check_model(path, full_check=not may_be_none)
    return path, completed.stderr


def flat(result):
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in flat(value)]
    if isinstance(result, tuple):
        return [leaf for value in result for leaf in flat(value)]
    if isinstance(result, list):
        return [[element.detach().numpy() for element in result]]
    return [result.detach().numpy() if isinstance(result, torch.Tensor) else np.array(result)]


def assert_equal(path, model, x, n):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    actual = session.run(None, {"x": x.numpy(), "n": n.numpy()})
    expected = flat(model(x, n))
    assert [isinstance(result, list) for result in actual] == [isinstance(reference, list) for reference in expected]
    for result, reference in zip(actual, expected, strict=True):
        assert_same_results(*(value if isinstance(value, list) else [value] for value in (result, reference)),
                            (1e-5, 1e-6))
