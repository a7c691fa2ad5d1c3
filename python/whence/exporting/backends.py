"""A function for each way from a model to an annotated file."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..annotation.reports import annotate, validate
from ..arguments import caches, calls, trees
from ..axes import optional_axes, sliding_windows
from ..axes.dynamic_axes import Axes
from ..capture import decompositions, exported_programs, lasting_writes, torch_export
from ..capture.traces import (Trace, at_usual_sizes, baked_at_long_sizes, baked_by_export, excludes, library_words,
                              of_libraries, run_of, size_baked, traced, traced_otherwise, without_guards)
from ..command import recorder_library
from ..command.process import run_json
from ..converters import autograd_functions, torch_symbolics
from ..converters.call_expansion import expand
from ..errors import Diagnostic, WhenceError, WhenceWarning, error, in_python
from ..files.atomic_files import draft_folder, folder_of, place
from ..recording.record import record
from ..state.export_settings import log, quiet
from ..state.model_state import state_restored
from .artifacts import Artifacts
from .options import Options, shapes_for_torch_export
from .program import Exported
from .request import ExportRequest


@dataclass
class Job:
    """One export: what is asked, where it goes, and what was learnt on the way."""

    request: ExportRequest
    target: Path
    sidecar: Path
    options: Options
    artifacts: Artifacts
    axes_of: Callable[[calls.Call], Axes]
    call: calls.Call | None = None
    observed: lasting_writes.Observed | None = None
    lost_writes: list[Diagnostic] = field(default_factory=list)  # in the exporter's words
    archive: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        log.info("%s...", name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start

    def command(self, archive: Path, *words: object, axes: Axes, folder: Path) -> None:
        """`whence export` of an archive, whose warnings become ours."""
        self.artifacts.keep(archive)
        makers = self.options.makers()
        with self.stage("export"), _staged(self, bool(makers)) as (target, sidecar):
            try:
                report = run_json("export", archive, "-o", target, "--sidecar-out", sidecar, *words,
                                  *self.options.for_command(axes, folder, self.artifacts.draft()))
            except WhenceError as failure:
                diagnostics = [_of_own_archive(in_python(each), archive) for each in failure.diagnostics]
                raise WhenceError(diagnostics) from None
            if makers:
                expand(target, makers, self.options.custom_opsets)
        self.seconds |= {f"export: {name}": seconds for name, seconds in report.get("seconds", {}).items()}
        entries = list(map(Diagnostic.from_json, report["diagnostics"]))
        self.lost_writes = [in_python(entry) for entry in entries if entry.code == "E0308"]
        for entry in entries:
            # torch.onnx holds registered symbolics for the whole process, so that this model may not have the operator.
            of_any_model = entry.code == "E0105" and entry.where.get("op") in self.options.symbolics
            if entry.severity == "warning" and entry.code != "E0308" and not of_any_model:
                warnings.warn(str(_of_own_archive(in_python(entry), archive)), WhenceWarning, stacklevel=2)

    def warn_of_writes(self, verify: Callable[[], Any]) -> None:
        """``verify``: compares the file, in ONNX Runtime, with the model."""
        inputs = self.observed.inputs if self.observed else ()
        tensors = list(self.call.tensors) if self.call else list(inputs)
        names = dict(zip(tensors, [*self.options.input_names, *tensors[len(self.options.input_names):]]))
        lasting_writes.warn(lasting_writes.diagnostics_of(self.observed, self.lost_writes, names,
                                                lambda: lasting_writes.differs_in_runtime(verify)))

    def finish(self, program: Any = None) -> Exported:
        with self.stage("annotate"):
            annotated = annotate(self.target, self.sidecar)
        with self.stage("validate"):
            validation = validate(self.target, self.sidecar)
        return Exported(self.target, self.sidecar, annotated, validation, program, archive=self.archive)


def _of_own_archive(diagnostic: Diagnostic, archive: Path) -> Diagnostic:
    """An archive that PyTorch wrote for this export is not a file of the user's that could be damaged."""
    where = {name: value for name, value in diagnostic.where.items() if name != "file" or value != str(archive)}
    if diagnostic.code not in ("E0203", "E0204", "E0209"):
        return replace(diagnostic, where=where)
    return Diagnostic("E0303", "unsupported_feature", "error", "what PyTorch made of the model cannot be saved whole: "
                      + diagnostic.message, "another backend may do; a model that writes through .data, or to a tensor "
                      "that is not there while torch.export looks, has to write to its own tensors", where)


