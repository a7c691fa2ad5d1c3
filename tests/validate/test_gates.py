"""Tests gates for pipelines: by module and operator, against a baseline, from a configuration file; and formats."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import unquote, urlsplit

import onnx
import pytest

import command
from validate.onnx_files import MODULE, chain, known, model
from validate.test_coverage import schema


@pytest.fixture
def path(tmp_path):
    """Nodes of encoder.0: two exact; of encoder.1: one exact, one inferred, one ancestor; and one unattributed node."""
    return model(chain(known("encoder.0", "exact"), known("encoder.0", "exact"), known("encoder.1", "exact"),
                       known("encoder.1", "inferred"), known("encoder.1", "ancestor"), {}), tmp_path / "m.onnx")


def shortfalls(*arguments, code=1) -> list:
    found = command.run_json("validate", *arguments, code=code)["shortfalls"]
    return [(each["code"], each["subject"], each["what"], round(each["minimum"], 1), round(each["reached"], 1))
            for each in found]


def value_of(node: onnx.NodeProto, key: str) -> str:
    return next(entry.value for entry in node.metadata_props if entry.key == key)


def test_thresholds_apply_to_modules_and_operators(path):
    assert shortfalls(path, "--min", "exact=100@encoder.*") == [("V501", "encoder.1", "exact", 100, 33.3)]
    assert shortfalls(path, "--min", "covered=60@encoder.*", code=0) == []
    assert shortfalls(path, "--min", "covered=70@op:Relu") == [("V501", "Relu", "covered", 70, 66.7)]
    assert "V501 exact of encoder.1 is 33.33 %, not 100 %" in command.run(
        "validate", path, "--min", "exact=100@encoder.1", code=1).stdout


def test_v502_required_modules_must_be_complete(path):
    assert shortfalls(path, "--require", "encoder.0", code=0) == []
    assert shortfalls(path, "--require", "encoder.*") == [("V502", "encoder.1", "covered", 100, 66.7)]


def test_v502_the_baseline_shows_a_required_module_without_nodes(path, tmp_path):
    """The glob matches modules that the file still has, so only the baseline shows the missing module."""
    report = tmp_path / "before.json"
    report.write_text(command.run("validate", path, "--json").stdout)
    after = model(chain(known("encoder.0", "exact"), known("encoder.0", "exact")), tmp_path / "after.onnx")
    assert shortfalls(after, "--require", "encoder.*", code=0) == []
    for before in (path, report):
        for glob, lost in (("encoder.*", ["encoder.1"]), ("encoder.1", ["encoder.1"]), ("encoder.0", []), ("**.1", ["encoder.1"])):
            found = shortfalls(after, "--require", glob, "--baseline", before, code=1 if lost else 0)
            assert found == [("V502", each, "covered", 100, 0) for each in lost], glob
    (found,) = command.run_json("validate", after, "--require", "encoder.*", "--baseline", path, code=1)["shortfalls"]
    assert found["message"] == "encoder.1 has no node: the baseline has 3"
    (nearest,) = command.run_json("validate", after, "--require", "encoder.2", "--baseline", path, code=1)["shortfalls"]
    assert "encoder.1" in nearest["message"] and nearest["subject"] == "encoder.2"


def test_v502_the_sidecar_shows_a_required_module_without_nodes(small_export, small_archive, tmp_path):
    full, sidecar, lost = (tmp_path / name for name in ("whole.onnx", "whole.whence.json", "lost.onnx"))
    command.run("export", small_archive, "-o", full, "--annotate", "--sidecar-out", sidecar)
    exported = onnx.load(full)
    modules = [value_of(each, MODULE) for each in exported.graph.node]
    assert len(set(modules)) > 1
    # Removes the last module's nodes, like a tool that removes an activation by mistake.
    for each in [each for each, module in zip(exported.graph.node, modules, strict=True) if module == modules[-1]]:
        exported.graph.node.remove(each)
    exported.graph.output[0].name = exported.graph.node[-1].output[0]
    onnx.save(exported, lost)
    assert shortfalls(lost, "--require", "**", code=0) == []
    assert ("V502", modules[-1], "covered", 100, 0) in shortfalls(lost, "--require", "**", "--sidecar", sidecar)
    assert modules[-1] not in {found[1] for found in shortfalls(full, "--require", modules[-1], "--sidecar", sidecar, code=0)}


@pytest.mark.parametrize("options, rule, subject, nearest", [
    (["--require", "encoder.9"], "V502", "encoder.9", "encoder.0"),
    (["--min", "exact=1@enc.0"], "V501", "enc.0", "encoder.0"),
    (["--min", "exact=1@op:Rellu"], "V501", "Rellu", "Relu"),
])
def test_a_missing_name_is_a_finding_that_suggests_the_nearest(path, tmp_path, options, rule, subject, nearest):
    """If an export drops or renames a required module, the gate must fail, but not with a usage error."""
    report = command.run_json("validate", path, *options, code=1)
    schema("validate").validate(report)
    (found,) = report["shortfalls"]
    assert (found["code"], found["subject"], found["reached"]) == (rule, subject, 0)
    assert f"of the file matches '{subject}'; the nearest are " in found["message"] and nearest in found["message"]
    for form in ("text", "sarif", "junit", "github"):
        result = command.run("validate", path, *options, "--format", form, code=1)
        assert nearest in result.stdout and subject in result.stdout and not result.stderr


@pytest.mark.parametrize("threshold", ["exact=95@", "exact=95@op:", "exact@encoder=5", "exact=101@encoder.0"])
def test_invalid_thresholds_are_refused(path, threshold):
    assert command.run("validate", path, "--min", threshold, code=2).stderr.startswith("E0101")


def test_v503_coverage_may_not_fall_below_a_baseline(path, tmp_path):
    before = tmp_path / "before.json"
    before.write_text(command.run("validate", path, "--json").stdout)
    assert shortfalls(path, "--baseline", before, code=0) == []
    worse = model(chain(known("encoder.0", "exact"), known("encoder.0", "ancestor"), {}), tmp_path / "worse.onnx")
    # One node of encoder.0 became unknown. The removed nodes of encoder.1 do not count.
    assert shortfalls(worse, "--baseline", before) == [("V503", "", "covered", 66.7, 33.3)]
    (found,) = command.run_json("validate", worse, "--baseline", before, code=1)["shortfalls"]
    assert found["nodes"] == 1 and "1 more node is unknown" in found["message"]


def baseline_finding(path, before, **options) -> dict:
    """Returns the single finding against a baseline, after validating the report with its schema."""
    report = command.run_json("validate", path, "--baseline", before, code=1)
    schema("validate").validate(report)
    (found,) = report["shortfalls"]
    return found


def blocks(count: int) -> list:
    """Returns three attributed nodes per block, and one unattributed node."""
    return chain(*(known(f"blocks.{i}.{part}") for i in range(count) for part in ("norm", "mix", "act")), {})


def test_nodes_removed_by_a_tool_are_not_a_loss(tmp_path):
    """The share falls because nodes were removed, but no remaining node became unknown."""
    before = model(blocks(30), tmp_path / "before.onnx")
    for remaining in (blocks(28), blocks(1), [*blocks(30)[3:8], blocks(30)[-1]]):
        after = model(remaining, tmp_path / "after.onnx")
        report = command.run_json("validate", after, "--baseline", before)
        assert report["clean"] and report["coverage"]["covered"] < report["baseline"]["coverage"]["covered"]


def test_one_cause_is_one_finding_with_all_modules(tmp_path):
    nodes = blocks(30)
    before = model(nodes, tmp_path / "before.onnx")
    for each in nodes:
        del each.metadata_props[:]
    found = baseline_finding(model(nodes, tmp_path / "after.onnx"), before)
    assert (found["nodes"], found["what"], found["reached"]) == (90, "covered", 0)
    for form in ("text", "sarif", "junit", "github"):
        output = command.run("validate", tmp_path / "after.onnx", "--baseline", before, "--format", form, code=1).stdout
        assert output.count("90 more nodes are unknown") == 1 and "annotate FILE --from BEFORE" in output
        assert "make a new baseline" not in output
    nodes = blocks(30)
    for each in nodes[36:39]:
        del each.metadata_props[:]
    found = baseline_finding(model(nodes, tmp_path / "one.onnx"), before)
    assert (found["nodes"], found["modules"]) == (3, ["blocks.12.act", "blocks.12.mix", "blocks.12.norm"])


def new_nodes(*metadata: dict) -> list:
    """Returns nodes with unique names."""
    nodes = chain(*metadata)
    for number, each in enumerate(nodes):
        each.name = f"inserted_{number}"
    return nodes


@pytest.mark.parametrize("change, what, nodes, modules", [
    (lambda nodes: nodes[4].metadata_props[1].__setattr__("value", "ancestor"), "covered", 1, ["blocks.1.mix"]),
    (lambda nodes: nodes[4].metadata_props[1].__setattr__("value", "inferred"), "exact", 1, ["blocks.1.mix"]),
    (lambda nodes: nodes.extend(new_nodes({}, {})), "covered", 2, [""]),  # inserted by a tool without metadata
    (lambda nodes: nodes.extend(new_nodes(known("blocks.2.act", "ancestor"))), "covered", 1, ["blocks.2.act"]),
])
def test_losses_against_a_baseline_are_findings(tmp_path, change, what, nodes, modules):
    nodes_before = blocks(3)
    before = model(nodes_before, tmp_path / "before.onnx")
    change(nodes_before)
    found = baseline_finding(model(nodes_before, tmp_path / "after.onnx"), before)
    assert (found["what"], found["nodes"], found["modules"]) == (what, nodes, modules)


def test_gains_do_not_compensate_losses(tmp_path):
    """One node becomes known and another unknown, so the sums do not change."""
    nodes_before = [*blocks(2), *chain(known("late", "ancestor"))]
    before = model(nodes_before, tmp_path / "before.onnx")
    nodes_before[-1].metadata_props[1].value = "exact"
    nodes_before[1].metadata_props[1].value = "ancestor"
    found = baseline_finding(model(nodes_before, tmp_path / "after.onnx"), before)
    assert (found["what"], found["nodes"]) == ("covered", 1)


def test_inserted_quantisers_are_not_a_loss(tmp_path):
    before = model(blocks(4), tmp_path / "before.onnx")
    inserted = new_nodes(*(known(f"blocks.{i}.mix", "inferred") for i in range(4)))
    assert command.run_json("validate", model([*blocks(4), *inserted], tmp_path / "after.onnx"), "--baseline", before)["clean"]


@pytest.mark.parametrize("options", [
    ["--allow", "V503"], ["--allow", "coverage_fell"], ["--tolerance", "2"], ["--tolerance", "V503=2"],
    ["--tolerance", "coverage_fell=2"], ["--tolerance", "15.4%"], ["--tolerance", "V501=0", "--tolerance", "V503=20%"]])
def test_a_gate_may_be_allowed_or_have_a_tolerance(tmp_path, options):
    nodes_before = blocks(4)
    before = model(nodes_before, tmp_path / "before.onnx")
    for each in nodes_before[:2]:
        del each.metadata_props[:]
    after = model(nodes_before, tmp_path / "after.onnx")
    baseline_finding(after, before)
    result = command.run("validate", after, "--baseline", before, *options)
    assert "(allowed)" in result.stdout
    (found,) = command.run_json("validate", after, "--baseline", before, *options)["shortfalls"]
    assert found["allowed"] and found["nodes"] == 2
    sarif = command.run("validate", after, "--baseline", before, *options, "--format", "sarif").stdout
    assert json.loads(sarif)["runs"][0]["results"] == []
    for strict in ("1", "15.3%", "V503=1", "V501=9"):
        command.run("validate", after, "--baseline", before, "--tolerance", strict, code=1)


def test_every_kind_of_check_has_a_tolerance(path, tmp_path):
    for gate in (["--min", "covered=70"], ["--require", "encoder.*"]):
        command.run("validate", path, *gate, code=1)
        command.run("validate", path, *gate, "--tolerance", "1")
    # A tolerance does not apply to a missing module.
    command.run("validate", path, "--require", "encoder.7", "--tolerance", "100%", code=1)
    unnamed = chain(known("a"), known("a"), known("a"))
    unnamed[0].name = unnamed[1].name = ""
    unnamed_file = model(unnamed, tmp_path / "unnamed.onnx")
    command.run("validate", unnamed_file, code=1)
    command.run("validate", unnamed_file, "--tolerance", "1", code=1)
    assert "(allowed)" in command.run("validate", unnamed_file, "--tolerance", "V101=2").stdout


@pytest.mark.parametrize("tolerance", ["", "a", "-1", "1%%", "V503", "V503=", "V999=1", "=1x", "nan", "inf", "1e400"])
def test_invalid_tolerances_are_refused(path, tolerance):
    assert command.run("validate", path, "--tolerance", tolerance, code=2).stderr.startswith("E0101")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"coverage": {"nodes": -1, "covered": 0, "exact": 0}, "modules": []}',
                                  '{"coverage": {"nodes": 18446744073709551615, "covered": 0, "exact": 0}, "modules": []}'])
def test_an_invalid_baseline_is_an_error(path, tmp_path, text):
    before = tmp_path / "before.json"
    before.write_text(text)
    result = command.run("validate", path, "--baseline", before, code=None)
    assert result.returncode in (2, 3) and result.stderr.startswith("E02")
    assert command.run("validate", path, "--baseline", tmp_path / "none.json", code=2).stderr.startswith("E0102")


def test_a_configuration_file_sets_gates(path, tmp_path):
    (tmp_path / "before.json").write_text(command.run("validate", path, "--json").stdout)
    config = tmp_path / "whence.json"
    config.write_text(json.dumps({"min": ["exact=60"], "require": ["encoder.0"], "allow": ["V101"],
                                  "baseline": "before.json"}))
    assert shortfalls(path, "--config", config) == [("V501", "", "exact", 60, 50)]
    assert len(shortfalls(path, "--config", config, "--min", "covered=90")) == 2
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({**settings, "tolerance": ["V501=1"]}))
    command.run("validate", path, "--config", config)
    config.write_text(json.dumps(settings))
    for wrong in ('{"mim": []}', '{"min": "exact=1"}', "[1]", '{"min": [1]}'):
        config.write_text(wrong)
        assert command.run("validate", path, "--config", config, code=3).stderr.startswith("E0203")


@pytest.mark.parametrize("options, gates, failed", [
    ([], 0, 0),
    (["--require", "encoder.0", "--min", "exact=1"], 2, 0),
    (["--require", "gone"], 1, 1),
    (["--require", "gone", "--require", "gone.too"], 1, 1),  # one check, because it has one code
    (["--require", "encoder.0", "--min", "exact=100"], 2, 1),
])
def test_the_last_line_counts_gates_among_the_checks(path, options, gates, failed):
    checks = len(command.run_json("validate", path)["checks"])
    output = command.run("validate", path, *options, code=1 if failed else 0).stdout
    assert output.endswith(f"\n  {checks + gates - failed} of {checks + gates} checks found nothing\n")


# ---- formats for other tools ----------------------------------------------------------------------------------------

def test_sarif_has_rules_and_locations(path):
    result = command.run("validate", path, "--min", "covered=90@op:Relu", "--format", "sarif", code=1)
    (run,) = json.loads(result.stdout)["runs"]
    rules = run["tool"]["driver"]["rules"]
    (found,) = run["results"]
    assert found["ruleId"] == "V501" == rules[found["ruleIndex"]]["id"] and found["level"] == "error"
    (location,) = found["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == Path(path).as_uri()
    assert location["logicalLocations"] == [{"fullyQualifiedName": "Relu"}]
    assert "66.67 %, not 90 %" in found["message"]["text"]


def test_sarif_follows_version_2_1_0(tmp_path, monkeypatch):
    """The log has the fields that the SARIF schema requires, and any file name becomes a valid URI."""
    name = "a b#1?%é.onnx"
    model(chain(known("a", "exact"), {}, known("\x07", "exact")), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    log = json.loads(command.run("validate", name, "--min", "covered=90", "--format", "sarif", code=1).stdout)
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json") and len(log["runs"]) == 1
    assert set(log) == {"$schema", "version", "runs"} and set(log["runs"][0]) == {"tool", "results"}
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["name"] == "whence" and len({rule["id"] for rule in driver["rules"]}) == len(driver["rules"])
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"] and rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    assert log["runs"][0]["results"]
    for result in log["runs"][0]["results"]:
        assert set(result) == {"ruleId", "ruleIndex", "level", "message", "locations"} and result["message"]["text"]
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        parts = urlsplit(uri)
        assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "") and uri.isascii()
        assert unquote(parts.path) == name


def test_passed_gates_are_junit_cases(path):
    gates = ["--min", "exact=50", "--require", "encoder.0", "--baseline", path]
    root = ElementTree.fromstring(command.run("validate", path, *gates, "--format", "junit").stdout)
    cases = {each.get("name").split()[0]: each.find("failure") for each in root.iter("testcase")}
    assert [cases.get(code, "missing") for code in ("V501", "V502", "V503")] == [None, None, None]


def test_junit_has_a_case_for_each_rule(path):
    root = ElementTree.fromstring(command.run("validate", path, "--min", "exact=90", "--format", "junit", code=1).stdout)
    cases = {each.get("name").split()[0]: each for each in root.iter("testcase")}
    assert "V101" in cases and cases["V101"].find("failure") is None
    assert "exact is 50 %, not 90 %" in cases["V501"].find("failure").text
    assert (root.get("tests"), root.get("failures")) == (str(len(cases)), "1")


def test_the_github_format_prints_annotations(path):
    text = command.run("validate", path, "--min", "exact=90", "--format", "github", code=1).stdout
    assert text.startswith(f"::error file={path},title=V501 threshold_not_reached::exact is 50 %25, not 90 %25; try: ")
    assert command.run("validate", path, "--format", "github").stdout == ""


def test_hostile_names_stay_in_their_field(tmp_path):
    name = 'a"><script>\n::error::b'
    path = model(chain(known(name, "ancestor")), tmp_path / "m.onnx")
    options = ["validate", path, "--min", "covered=1@**"]
    lines = command.run(*options, "--format", "github", code=1).stdout.splitlines()
    assert all(line.startswith("::error file=") for line in lines)
    junit = command.run(*options, "--format", "junit", code=1).stdout
    assert "<script>" not in junit and ElementTree.fromstring(junit) is not None
    json.loads(command.run(*options, "--format", "sarif", code=1).stdout)


def test_an_unknown_format_is_an_error(path):
    assert "github" in command.run("validate", path, "--format", "xml", code=2).stderr


def test_rules_lists_codes_with_explanations():
    rules = command.run_json("rules")["rules"]
    assert [each["code"] for each in rules] == sorted({each["code"] for each in rules})
    assert {"V101", "V401", "V501", "V502", "V503"} <= {each["code"] for each in rules}
    assert all(each["why"] and each["remedy"] and each["severity"] in ("error", "warning") for each in rules)
    listed = command.run("rules").stdout
    assert all(each["code"] in listed and each["name"] in listed for each in rules)
    assert rules[0]["why"] in command.run("rules", "--rule", "node_name_empty").stdout
    assert command.run("rules", "--rule", "V999", code=2).stderr.startswith("E0101")
