"""Tests the extension, the graph and node data in Model Explorer's server and in Chromium, and compares its classes
with the stand-in of tests/views. Model Explorer has its own environment (tools/setup/tool_environments.sh)."""

import json
import os
import subprocess
from urllib.parse import quote

import pytest

import command
from tool_dialects.test_tools import in_tool
from validate.onnx_files import chain, known
from validate.onnx_files import model as file_of
from views import browser
from views.test_model_explorer import STAND_IN, measured, net  # noqa: F401: fixtures

pytestmark = pytest.mark.matrix

TOOL = command.ROOT / "build" / "tools" / "model-explorer" / "bin"
ENVIRONMENT = {**os.environ, "WHENCE": str(command.BINARY), "PYTHONPATH": str(command.ROOT / "python")}

FIELDS = """
import dataclasses, importlib, json, sys
sys.path.insert(0, sys.argv[1])
def fields():
    found = {}
    for name in ("", ".extension_metadata", ".graph_builder", ".node_data_builder", ".config_editor"):
        try:
            module = importlib.import_module("model_explorer" + name)
        except ModuleNotFoundError:  # the stand-in has the first two in one
            continue
        for each in vars(module).values():
            if isinstance(each, type) and dataclasses.is_dataclass(each):
                found[each.__name__] = {field.name: field.default is field.default_factory for field in dataclasses.fields(each)}
    return found
stand_in = fields()
sys.path.pop(0)
for name in [name for name in sys.modules if name.startswith("model_explorer")]:
    del sys.modules[name]
importlib.invalidate_caches()
print()
print(json.dumps([stand_in, fields()]))
"""


def test_the_stand_in_has_the_fields_of_the_package():
    """Compares the fields and which of them have defaults."""
    stand_in, package = in_tool("model-explorer", FIELDS, STAND_IN)
    assert len(stand_in) > 15 and "GraphNode" in stand_in
    assert stand_in == {name: package[name] for name in stand_in}


CONVERT = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from model_explorer.extension_manager import ExtensionManager
manager = ExtensionManager(["whence.model_explorer"])
manager.load_extensions()
began = time.monotonic()
made = manager.run_cmd({"cmdId": "convert", "extensionId": "whence_onnx", "modelPath": sys.argv[2], "settings": {},
                        "deleteAfterConversion": False})
text = json.dumps(made)
figures = manager.run_cmd({"cmdId": "run", "extensionId": "whence_confidence", "modelPath": sys.argv[2], "graphId": "g", "configValues": {}})
print()
print(json.dumps({"nodes": len(made["graphs"][0]["nodes"]), "size": len(text), "seconds": time.monotonic() - began,
                  "figures": len(figures["result"]["results"]),
                  "extensions": sorted(each.metadata.id for each in manager.extensions if each.metadata.id.startswith("whence"))}))
"""


def test_a_hundred_thousand_nodes_are_converted_in_a_minute(tmp_path):
    path = file_of(chain(*(known(f"enc.{i // 100}.op", "matched") for i in range(100_000))), tmp_path / "m.onnx")
    result = in_tool("model-explorer", CONVERT, command.ROOT / "python", path)
    assert (result["nodes"], result["figures"]) == (100_002, 100_000) and result["seconds"] < 60
    assert result["extensions"] == ["whence_confidence", "whence_error", "whence_onnx", "whence_time"]


class OpenModel:
    """Runs the server and opens a model, with node data from files, in a browser window."""

    def __init__(self, folder, model, *data, extension=True):
        if not TOOL.exists():
            pytest.skip("no environment of model-explorer: tools/setup/tool_environments.sh makes it")
        port = browser.free_port()
        words = [TOOL / "model-explorer", f"--port={port}", "--no_open_in_browser", "--skip_health_check",
                 *(["--extensions=whence.model_explorer"] if extension else [])]
        self.server = subprocess.Popen(list(map(str, words)), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.window = browser.Browser(folder)
        query = {"models": [{"url": str(model)}], "nodeData": [str(each) for each in data], "nodeDataTargets": [""] * len(data)}
        self.window.go(f"http://localhost:{port}/?data={quote(json.dumps(query))}")

    def __enter__(self):
        return self.window

    def __exit__(self, *_):
        self.window.close()
        self.server.terminate()
        self.server.wait()


with_chromium = pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))


def text_with(window, *words: str) -> str:
    """Waits until the page contains all words. Returns its text."""
    window.wait(f"{json.dumps(words)}.every((word) => document.body.innerText.includes(word))", 90)
    return window.run("return document.body.innerText;")


@with_chromium
def test_the_window_shows_layers_and_node_data(net, measured, tmp_path):  # noqa: F811
    confidence, time = tmp_path / "confidence.json", tmp_path / "time.json"
    command.run("model-explorer", net, "--confidence", "-o", confidence)
    command.run("profile", net, "--profile", measured, "--format", "model-explorer", "-o", time)
    with OpenModel(tmp_path, net, confidence, time) as window:
        text = text_with(window, "main_graph", "time in microseconds", "block: Block (call 0)", "block: Block (call 1)")
        figure = json.loads(time.read_text())["main_graph"]["results"]["/conv/Conv"]["value"]
        assert f"{figure:g}" in text.replace(",", "")


@with_chromium
def test_the_graph_is_read_without_the_extension(net, tmp_path):  # noqa: F811
    command.run("strip", net, "-o", tmp_path / "plain.onnx")
    command.run("model-explorer", tmp_path / "plain.onnx", "-o", tmp_path / "plain.json")
    with OpenModel(tmp_path, tmp_path / "plain.json", extension=False) as window:
        text_with(window, "main_graph", "unattributed")
