"""Asks other tools where the wrong file differs: `python peers.py PEER NAME...`, in the environment of the peer.

PEER is "torch", "diagnostic" or "polygraphy". Each writes peer-PEER.json beside the file: the module and operation of the
first value that differs, under the names that the tool knows, or the error that it raises. Every tool gets the reading
that serves it best: the first value by more than the bug's tolerance is taken as its answer, and a name of the torch.export
program is followed to its module, although the tools print names of values only.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from make_files import FILES, flat  # first, because it sets the search path

from bug import Bug, selected_bugs

# The environments of the peers; "torch" runs where the wrong file was written.
PINS = {"diagnostic": ("onnx-diagnostic==0.9.3", "pandas==2.3.3", "python-dateutil==2.9.0.post0", "pytz==2025.2",
                       "six==1.17.0", "scipy==1.17.1", "onnxruntime==1.23.2"),  # fails with onnxruntime 1.32
        "polygraphy": ("polygraphy==0.53.6",)}
PEERS = ("torch", *PINS)


def origin(node: Any) -> dict[str, Any]:
    """Returns the innermost module and the operator of a node of a torch.export program."""
    while "getitem" in str(node.target):
        node = node.args[0]
    stack = node.meta.get("nn_module_stack") or {}
    modules = [path for path, _ in stack.values()]
    target = str(node.target).split(".")
    return {"module": modules[-1] if modules else "", "operation": "::".join(target[:2]), "value": node.name}


def by_torch(bug: Bug, folder: Path) -> dict[str, Any]:
    """torch.onnx.verification: compares the values of the exporter's program and of its file, for the exporter's object."""
    import torch
    from torch.onnx.verification import verify_onnx_program

    programs = []
    save = torch.onnx.ONNXProgram.save

    def keep(program: Any, *arguments: Any, **options: Any) -> None:
        programs.append(program)
        save(program, *arguments, **options)

    torch.onnx.ONNXProgram.save = keep
    try:
        bug.write(bug.build(), bug.example(), folder / "peer.onnx")
    finally:
        torch.onnx.ONNXProgram.save = save
    if not programs:
        return {"error": "not applicable: the file is not from the dynamo exporter"}
    program = programs[-1]
    nodes = {node.name: node for node in program.exported_program.graph.nodes}
    for info in verify_onnx_program(program, bug.example(), compare_intermediates=True):
        if differs(info.max_abs_diff, info.max_rel_diff, bug.tolerance) and info.name in nodes:
            return origin(nodes[info.name])
    return {"module": None}


def by_diagnostic(bug: Bug, folder: Path) -> dict[str, Any]:
    """onnx-diagnostic: runs a torch.export program and the file side by side, and compares values of equal names."""
    import onnx
    import torch
    from onnx_diagnostic.reference import OnnxruntimeEvaluator
    from onnx_diagnostic.torch_onnx.sbs import run_aligned

    torch.set_grad_enabled(False)
    program = torch.export.export(bug.build(), bug.example()).run_decompositions({})
    nodes = {node.name: node for node in program.graph.nodes}
    for row in run_aligned(program, onnx.load(folder / "wrong.onnx"), run_cls=OnnxruntimeEvaluator, args=bug.example(),
                           use_tensor=True, exc=False):
        if row.err_abs is not None and row.ep_name in nodes and nodes[row.ep_name].op == "call_function" and (
                row.ep_shape_type != row.onnx_shape_type or row.err_nan or differs(row.err_abs, row.err_rel, bug.tolerance)):
            return origin(nodes[row.ep_name])
    return {"module": None}


def by_polygraphy(bug: Bug, folder: Path) -> dict[str, Any]:
    """Polygraphy: compares all values of two files that have equal names. It is given the right file, which users lack, and
    the first name that differs is followed by whence's annotation."""
    import onnx
    from polygraphy.backend.onnx import BytesFromOnnx, ModifyOutputs, OnnxFromPath
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator, CompareFunc
    from polygraphy.constants import MARK_ALL

    def session(side: str) -> Callable:
        return SessionFromOnnx(BytesFromOnnx(ModifyOutputs(OnnxFromPath(str(folder / f"{side}.onnx")), outputs=MARK_ALL)))

    model = onnx.load(folder / "wrong.annotated.onnx")
    inputs = [each.name for each in model.graph.input]
    feed = dict(zip(inputs, flat(bug.example()), strict=True))
    results = Comparator.run([OnnxrtRunner(session("wrong")), OnnxrtRunner(session("right"))], data_loader=[feed])
    compared = Comparator.compare_accuracy(results, fail_fast=False, compare_func=CompareFunc.simple(
        rtol=10 * bug.tolerance, atol=bug.tolerance, fail_fast=False))
    passed = {name: bool(each) for result in compared for _, iterations in result.items()
              for name, each in iterations[0].items()}
    for node in model.graph.node:
        if any(passed.get(name) is False for name in node.output):
            keys = {each.key: each.value for each in node.metadata_props}
            return {"module": keys.get("pkg.whence.module", ""), "operation": node.op_type, "value": node.output[0]}
    return {"module": None}


def differs(absolute: float, relative: float, tolerance: float) -> bool:
    return math.isnan(absolute) or (absolute > tolerance and not relative <= tolerance)


ANSWERS: dict[str, Callable[[Bug, Path], dict[str, Any]]] = {
    "torch": by_torch, "diagnostic": by_diagnostic, "polygraphy": by_polygraphy}


def ask(peer: str, bugs: Iterable[Bug]) -> None:
    for bug in bugs:
        folder = FILES / bug.name
        start = time.monotonic()
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                answer = ANSWERS[peer](bug, folder)
        except (Exception, SystemExit) as failure:  # each tool has exceptions of its own
            answer = {"error": f"{type(failure).__name__}: {str(failure)[:300]}"}
        answer["seconds"] = round(time.monotonic() - start, 2)
        (folder / f"peer-{peer}.json").write_text(json.dumps(answer, indent=1) + "\n")


def main() -> int:
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    ask(sys.argv[1], selected_bugs(sys.argv[2:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
