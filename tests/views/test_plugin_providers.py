"""Tests `whence profile` and `whence place` on files that ONNX Runtime wrote with a plugin provider, which compiles the
whole network as one operator."""

import json
from pathlib import Path

import pytest

import command
from views import profiled
from views.executorch.network import Net

FOLDER = Path(__file__).parent / "plugin_provider"
RUN, PROVIDERS = FOLDER / "run.json", FOLDER / "providers.json"
PROFILE = profiled.schema("profile")
PROVIDER = "OpenVINOExecutionProvider"


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return profiled.export(tmp_path_factory.mktemp("net"), Net())


def report_of(model, *files) -> dict:
    report = command.run_json("profile", model, *(word for file in files for word in ("--profile", file)))
    PROFILE.validate(report)
    return report


def parts() -> list[dict]:
    return [event for event in json.loads(RUN.read_text()) if event["cat"] == "Kernel"]


def test_the_parts_of_a_compiled_operator_belong_to_their_nodes_modules(net):
    events = json.loads(RUN.read_text())
    report = report_of(net, RUN)
    runs = sorted(event["ts"] for event in events if event["name"] == "model_run")
    operators = [event for event in events if event["cat"] == "Node" and event["ts"] >= runs[1]]
    assert report["runs"] == 3 and report["operator_time"] == sum(event["dur"] for event in operators)
    names = {event["name"].removeprefix("OV::") for event in parts()}
    found = {node["name"]: node for node in report["nodes"]}
    assert set(found) == names | {operators[0]["name"].removesuffix("_kernel_time")} and len(names) >= 7
    modules = profiled.modules_of(net)
    known = {name for name in names if name in modules or name.removesuffix("/WithoutBiases") in modules}
    assert len(known) >= 5
    for name in known:
        assert found[name]["module"] == modules[name.removesuffix("/WithoutBiases")]
    assert {node["provider"] for node in report["nodes"]} == {PROVIDER}
    unknown = {name for name, node in found.items() if node["module"] is None}
    assert any(name.startswith("MVN_") for name in unknown) and not unknown & known
    assert report["unattributed"] == sum(found[name]["time"] for name in unknown)
    assert "list of providers" in command.run("profile", net, "--profile", RUN).stdout


def test_parts_never_take_longer_than_their_operator(net):
    """OpenVINO's times are averages over all runs so far, so those of the second run include half of the first one's."""
    second = [event for event in json.loads(RUN.read_text()) if event["cat"] == "Node"][1]
    last = max(event["ts"] for event in parts() if event["ts"] < second["ts"] + second["dur"])
    in_second = [event for event in parts() if second["ts"] <= event["ts"] <= last]
    assert sum(event["dur"] for event in in_second) > second["dur"]
    stderr = command.run("profile", net, "--profile", RUN).stderr
    assert "divided in proportion" in stderr


def test_the_list_of_providers_has_the_nodes_of_a_compiled_operator(net):
    report = report_of(net, PROVIDERS, RUN)
    alone = report_of(net, RUN)
    assert report["operator_time"] == alone["operator_time"] and report["unattributed"] == 0 < alone["unattributed"]
    listed = {node["name"]: node for node in report["nodes"]}
    for node in alone["nodes"]:
        if node["module"] is not None:
            assert listed[node["name"]]["module"] == node["module"]
        else:
            assert (listed[node["name"]]["module"], listed[node["name"]]["rule"]) == ("", "listed")
            assert {"layers.0.norm", "layers.1.norm", "head"} <= set(listed[node["name"]]["parts"])
    rows = {row["path"]: row for row in report["modules"]}
    assert rows["layers.0.norm"]["at_most"] > rows["layers.0.norm"]["total"]
    assert rows[""]["total"] == report["operator_time"]


def test_a_list_of_providers_alone_counts_nodes(net):
    report = report_of(net, PROVIDERS)
    assert report["unit"] == "nodes" and {node["provider"] for node in report["nodes"]} == {PROVIDER}


def test_the_devices_of_a_plugin_provider_are_in_the_list(net, tmp_path):
    assert json.loads(PROVIDERS.read_text())[0]["devices"] == [{"type": "CPU", "vendor": "Intel", "vendor_id": 0x8086}]
    assert command.run_json("place", net, "--rule", "cpu=**", "--assigned", PROVIDERS)["assigned"]["differences"] == []
    report = command.run_json("place", net, "--rule", "npu=**", "--assigned", PROVIDERS, code=1)
    assert report["assigned"]["as_placed"] == 0 < len(report["assigned"]["differences"])
