"""Tests that the recipes of SKILL.md, taken from the page without change, solve ten tasks on a small model."""

import collections
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import quantize_dynamic

import command
from skill.network import change, lose_metadata, scale_weight

PAGE = (command.ROOT / "SKILL.md").read_text()
RECIPES = {title: re.findall(r"```sh\n(.*?)```\n+```python\n(.*?)```", body, re.DOTALL)
           for title, body in re.findall(r"^### (.*?)\n(.*?)(?=^##)", PAGE[:PAGE.index("## Dialogues")] + "## ", re.MULTILINE | re.DOTALL)}
EXPORTS = re.findall(r"`(whence (?:export|record) model\.pt2 [^`]*)`", PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Creates the files in the page's table with the commands that it lists."""
    folder = tmp_path_factory.mktemp("skill")
    subprocess.run([sys.executable, command.ROOT / "tests/skill/network.py", folder], check=True)
    assert len(EXPORTS) == 3
    for line in EXPORTS:
        assert shell(folder, line).returncode == 0
    change(folder / "model.onnx", folder / "suspect.onnx", scale_weight)
    change(folder / "model.onnx", folder / "optimised.onnx", lose_metadata)
    return folder


def shell(folder, text: str) -> subprocess.CompletedProcess:
    path = os.pathsep.join([str(command.BINARY.parent), os.path.dirname(sys.executable), os.environ["PATH"]])
    return subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PATH": path})


def solve(folder, title: str, step: int = 0, code: int = 0, **names: str):
    """Runs a recipe with its placeholders replaced with `names`. Returns the value of its expression."""
    (text, expression) = RECIPES[title][step]
    for name, value in names.items():
        assert name in text
        text = text.replace(name, value)
    result = shell(folder, text)
    assert result.returncode == code, result.stdout + result.stderr
    return eval(expression, {"answer": json.loads((folder / "answer.json").read_text())})


def test_there_are_ten_recipes():
    assert len(RECIPES) == 10 and all(RECIPES.values())


def test_the_slowest_layer_is_found(folder):
    """Compares with ONNX Runtime's profile, because the slowest layer depends on the machine's load."""
    found = solve(folder, "Which layer is slow?")
    events = json.loads((folder / "run.json").read_text())
    runs = sorted(event["ts"] for event in events if event["name"] == "model_run")
    times = collections.Counter()
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith("_kernel_time") and event["ts"] > runs[1]:  # after warm-up
            times[event["name"].strip("/").rpartition("/")[0].replace("/", ".")] += event["dur"]
    assert len(runs) == 20 and max(times, key=times.get) == found


def test_the_first_wrong_layer_is_found(folder):
    assert solve(folder, "Which layer is the first wrong one?") == ("blocks.2.up", ["/blocks.2/up/Gemm"])


def test_the_exclude_list_meets_the_error_limit(folder, tmp_path):
    met, excluded, error = solve(folder, "Which nodes must not be quantised?")
    answer = json.loads((folder / "answer.json").read_text())
    nodes = json.loads((folder / "exclude.json").read_text())["nodes_to_exclude"]
    assert met and excluded and nodes == answer["choice"]["nodes_to_exclude"]
    results = []
    quantize_dynamic(folder / "model.onnx", tmp_path / "q.onnx", nodes_to_exclude=nodes,
                     op_types_to_quantize=answer["op_types_to_quantize"])
    for path in (folder / "model.onnx", tmp_path / "q.onnx"):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        results.append(session.run(None, dict(np.load(folder / "inputs.npz")))[0])
    measured = np.linalg.norm(results[1] - results[0]) / np.linalg.norm(results[0])
    assert 0 < measured <= 0.005 and measured == pytest.approx(error, rel=0.2)


def test_lost_provenance_is_found_and_restored(folder):
    title = "Where was provenance lost?"
    assert solve(folder, title, code=1) == ["blocks.2", "blocks.2.down", "blocks.2.norm", "blocks.2.up"]
    assert solve(folder, title, step=1) == 0
    nodes = {node.output[0]: node.name for node in onnx.load(folder / "repaired.onnx").graph.node}
    assert nodes == {node.output[0]: node.name for node in onnx.load(folder / "model.onnx").graph.node}


@pytest.mark.parametrize("node, module, kind", [("/blocks.1/down/Gemm", "blocks.1.down", "Linear"),
                                                ("/embed/Gemm", "embed", "Linear"),
                                                ("/blocks.0/norm/LayerNormalization", "blocks.0.norm", "LayerNorm")])
def test_the_layer_of_a_node_is_found(folder, node, module, kind):
    found, type_name, word = solve(folder, "Which layer does a node belong to?", NODE=node)
    assert found == module and type_name.rpartition(".")[2] == kind and word == "exact"


@pytest.mark.parametrize("node, text", [("/blocks.1/Add", "return x + self.down(hidden)"), ("/head/Gemm", "return self.head(x)"),
                                        ("/blocks.0/Gelu", "torch.nn.functional.gelu(")])
def test_the_source_line_is_found(folder, node, text):
    root = str(command.ROOT / "tests")
    recipe, expression = RECIPES["Which source line does a node come from?"][0]
    assert shell(folder, recipe.replace("NODE", node).replace("--source-root .", f"--source-root {root}")).returncode == 0
    file, _, line = eval(expression, {"answer": json.loads((folder / "answer.json").read_text())}).partition(":")
    lines = (command.ROOT / "tests" / file).read_text().splitlines()
    assert file == "skill/network.py" and text in lines[int(line.split()[0]) - 1]


def test_the_differences_are_found(folder):
    ((kind, modules, differences),) = solve(folder, "What changed between two files?")
    assert kind == "changed" and modules == ["blocks.2.up"] and "8,192 of 8,192" in differences[0]


def test_the_unsupported_operators_are_found(folder):
    ((operator, module, source),) = solve(folder, "Which operators cannot be exported, and where are they?", code=4)
    assert operator == "aten::linalg_eigvalsh" and module == "spectrum" and source.startswith("network.py:")


def test_the_split_model_gives_the_same_result(folder):
    ((name, _),) = [each.split(" ") for each in solve(folder, "How do I split the model between two modules?")]
    feeds = dict(np.load(folder / "inputs.npz"))

    def run(file: str, feeds: dict) -> list:
        return onnxruntime.InferenceSession(folder / file, providers=["CPUExecutionProvider"]).run(None, feeds)

    (expected,), (middle,) = run("model.onnx", feeds), run("first.onnx", feeds)
    np.testing.assert_allclose(run("second.onnx", {name: middle})[0], expected, rtol=1e-5, atol=1e-6)


def test_the_gate_fails_if_coverage_drops(folder):
    title = "How does CI fail when coverage drops?"
    assert solve(folder, title) == (True, [])
    recipe, expression = RECIPES[title][0]
    assert shell(folder, recipe.replace("model.onnx", "optimised.onnx")).returncode == 1
    clean, messages = eval(expression, {"answer": json.loads((folder / "answer.json").read_text())})
    assert not clean and len(messages) == 2 and "70.59" in messages[0] and "blocks.2" in messages[1]


def dialogues() -> dict[str, list[str]]:
    parts = re.findall(r"^### (.*?)\n(.*?)(?=^###|\Z)", PAGE[PAGE.index("## Dialogues"):], re.MULTILINE | re.DOTALL)
    return {title: re.findall(r"^\$ (.*)$", body, re.MULTILINE) for title, body in parts}


def test_the_dialogues_show_real_output(folder):
    wrong, node, lost = dialogues().values()
    first, second = (json.loads(shell(folder, line).stdout) for line in wrong)
    assert (first["first"]["module"], first["first"]["operation"]) == ("blocks.2.up", "aten::linear")
    assert "blocks.2.up.weight: 8,192 of 8,192\nelements" in PAGE
    assert second["changed_nodes"][0]["differences"][0].startswith("blocks.2.up.weight: 8,192 of 8,192 elements")
    explained, selected = (json.loads(shell(folder, line).stdout) for line in node)
    line = (command.ROOT / "tests/skill/network.py").read_text().splitlines().index(
        "        return x + self.down(hidden)  # residual connection") + 1
    assert explained["module"] == "blocks.1.down" and explained["confidence"] == "exact"
    assert f"`network.py:{line} forward`" in PAGE
    assert "/blocks.1/down/Gemm" in json.loads(selected["text"])["nodes_to_exclude"]
    before, repaired = (shell(folder, line) for line in lost[:2])
    assert before.returncode == 1 and json.loads(before.stdout)["shortfalls"][0]["nodes"] == 5
    assert (json.loads(repaired.stdout)["matched"], json.loads(repaired.stdout)["unattributed"]) == (5, 0)
    json.loads(shell(folder, lost[2]).stdout)


def test_the_command_prints_the_page():
    assert command.run("skill").stdout == PAGE and command.run_json("skill")["skill"] == PAGE


def test_every_subcommand_has_json():
    described = command.run_json("completions")["commands"]
    assert len(described) > 25
    assert not [each["command"] for each in described if "json" not in {option["name"] for option in each["options"]}]
