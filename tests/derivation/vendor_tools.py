"""Quantisers that need an environment of their own (../../tools/setup/tool_environments.sh).

Here: a row for each, and the function that runs one. As a program, in its environment: vendor_tools.py TOOL SOURCE TARGET RUN,
where RUN is a NumPy archive with the inputs of one run.

ATTEST_ENVIRONMENTS is another folder with the environments, such as one that several clones share.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = Path(os.environ.get("ATTEST_ENVIRONMENTS") or ROOT / "build" / "tools")


def modelopt_int8(source: str, target: str, run: dict[str, Any]) -> None:
    """Weights in float32 before QuantizeLinear, with a scale for each channel."""
    from modelopt.onnx.quantization import quantize

    quantize(source, quantize_mode="int8", calibration_data=run, output_path=target, calibration_eps=["cpu"],
             high_precision_dtype="fp32")


def modelopt_int8_half(source: str, target: str, run: dict[str, Any]) -> None:
    """The same with weights and scales in float16."""
    from modelopt.onnx.quantization import quantize

    quantize(source, quantize_mode="int8", calibration_data=run, output_path=target, calibration_eps=["cpu"])


def modelopt_int4(source: str, target: str, run: dict[str, Any]) -> None:
    from modelopt.onnx.quantization import quantize

    quantize(source, quantize_mode="int4", calibration_method="rtn_dq", calibration_data=run, output_path=target,
             calibration_eps=["cpu"])


def olive_rtn(source: str, target: str, run: dict[str, Any]) -> None:
    """Blocks of 128 columns, also for tables with fewer ones."""
    import onnx
    from olive.model import ONNXModelHandler
    from olive.package_config import OlivePackageConfig
    from olive.passes.olive_pass import create_pass_from_dict

    kind = OlivePackageConfig.load_default_config().import_pass_module("OnnxBlockWiseRtnQuantization")
    with tempfile.TemporaryDirectory() as folder:
        output = create_pass_from_dict(kind, {}, disable_search=True).run(ONNXModelHandler(source), f"{folder}/model.onnx")
        onnx.save(onnx.load(output.model_path), target)


def _nncf(source: str, target: str, mode: str, **options: Any) -> None:
    import nncf
    import onnx

    onnx.save(nncf.compress_weights(onnx.load(source), mode=getattr(nncf.CompressWeightsMode, mode), **options), target)


def nncf_int8(source: str, target: str, run: dict[str, Any]) -> None:
    _nncf(source, target, "INT8_SYM")


def nncf_int4(source: str, target: str, run: dict[str, Any]) -> None:
    """A scale for each channel."""
    _nncf(source, target, "INT4_SYM", group_size=-1, all_layers=True)


# By the name in the corpus: the environment, and the function.
TOOLS = {
    "static_modelopt": ("modelopt", modelopt_int8),
    "static_modelopt_half": ("modelopt", modelopt_int8_half),
    "blocks_of_4_modelopt": ("modelopt", modelopt_int4),
    "blocks_of_4_olive": ("olive", olive_rtn),
    "dynamic_nncf": ("nncf", nncf_int8),
    "blocks_of_4_nncf": ("nncf", nncf_int4),
}


def _python(tool: str) -> Path:
    return ENVIRONMENTS / TOOLS[tool][0] / "bin" / "python"


def available() -> list[str]:
    """Returns the tools whose environment exists."""
    return [tool for tool in TOOLS if _python(tool).exists()]


def run(tool: str, source: Path, target: Path, runs: list[dict[str, Any]]) -> None:
    """Runs a tool in its environment, which finds further packages in this one."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/run.npz", **runs[0])
        done = subprocess.run([_python(tool), __file__, tool, source, target, f"{folder}/run.npz"], capture_output=True,
                              text=True, check=False, env=os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")})
    if done.returncode != 0 or not target.exists():
        raise RuntimeError((done.stderr.strip().splitlines() or ["no file was written"])[-1])


if __name__ == "__main__":
    import numpy

    with numpy.load(sys.argv[4]) as archive:
        TOOLS[sys.argv[1]][1](sys.argv[2], sys.argv[3], dict(archive))
