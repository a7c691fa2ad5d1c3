"""Writes the wrong and the right file of bugs, and checks that they are: `python make_files.py [--again] [NAME...]`.

Each file is written by this program in the environment of the versions that have the bug, or no longer have it. ONNX
Runtime then runs both, and their results are compared with PyTorch's. build/real_bugs/NAME gets wrong.onnx, right.onnx,
inputs.npz, expected.npz and made.json. REAL_BUGS_FILES is another folder for them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

import environments
from bug import Bug, selected_bugs

FILES = Path(os.environ.get("REAL_BUGS_FILES") or environments.ROOT / "build" / "real_bugs")
SIDES = ("wrong", "right")


def flat(results: object) -> list[np.ndarray]:
    """Returns the tensors of a model's results, in order."""
    if hasattr(results, "detach"):
        return [results.detach().numpy()]
    values = results.values() if isinstance(results, dict) else results
    return [array for each in values if each is not None for array in flat(each)]


def results_of(bug: Bug) -> list[np.ndarray]:
    """Runs the model in PyTorch."""
    import torch

    with torch.no_grad():
        return flat(bug.build()(*bug.example()))


def difference(expected: np.ndarray, found: np.ndarray) -> float:
    """Returns the norm of the difference over the norm of the expected values; infinite if only one of the two has NaN or
    an infinity somewhere, and the share of unequal elements for integers."""
    if expected.dtype.kind in "biu":
        return float((expected != found).mean()) if expected.size else 0.0
    finite = np.isfinite(expected)
    if (finite != np.isfinite(found)).any() or (expected[~finite] != found[~finite])[~np.isnan(expected[~finite])].any():
        return float("inf")
    expected, found = (np.where(finite, each, 0).astype(np.float64) for each in (expected, found))
    norm = np.linalg.norm(expected - found)
    return float(norm / np.linalg.norm(expected)) if norm else 0.0


def compare(expected: list[np.ndarray], found: list[np.ndarray] | str, tolerance: float) -> tuple[str, float]:
    """Returns the kind of difference ("" if there is none beyond the tolerance) and the largest relative one."""
    if isinstance(found, str):
        return "does not run", float("inf")
    if len(expected) != len(found) or any(x.shape != y.shape for x, y in zip(expected, found, strict=True)):
        return "shape", float("inf")
    if any(x.dtype != y.dtype for x, y in zip(expected, found, strict=True)):
        return "dtype", float("inf")
    largest = max(difference(x, y) for x, y in zip(expected, found, strict=True))
    if np.isinf(largest):
        return "nan", largest
    return ("wrong" if largest > tolerance else ""), largest


def run(path: Path, inputs: list[np.ndarray]) -> list[np.ndarray] | str:
    """Runs a file in ONNX Runtime. Returns the error's text if it does not run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        return session.run(None, dict(zip(names, inputs, strict=True)))
    except Exception as failure:  # ONNX Runtime's exceptions have no common base
        return str(failure) or type(failure).__name__


def write_side(bug: Bug, side: str, folder: Path) -> None:
    """Writes one file. Runs in the environment of its pins."""
    np.savez(folder / f"{side}.expected.npz", *results_of(bug))
    bug.writer(side)(bug.build(), bug.example(), folder / f"{side}.onnx")


def write_sides(requests: list[tuple[Bug, str]]) -> dict[tuple[str, str], str]:
    """Writes files, all those of an environment in one process. Returns the failures."""
    failures = {}
    for pins in sorted({bug.pins(side) for bug, side in requests}):
        group = [(bug, side) for bug, side in requests if bug.pins(side) == pins]
        arguments = [f"{side}:{bug.name}" for bug, side in group]
        print(f"writing {len(group)} files with {', '.join(pins) or 'the main environment'}", flush=True)
        # A tool may end the process: then the files that it has not written get a process of their own.
        for batch in [arguments, *[[each] for each in arguments]]:
            left = [each for each in batch if (FILES / each.partition(":")[2] / f"{each.partition(':')[0]}.log").exists()]
            if not left:
                continue
            done = subprocess.run([environments.python_of(pins), __file__, "--write", *left], capture_output=True, text=True,
                                  check=False, env={**os.environ, "REAL_BUGS_FILES": str(FILES)})
            if done.returncode not in (0, 1) and len(left) == 1:
                side, _, name = left[0].partition(":")
                failures[name, side] = f"the process ended with {done.returncode}: {done.stderr[-2000:]}"
        for bug, side in group:
            log = FILES / bug.name / f"{side}.log"
            if log.exists():
                failures.setdefault((bug.name, side), log.read_text())
    return failures


def write_in_this_environment(requests: list[str]) -> int:
    """Writes the files `side:name`. The log of a file exists until it is written, and holds the exception if it is not."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    names = [each.partition(":")[2] for each in requests]
    bugs = {bug.name: bug for bug in selected_bugs(names)}
    for each in requests:
        side, _, name = each.partition(":")
        log = FILES / name / f"{side}.log"
        try:
            write_side(bugs[name], side, FILES / name)
            log.unlink()
        except Exception:
            log.write_text(traceback.format_exc())
    return 0


