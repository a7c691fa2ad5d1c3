"""``whence carry --check``: the tool that broke the numbers, and its pass or rule."""

import json
import shutil
import subprocess
import sys

import onnx
import onnx_ir
import pytest
from onnx import numpy_helper
from onnxscript.rewriter import pattern, rewrite

import command
import whence


def drop_a_tanh(op, x):
    return op.Tanh(x)


def drop_it(op, x):
    return op.Identity(x)


def cancel_twice(op, x):
    return op.Neg(op.Neg(x))


RULES = [pattern.RewriteRule(cancel_twice, lambda op, x: op.Identity(x), name="CancelTwice"),
         pattern.RewriteRule(drop_a_tanh, drop_it, name="DropATanh")]


def negate_twice(source, target):
    """Adds two Neg before the last Tanh, which a right rule removes."""
    model = onnx.load(source)
    at, tanh = [(at, node) for at, node in enumerate(model.graph.node) if node.op_type == "Tanh"][-1]
    for number, (before, after) in enumerate([(tanh.input[0], "once"), ("once", "twice")]):
        model.graph.node.insert(at + number, onnx.helper.make_node("Neg", [before], [after]))
    tanh.input[0] = "twice"
    onnx.save(model, target)


def rewritten(source, target):
    onnx_ir.save(rewrite(onnx_ir.load(source), RULES), target)


def negated_weight(source, target):
    model = onnx.load(source)
    weight = next(each for each in model.graph.initializer if "local.weight" in each.name)
    weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), weight.name))
    onnx.save(model, target)


@pytest.fixture
def carry(encoder, tmp_path):
    def run(tools, **options):
        return whence.carry(encoder / "encoder.onnx", tools, tmp_path / "out.onnx", sidecar=encoder / "encoder.whence.json",
                            check=encoder / "encoder.values.safetensors", **options).check
    return run


def test_the_rule_of_a_rewriter_is_named(carry, encoder):
    """The two right applications of the first rule come before that of the wrong one."""
    check = carry([negate_twice, rewritten])
    assert check.broken == 1 and check.step.step.tool == "onnxscript" and not check.clean
    assert "DropATanh" in check.step.step.name and check.step.step.place == __name__
    assert check.step.repairs and check.step.without == "no module differs"
    tanh = sum(node.op_type == "Tanh" for node in onnx.load(encoder / "encoder.onnx").graph.node)
    assert check.step.count >= tanh + 1 and 1 <= check.step.number <= check.step.count
    lines = check.lines()
    assert lines[1] == "negate_twice: no module differs" and "rewritten" in lines[2] and "DropATanh" in lines[4]


def test_tools_are_restored(tmp_path):
    from whence.tool_steps import Request, observed

    def graph_of():
        model = onnx_ir.from_proto(onnx.helper.make_model(onnx.helper.make_graph(
            [onnx.helper.make_node("Tanh", ["x"], ["y"])], "g", [onnx.helper.make_tensor_value_info("x", 1, [2])],
            [onnx.helper.make_tensor_value_info("y", 1, [2])])))
        return [node.op_type for node in rewrite(model, RULES).graph]

    with observed(tmp_path, Request(0)):
        assert graph_of() == ["Tanh"]
    assert graph_of() == ["Identity"]


def test_a_tool_without_steps_is_named_alone(carry):
    check = carry([negated_weight, shutil.copyfile])
    assert check.broken == 0 and check.step is None and "knows no steps" in check.reason
    assert check.report.first.module == "local" and check.to_json()["files"][2]["summary"] == "errors as before"


def test_a_difference_outside_of_steps_is_not_blamed_on_one(carry):
    def tool(source, target):
        negate_twice(source, target)
        onnx_ir.save(rewrite(onnx_ir.load(target), RULES[:1]), target)
        negated_weight(target, target)

    check = carry(tool)
    assert check.broken == 0 and check.step is None and "even without its" in check.reason


def test_right_tools(carry, tmp_path):
    check = carry(shutil.copyfile)
    assert check.clean and check.broken is None and check.report is None and check.step is None
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]


def test_a_file_that_was_wrong_before_is_not_blamed_on_a_tool(encoder, tmp_path):
    negated_weight(encoder / "encoder.onnx", tmp_path / "wrong.onnx")
    check = whence.carry(tmp_path / "wrong.onnx", shutil.copyfile, tmp_path / "out.onnx",
                         check=encoder / "encoder.values.safetensors").check
    assert check.broken is None and not check.clean and "local" in check.lines()[0]


SCRIPT = """
import sys

import onnx
from onnxruntime.transformers.fusion_base import Fusion
from onnxruntime.transformers.onnx_model import OnnxModel


class DropATanh(Fusion):
    def fuse(self, node, *_):
        node.op_type = "Identity"


class Harmless(Fusion):
    def fuse(self, node, *_):
        pass


model = OnnxModel(onnx.load(sys.argv[1]))
for fusion in (Harmless, DropATanh, Harmless):
    fusion(model, "", "Tanh").apply()
onnx.save(model.model, sys.argv[2])
"""


def test_the_command_names_the_fusion_of_a_script(encoder, tmp_path):
    """The tool runs in a process of its own, started by another one."""
    script = tmp_path / "tool.py"
    script.write_text(SCRIPT)
    inner = f"import subprocess, sys; subprocess.run([sys.executable, {str(script)!r}, *sys.argv[1:]], check=True)"
    arguments = ("carry", encoder / "encoder.onnx", "-o", tmp_path / "out.onnx", "--check", encoder / "encoder.values.safetensors",
                 "--sidecar", encoder / "encoder.whence.json")
    tool = ("--", sys.executable, "-c", inner, "{in}", "{out}")
    result = command.run(*arguments, *tool, code=1)
    assert "step: DropATanh of onnxruntime.transformers (__main__), step 2 of 3" in result.stdout
    report = json.loads(command.run(*arguments, "--json", *tool, code=1).stdout)
    assert report["check"]["broken"] == 0 and report["check"]["step"]["name"] == "DropATanh"
    assert report["check"]["step"]["repairs"] and report["nodes"] > 0
    command.run("carry", encoder / "encoder.onnx", "-o", tmp_path / "o.onnx", "--sidecar", encoder / "encoder.whence.json", "--",
                "cp", "{in}", "{out}", code=2)
    copies = command.run(*arguments, "--", "cp", "{in}", "{out}")
    assert copies.stdout.splitlines()[1] == "cp {in} {out}: no module differs"


def test_the_hidden_sitecustomize_runs(tmp_path):
    """Python imports only the first sitecustomize.py of its path."""
    from pathlib import Path

    from whence.tool_steps import Request, observed

    (tmp_path / "log").mkdir()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import builtins; builtins.own_site = 7\n")
    program = "import onnx, onnx.version_converter as v; print(own_site); " \
        "v.convert_version(onnx.helper.make_model(onnx.helper.make_graph([], 'g', [], []), " \
        "opset_imports=[onnx.helper.make_opsetid('', 17)]), 19)"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path / "site"))
        with observed(Path(tmp_path / "log"), Request()) as steps:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7"]
    assert [each.name for each in steps.taken()] == ["opset 17 to 18", "opset 18 to 19"]
