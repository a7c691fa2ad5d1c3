"""Reports the packages of a Python environment that whence can use, as JSON, to standard output or to the file given as
the only argument.

``whence doctor`` runs the text of this file in the environment that it examines, which may lack the whence package. So
it imports only the standard library, and the runtimes that can list their devices. It never uses the network, and does
not import torch.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# (kind, displayed name, distributions, module). Some packages have a distribution for each kind of device.
PACKAGES = (
    ("runtime", "onnxruntime", ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-qnn",
                                "onnxruntime-directml"), "onnxruntime"),
    ("runtime", "openvino", ("openvino",), "openvino"),
    ("runtime", "tensorrt", ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"), "tensorrt"),
    ("runtime", "onnxruntime-genai", ("onnxruntime-genai", "onnxruntime-genai-cuda"), "onnxruntime_genai"),
    ("exporter", "onnx", ("onnx",), "onnx"),
    ("exporter", "onnxscript", ("onnxscript",), "onnxscript"),
    ("exporter", "transformers", ("transformers",), "transformers"),
    ("exporter", "optimum-onnx", ("optimum-onnx",), "optimum"),
    ("exporter", "timm", ("timm",), "timm"),
    ("exporter", "ultralytics", ("ultralytics",), "ultralytics"),
    ("optimiser", "onnxslim", ("onnxslim",), "onnxslim"),
    ("optimiser", "onnxsim", ("onnxsim",), "onnxsim"),
    ("optimiser", "onnx-graphsurgeon", ("onnx-graphsurgeon",), "onnx_graphsurgeon"),
    ("optimiser", "nncf", ("nncf",), "nncf"),
    ("optimiser", "modelopt", ("nvidia-modelopt",), "modelopt"),
    ("optimiser", "olive", ("olive-ai",), "olive"),
    ("viewer", "model-explorer", ("ai-edge-model-explorer",), "model_explorer"),
    ("viewer", "netron", ("netron",), "netron"),
    ("other", "numpy", ("numpy",), "numpy"),
    ("other", "safetensors", ("safetensors",), "safetensors"),
    ("other", "ray", ("ray",), "ray"),
)

# Prints a runtime's devices. It runs in its own process, which a broken runtime may crash.
DEVICES = {
    "onnxruntime": "import onnxruntime; print('\\n'.join(onnxruntime.get_available_providers()))",
    "openvino": "import openvino; print('\\n'.join(openvino.Core().available_devices))",
}
# Prints the environment variables that contain the path of the matching recorder.
RECORDER = "import json; from whence.command.recorder_library import for_command; print(json.dumps(for_command()))"


def version_of(distributions: Iterable[str]) -> tuple[str | None, str | None]:
    for name in distributions:
        try:
            return name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return None, None


def folder_of(module: str) -> str | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a package whose parent fails to load
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return folders[0] if folders else None


def start_devices(name: str) -> subprocess.Popen[str]:
    """Starts a process that lists the devices of a runtime."""
    return subprocess.Popen([sys.executable, "-c", DEVICES[name]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, text=True)


def devices(process: subprocess.Popen[str]) -> tuple[list[str], str | None]:
    """Returns the devices, or an empty list and the reason why they are unknown."""
    try:
        output, errors = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return [], "did not answer within 60 s"
    if process.returncode != 0:
        lines = errors.strip().splitlines()
        return [], lines[-1] if lines else f"ended with signal {-process.returncode}"
    return output.split(), None


def packages() -> list[dict[str, Any]]:
    running = {name: start_devices(name) for _, name, distributions, module in PACKAGES
               if name in DEVICES and version_of(distributions)[1] and folder_of(module)}
    entries = []
    for kind, name, distributions, module in PACKAGES:
        distribution, version = version_of(distributions)
        if version is None or folder_of(module) is None:
            continue
        entry: dict[str, Any] = {"name": name, "kind": kind, "version": version, "distribution": distribution}
        if name in running:
            entry["devices"], problem = devices(running[name])
            if problem:
                entry["problem"] = problem
        entries.append(entry)
    return entries


def torch() -> dict[str, Any] | None:
    """Returns the version and folder of this environment's PyTorch. Reads its files, because an import takes
    seconds."""
    folder = folder_of("torch")
    if folder is None:
        return None
    text = Path(folder, "version.py").read_text(errors="replace") if Path(folder, "version.py").exists() else ""
    values = dict(re.findall(r"^(\w+)(?:: [^=\n]*)? = '([^'\n]*)'", text, re.MULTILINE))
    version = values.get("__version__") or version_of(("torch",))[1]
    return {"version": version, "folder": folder, "cuda": values.get("cuda"),
            "libtorch": Path(folder, "lib", "libtorch_cpu.so").exists()}


def package() -> dict[str, Any] | None:
    """Returns the version and folder of this environment's whence package."""
    folder = folder_of("whence")
    if folder is None:
        return None
    # In a checkout, only CMakeLists.txt states the version.
    texts = [path.read_text(errors="replace") for path in (Path(folder, "__init__.py"),
                                                           Path(folder).resolve().parents[1] / "CMakeLists.txt") if path.exists()]
    version = re.search(r'^(?:__version__ = "|project\(whence VERSION )([^"\s]+)', "\n".join(texts), re.MULTILINE)
    return {"version": version[1] if version else version_of(("whence-onnx", "whence"))[1], "folder": folder}


def recorder() -> dict[str, str]:
    """Returns the environment variables with which this environment's whence package passes its recorder to the
    command."""
    result = subprocess.run([sys.executable, "-c", RECORDER], capture_output=True, stdin=subprocess.DEVNULL, text=True)
    return json.loads(result.stdout) if result.returncode == 0 else {}


if __name__ == "__main__":
    if sys.path and sys.path[0] == "":  # the working directory is not part of the environment
        del sys.path[0]
    text = json.dumps({"executable": sys.executable, "version": platform.python_version(), "machine": platform.machine(),
                       "system": " ".join(filter(None, (platform.system(), *platform.libc_ver()))),
                       "whence": package(), "torch": torch(), "recorder": recorder() if folder_of("whence") else {},
                       "packages": packages()})
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text)
