"""``whence.sensitivity``: measures the error and savings of quantising one module at a time."""

from __future__ import annotations

import concurrent.futures
import hashlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..base.keyword_spelling import also_spelled
from ..errors import error, require_list
from ..files.model_files import Model, takes_models
from ..numerics import annotated_file, file_inputs, ort_session, model_structure
from ..numerics.file_inputs import ExtraInputs, InputNames, Overrides
from . import budget_choice, module_groups, module_times, quantisers, trial, trial_cache
from .module_groups import Group
from .report import ModuleSensitivity, SensitivityReport
from .trial import Outcome, Setting
from .trial_cache import TrialCache

Progress = Callable[[int, int, str], None]  # number of completed trials, total, name of the current trial


@also_spelled(quantize="quantise")
@takes_models("path")
def sensitivity(path: Model, inputs: Sequence[Any], *, quantize: str = "int8-dynamic",
                modules: Collection[str] = (), exclude: Collection[str] = (), leave_out: bool = False,
                budget: str | None = None, time: bool = True, jobs: int = 1, fresh: bool = False,
                progress: Progress | None = None, input_names: InputNames | None = None,
                extra_inputs: ExtraInputs | None = None) -> SensitivityReport:
    """Quantises one module of an annotated ONNX file at a time with ONNX Runtime, and measures the error at
    the outputs and the savings. Errors are relative to the unquantised file in ONNX Runtime on the CPU.

    inputs     sets of inputs, each a dict by the file's input names or a tuple in the file's order, of tensors or
               arrays. Errors are the maximum over all sets; "qdq" is calibrated on all of them.
    quantize   "int8-dynamic", "qdq" or "float16".
    modules    globs: each matching module and all modules below it form a group. By default each module whose own nodes
               the quantiser changes is a group. ``exclude``: globs of modules to leave unquantised.
    leave_out  quantise all modules except one, instead of only that one.
    budget     "error=0.01" (relative), "size=40M", "size=50%" or "time=80%" (of the unquantised file): ``choice`` lists
               the modules and nodes to leave unquantised.
    time       also profile the original and the quantised file, to measure the time that each module saves.
    jobs       number of processes. Outcomes are cached in the user's cache by file, inputs and settings; ``fresh``
               ignores earlier ones.
    input_names, extra_inputs  as for ``accuracy``: names of ``inputs`` by the file's input names, and inputs that are
               equal in all sets.

    Raises WhenceError: E0101, E0104 if inputs do not fit the file, E0203 if it is not annotated, E0207 if it does not
    run, E0307 without onnxruntime."""
    require_list(modules)
    require_list(exclude)
    if isinstance(inputs, (str, bytes, Mapping)) or not hasattr(inputs, "__iter__"):
        raise error("E0101", "usage", f"inputs is a {type(inputs).__name__}, not a list of sets of inputs",
                    "pass a list, such as [{'x': array}]")
    if quantize not in quantisers.NAMES:
        raise error("E0101", "usage", f"unknown quantiser '{quantize}'", "choose from " + ", ".join(quantisers.NAMES))
    parsed_budget = budget_choice.parsed(budget) if budget else None
    if parsed_budget and leave_out:
        raise error("E0101", "usage", "budget and leave_out exclude each other", "pass only one of them")
    ort_session.import_optional("onnxruntime", "quantising")
    overrides = file_inputs.overrides_of(input_names, extra_inputs)
    file = annotated_file.read(path)
    model_structure.require_weights(path, file.model)
    source = Path(path)
    groups = _groups(file, quantize, modules, exclude)
    with tempfile.TemporaryDirectory(prefix="whence-") as name:
        folder = Path(name)
        setting = _setting(file, inputs, quantize, folder, jobs, overrides)
        files = model_structure.files_of(source, file.model)
        runner = _TrialRunner(setting, TrialCache(_cache_file(files, setting), fresh), progress)
        quantiser = quantisers.named(quantize)
        all_nodes = [node for each in groups for node in each.nodes]
        plans = [[node for node in all_nodes if node not in set(each.nodes)] if leave_out else list(each.nodes)
                 for each in groups]

        def measure(nodes: Sequence[str]) -> Outcome:
            return runner.all([module_groups.named_by_quantiser(file, quantiser, set(nodes))],
                              ["a choice of modules"], 1)[0]

        outcomes = runner.all([module_groups.named_by_quantiser(file, quantiser, set(plan))
                               for plan in (*plans, all_nodes)],
                              [each.module or "(root)" for each in groups] + ["all modules"], jobs)
        all_outcome = outcomes.pop()
        if all(each.failed for each in (*outcomes, all_outcome)):
            raise error("E0207", "run_failed", f"{quantize} fails for every module: {all_outcome.failed}",
                        "try another quantiser; if it names a file or operator, check that", file=str(source))
        size = trial.bytes_of(source)
        notes = [f"all modules quantised: {all_outcome.failed}"] if all_outcome.failed else []
        rows = [_row(group, outcome, all_outcome.size if leave_out else size, leave_out)
                for group, outcome in zip(groups, outcomes)]
        if time and not all_outcome.failed:
            names = module_groups.named_by_quantiser(file, quantiser, set(all_nodes))
            rows, time_notes = _with_times(rows, groups, bool(modules), setting, names, folder)
            notes += time_notes
        if parsed_budget and parsed_budget.kind == "time" and any(each.time_saved is None for each in rows):
            raise error("E0101", "usage", "a time budget needs times, but none were measured", "pass time=True",
                        file=str(source))
        choice = parsed_budget and budget_choice.choose(
            parsed_budget, groups, rows, size, measure,
            lambda nodes: module_groups.to_exclude(file, quantiser, set(nodes)))
    rows.sort(key=lambda row: (row.status != "measured", row.error if leave_out else -row.error))
    return SensitivityReport(source, quantize, leave_out, size, tuple(rows), all_outcome.error, all_outcome.size,
                             tuple(sorted(quantiser.operators)), choice, tuple(notes))


