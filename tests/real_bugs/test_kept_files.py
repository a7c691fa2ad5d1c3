"""The kept files of real bugs: whence names the wrong module and operation, and no module of the right file."""

import numpy
import onnx
import pytest

import measure  # first, because it sets the search path
import make_files
from bug import FOLDER, selected_bugs

KEPT = sorted(path.name.removesuffix(".wrong.onnx") for path in (FOLDER / "files").glob("*.wrong.onnx"))
BUGS = {bug.name: bug for bug in selected_bugs(KEPT)}


def file_of(name, side):
    return FOLDER / "files" / f"{name}.{side}.onnx"


def test_ten_bugs_are_kept():
    assert len(KEPT) >= 10
    assert all(file_of(name, "right").exists() for name in KEPT)
    assert len({BUGS[name].operation for name in KEPT}) >= 8


@pytest.mark.parametrize("name", KEPT)
def test_the_bug_holds(name):
    bug = BUGS[name]
    expected, inputs = make_files.results_of(bug), make_files.flat(bug.example())
    kind, _ = make_files.compare(expected, make_files.run(file_of(name, "wrong"), inputs), 10 * bug.tolerance)
    assert kind == bug.kind
    assert make_files.compare(expected, make_files.run(file_of(name, "right"), inputs), bug.tolerance)[0] == ""


@pytest.mark.parametrize("name", KEPT)
def test_the_module_and_operation_are_named(name, tmp_path):
    bug = BUGS[name]
    sidecar, values = measure.record(bug, tmp_path)
    wrong, right = (measure.report_of(file_of(name, side), sidecar, values, tmp_path / f"{side}.onnx")
                    for side in make_files.SIDES)
    assert wrong.get("module") in (bug.module, *bug.merged), wrong
    if bug.operation:
        assert wrong["operation"] in bug.operation.split(), wrong
    assert right.get("verdict") and right["module"] is None, right


def test_a_difference_is_measured():
    """The comparison that decides whether a bug holds."""
    ones = numpy.ones((2, 3), numpy.float32)
    assert make_files.compare([ones], [ones * 1.00001], 1e-4)[0] == ""
    assert make_files.compare([ones], [ones * 1.01], 1e-4)[0] == "wrong"
    assert make_files.compare([ones], [ones[:1]], 1e-4)[0] == "shape"
    assert make_files.compare([ones], [ones.astype(numpy.float64)], 1e-4)[0] == "dtype"
    assert make_files.compare([ones], [ones * numpy.nan], 1e-4)[0] == "nan"
    assert make_files.compare([ones * numpy.nan], [ones * numpy.nan], 1e-4)[0] == ""
    assert make_files.compare([ones], "the runtime refuses it", 1e-4)[0] == "does not run"
    assert make_files.compare([numpy.arange(4)], [numpy.array([0, 1, 2, 4])], 1e-4) == ("wrong", 0.25)


def test_kept_files_contain_no_paths():
    for name in KEPT:
        for side in make_files.SIDES:
            texts = [entry.value for node in onnx.load(file_of(name, side)).graph.node for entry in node.metadata_props]
            assert not [text for text in texts if 'File "' in text or ".py" in text]