@contextmanager
def _staged(job: Job, is_staged: bool) -> Iterator[tuple[Path, Path]]:
    """Paths to write to if the files are not finished when the command is done: in a folder of their own, from which
    they move when all went well, so that a failure leaves older files as they were."""
    target, sidecar = job.target, job.sidecar
    if not is_staged or not target.parent.is_dir() or not sidecar.parent.is_dir():
        yield target, sidecar
        return
    with draft_folder(target.parent) as made, draft_folder(sidecar.parent) as recorded:
        yield made / target.name, recorded / sidecar.name
        place(made, target, job.options.overwrite)
        place(recorded, sidecar, job.options.overwrite)


def export_by(backend: str, job: Job) -> Exported:
    if isinstance(job.request.model, torch.export.ExportedProgram):
        return _given_program(backend, job)
    if isinstance(job.request.model, torch.jit.ScriptModule):
        return _scripted(backend, job)
    if any(True for _ in trees.caches_in((job.request.args, job.request.kwargs))):
        whole = calls.opened(job.request.model.forward, job.request.args, job.request.kwargs)
        sliding_windows.keep_all_keys(whole, job.axes_of(whole))
        if counted := sliding_windows.counts_in_python(whole):
            warnings.warn(str(counted), WhenceWarning, stacklevel=4)
    with calls.tensors_only(job.request.model, job.request.args, job.request.kwargs) as call, warnings.catch_warnings():
        job.call = call
        axes = job.axes_of(call)
        job.options = replace(job.options, input_names=call.input_names(job.options.input_names))
        job.observed = lasting_writes.observed(job.request.model, job.request.model, call.tensors)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # reported with their source lines
        if backend == "native":
            return _native(job, call, axes)
        if backend == "native-export":
            return _native_export(job, call, axes)
        job.options = replace(job.options, output_names=_output_names(job))
        with record(job.sidecar) as recording:
            _torch_export(job, job.request.model, call.tensors, axes, dynamo=backend == "torch-dynamo")
        if not recording.complete:
            message = "; ".join(map(str, recording.diagnostics)) or "the sidecar is incomplete"
            raise error("E0106", "recording_state", message, "backend='native' reads the trace itself",
                        file=str(job.sidecar))
    return job.finish()


def _native(job: Job, call: calls.Call, axes: Axes) -> Exported:
    if not job.request.autograd_inlining:
        raise error("E0303", "unsupported_feature", "a trace cannot keep a torch.autograd.Function",
                    "backend='native-export', or autograd_inlining=True")
    if not recorder_library.is_installed():
        return _without_recorder(job, call, axes)
    try:
        with job.stage("trace"), autograd_functions.inlined():
            trace = traced(job.request.model, call.tensors, axes)
        example, trace = _usual_example(job, call, axes, trace)
    except WhenceError:
        raise
    except Exception as failure:  # the model raises of every kind, and so does PyTorch
        return _instead_of_trace(job, call, axes, failure)
    if trace.ignores_inputs and (kept := _with_all_inputs(job, call, axes)):
        return kept
    trace.warn_of_values()
    taught = of_libraries(trace.module)
    translated = {each.split(".")[0] for each in job.options.translations}
    if taught or (renamed := traced_otherwise(trace.module) & translated):
        log.info("%s: %s, so torch.export reads the model", ", ".join(taught or renamed),
                 "only this process knows how to run it" if taught else "a trace has another name for it")
        job.options = replace(job.options, symbolics=_symbolics(job) & set(taught))
        return replace(_native_export(job, call, axes), backend="native-export")
    try:
        lasting_writes.refuse_what_was_missed(
            job.observed, job.request.model, call.tensors.values(), [lambda: calls.reloaded(trace.module, call.tensors)],
            lasting_writes.TRACE)
    except WhenceError as failure:
        return _instead_of_trace(job, call, axes, failure)
    lasting_writes.warn_of_other_results(job.observed, job.request.model, call.tensors.values(),
                                         lambda: run_of(trace.module, call.tensors), lasting_writes.TRACE)
    if not trace.baked_size:
        trace = replace(trace, baked_size=_wrong_elsewhere(job, call, axes, trace))
    if trace.baked_size:
        return _at_any_size(job, call, axes, trace, example)
    try:
        return _traced(job, trace.module, example, named_by_pytorch(axes))
    except WhenceError as failure:
        if not _concerns_operators(failure) and failure.code not in _OF_THE_TRACE:
            raise
        return _instead_of_trace(job, call, axes, failure)


