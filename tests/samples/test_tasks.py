"""Runs the samples that consist of one script with an output folder; the exit code reports success."""

import pytest

import command
from live_python import forking

SAMPLES = {"layer/layer.py": "largest difference", "quantize/quantize.py": "0 of them in encoder.layer.1.attention",
           "gate/gate.py": "after the tool: exit code 1", "adopt/adopt.py": "as it comes: exit code 1; with merge: exit code 0",
           "generate/generate.py": "ONNX Runtime: 40 of 40 tokens are those of transformers' generate",
           "profile/by_module.py": "microseconds of the profile",
           "compare/compare.py": "after the optimiser, 69 annotated again"}

# Most of a sample's time is the import of these modules. onnxruntime starts a thread, so each sample imports it itself.
MODULES = ("torch", "transformers.models.auto.tokenization_auto", "transformers.models.bert.modeling_bert")


@pytest.mark.parametrize("script", SAMPLES)
def test_a_sample_succeeds(script, tmp_path):
    result = forking.run(command.ROOT / "samples" / script, tmp_path, tmp_path / "out", modules=MODULES,
                         environment={"WHENCE": str(command.BINARY)})
    assert result.returncode == 0, result.stdout + result.stderr
    assert SAMPLES[script] in result.stdout


def test_every_sample_is_listed():
    listed = (command.ROOT / "samples" / "README.md").read_text()
    for folder in (command.ROOT / "samples").iterdir():
        assert not folder.is_dir() or f"| `{folder.name}/` |" in listed