def _groups(file: annotated_file.File, quantize: str, modules: Collection[str], exclude: Collection[str]) -> list[Group]:
    groups = module_groups.of_modules(file, quantisers.named(quantize), modules, exclude)
    if not groups:
        if any(not node.name for node in file.nodes if quantisers.named(quantize).changes(node)):
            raise error("E0101", "usage", "the nodes to quantise have no names",
                        "name them with `whence annotate`", file=file.path)
        scope = f"no module that matches {', '.join(modules)}" if modules else "no module"
        raise error("E0101", "usage", f"{scope} has a node that {quantize} changes", "`whence show` lists the modules",
                    file=file.path)
    return groups


def _setting(file: annotated_file.File, inputs: Sequence[Any], quantize: str, folder: Path, jobs: int,
             overrides: Overrides) -> Setting:
    if not inputs:
        raise error("E0104", "input_mismatch", "no inputs to measure with",
                    f"the file's inputs are: {', '.join(file.inputs)}", file=file.path)
    feeds = [_feed(file, each, overrides) for each in inputs]
    threads = max((os.cpu_count() or 1) // jobs, 1) if jobs > 1 else 0
    try:
        expected = trial.outputs(file.path, feeds, threads)
    except Exception as failure:  # ONNX Runtime's exceptions have no common base class
        raise error("E0207", "run_failed", f"ONNX Runtime does not run the file on these inputs: {failure}",
                    "check the file with whence.validate(path, full=True)", file=file.path) from failure
    _require_finite(file, expected)
    files = [each.absolute() for each in model_structure.files_of(file.path, file.model)]
    return Setting(files, quantize, feeds, expected, str(folder), not model_structure.is_embedded(file.model), threads)


def _require_finite(file: annotated_file.File, expected: Sequence[Sequence[Any]]) -> None:
    """Raises WhenceError E0104 if all outputs are NaN or infinite, because no error can be measured."""
    numbers = [output for row in expected for output in row if output.dtype.kind in "fc" and output.size]
    if numbers and not any(torch.isfinite(torch.from_numpy(output)).any() for output in numbers):
        raise error("E0104", "input_mismatch", "the file's outputs are NaN or infinite on these inputs and cannot be "
                    "compared", "pass realistic inputs", file=file.path)


def _feed(file: annotated_file.File, inputs: Any, overrides: Overrides) -> dict[str, Any]:
    """Converts a set of inputs to arrays by the file's names."""
    inputs = inputs if isinstance(inputs, Mapping) else inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if not isinstance(inputs, Mapping) and len(inputs) == 1 and isinstance(inputs[0], Mapping):
        inputs = inputs[0]
    by_name = inputs if isinstance(inputs, Mapping) else {f"[{at}]": each for at, each in enumerate(inputs)}
    try:
        tensors = {name: torch.as_tensor(each).detach().cpu() for name, each in by_name.items()}
        return {name: each.numpy() for name, each in file_inputs.feed(file, tensors, overrides).tensors.items()}
    except (TypeError, ValueError, RuntimeError) as failure:
        raise error("E0104", "input_mismatch", f"ONNX Runtime does not accept an input: {failure}",
                    "pass a dense tensor of a dtype that numpy supports", file=file.path) from None


def _cache_file(files: Sequence[Path], setting: Setting) -> Path:
    import onnxruntime

    digests = [(name, array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest())
               for feed in setting.feeds for name, array in feed.items()]
    return trial_cache.file_for(files, setting.quantiser, onnxruntime.__version__, digests)


class _TrialRunner:
    """Runs trials whose outcomes are not cached."""

    def __init__(self, setting: Setting, cache: TrialCache, progress: Progress | None) -> None:
        self._setting = setting
        self._cache = cache
        self._progress = progress or (lambda completed, total, name: None)

    def all(self, plans: Sequence[Sequence[str]], names: Sequence[str], jobs: int) -> list[Outcome]:
        outcomes = [self._cache.get(plan) for plan in plans]
        remaining = [at for at, outcome in enumerate(outcomes) if outcome is None]
        for done, (at, outcome) in enumerate(self._run(plans, names, remaining, jobs), 1):
            outcomes[at] = outcome
            self._cache.add(plans[at], outcome)
            self._progress(done, len(remaining), names[at])
        return outcomes

    def _run(self, plans: Sequence[Sequence[str]], names: Sequence[str], remaining: list[int],
             jobs: int) -> Iterator[tuple[int, Outcome]]:
        if jobs == 1 or len(remaining) < 2:
            for done, at in enumerate(remaining):
                self._progress(done, len(remaining), names[at])
                yield at, trial.run(self._setting, plans[at])
            return
        spawn = multiprocessing.get_context("spawn")  # ONNX Runtime's threads do not survive a fork
        # Only this process handles interrupts.
        with concurrent.futures.ProcessPoolExecutor(jobs, spawn, signal.signal,
                                                    (signal.SIGINT, signal.SIG_IGN)) as pool:
            trials = {pool.submit(trial.run, self._setting, plans[at]): at for at in remaining}
            try:
                for future in concurrent.futures.as_completed(trials):
                    yield trials[future], future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _row(group: Group, outcome: Outcome, size: int, leave_out: bool) -> ModuleSensitivity:
    if outcome.failed:
        return ModuleSensitivity(group.module, len(group.nodes), "failed", note=outcome.failed)
    status = "unchanged" if outcome.unchanged else "measured"
    saved = outcome.size - size if leave_out else size - outcome.size
    return ModuleSensitivity(group.module, len(group.nodes), status, outcome.error, saved)


def _with_times(rows: list[ModuleSensitivity], groups: list[Group], with_submodules: bool, setting: Setting,
           nodes: Sequence[str], folder: Path) -> tuple[list[ModuleSensitivity], list[str]]:
    source, quantised = trial.copy_files(setting), folder / "all.onnx"
    example = quantisers.Example(setting.feeds, folder / "calibration.json", setting.external)
    try:
        with quantisers.quiet_logging():
            quantisers.named(setting.quantiser).write(source, quantised, list(nodes), example)
        saved = module_times.saved(source, quantised, groups, with_submodules, setting.feeds[0], folder)
    except Exception as failure:  # exceptions of quantisers and runtimes have no common base class
        lines = str(failure).strip().splitlines()
        return rows, [f"times are unknown: {lines[0] if lines else type(failure).__name__}"]
    return [replace(row, time_saved=each) for row, each in zip(rows, saved)], []
