"""samples/fleet: many files in parallel, failures that stop nothing, runs that are continued."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
import pytest

import command
from validate.onnx_files import chain, external, model, node

SCRIPT = command.ROOT / "samples" / "fleet" / "fleet.py"
ENVIRONMENT = {**os.environ, "WHENCE": str(command.BINARY), "PYTHONWARNINGS": "ignore",
               "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
ENVIRONMENT.pop("RAY_ADDRESS", None)


def start(fleet, folder, *options, environment=None) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, SCRIPT, fleet, "--out", folder / "out", "--log", folder / "log.jsonl",
                             "--jobs", "2", *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment or ENVIRONMENT, start_new_session=True)


def run(fleet, folder, *options, code=0, environment=None) -> str:
    process = start(fleet, folder, *options, environment=environment)
    out, error = process.communicate(timeout=200)
    assert process.returncode == code, out + error
    return out + error


def ort_result(path) -> list:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.zeros(2, np.float32)})[0].tolist()


def lines(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def fleet_of(folder, count: int):
    """Files with the names that PyTorch's older exporter gives, which annotate reads; every second one in a folder."""
    for i in range(count):
        place = folder / "models" / ("nested" if i % 2 else ".")
        place.mkdir(parents=True, exist_ok=True)
        nodes = chain({}, {})
        for number, node in enumerate(nodes):
            node.name = f"/layer.{number}/Relu"
        model(nodes, place / f"m{i}.onnx")
    return folder / "models"


def test_a_directory(tmp_path):
    fleet = fleet_of(tmp_path, 4)
    assert "4 files: 0 were done, 4 annotated, 0 failed" in run(fleet, tmp_path)
    assert sorted(line["output"] for line in lines(tmp_path)) == sorted(
        str(tmp_path / "out" / name) for name in ("m0.onnx", "nested/m1.onnx", "m2.onnx", "nested/m3.onnx"))
    for line in lines(tmp_path):
        assert line["ok"] and line["nodes"] == 2
        keys = {entry.key: entry.value for entry in onnx.load(line["output"]).graph.node[1].metadata_props}
        assert keys["pkg.whence.module"] == "layer.1"


def test_a_list(tmp_path):
    fleet = fleet_of(tmp_path, 4)
    (fleet / "list.txt").write_text("# two of four\nm0.onnx\n\nnested/m3.onnx\n")
    assert "2 files: 0 were done, 2 annotated" in run(fleet / "list.txt", tmp_path)
    assert (tmp_path / "out" / "nested" / "m3.onnx").exists() and not (tmp_path / "out" / "m2.onnx").exists()


def test_a_file_that_fails_stops_nothing_and_is_tried_again(tmp_path):
    fleet = fleet_of(tmp_path, 3)
    good = (fleet / "m0.onnx").read_bytes()
    (fleet / "m0.onnx").write_bytes(b"PK\x03\x04 no model")
    text = run(fleet, tmp_path, code=1)
    assert "3 files: 0 were done, 2 annotated, 1 failed" in text and "E0203" in text
    assert not (tmp_path / "out" / "m0.onnx").exists()
    (fleet / "m0.onnx").write_bytes(good)
    assert "3 files: 2 were done, 1 annotated, 0 failed" in run(fleet, tmp_path)
    assert len(lines(tmp_path)) == 4


def test_what_changed_or_went_away_is_done_again(tmp_path):
    fleet = fleet_of(tmp_path, 4)
    run(fleet, tmp_path)
    (tmp_path / "out" / "m0.onnx").unlink()
    model(chain({}, {}, {}), fleet / "m2.onnx")
    assert "4 files: 2 were done, 2 annotated" in run(fleet, tmp_path)
    assert "4 files: 4 were done, 0 annotated" in run(fleet, tmp_path)


def test_a_killed_run_is_continued(tmp_path):
    """Every annotate takes half a second; the run is killed, with all its processes, while two files are under way."""
    fleet = fleet_of(tmp_path, 8)
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = annotate ] && sleep 0.5\nexec {command.BINARY} "$@"\n')
    slow.chmod(0o755)
    process = start(fleet, tmp_path, environment={**ENVIRONMENT, "WHENCE": str(slow)})
    until = time.monotonic() + 60
    while time.monotonic() < until and (not (tmp_path / "log.jsonl").exists() or len(lines(tmp_path)) < 3):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = lines(tmp_path)
    assert 3 <= len(before) < 8
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"file": "cut o')  # as a kill leaves it
    written = {line["output"]: os.stat(line["output"]).st_mtime_ns for line in before}

    assert f"8 files: {len(before)} were done, {8 - len(before)} annotated, 0 failed" in run(fleet, tmp_path)
    assert all(os.stat(output).st_mtime_ns == when for output, when in written.items())
    whole = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines() if line.endswith("}")]
    assert sorted(line["file"] for line in whole) == sorted(str(path) for path in fleet.rglob("*.onnx"))
    for line in whole:
        onnx.load(line["output"])  # whole


def test_weights_of_their_own_never_meet(tmp_path):
    """Two models of one folder that share a file, and one that changes between two runs."""
    (tmp_path / "models").mkdir()
    expected = {}
    for name, scale in (("a", 1), ("b", 2)):
        path = model([node("Add", ["x", "w"], "y", "/add/Add")], tmp_path / "models" / f"{name}.onnx",
                     [external("w", "w.bin", offset=8 * scale)])
        expected[os.path.basename(path)] = [2 * scale, 2 * scale + 1]
    (tmp_path / "models" / "w.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "w.bin").write_text("somebody's")

    def results():
        return {path.name: ort_result(path) for path in (tmp_path / "out").glob("*.onnx")}

    run(tmp_path / "models", tmp_path)
    assert results() == expected and (tmp_path / "out" / "w.bin").read_text() == "somebody's"
    (tmp_path / "models" / "w.bin").write_bytes(np.arange(8, 16, dtype=np.float32).tobytes())
    os.utime(tmp_path / "models" / "a.onnx")
    run(tmp_path / "models", tmp_path)
    assert results() == {"a.onnx": [10, 11], "b.onnx": expected["b.onnx"]}


def test_the_fleets_own_folder_is_no_place_for_its_outputs(tmp_path):
    fleet = fleet_of(tmp_path, 2)
    (fleet / "list.txt").write_text("m0.onnx\nnested/m1.onnx\n")
    before = (fleet / "m0.onnx").read_bytes()
    result = subprocess.run([sys.executable, SCRIPT, fleet / "list.txt", "--out", fleet, "--log", tmp_path / "log.jsonl"],
                            text=True, capture_output=True, env=ENVIRONMENT, check=False)
    assert result.returncode != 0 and "--out" in result.stderr
    assert (fleet / "m0.onnx").read_bytes() == before


def test_ray(tmp_path):
    try:
        import ray  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}; tools/setup/python.sh installs Ray where it is to be had")
        pytest.skip(str(error))
    fleet = fleet_of(tmp_path, 3)
    (fleet / "broken.onnx").write_bytes(b"")
    text = run(fleet, tmp_path, "--engine", "ray", code=1)
    assert "4 files: 0 were done, 3 annotated, 1 failed" in text and "E0201" in text
    assert "4 files: 3 were done" in run(fleet, tmp_path, "--engine", "ray", code=1)
