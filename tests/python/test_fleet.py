"""`whence fleet` annotates many models in parallel: failures do not stop a run, a killed run can be continued, and one
page lists all models."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest

import command
import whence
from validate.onnx_files import chain, external, known, model, node
from views import browser

ENVIRONMENT = {**os.environ, "WHENCE": str(command.BINARY), "PYTHONWARNINGS": "ignore",
               "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
ENVIRONMENT.pop("RAY_ADDRESS", None)


def start(fleet, folder, *options, environment=None, **pipes) -> subprocess.Popen:
    words = [sys.executable, "-m", "whence", "fleet", fleet, "-o", folder / "out", "--jobs", "2", *options]
    return subprocess.Popen(list(map(str, words)), text=True, env=environment or ENVIRONMENT, start_new_session=True,
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes})


def run(fleet, folder, *options, code=0, environment=None) -> tuple[dict, str]:
    """Returns the totals and the text on standard error."""
    process = start(fleet, folder, "--json", *options, environment=environment)
    out, error = process.communicate(timeout=300)
    assert process.returncode == code, out + error
    assert "E0901" not in out + error
    return json.loads(out), error


def rows(folder) -> dict[str, dict]:
    """Returns the last row of each model by its base name."""
    lines = (folder / "out" / "fleet.jsonl").read_text().splitlines()
    return {os.path.basename(row["file"]): row for row in map(json.loads, filter(lambda line: line.endswith("}"), lines))}


def slow_command(folder, seconds: float) -> dict:
    """Returns an environment in which each annotate takes this long and logs its start and end."""
    slow = folder / "slow"
    slow.write_text(f'#!/bin/sh\nif [ "$1" = annotate ]; then echo + >>"{folder}/log"; sleep {seconds}; '
                    f'"{command.BINARY}" "$@"; code=$?; echo - >>"{folder}/log"; exit $code; fi\nexec "{command.BINARY}" "$@"\n')
    slow.chmod(0o755)
    return {**ENVIRONMENT, "WHENCE": str(slow)}


def write_fleet(folder, count: int):
    """Writes models with node names of PyTorch's older exporter, which annotate reads; half of them in a subfolder."""
    for i in range(count):
        subfolder = folder / "models" / ("nested" if i % 2 else ".")
        subfolder.mkdir(parents=True, exist_ok=True)
        nodes = chain({}, {})
        for number, each in enumerate(nodes):
            each.name = f"/layer.{number}/Relu"
        model(nodes, subfolder / f"m{i}.onnx")
    return folder / "models"


def ort_result(path) -> list:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.zeros(2, np.float32)})[0].tolist()


def test_models_in_a_folder(tmp_path):
    fleet = write_fleet(tmp_path, 4)
    totals, error = run(fleet, tmp_path)
    assert (totals["models"], totals["done"], totals["failed"], totals["left"], totals["new"]) == (4, 4, 0, 0, 4)
    assert (totals["nodes"], totals["covered"], totals["inferred"], totals["percent"]) == (8, 8, 8, 100)
    assert error == ""  # no progress bar without a terminal
    for name in ("m0.onnx", "nested/m1.onnx", "m2.onnx", "nested/m3.onnx"):
        row, output = rows(tmp_path)[os.path.basename(name)], tmp_path / "out" / name
        assert row["output"] == str(output) and row["ok"] and row["nodes"] == 2
        keys = {entry.key: entry.value for entry in onnx.load(output).graph.node[1].metadata_props}
        assert keys["pkg.whence.module"] == "layer.1"
        assert "</html>" in (tmp_path / "out" / f"{name}.html").read_text()


def test_models_in_a_list(tmp_path):
    """Paths are relative to the list's folder, not to the current one. One file is listed twice."""
    fleet = write_fleet(tmp_path, 4)
    (fleet / "list.txt").write_text("# two of four\nm0.onnx\n\nnested/m3.onnx\nnested/../m0.onnx\n")
    totals, _ = run(fleet / "list.txt", tmp_path, "--no-reports")
    assert totals["models"] == totals["done"] == 2
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.*")) == ["fleet.jsonl", "index.html", "m0.onnx", "m3.onnx"]