def _without_recorder(job: Job, call: calls.Call, axes: Axes) -> Exported:
    """torch.export reads the model. Where it cannot, a trace may do, which is said beside the failure."""
    log.info("torch.export reads the model: %s", recorder_library.missing())
    try:
        return replace(_native_export(job, call, axes), backend="native-export")
    except Exception:  # PyTorch raises of every kind
        warnings.warn(f"the model is not traced: {recorder_library.missing()}", WhenceWarning, stacklevel=5)
        raise


def _wrong_elsewhere(job: Job, call: calls.Call, axes: Axes, trace: Trace) -> Diagnostic | None:
    """E0304 where the trace, which is right near the example's sizes, fails or is wrong at others."""
    return (trace.fails and size_baked(job.request.model, trace.module, call.tensors, axes, trace.of_sizes)
            or baked_at_long_sizes(job.request.model, run_of(trace.module, call.tensors), call.tensors, axes, trace.of_sizes))


def _with_all_inputs(job: Job, call: calls.Call, axes: Axes) -> Exported | None:
    """The export by torch.export of a model of which a trace ignores an input, as Python read its value; None where
    torch.export, too, does not keep the input open."""
    options = job.options
    try:
        return _instead_of_trace(job, call, axes, WhenceError([]))
    except WhenceError as failure:
        log.info("torch.export does not keep the inputs that the trace ignores: %s", failure)
        job.options = options
        return None


def _usual_example(job: Job, call: calls.Call, axes: Axes, trace: Trace) -> tuple[Mapping[str, torch.Tensor], Trace]:
    """The example and its trace; those at usual sizes where a step of one token, or one that nothing precedes, has
    been traced and is not right at others, and that trace is."""
    usual = at_usual_sizes(call.tensors, axes)
    if usual is None or not size_baked(job.request.model, trace.module, call.tensors, axes):
        return call.tensors, trace
    try:
        with job.stage("trace"), autograd_functions.inlined():
            other = traced(job.request.model, usual, axes)
        if size_baked(job.request.model, other.module, call.tensors, axes) is None:
            return usual, other
    except Exception as failure:  # the model does not run at these sizes, with errors of every kind
        log.info("the model is not traced at other sizes than the example's: %s", failure)
    return call.tensors, trace


def _concerns_operators(failure: WhenceError) -> bool:
    """True, too, for an operator that the recorder alone could take apart, where none is installed."""
    lacks_recorder = failure.code == "E0307" and "op" in failure.diagnostics[0].where
    return lacks_recorder or failure.code in ("E0301", "E0302", "E0303")


# Failures of a trace that say nothing of what torch.export makes of the model: a size that the trace holds, its run in
# LibTorch, and defects.
_OF_THE_TRACE = ("E0304", "E0207", "E0901")


def _at_any_size(job: Job, call: calls.Call, axes: Axes, trace: Trace,
                 example: Mapping[str, torch.Tensor]) -> Exported:
    """torch.export keeps what a trace bakes in, or says that the model fixes the size. Where it does neither, promised
    sizes are refused, and of sizes that are wishes those are fixed with which the trace is wrong, and that is said."""
    def wrong(chosen: Axes) -> Diagnostic | None:
        return (size_baked(job.request.model, trace.module, call.tensors, chosen, trace.of_sizes)
                or baked_at_long_sizes(job.request.model, run_of(trace.module, call.tensors), call.tensors, chosen))

    right = optional_axes.without_baked(axes, lambda chosen: wrong(chosen) is None) if _all_wishes(axes) else {}
    is_right = _all_wishes(axes) and wrong(right) is None
    try:
        return _instead_of_trace(job, call, axes, WhenceError([replace(trace.baked_size, severity="error")]),
                                 least_open=_open_axes(right) + 1 if is_right and _open_axes(right) else 0)
    except WhenceError:
        if not _all_wishes(axes):
            raise
    fixed = [(name, axis) for name, each in axes.items() for axis in each if axis not in right[name]]
    optional_axes.tell_of_fixed(axes, fixed, WhenceError([trace.baked_size]))
    if not is_right:
        warnings.warn(str(trace.baked_size), WhenceWarning, stacklevel=5)
    return _traced(job, trace.module, example, named_by_pytorch(right))


