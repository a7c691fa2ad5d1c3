"""The search for the step of a tool that breaks a file, with simulated tools; and the tools that are observed in this
environment, each with its steps switched off."""

import os
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from whence.annotation import carry_check
from whence.errors import error
from whence.tool_steps import Request, observed
from whence.tool_steps.steps import FOLDER_VARIABLE, Steps

PASSES = [f"pass_{number}" for number in range(12)]


@dataclass
class First:
    failure: str = ""


@dataclass
class Report:
    first: First | None
    verdict: str


class SimulatedTool:
    """Writes which of its passes ran. ``is_wrong`` decides whether its file differs."""

    def __init__(self, is_wrong, is_switch):
        self.is_wrong, self.is_switch, self.runs = is_wrong, is_switch, 0

    def run(self, path):
        steps = Steps(Path(os.environ[FOLDER_VARIABLE]))
        self.runs += 1
        done = steps.allowed("tool", PASSES) if self.is_switch else [name for name in PASSES if steps.allows("tool", name)]
        path.write_text(" ".join(done))

    def measure(self, path):
        wrong = self.is_wrong(path.read_text().split())
        if wrong == "fails":
            raise error("E0210", "tool_failed", "it fails", "")
        return Report(First(wrong if isinstance(wrong, str) else "") if wrong else None, "differs" if wrong else "none")

    def broken_step(self, folder, kind="differs"):
        return carry_check._Bisection(folder, self.run, self.measure, kind).broken_step()


@pytest.mark.parametrize("at", [0, 1, 6, 11])
def test_one_step_is_found_with_few_runs(tmp_path, at):
    tool = SimulatedTool(lambda done: PASSES[at] in done, is_switch=True)
    step, reason = tool.broken_step(tmp_path)
    assert (step.step.name, step.number, step.count, step.needs, reason) == (PASSES[at], at + 1, 12, (), "")
    assert step.repairs and tool.runs <= 9


@pytest.mark.parametrize("culprits", [(2, 7), (0, 11), (1, 2, 9)])
def test_steps_that_do_it_together_are_all_named(tmp_path, culprits):
    """As if the last one prepared the graph for the others, which run again."""
    tool = SimulatedTool(lambda done: all(PASSES[at] in done for at in culprits), is_switch=True)
    step, _ = tool.broken_step(tmp_path)
    assert [each.name for each in (*step.needs, step.step)] == [PASSES[at] for at in culprits] and step.repairs
    assert "only together with" in str(step)


def test_a_second_broken_step_is_stated(tmp_path):
    """Without the first one, the file still differs."""
    tool = SimulatedTool(lambda done: PASSES[3] in done or PASSES[5] in done, is_switch=False)
    step, _ = tool.broken_step(tmp_path)
    assert step.step.name == PASSES[3] and not step.repairs and step.without == "differs"


def test_a_file_that_does_not_run_between_steps_is_not_the_difference(tmp_path):
    """After step 2 the file does not run; step 4 mends that, and step 8 breaks the numbers."""
    def state(done):
        return PASSES[8] in done or (PASSES[2] in done and PASSES[4] not in done and "cannot run")

    step, _ = SimulatedTool(state, is_switch=False).broken_step(tmp_path)
    assert step.step.name == PASSES[8]


@pytest.mark.parametrize("is_wrong, text", [
    (lambda done: True, "even without its 12 steps"), (lambda done: False, "does not do it again"),
    (lambda done: "fails", "fails while whence observes")])
def test_no_step_is_named_without_proof(tmp_path, is_wrong, text):
    step, reason = SimulatedTool(is_wrong, is_switch=True).broken_step(tmp_path)
    assert step is None and text in reason


@pytest.fixture
def model(tmp_path):
    """Returns a file in which every tool has something to do: Identity, and two Transposes that cancel out."""
    nodes = [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Transpose", ["a"], ["b"], perm=[1, 0]),
             helper.make_node("Transpose", ["b"], ["c"], perm=[1, 0]), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def by_onnxsim(path):
    import onnxsim
    return onnxsim.simplify(str(path))[0]


def by_onnxslim(path):
    import onnxslim
    return onnxslim.slim(str(path))


def by_onnxscript(path):
    import onnxscript.optimizer
    return onnxscript.optimizer.optimize(onnx.load(path))


def by_onnxruntime(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path) + ".optimised"
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx.load(options.optimized_model_filepath)


def by_version_converter(path):
    from onnx import version_converter
    return version_converter.convert_version(onnx.load(path), 19)


@pytest.mark.parametrize("tool, name", [
    (by_onnxsim, "eliminate_identity"), (by_onnxslim, "dead_node_elimination"), (by_onnxscript, "CommonSubexpressionEliminationPass"),
    (by_onnxruntime, "EliminateIdentity"), (by_version_converter, "opset 18 to 19")],
    ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_a_real_tool_without_its_steps_does_nothing(model, tmp_path, tool, name):
    def run(request, folder):
        (tmp_path / folder).mkdir()
        with observed(tmp_path / folder, request) as steps:
            made = tool(model)
        return steps.taken(), made

    steps, made = run(Request(), "all")
    plain = tool(model)
    assert name in [each.name for each in steps]
    assert [node.op_type for node in made.graph.node] == [node.op_type for node in plain.graph.node]
    assert made.opset_import[0].version == plain.opset_import[0].version
    _, untouched = run(Request(0), "none")
    if tool is by_onnxslim:  # it drops Identity nodes when it reads a file
        assert [node.op_type for node in untouched.graph.node][-1] == "Relu"
    else:
        assert len(untouched.graph.node) == 4
    assert untouched.opset_import[0].version == 17