def check(bug: Bug) -> dict:
    """Compares both files with PyTorch. Returns the figures; `problem` says why the bug does not hold."""
    folder = FILES / bug.name
    expected = results_of(bug)
    inputs = flat(bug.example())
    np.savez(folder / "inputs.npz", *inputs)
    np.savez(folder / "expected.npz", *expected)
    made = {"fingerprint": bug.fingerprint(), "problem": ""}
    problems = []
    for side in SIDES:
        with np.load(folder / f"{side}.expected.npz") as stored:
            there = [stored[name] for name in stored.files]
        if compare(there, expected, 1e-4)[0]:
            problems.append(f"PyTorch computes something else with {', '.join(bug.pins(side))}")
        found = run(folder / f"{side}.onnx", inputs)
        kind, largest = compare(expected, found, bug.tolerance if side == "right" else 10 * bug.tolerance)
        made[side] = {"kind": kind, "difference": largest if np.isfinite(largest) else str(largest),
                      **({"error": found} if isinstance(found, str) else {})}
        if kind != (bug.kind if side == "wrong" else ""):
            problems.append(f"the {side} file: {kind or 'right'} ({largest:.2g})" +
                            (f", {found[:300]}" if kind == "does not run" else ""))
    made["problem"] = "; ".join(problems)
    return made


def is_made(bug: Bug) -> bool:
    """Returns whether the files exist and were checked as the bug is now."""
    file = FILES / bug.name / "made.json"
    made = json.loads(file.read_text()) if file.exists() else {}
    return made.get("fingerprint") == bug.fingerprint() and not made["problem"]


def make(bugs: list[Bug], again: bool = False) -> int:
    """Makes the files of bugs that have none. Returns the number of bugs that do not hold."""
    missing = [bug for bug in bugs if again or not is_made(bug)]
    for bug in missing:
        shutil.rmtree(FILES / bug.name, ignore_errors=True)
        (FILES / bug.name).mkdir(parents=True)
        for side in SIDES:
            (FILES / bug.name / f"{side}.log").write_text("the process ended\n")
    failures = write_sides([(bug, side) for bug in missing for side in SIDES])
    bad = 0
    for bug in missing:
        failed = [f"cannot write the {side} file: {failures[bug.name, side].strip()[-1500:]}" for side in SIDES
                  if (bug.name, side) in failures]
        made = {"fingerprint": "", "problem": "; ".join(failed)} if failed else check(bug)
        (FILES / bug.name / "made.json").write_text(json.dumps(made, indent=1) + "\n")
        bad += bool(made["problem"])
        print(f"{bug.name}: {made['problem'] or 'wrong by ' + str(made['wrong']['difference'])}", flush=True)
    print(f"{len(bugs) - bad} of {len(bugs)} bugs hold")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs; the default is all")
    parser.add_argument("--again", action="store_true", help="also make files that exist")
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        return write_in_this_environment(options.names)
    return 1 if make(selected_bugs(options.names), options.again) else 0


if __name__ == "__main__":
    sys.exit(main())