def test_failing_model_does_not_stop_the_run_and_is_retried(tmp_path):
    fleet = write_fleet(tmp_path, 3)
    good = (fleet / "m0.onnx").read_bytes()
    (fleet / "m0.onnx").write_bytes(b"PK\x03\x04 no model")
    (fleet / "list.txt").write_text("m0.onnx\nm2.onnx\nnested/m1.onnx\nabsent.onnx\n")
    totals, error = run(fleet / "list.txt", tmp_path, code=1)
    assert (totals["done"], totals["failed"], totals["errors"]) == (2, 2, {"E0203": 1, "E0102": 1})
    assert error.count("failed: ") == 2 and "E0203" in error and "; try: " in error
    assert not (tmp_path / "out" / "m0.onnx").exists()
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.index("E0203") < page.index("m2.onnx.html") and rows(tmp_path)["m0.onnx"]["errors"][0]["remedy"] in page
    (fleet / "m0.onnx").write_bytes(good)
    totals, _ = run(fleet / "list.txt", tmp_path, code=1)
    assert (totals["done"], totals["failed"], totals["new"]) == (3, 1, 2)


def test_changed_and_deleted_files_are_redone(tmp_path):
    fleet = write_fleet(tmp_path, 4)
    run(fleet, tmp_path)
    (tmp_path / "out" / "m0.onnx").unlink()
    model(chain({}, {}, {}), fleet / "m2.onnx")
    assert run(fleet, tmp_path)[0]["new"] == 2
    assert run(fleet, tmp_path)[0]["new"] == 0
    assert run(fleet, tmp_path, "--min", "covered=100", code=1)[0]["new"] == 4  # other options; m2 has no scopes


def test_killed_run_is_continued(tmp_path):
    """Each annotate takes half a second. The run and all its processes are killed while two models are in progress."""
    fleet = write_fleet(tmp_path, 8)
    process = start(fleet, tmp_path, environment=slow_command(tmp_path, 0.5))
    log = tmp_path / "out" / "fleet.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and (not log.exists() or len(log.read_text().splitlines()) < 3):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = rows(tmp_path)
    assert 3 <= len(before) < 8
    with log.open("a") as file:
        file.write('{"file": "cut o')  # a row cut off by a kill
    written = {row["output"]: os.stat(row["output"]).st_mtime_ns for row in before.values()}

    totals, _ = run(fleet, tmp_path)
    assert (totals["done"], totals["new"]) == (8, 8 - len(before))
    assert all(os.stat(output).st_mtime_ns == time_ns for output, time_ns in written.items())
    complete_rows = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    assert sorted(row["file"] for row in complete_rows) == sorted(str(path) for path in fleet.rglob("*.onnx"))
    for row in complete_rows:
        onnx.load(row["output"])  # the file is complete


def test_no_more_models_than_jobs_run_at_once(tmp_path):
    run(write_fleet(tmp_path, 6), tmp_path, "--no-reports", environment=slow_command(tmp_path, 0.2))
    running = [0]
    for mark in (tmp_path / "log").read_text().split():
        running.append(running[-1] + (1 if mark == "+" else -1))
    assert max(running) == 2 and len(running) == 13