def _all_wishes(axes: Axes) -> bool:
    return all(what.automatic for each in axes.values() for what in each.values())


def _open_axes(axes: Axes) -> int:
    return sum(map(len, axes.values()))


def _instead_of_trace(job: Job, call: calls.Call, axes: Axes, failure: Exception, least_open: int = 0) -> Exported:
    """Exports by torch.export a model that cannot be traced, or whose trace cannot be converted.

    Where that fails too, or leaves fewer than ``least_open`` axes dynamic, raises ``failure``, which is about the backend that the user asked for; for a model that
    cannot be traced, raises whence's error about the exported program.
    """
    log.info("torch.export reads the model instead of a trace: %s", failure)
    try:
        with warnings.catch_warnings(record=True) as caught, quiet():
            warnings.simplefilter("always", WhenceWarning)
            done = replace(_native_export(job, call, axes, least_open), backend="native-export")
    except Exception as second:  # any kind
        raise second if isinstance(second, WhenceError) and not isinstance(failure, WhenceError) else failure from None
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return done


def _symbolics(job: Job) -> frozenset[str]:
    """Operators that a user's symbolic functions convert, and no translation does."""
    return torch_symbolics.registered(job.options.opset) - set(job.options.translations)


def named_by_pytorch(axes: Axes) -> Axes:
    """Axes without a name are called as torch.onnx.export calls them: a trace has no names of its own for sizes."""
    return {name: {axis: what if what.name else replace(what, name=f"{name}_dynamic_axes_{number}")
                   for number, (axis, what) in enumerate(each.items(), 1)} for name, each in axes.items()}


def _traced(job: Job, archive: torch.jit.ScriptModule, inputs: Mapping[str, Any], axes: Axes) -> Exported:
    """The export, with those wishes that the model does not fix."""
    job.options = replace(job.options, symbolics=_symbolics(job))
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, given = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        job.archive = str(archive.graph)
        calls.save_inputs(inputs, given)
        words = ["--inputs", given, *_default_dtype(), *library_words(archive)]
        optional_axes.honoured(axes, lambda chosen: job.command(saved, *words, axes=chosen, folder=Path(folder)),
                        lambda name, axis: inputs[name].shape[axis])
    return job.finish()


def _default_dtype() -> list[str]:
    """For the command, a process of its own."""
    dtype = torch.get_default_dtype()
    return [] if dtype is torch.float32 else ["--default-dtype", str(dtype).removeprefix("torch.")]


def _native_export(job: Job, call: calls.Call, axes: Axes, least_open: int = 0) -> Exported:
    def run() -> None:
        job.request.model(*call.copies_apart())

    functions = autograd_functions.inlined() if job.request.autograd_inlining else autograd_functions.functions_kept_as_operators(run)
    with job.stage("torch.export"), state_restored(job.request.model), functions, torch.no_grad():
        captured = _captured(job, call, axes)
    program, shapes = captured.program, captured.shapes
    if captured.baked:
        raise WhenceError([replace(captured.baked, severity="error")])
    exported_programs.refuse_constants_without_data(program)
    lasting_writes.refuse_what_was_missed(job.observed, job.request.model, call.tensors.values(),
                                          [lambda: program.module(check_guards=False),
                                           lambda: exported_programs.reloaded(program)], lasting_writes.EXPORTED)
    lasting_writes.warn_of_other_results(job.observed, job.request.model, call.tensors.values(),
                                         lambda: program.module(check_guards=False), lasting_writes.EXPORTED)
    name_in_program = dict(zip(call.tensors, program.graph_signature.user_inputs))
    fixed = _fixed_wishes(program, shapes, call, axes)
    optional_axes.tell_of_fixed(axes, fixed, WhenceError([captured.why_fixed]) if captured.why_fixed else None)
    left_dynamic = optional_axes.without(axes, fixed)
    if _open_axes(left_dynamic) < least_open:
        raise error("E0304", "baked_size", "torch.export fixes as many sizes as a trace", "export the trace")
    own_name = {theirs: name for name, theirs in name_in_program.items()}
    for name, axis, sizes in torch_export.bounds(program, shapes):
        warnings.warn(str(Diagnostic("E0304", "baked_size", "warning", f"the file holds where axis {axis} of "
                                     f"'{own_name[name]}' is {sizes}: the model has a condition on that size",
                                     "script the module, so that the condition stays")), WhenceWarning, stacklevel=5)
    return _program(job, program, name_in_program, left_dynamic,
                    lambda parts: baked_by_export(job.request.model, parts, call.tensors, left_dynamic) is not None)


