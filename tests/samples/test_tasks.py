"""Samples that are one script with a folder for what it makes: each says by its exit code whether it worked."""

import os
import subprocess
import sys

import pytest

import command

SAMPLES = {"layer/layer.py": "largest difference", "quantize/quantize.py": "0 of them in encoder.layer.1.attention",
           "gate/gate.py": "after the tool: exit code 1", "profile/by_module.py": "microseconds of the profile",
           "compare/compare.py": "after the optimiser, 73 annotated again"}


@pytest.mark.parametrize("script", SAMPLES)
def test_sample(script, tmp_path):
    result = subprocess.run([sys.executable, command.ROOT / "samples" / script, tmp_path / "out"], text=True,
                            capture_output=True, check=False,
                            env={**os.environ, "WHENCE": str(command.BINARY), "PYTHONWARNINGS": "ignore"})
    assert result.returncode == 0, result.stdout + result.stderr
    assert SAMPLES[script] in result.stdout


def test_every_sample_is_listed():
    listed = (command.ROOT / "samples" / "README.md").read_text()
    for folder in (command.ROOT / "samples").iterdir():
        assert not folder.is_dir() or f"| `{folder.name}/` |" in listed
