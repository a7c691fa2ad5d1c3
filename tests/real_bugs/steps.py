"""Asks `whence carry --check` for the pass or rule of each bug of a tool that has steps: `python steps.py [NAME...]`.

Needs the files of run.py. The exporter of a bug writes the file before the tool; the tool then runs as a script in the
bug's environment. Prints each answer beside the truth, and the number of right ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from make_files import FILES  # first, because it sets the search path

import environments
import roads
from bug import Bug, selected_bugs

# Tools whose steps whence knows; quantisers and float16 converters have none.
TOOLS = ("onnxoptimizer", "onnxsim", "onnxslim", "onnxscript", "onnxruntime_optimizer", "onnxruntime_transformers",
         "version_converter")


class Exported(Exception):
    """The exporter has written its file; the tool must not run."""


def replaced_exporter(kind: str, options: dict[str, Any], state: dict[str, Any]) -> Any:
    """Returns a writer that exports and stops, or that takes the exported file."""

    def write(model: Any, inputs: tuple, path: Path) -> None:
        if state["exported"] is not None:
            shutil.copyfile(state["exported"], path)
            return
        # The dynamo exporter is a tool itself: it optimises its file with onnxscript.
        optimize = {"optimize": False} if kind == "dynamo" and state["is_tool"](write) else {}
        getattr(state["roads"], kind)(**options, **optimize)(model, inputs, path)
        raise Exported

    write.kind = kind
    return write


def run_in_environment(name: str, source: str, target: str) -> None:
    """Writes the file of the exporter if ``source`` is empty; else runs the tool on it."""
    import importlib
    import types

    originals = types.SimpleNamespace(dynamo=roads.dynamo, torchscript=roads.torchscript)
    state: dict[str, Any] = {"exported": source or None, "roads": originals, "is_tool": lambda write: bug.write is write}
    for kind in ("dynamo", "torchscript"):
        setattr(roads, kind, lambda kind=kind, **options: replaced_exporter(kind, options, state))
    for module in [each for each in sys.modules if each.startswith("bugs.")]:
        importlib.reload(sys.modules[module])
    bug = selected_bugs([name])[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        if source:
            import onnx

            model = onnx.load(source)
            model.ir_version = min(model.ir_version, 8)  # old versions of ONNX Runtime accept no more
            state["exported"] = f"{path}.exported"
            onnx.save(model, state["exported"])
        try:
            bug.write(bug.build(), bug.example(), path)
        except Exported:
            pass
        if source and getattr(bug.write, "kind", "") == "dynamo":
            import onnx
            import onnxscript.optimizer

            onnx.save(onnxscript.optimizer.optimize(onnx.load(path)), path)
        shutil.copyfile(path, target)


def check(bug: Bug, folder: Path) -> Any:
    """Returns the result of `carry --check`."""
    import whence

    python = str(environments.python_of(bug.pins("wrong")))
    before, annotated = folder / "before.onnx", folder / "annotated.onnx"
    script = [python, __file__, "--in-environment", bug.name]
    subprocess.run([*script, "", before], check=True, capture_output=True)
    sidecar = FILES / bug.name / "model.whence.json"
    whence.annotate(before, sidecar, output=annotated)
    return whence.carry(annotated, [*script, "{in}", "{out}"], folder / "after.onnx", sidecar=sidecar,
                        check=FILES / bug.name / "model.values.safetensors").check


def is_named(bug: Bug, step: Any) -> bool:
    """Compares names without punctuation; a converter's adapter such as Resize_10_11 is that of an opset."""
    def plain(text: str) -> str:
        return re.sub(r"\W|_", "", text).lower()

    opsets = re.fullmatch(r"\w+_(\d+)_(\d+)", bug.step)
    wanted = f"opset {opsets[1]} to {opsets[2]}" if opsets else bug.step
    return plain(wanted) in plain(f"{step.name} {step.place}") or plain(step.name) in plain(wanted)


def main() -> int:
    import whence

    warnings.filterwarnings("ignore")
    bugs = [bug for bug in selected_bugs(sys.argv[1:]) if bug.step and _file_of(bug).startswith(TOOLS)]
    named = among = 0
    for bug in bugs:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = check(bug, Path(folder))
            except whence.WhenceError as failure:
                print(f"{bug.name}: {failure}", flush=True)
                continue
        right = found.step is not None and is_named(bug, found.step.step)
        named += right
        among += not right and found.step is not None and any(is_named(bug, each) for each in found.step.needs)
        print(f"{bug.name}: {bug.step}; whence: {found.step or found.reason or 'no difference'}", flush=True)
    print(f"named: {named} of {len(bugs)}; among several: {among}")
    return 0


def _file_of(bug: Bug) -> str:
    """Returns the name of the file in bugs/ that defines the bug."""
    import importlib

    return next(path.stem for path in (Path(__file__).parent / "bugs").glob("[a-z]*.py")
                if bug in importlib.import_module(f"bugs.{path.stem}").BUGS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-environment"]:
        run_in_environment(*sys.argv[2:])
        sys.exit(0)
    sys.exit(main())
