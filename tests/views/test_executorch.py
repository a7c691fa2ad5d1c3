"""Tests `whence profile` on tables that ExecuTorch wrote. The expected times are sums over the tables' own columns."""

import ast
import csv
from pathlib import Path

import pytest

import command
from views import profiled
from views.executorch.network import Net

FOLDER = Path(__file__).parent / "executorch"
PROFILE = profiled.schema("profile")
FRAMEWORK = {"Method::init", "Program::load_method", "Method::execute", "OPERATOR_CALL"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return profiled.export(tmp_path_factory.mktemp("net"), Net())


def rows_of(path) -> list[dict]:
    with open(path, newline="") as file:
        return [row for row in csv.DictReader(file, delimiter="\t") if row["is_delegated_op"] != "True"]


def microseconds(row: dict, warmup: int) -> float:
    return 1000 * sum(ast.literal_eval(row["raw"])[warmup:])


def innermost(row: dict) -> set[str]:
    return {list(stack.values())[-1][0] for stack in ast.literal_eval(row["module_hierarchy"]).values()}


def common(modules: set[str]) -> str:
    paths = [module.split(".") if module else [] for module in modules]
    length = next(n for n in range(len(paths[0]), -1, -1) if all(path[:n] == paths[0][:n] for path in paths))
    return ".".join(paths[0][:length])


def report_of(model, path, *options) -> dict:
    report = command.run_json("profile", model, "--profile", path, *options)
    PROFILE.validate(report)
    return report


@pytest.mark.parametrize("options, warmup", [([], 1), (["--warmup", "0"], 0), (["--warmup", "4"], 4)])
@pytest.mark.parametrize("name", ["portable", "xnnpack"])
def test_times_go_to_the_modules_that_executorch_states(model, name, options, warmup):
    path = FOLDER / f"{name}.tsv"
    rows = [row for row in rows_of(path) if row["event_name"] not in FRAMEWORK]
    report = report_of(model, path, *options)
    assert (report["source"], report["unit"]) == ("executorch", "microseconds")
    assert (report["runs"], report["warmup_runs"]) == (5 - warmup, warmup)
    assert [node["name"] for node in report["nodes"]] == [row["event_name"] for row in rows] and len(rows) >= 5
    for node, row in zip(report["nodes"], rows, strict=True):
        assert node["time"] == pytest.approx(microseconds(row, warmup), abs=0.51)
        modules = innermost(row)
        assert (node["module"], node["rule"]) == (common(modules), "module")
        assert sorted(node.get("parts", [])) == (sorted(modules) if len(modules) > 1 else [])
    assert report["unattributed"] == 0
    run = next(row for row in rows_of(path) if row["event_name"] == "Method::execute")
    assert report["run_time"] == pytest.approx(microseconds(run, warmup), abs=0.51)
    assert report["operator_time"] < report["run_time"]


def test_a_delegate_is_one_operator_of_all_its_modules(model):
    report = report_of(model, FOLDER / "xnnpack.tsv")
    rows = {row["path"]: row for row in report["modules"]}
    delegates = [node for node in report["nodes"] if node["name"] == "DELEGATE_CALL"]
    assert [node["module"] for node in delegates] == ["layers.0", "layers.1", "head"]
    assert {node["provider"] for node in delegates} == {"XnnpackBackend"}
    assert {node["provider"] for node in report["nodes"]} == {"XnnpackBackend", "ExecuTorch"}
    assert (rows["layers.0.fc"]["total"], rows["layers.0.fc"]["at_most"]) == (0, delegates[0]["time"])
    assert rows["layers.0.norm"]["total"] == rows["layers.0.norm"]["at_most"] > 0
    text = command.run("profile", model, "--profile", FOLDER / "xnnpack.tsv").stdout
    assert "4 runs after 1 warm-up run" in text and "XnnpackBackend" in text


def test_two_runtimes_are_compared_by_module(model, tmp_path):
    ort, _ = profiled.run_onnxruntime(model, tmp_path, 4)
    comparison = command.run_json("profile", model, "--profile", ort, "--against", FOLDER / "portable.tsv")
    assert {row["path"] for row in comparison["modules"]} >= {"", "layers.0.fc", "layers.1.norm", "head"}


def test_a_module_without_a_node_counts_for_the_module_around_it(model, tmp_path):
    """Renames a module in the table; most others still belong to the model."""
    text = (FOLDER / "portable.tsv").read_text().replace("'layers.1.act'", "'layers.1.drop.inner'")
    (tmp_path / "t.tsv").write_text(text)
    gelu = [node for node in report_of(model, tmp_path / "t.tsv")["nodes"] if node["op_type"] == "gelu.out"]
    assert [node["module"] for node in gelu] == ["layers.0.act", "layers.1"]


@pytest.mark.parametrize("unit, factor", [("us", 1000), ("ns", 1_000_000), ("s", 0.001)])
def test_the_unit_is_in_the_header(model, tmp_path, unit, factor):
    def scaled(row: dict) -> dict:
        return {**row, "raw": str([time * factor for time in ast.literal_eval(row["raw"])])}

    with open(FOLDER / "portable.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    with open(tmp_path / "t.tsv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t")
        file.write("\t".join(rows[0]).replace("(ms)", f"({unit})") + "\n")
        writer.writerows(map(scaled, rows))
    times = [node["time"] for node in report_of(model, tmp_path / "t.tsv")["nodes"]]
    assert times == [node["time"] for node in report_of(model, FOLDER / "portable.tsv")["nodes"]]


def test_blocks_of_a_program_with_branches_have_their_own_runs(model, tmp_path):
    """Two blocks of one name: the second has two runs, one of them the first of all."""
    header = "\tevent_block_name\tevent_name\traw\tavg (us)\tmodule_hierarchy\tis_delegated_op\tstart_time"
    stack = "{'a': {'L__self__': ('', 'Net'), 'L__self__head': ('head', 'Linear')}}"
    lines = [header,
             f"0\tExecute\tnative_call_a.out\t[10.0]\t10\t{stack}\tFalse\t[200]",
             "1\tExecute\tMethod::execute\t[11.0]\t11\t{}\tFalse\t[190]",
             f"2\tExecute\tnative_call_b.out\t[500.0, 20.0]\t20\t{stack}\tFalse\t[100, 300]",
             "3\tExecute\tMethod::execute\t[600.0, 21.0]\t21\t{}\tFalse\t[90, 290]"]
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n")
    report = report_of(model, tmp_path / "t.tsv")
    assert (report["runs"], report["warmup_runs"], report["run_time"]) == (2, 1, 32)
    assert {node["name"]: (node["time"], node["count"]) for node in report["nodes"]} == {
        "native_call_a.out": (10, 1), "native_call_b.out": (20, 1)}


def broken(replace: dict[str, str]) -> str:
    text = (FOLDER / "portable.tsv").read_text()
    for old, new in replace.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("replace, code, fragment", [
    ({"avg (ms)": "avg"}, "E0203", "unit"),
    ({"module_hierarchy": "module"}, "E0203", "module_hierarchy"),
    ({"Method::execute": "Method::other"}, "E0203", "no run"),
    ({"{'L__self__': (": "{'L__self__': ["}, "E0204", "module_hierarchy"),
    ({"'layers.": "'blocks.", "'head'": "'tail'"}, "E0206", "the model has only"),
])
def test_broken_tables_are_refused(model, tmp_path, replace, code, fragment):
    (tmp_path / "t.tsv").write_text(broken(replace))
    error = command.run("profile", model, "--profile", tmp_path / "t.tsv", code=3).stderr
    assert error.startswith(code) and fragment in error and "try:" in error, error


@pytest.mark.parametrize("raw, fragment", [("[1.0]", "one time for each run"), ("[x]", "invalid time"),
                                           ("7", "no list of times"), ("[1e300, 1e300]", "overflows")])
def test_invalid_times_are_refused(model, tmp_path, raw, fragment):
    stack = "{'a': {'L__self__': ('', 'Net')}}"
    (tmp_path / "t.tsv").write_text(
        "\tevent_block_name\tevent_name\traw\tavg (us)\tmodule_hierarchy\tis_delegated_op\n"
        f"0\tExecute\tnative_call_a.out\t{raw}\t1\t{stack}\tFalse\n"
        "1\tExecute\tMethod::execute\t[1.0, 2.0]\t1\t{}\tFalse\n")
    error = command.run("profile", model, "--profile", tmp_path / "t.tsv", code=3).stderr
    assert error.startswith("E0204") and fragment in error


def test_the_inspectors_own_table_is_refused_with_a_remedy(model):
    error = command.run("profile", model, "--profile", FOLDER / "without_modules.tsv", code=3).stderr
    assert error.startswith("E0203") and "to_dataframe().to_csv" in error


def test_a_table_without_an_etrecord_is_refused(model, tmp_path):
    rows = (FOLDER / "portable.tsv").read_text().splitlines()
    column = rows[0].split("\t").index("module_hierarchy")
    lines = [rows[0]]
    for row in csv.reader(rows[1:], delimiter="\t"):
        row[column] = "{}"
        lines.append("\t".join(f'"{cell}"' for cell in row))
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n")
    error = command.run("profile", model, "--profile", tmp_path / "t.tsv", code=3).stderr
    assert error.startswith("E0203") and "ETRecord" in error


def test_warmup_must_leave_a_run(model):
    error = command.run("profile", model, "--profile", FOLDER / "portable.tsv", "--warmup", "5", code=2).stderr
    assert error.startswith("E0101") and "warm-up" in error