@dataclass(frozen=True)
class _Captured:
    """The program of torch.export, the shapes asked of it, E0304 where it is wrong at other sizes, and where it would
    have been if wishes were not fixed."""

    program: Any
    shapes: tuple[Any, ...]
    baked: Diagnostic | None = None
    why_fixed: Diagnostic | None = None


def _captured(job: Job, call: calls.Call, axes: Axes) -> _Captured:
    """PyTorch fixes a wish that it would keep as a promise (float(x.shape[1])), so such a wish is asked for as one. A wish
    with which the program is wrong is fixed."""
    def attempt(chosen: Axes) -> tuple[Any, tuple[Any, ...]]:
        shapes = shapes_for_torch_export(call.tensors, chosen)
        return torch_export.captured(job.request.model, call.copies_apart(), shapes), shapes

    program, shapes = attempt(axes)
    fixed = _fixed_wishes(program, shapes, call, axes)
    if fixed:
        try:
            firm, firm_shapes = attempt(optional_axes.promised(axes, fixed))
            if _baked_anywhere(job, firm, call, axes) is None:
                return _Captured(firm, firm_shapes)
        except Exception as failure:  # PyTorch raises of every kind where the model fixes a size
            log.info("torch.export fixes sizes: %s", failure)
    left = optional_axes.without(axes, fixed)
    baked = _baked_anywhere(job, program, call, left)
    if baked and any(True for _ in optional_axes.automatic(left)):
        right = optional_axes.without_baked(left, lambda chosen: _baked_anywhere(job, program, call, chosen) is None)
        program, shapes = attempt(right)
        return _Captured(program, shapes, _baked_anywhere(job, program, call, right), baked)
    return _Captured(program, shapes, baked)


def _fixed_wishes(program: Any, shapes: tuple[Any, ...], call: calls.Call, axes: Axes) -> list[tuple[str, int]]:
    left = dict(zip(call.tensors, torch_export.left_open(program, shapes)))
    return [(name, axis) for name, axis, _ in optional_axes.automatic(axes) if axis not in left[name]]


def _baked_anywhere(job: Job, program: Any, call: calls.Call, axes: Axes) -> Diagnostic | None:
    return (baked_by_export(job.request.model, program, call.tensors, axes)
            or baked_at_long_sizes(job.request.model, without_guards(program), call.tensors, axes, holder="exported program",
                                   excluded=partial(excludes, program)))


def _program(job: Job, program: Any, name_in_program: Mapping[str, str], axes: Axes,
             is_wrong: Callable[[Any], bool] = lambda parts: False) -> Exported:
    job.archive = str(program)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        axes = {name_in_program[name]: each for name, each in axes.items()}
        try:
            _saved(job, program, axes, Path(folder))
        except WhenceError as failure:
            if not _concerns_operators(failure):
                raise
            _decomposed(job, program, axes, Path(folder), failure, is_wrong)
    return job.finish(program)


def _saved(job: Job, program: Any, axes: Axes, folder: Path) -> None:
    with job.stage("torch.export.save"):
        saved = exported_programs.save(program, folder / "model.pt2")
    inputs = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}

    def length(name: str, axis: int) -> int:
        size = inputs[name].shape[axis]
        return size if isinstance(size, int) else size.node.hint or 0

    optional_axes.honoured(axes, lambda chosen: job.command(saved, axes=chosen, folder=folder), length)