def test_memory_does_not_grow_with_the_models(tmp_path):
    """Compares two models of 16 MB with two small ones, in the process that distributes the work."""
    write_fleet(tmp_path / "small", 2)
    (tmp_path / "large" / "models").mkdir(parents=True)
    for i in range(2):
        weight = onnx.numpy_helper.from_array(np.full((1 << 21, 2), i, np.float32), "w")
        model([node("Add", ["x", "w"], "y", "/add/Add")], tmp_path / "large" / "models" / f"m{i}.onnx", [weight])

    def peak(folder) -> int:
        program = ("import resource, sys; from whence.fleet.command_line import main; code = main(sys.argv[1:]); "
                   "print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)")
        words = [sys.executable, "-c", program, folder / "models", "-o", folder / "out", "--json"]
        text = subprocess.run(list(map(str, words)), env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
        code, kilobytes = text.splitlines()[-1].split()
        assert code == "0" and json.loads(text[:text.rindex("}") + 1])["done"] == 2
        return int(kilobytes)

    assert peak(tmp_path / "large") < peak(tmp_path / "small") + (8 << 10)


def test_weights_of_two_models_stay_apart(tmp_path):
    """Two models in one folder share a weights file, and one of them changes between two runs."""
    (tmp_path / "models").mkdir()
    expected = {}
    for name, scale in (("a", 1), ("b", 2)):
        path = model([node("Add", ["x", "w"], "y", "/add/Add")], tmp_path / "models" / f"{name}.onnx",
                     [external("w", "w.bin", offset=8 * scale)])
        expected[os.path.basename(path)] = [2 * scale, 2 * scale + 1]
    (tmp_path / "models" / "w.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "w.bin").write_text("of another program")

    def results():
        return {path.name: ort_result(path) for path in (tmp_path / "out").glob("*.onnx")}

    run(tmp_path / "models", tmp_path)
    assert results() == expected and (tmp_path / "out" / "w.bin").read_text() == "of another program"
    (tmp_path / "models" / "w.bin").write_bytes(np.arange(8, 16, dtype=np.float32).tobytes())
    os.utime(tmp_path / "models" / "a.onnx")
    run(tmp_path / "models", tmp_path)
    assert results() == {"a.onnx": [10, 11], "b.onnx": expected["b.onnx"]}


def test_sidecars_and_weights_next_to_a_model_are_used(small_export, tmp_path):
    """Weights may also be one folder above `onnx`; weights of another model are reported."""
    from safetensors.numpy import save_file

    exported, sidecar = small_export
    stripped = tmp_path / "plain.onnx"
    command.run("strip", exported, "-o", stripped)
    model_proto = onnx.load(stripped)
    for number, each in enumerate(model_proto.graph.node):
        each.name, each.doc_string = f"n{number}", ""
        del each.metadata_props[:]
    parameters = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model_proto.graph.initializer}
    names = {"first.weight", "first.bias", "second.weight", "second.bias"}
    assert names <= parameters.keys()
    for subfolder in ("recorded", "published/onnx", "other"):
        (tmp_path / "models" / subfolder).mkdir(parents=True)
        onnx.save(model_proto, tmp_path / "models" / subfolder / f"{subfolder.split('/')[0]}.onnx")
    (tmp_path / "models" / "recorded" / "recorded.whence.json").write_bytes(sidecar.read_bytes())
    weights = {name: np.ascontiguousarray(parameters[name]) for name in names}
    save_file(weights, tmp_path / "models" / "published" / "model.safetensors")
    save_file({"far.weight": np.full((8, 4), 7.5, np.float32)}, tmp_path / "models" / "other" / "model.safetensors")

    run(tmp_path / "models", tmp_path)
    results = rows(tmp_path)
    assert results["recorded.onnx"]["found_by"] == "sidecar recorded.whence.json"
    assert results["published.onnx"]["found_by"] == "weights model.safetensors"
    assert results["published.onnx"]["matched"] >= 2
    assert results["other.onnx"]["found_by"] == "its own metadata and names"
    assert "another model" in results["other.onnx"]["notes"][0]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "sidecar recorded.whence.json" in page and "another model" in page

    (tmp_path / "models" / "recorded" / "recorded.whence.json").unlink()  # the source of the origins
    assert run(tmp_path / "models", tmp_path)[0]["new"] == 1


def test_findings_are_counted_and_shown(tmp_path):
    (tmp_path / "models").mkdir()
    model(chain(known("a"), {}), tmp_path / "models" / "half.onnx")
    model(chain(known("a"), known("b")), tmp_path / "models" / "whole.onnx")
    totals, _ = run(tmp_path / "models", tmp_path, "--min", "covered=90", code=1)
    assert (totals["done"], totals["with_findings"], totals["unattributed"]) == (2, 1, 1)
    results = rows(tmp_path)
    assert results["whole.onnx"]["findings"] == [] and results["half.onnx"]["findings"][0]["severity"] == "error"
    assert run(tmp_path / "models", tmp_path)[0]["with_findings"] == 0


ERRORS = [
    (["absent"], "E0102", "a folder with models"),
    (["models/m0.onnx"], "E0203", "a list"),
    (["empty"], "E0101", ".onnx files"),
    (["models", "-o", "models"], "E0101", "--output"),
    (["models", "--jobs", "0"], "E0101", "1 to 4096"),
    (["models", "--engine", "slurm"], "E0101", "--help"),
    (["models", "-o", "file"], "E0401", "--output"),
]


@pytest.mark.parametrize("words, code, remedy", ERRORS, ids=lambda each: "" if isinstance(each, list) else each)
def test_invalid_arguments(tmp_path, words, code, remedy):
    fleet = write_fleet(tmp_path, 2)
    (fleet / "m0.onnx").write_bytes(b"\x08\x0a\xff\xfe")
    before = (fleet / "m0.onnx").read_bytes()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    result = subprocess.run([sys.executable, "-m", "whence", "fleet", *words], cwd=tmp_path, env=ENVIRONMENT, text=True,
                            capture_output=True, check=False)
    assert result.returncode == {"E0102": 2, "E0101": 2, "E0203": 3, "E0401": 5}[code]
    assert result.stderr.startswith(code) and remedy in result.stderr and result.stdout == ""
    assert (fleet / "m0.onnx").read_bytes() == before and not (fleet / "fleet.jsonl").exists()


def test_second_run_in_one_output_folder_is_refused(tmp_path):
    fleet = write_fleet(tmp_path, 2)
    first = start(fleet, tmp_path, environment=slow_command(tmp_path, 1))
    until = time.monotonic() + 30
    while time.monotonic() < until and not (tmp_path / "log").exists():
        time.sleep(0.02)
    second = start(fleet, tmp_path)
    assert "E0401" in second.communicate(timeout=60)[1] and second.returncode == 5
    assert first.communicate(timeout=60)[1] == "" and first.returncode == 0


def test_progress_bar_on_a_terminal(tmp_path):
    """Runs the command `whence fleet`, which calls the package."""
    fleet = write_fleet(tmp_path, 2)
    reader, terminal = pty.openpty()
    process = subprocess.Popen([command.BINARY, "fleet", fleet, "-o", tmp_path / "out"], env=ENVIRONMENT, stderr=terminal,
                               stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    os.close(terminal)
    drawn = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert process.returncode == 0 and "[.........." in drawn and "1/2 m" in drawn
    assert out.startswith("2 models") and "[" not in out


@pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))
def test_page_in_a_browser(tmp_path):
    fleet = write_fleet(tmp_path, 2)
    (fleet / "broken.onnx").write_bytes(b"")
    model(chain(known("a"), {}), fleet / "50 % <b>.onnx")
    run(fleet, tmp_path, code=1)
    window = browser.Browser(tmp_path)
    try:
        window.open(tmp_path / "out" / "index.html")
        first = window.run("return [...document.querySelectorAll('tr')].slice(1).map((row) => row.cells[0].textContent)")
        assert first == ["broken.onnx", "50 % <b>.onnx (report)", "m0.onnx (report)", "nested/m1.onnx (report)"]
        assert "E0201" in window.texts("tr:nth-child(2) td.text")[0]
        widths = window.run("return [...document.querySelectorAll('tr')][2].querySelector('.bar').childElementCount")
        assert widths == 2  # exact and unattributed
        window.go(window.run("return [...document.querySelectorAll('a')][1].href"))  # report with special characters
        assert "50 % <b>.onnx" in window.run("return document.title")
        assert window.complaints() == []
    finally:
        window.close()


@pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing()))
def test_long_errors_stay_visible(tmp_path):
    """An error and a finding contain a path without spaces that is wider than the window."""
    from whence.fleet import summary

    path = "/registry/" + "_".join(["long"] * 60) + ".onnx"
    problem = {"code": "E0204", "message": f"{path} is damaged", "remedy": f"copy {path} again"}
    counts = dict.fromkeys(("exact", "matched", "inferred", "ancestor", "unattributed"), 2)
    rows = {"/m/a.onnx": {"ok": False, "errors": [problem, problem]},
            "/m/b.onnx": {**counts, "ok": True, "clean": False, "nodes": 10, "covered": 6, "seconds": 1.0,
                          "found_by": "names", "notes": [], "wishes": {"reports": False}, "output": "/m/b.onnx",
                          "findings": [{**problem, "code": "V101", "severity": "warning"}]}}
    page = tmp_path / "index.html"
    page.write_text("".join(summary.to_html("registry", [*rows, "/m/c.onnx"], rows, tmp_path)))
    window = browser.Browser(tmp_path)
    try:
        window.open(page)
        for width in (1400, 1000, 420):
            window.resize(width)
            assert window.run("return document.documentElement.scrollWidth <= innerWidth;"), width
            assert window.run("return [...document.querySelectorAll('td')].every((cell) => cell.scrollWidth <= cell.clientWidth + 1 "
                              "&& cell.getBoundingClientRect().right <= innerWidth);"), width
            assert window.run("return document.body.innerText;").count(path) == 6, width
        figures = window.run("return getComputedStyle(document.querySelector('td[data-name=exact]'), '::before').content;")
        assert figures == '"exact "'  # the table's header is hidden, so each figure shows its name
    finally:
        window.close()


