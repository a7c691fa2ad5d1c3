"""Runs samples/generate with ONNX Runtime GenAI, which loads the folder that the sample writes."""

import os
import subprocess
import sys

import pytest

import command

pytestmark = pytest.mark.matrix


def test_genai_generates_the_same_tokens(tmp_path):
    packages = list((command.ROOT / "build/tools/genai/lib").glob("python*/site-packages"))
    if not packages:
        pytest.skip("no environment of onnxruntime-genai: tools/setup/tool_environments.sh")
    # That environment has only onnxruntime_genai; everything else is the project's.
    path = os.pathsep.join(map(str, [command.ROOT / "python", *packages]))
    script = command.ROOT / "samples/generate/generate.py"
    ran = subprocess.run([sys.executable, "-W", "ignore", script, tmp_path / "out"],
                         env={**os.environ, "WHENCE": str(command.BINARY), "PYTHONPATH": path}, text=True,
                         capture_output=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "ONNX Runtime GenAI: 20 of 20 tokens" in ran.stdout
