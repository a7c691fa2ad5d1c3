"""Reports are displayed as a short line (repr), as a table (print), and as a table with bars in a notebook."""

import html.parser
import re
import subprocess
import sys

import onnx
import onnx_ir
import onnxruntime
import onnxscript
import pytest
import torch
import whence
from onnx import numpy_helper
from whence.base.report_printing import Bar, Table, module_labels

pytestmark = pytest.mark.usefixtures("quiet")
LAYERS = 60
HOSTILE = "<img src=x>"


def deep_model() -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(6, 6) for _ in range(LAYERS)])
    model.add_module(HOSTILE, torch.nn.Linear(6, 2))
    return model.eval()


def profile_of(program, x, folder):
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "ort")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(program.path), options)
    for _ in range(3):
        session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return whence.profile(program, session.end_profiling())


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("reports")
    model, x = deep_model(), torch.randn(2, 6)
    program = whence.export(model, (x,), folder / "tall.onnx", verify=True)
    values = whence.record_values(model, (x,), more=[(x + 1,)] * 9)
    faulty = onnx.load(program)
    bias = next(tensor for tensor in faulty.graph.initializer if tensor.name == "30.bias")
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, bias.name))
    onnx.save(faulty, folder / "faulty.onnx")
    with whence.record(folder / "recorded.whence.json") as recording:
        torch.jit.trace(model, x, check_trace=False)
    whence.export(torch.nn.Linear(6, 2).eval(), x, folder / "small.onnx")
    with whence.keep() as kept:
        onnxscript.optimizer.optimize(onnx_ir.load(folder / "small.onnx"))
    accuracy = whence.accuracy(faulty, values)
    sensitivity = whence.sensitivity(program, [(x,)], modules=["0", "1", "2"], time=False, budget="size=99%")
    return {
        "FirstDifference": accuracy.first, "Choice": sensitivity.choice, "SensitivityReport": sensitivity,
        "AccuracyReport": accuracy, "ChainReport": whence.accuracy_chain([program.path, folder / "faulty.onnx"], values),
        "AnnotateReport": program.annotated, "ValidationReport": program.validation, "ONNXProgram": program,
        "Verification": program.verification, "Values": values, "Recording": recording, "ModuleRows": whence.show(program),
        "Explanation": whence.explain(program, faulty.graph.node[0].name), "Difference": whence.diff(program, folder / "small.onnx"),
        "Comparison": whence.compare(program, folder / "small.onnx"), "Selection": whence.select(program, ["**"]),
        "FunctionsReport": whence.functions(program, output=folder / "f.onnx", types=["Linear"]),
        "PlaceReport": whence.place(program, ["gpu=1?", "cpu=**"]),
        "Profile": profile_of(program, x, folder),
        "Attestation": whence.attest(program, model), "RefitReport": whence.refit(program, model, base=model),
        "RecoveredWeights": whence.weights(program, model),
        "SharedWeights": whence.share_weights([folder / "tall.onnx", folder / "small.onnx"], "shared.data"),
        "KeepReport": kept}


REPORTS = ["AnnotateReport", "ValidationReport", "ONNXProgram", "Verification", "Values", "Recording", "ModuleRows",
           "Explanation", "Difference", "Comparison", "Selection", "FunctionsReport", "PlaceReport", "AccuracyReport",
           "SensitivityReport", "Profile", "SharedWeights", "FirstDifference", "Choice", "KeepReport",
           "ChainReport", "Attestation", "RefitReport", "RecoveredWeights"]


class Tags(html.parser.HTMLParser):
    """Collects the tags and text of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", REPORTS)
def test_report_has_a_short_repr_and_a_table(name, reports):
    report = reports[name]
    assert type(report).__name__ == name
    assert len(repr(report)) < 400 and "\n" not in repr(report) and repr(report).startswith(f"<whence.{name} ")
    page = Tags(report._repr_html_())
    assert page.tags <= {"pre", "div", "table", "tr", "th", "td", "span", "i", "p"} and "pre" in page.tags
    assert len(report._repr_html_()) < 200_000


def test_every_report_class_is_tested():
    """Every public class with a table is tested, except rows and small records."""
    from whence.base.report_printing import Printed

    classes = {name for name in whence.__all__ if isinstance(getattr(whence, name), type)}
    printed = {name for name in classes if issubclass(getattr(whence, name), Printed)}
    assert printed | {"ONNXProgram"} == set(REPORTS)


def test_contents_of_the_repr(reports):
    assert "first module that differs: 30" in repr(reports["AccuracyReport"])
    assert "1 output, all equal" in repr(reports["Verification"]) and "10 runs, 620 module calls" in repr(reports["Values"])
    assert f"{LAYERS + 2} modules" in repr(reports["ModuleRows"]) and "clean" in repr(reports["ValidationReport"])
    for name in ("ModuleRows", "AccuracyReport", "ValidationReport", "Selection"):
        assert HOSTILE in Tags(reports[name]._repr_html_()).text


def test_printed_reports_have_one_row_per_module(reports):
    for name in ("ModuleRows", "ValidationReport", "AccuracyReport", "Profile"):
        lines = str(reports[name]).splitlines()
        assert [line for line in lines if line.split()[:1] == ["31"]], name
    rows = [line.split() for line in str(reports["ModuleRows"]).splitlines() if "Linear" in line]
    assert [int(row[-2].replace(",", "")) for row in rows] == [6 * 6 + 6] * LAYERS + [6 * 2 + 2]


def test_bar_lengths_match_the_figures():
    counts = {"exact": 6, "matched": 3, "inferred": 0, "ancestor": 1, "unattributed": 0}
    assert re.findall(r"width:([\d.]+)%;background:(#\w+)", Bar.of_confidences(counts).to_html()) == [
        ("60.00", "#2f7d4f"), ("30.00", "#3d7eb8"), ("10.00", "#d07c3c")]
    assert re.findall(r"width:([\d.]+)%", Bar.of(0.25).to_html()) == ["25.00"]
    assert [str(Bar.of(share)) for share in (0, 0.001, 0.25, 1, 1.7)] == ["", "#", "#####", "#" * 20, "#" * 20]


def test_table_as_text():
    table = Table(("module", "nodes", ""), [("(root)", 1200, Bar.of(1)), ("  a", 3, Bar.of(0.1)), ("  b", None, "")])
    assert table.lines() == ["module  nodes", "(root)  1,200  ####################", "  a         3  ##", "  b"]


def test_labels_are_indented_below_their_module():
    assert module_labels(["", "a", "a.b.c", "a.b.c.d", "e.f", None]) == [
        "(root)", "  a", "    b.c", "      d", "  e.f", "(no module known)"]
    assert module_labels(["a", "a.b"]) == ["a", "  b"]


def test_rows_are_a_list(reports):
    rows = reports["ModuleRows"]
    assert isinstance(rows, list) and rows == list(rows) and len(rows) == LAYERS + 2
    assert [row.path for row in rows][:2] == ["", "0"]


def test_dir_lists_the_public_names():
    """Runs in a new process, which has not used the package yet."""
    program = ("import whence; shown = dir(whence); assert set(whence.__all__) <= set(shown), set(whence.__all__) - set(shown); "
               "assert not {'artifacts', 'nested', 'importlib'} & set(shown); "
               "[getattr(whence, name) for name in shown]; print(len(shown))")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) > 40