def need_ray():
    try:
        import ray
    except ImportError as missing:
        print(f"skipped: {missing}; tools/setup/python.sh installs Ray where available")
        pytest.skip(str(missing))
    return ray


@pytest.mark.matrix
def test_ray_on_this_machine(tmp_path):
    need_ray()
    fleet = write_fleet(tmp_path, 3)
    (fleet / "broken.onnx").write_bytes(b"")
    totals, error = run(fleet, tmp_path, "--engine", "ray", code=1)
    assert (totals["done"], totals["failed"]) == (3, 1) and "E0201" in error
    assert run(fleet, tmp_path, "--engine", "ray", code=1)[0]["new"] == 1


LOSES_A_NODE = """
import os, subprocess, sys, time
from ray.cluster_utils import Cluster
fleet, out, log = sys.argv[1:]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
kept, lost = cluster.add_node(num_cpus=2), cluster.add_node(num_cpus=2)
run = subprocess.Popen([sys.executable, "-m", "whence", "fleet", fleet, "-o", out, "--engine", "ray", "--json"],
                       env={**os.environ, "RAY_ADDRESS": cluster.address})
while run.poll() is None and (not os.path.exists(log) or open(log).read().count("+") < 4):
    time.sleep(0.05)
assert run.poll() is None, "the run ended before a node could be lost"
cluster.remove_node(lost, allow_graceful=False)
code = run.wait()
cluster.shutdown()
sys.exit(code)
"""


@pytest.mark.matrix
def test_ray_loses_a_node(tmp_path):
    """Two nodes with two cores each; one is lost while four models are in progress. Every model gets one row."""
    need_ray()
    fleet = write_fleet(tmp_path, 10)
    result = subprocess.run([sys.executable, "-c", LOSES_A_NODE, fleet, tmp_path / "out", tmp_path / "log"], text=True,
                            timeout=400, env=slow_command(tmp_path, 2), capture_output=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "fleet.jsonl").read_text().splitlines()]
    assert sorted(row["file"] for row in lines) == sorted(str(path) for path in fleet.rglob("*.onnx"))
    assert all(row["ok"] for row in lines)
    assert (tmp_path / "log").read_text().count("+") > 10  # some models were restarted
    for row in lines:
        assert whence.validate(row["output"]).coverage.nodes == 2
