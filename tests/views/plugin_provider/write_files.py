"""Writes the files of this folder, in an environment with onnxruntime 1.32.0 and onnxruntime-ep-openvino 1.8.1:
python write_files.py NET.onnx FOLDER."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_ep_openvino


def main(model: str, folder: Path) -> None:
    onnxruntime.register_execution_provider_library("plugin", onnxruntime_ep_openvino.get_library_path())
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "run")
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "OpenVINOExecutionProvider"]
    options.add_provider_for_devices(devices[:1], {})
    session = onnxruntime.InferenceSession(model, options)
    feeds = {each.name: np.ones(each.shape, np.float32) for each in session.get_inputs()}
    for _ in range(4):
        session.run(None, feeds)
    Path(session.end_profiling()).rename(folder / "run.json")
    page = Path(__file__).resolve().parents[3] / "docs" / "dialects.md"
    lines = next(code for code in page.read_text().split("```python\n") if code.startswith("devices = {}")).split("```")[0]
    exec(lines.replace('"providers.json"', "target"),
         {"session": session, "onnxruntime": onnxruntime, "json": json, "pathlib": sys.modules["pathlib"],
          "target": folder / "providers.json"})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
