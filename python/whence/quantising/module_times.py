"""Measures the time of each module in the original and the quantised file, from ONNX Runtime's profiles."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..command.process import run_json
from ..numerics import annotated_file, ort_session
from .module_groups import Group
from .trial import Arrays

_MIN_RUNS, _MAX_RUNS, _SECONDS = 5, 200, 1.0  # runs and seconds for each file


def saved(source: Path, quantised: Path, groups: Sequence[Group], with_submodules: bool, feed: Arrays,
          folder: Path) -> list[float]:
    """Returns the time that each group saves if all groups are quantised, as a share of the original operator time;
    negative if the group gets slower. ``with_submodules``: a group includes all modules below it.

    Raises WhenceError if the quantised file cannot be annotated, or exceptions of ONNX Runtime."""
    annotated = folder / "annotated.onnx"
    run_json("annotate", quantised, "--from", source, "-o", annotated)
    before, after = (_times(each, feed, folder / name) for name, each in (("before", source), ("after", annotated)))
    total = max(sum(before.values()), 1e-9)

    def of(times: Mapping[str, float], module: str) -> float:
        return sum(time for each, time in times.items() if each == module or
                   with_submodules and (not module or each.startswith(f"{module}.")))

    return [(of(before, each.module) - of(after, each.module)) / total for each in groups]


def _times(path: Path, feed: Arrays, prefix: Path) -> dict[str, float]:
    """Returns microseconds per run of each module's own operators."""
    import onnxruntime

    optimized = path.with_name(f"{prefix.name}.optimized.onnx")  # it refers to the same external weights
    options = ort_session.session_options()
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    options.optimized_model_filepath = str(optimized)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    began = time.monotonic()
    for count in range(_MAX_RUNS):
        if count >= _MIN_RUNS and time.monotonic() - began > _SECONDS:
            break
        session.run(None, dict(feed))
    profile = run_json("profile", path, "--profile", session.end_profiling(), "--optimized", optimized)
    modules = {node.name: node.primary for node in annotated_file.read(path).nodes if node.name and node.modules}
    times: dict[str, float] = {}
    for operator in profile["nodes"]:
        module = _module_of(operator, modules)
        times[module] = times.get(module, 0.0) + operator["time"] / profile["runs"]
    return times


def _module_of(operator: Mapping[str, Any], modules: Mapping[str, str]) -> str:
    """Returns the module to which the operator's time is attributed. A matrix product fused with an activation has the
    product's name but belongs to the module that encloses both. Its time is attributed to the product's module, which
    does most of the work."""
    enclosing = operator["module"] or ""
    product_module = modules.get(operator["name"].removeprefix("fused "))
    return product_module if product_module is not None and (
        not enclosing or product_module.startswith(f"{enclosing}.")) else enclosing
