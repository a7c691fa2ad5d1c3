"""Common architectures: exported, annotated, and annotated again after ONNX Runtime and onnxslim. Compares results with
PyTorch at values and sizes that were not recorded, and modules at the nodes that the tool did not change."""

import json
import warnings

import onnx
import onnxruntime
import onnxslim
import pytest

import command
from models import zoo
from models.architectures import ARCHITECTURES
from models.values import is_near, other_values, saved

QUICK = ("llama_with_cache", "sam")
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.matrix) for name in ARCHITECTURES]

# The largest share of nodes of each confidence that may be attributed to a wrong module.
MAX_WRONG_SHARE = {"exact": 0, "matched": 0.005, "inferred": 0.03, "ancestor": 0.005}


def optimise(source, target) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(target), 3
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def slim(source, target) -> None:
    onnx.save(onnxslim.slim(onnx.load(source)), target)


TOOLS = {"ONNX Runtime": optimise, "onnxslim": slim}


def keys(node: onnx.NodeProto) -> dict:
    return {entry.key.removeprefix("pkg.whence."): entry.value for entry in node.metadata_props}


class Export:
    """Writes an annotated model.onnx, its sidecar model.json, and bare.onnx, the same graph without metadata."""

    def __init__(self, name: str, form: str, folder):
        self.entry, self.folder = ARCHITECTURES[name], folder
        self.dynamic = self.entry.dynamic_options() if form == "pt" else []
        archive, *options = saved(self.entry, form, folder)
        command.run("export", archive, *options, *self.dynamic, "-o", folder / "model.onnx", "--annotate",
                    "--sidecar-out", folder / "model.json")
        bare = onnx.load(folder / "model.onnx")
        for node in bare.graph.node:
            del node.metadata_props[:]
        del bare.metadata_props[:]
        onnx.save(bare, folder / "bare.onnx")


def assert_equals_pytorch(export: Export, inputs: dict) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(export.folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    results = session.run(None, {value.name: inputs[value.name].numpy() for value in session.get_inputs()})
    for actual, expected in zip(results, zoo.run(export.entry.model(), inputs), strict=True):
        assert is_near(actual, expected), (actual.dtype, expected.dtype, actual.shape, expected.shape)


def assert_confidence_is_right(before, after) -> None:
    """Checks the nodes that the tool left unchanged (same operator, inputs and outputs) and that are `exact` in the
    export; there, nodes that serve several modules are `ancestor`."""
    exact_modules = {(node.op_type, *node.input, *node.output): keys(node)["module"]
                     for node in onnx.load(before).graph.node if keys(node)["confidence"] == "exact"}
    answers_by_word: dict[str, list] = {word: [] for word in MAX_WRONG_SHARE}
    for node in onnx.load(after).graph.node:
        module = exact_modules.get((node.op_type, *node.input, *node.output))
        actual = keys(node)
        if module is None or actual.get("confidence", "unattributed") == "unattributed":
            continue
        is_ancestor = (module + ".").startswith(actual["module"] + ".") or not actual["module"]
        # The tool merges equal nodes of several modules.
        is_one_of_several = module in json.loads(actual.get("modules", "[]"))
        right = is_ancestor if actual["confidence"] == "ancestor" else actual["module"] == module or is_one_of_several
        answers_by_word[actual["confidence"]].append((right, node.name, module, actual["module"]))
    assert sum(map(len, answers_by_word.values())) > 20
    for word, answers in answers_by_word.items():
        wrong = [answer[1:] for answer in answers if not answer[0]]
        assert len(wrong) <= max(MAX_WRONG_SHARE[word] * len(answers), 1 if MAX_WRONG_SHARE[word] else 0), (word, wrong)


@pytest.mark.parametrize("form", ["pt", "pt2"])
@pytest.mark.parametrize("name", NAMES)
def test_results_and_annotations_after_tools_are_right(name, form, tmp_path):
    export = Export(name, form, tmp_path)
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)
    assert_equals_pytorch(export, other_values(export.entry.inputs(export.entry.first)))
    if export.dynamic:
        assert_equals_pytorch(export, export.entry.inputs(export.entry.second))

    words = [keys(node)["confidence"] for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert len(words) > 50 and set(words) <= {"exact", "ancestor"} and words.count("exact") >= 0.9 * len(words)

    for tool, change in TOOLS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change(tmp_path / "bare.onnx", tmp_path / "changed.onnx")
        for option, reference in (("--sidecar", "model.json"), ("--from", "model.onnx")):
            command.run("annotate", tmp_path / "changed.onnx", option, tmp_path / reference,
                        "-o", tmp_path / "again.onnx", "--overwrite")
            assert_confidence_is_right(tmp_path / "model.onnx", tmp_path / "again.onnx")