def _decomposed(job: Job, program: Any, axes: Axes, folder: Path, failure: WhenceError,
                is_wrong: Callable[[Any], bool]) -> None:
    """Exports the parts that PyTorch knows an operator by, where it cannot be converted as a whole.

    First those of the refused operators alone, so that a recurrent network beside them stays one node; the parts of all
    operators where that is not enough. PyTorch decides by the example's sizes which of the parts share memory, so
    parts that are wrong at other sizes are left, and the first refusal stands.
    """
    refused, table = failure, {}
    try:
        while True:
            known = len(table)
            table |= decompositions.of_refused(refused)
            all_of_them = len(table) == known
            with job.stage("run_decompositions"):
                parts = program.run_decompositions(None if all_of_them else dict(table))
            if is_wrong(parts):
                raise failure
            try:
                _saved(job, parts, axes, folder)
                break
            except WhenceError as still:
                if all_of_them or not _concerns_operators(still):
                    raise
                refused = still
    except Exception:  # any kind: what the model holds is what the user can change
        raise failure from None
    job.archive = str(parts)
    if told := decompositions.cost(program, parts, failure):
        warnings.warn(str(told), WhenceWarning, stacklevel=5)


def _given_program(backend: str, job: Job) -> Exported:
    """A torch.export.ExportedProgram: it has its arguments and dynamic sizes already."""
    if backend not in ("native-export", "torch-dynamo"):
        raise error("E0303", "unsupported_feature", f"backend='{backend}' exports modules, not exported programs",
                    "backend='native-export', or 'torch-dynamo'")
    exported_programs.refuse_constants_without_data(job.request.model)
    if backend == "native-export":
        return _program(job, job.request.model, {}, {})
    job.observed = lasting_writes.observed_program(job.request.model)
    with record(job.sidecar), torch.no_grad():
        torch.onnx.export(job.request.model, (), str(job.target), **job.options.for_torch({}, {}, True) | job.request.for_torch_alone())
    return job.finish(job.request.model)


def _torch_export(job: Job, model: Any, tensors: Mapping[Any, Any], axes: Axes, dynamo: bool = False) -> None:
    options = job.options.for_torch(tensors, axes, dynamo)
    options |= job.request.for_torch_alone() if dynamo else {"autograd_inlining": job.request.autograd_inlining}
    with job.stage("torch.onnx.export"), torch.no_grad(), \
            draft_folder(folder_of(job.target)) as made:
        target = made / job.target.name
        program = torch.onnx.export(model, trees.copied_apart(tuple(tensors.values())), str(target), **options)
        if dynamo and _returned_as_given(program.model.graph):
            program.save(str(target), include_initializers=options["export_params"],
                         keep_initializers_as_inputs=options["keep_initializers_as_inputs"],
                         external_data=options["external_data"])
        place(made, job.target, job.options.overwrite)


def _output_names(job: Job) -> Sequence[str]:
    """Results that are named after a cache are called so: PyTorch has to know before it exports."""
    results = job.observed.result if job.observed else None
    names = list(results) if isinstance(results, dict) and any(map(caches.is_output, results)) else []
    return [*job.options.output_names, *names[len(job.options.output_names):]]


def _returned_as_given(graph: Any) -> bool:
    """Makes inputs that are returned as they are outputs of the graph. PyTorch gives such an input and the Identity
    behind it one name where it gets the inputs' names, which ONNX Runtime refuses; an input may be an output."""
    inputs = {value.name: value for value in graph.inputs}
    same = [node for node in graph if node.op_type == "Identity" and node.inputs[0] is inputs.get(node.outputs[0].name)]
    for node in same:
        for place, value in enumerate(graph.outputs):
            if value is node.outputs[0]:
                graph.outputs[place] = node.inputs[0]
        graph.remove(node, safe=False)
    return bool(same)


def _scripted(backend: str, job: Job) -> Exported:
    if backend in ("torch-dynamo", "native-export"):
        raise error("E0303", "unsupported_feature", "torch.export takes no scripted module",
                    "backend='native' or 'torch-torchscript'")
    if not recorder_library.is_installed():
        raise recorder_library.missing()
    job.call = call = calls.opened(calls.signature_of(job.request.model), job.request.args, job.request.kwargs)
    given = call.arguments
    axes = named_by_pytorch(job.axes_of(call))
    job.observed = lasting_writes.observed_script(job.request.model, given)
    if backend == "native":
        return _traced(job, job.request.model, given, axes)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        job.request.model.save(str(saved))
        calls.save_inputs(given, inputs)
        run_json("record", saved, "-o", job.sidecar, "--inputs", inputs, *_default_dtype(), *library_words(job.request.model))
    _torch_export(job, copy.deepcopy(job.request.model), given, axes)  # it runs the model, whose state is not in Python
    return job.finish()
