"""A function for each way from a model to an annotated file."""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_symbols

from . import autograd, calls, exported, nested, symbolics
from .artifacts import Artifacts
from .axes import Axes
from .command import run_json
from .errors import Diagnostic, WhenceError, WhenceWarning, error
from .expansion import expand
from .options import Options, shapes_for_torch_export
from .plugin import record
from .program import Exported
from .reports import annotate, validate
from .surroundings import log
from .tracing import alike, computed, of_libraries, stretched, traced, traced_otherwise

BACKENDS = ("native", "native-export", "torch-dynamo", "torch-torchscript")


@dataclass
class Job:
    """One export: what is asked, where it goes, and what was learnt on the way."""

    model: Any
    args: Any
    kwargs: Mapping[str, Any] | None
    target: Path
    sidecar: Path
    options: Options
    artifacts: Artifacts
    autograd_inlining: bool
    axes_of: Callable[[calls.Call], Axes]
    for_torch: dict[str, Any]  # options that torch.onnx.export serves itself
    call: calls.Call | None = None
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
        with self.stage("export"), _staged(self.target, self.sidecar, bool(makers)) as (target, sidecar):
            report = run_json("export", archive, "-o", target, "--sidecar-out", sidecar, *words,
                              *self.options.for_command(axes, folder, self.artifacts.draft()))
            if makers:
                expand(target, makers, self.options.custom_opsets)
        self.seconds |= {f"export: {name}": seconds for name, seconds in report.get("seconds", {}).items()}
        for entry in map(Diagnostic.from_json, report["diagnostics"]):
            if entry.severity == "warning":
                warnings.warn(str(entry), WhenceWarning, stacklevel=2)

    def finish(self, program: Any = None) -> Exported:
        with self.stage("annotate"):
            annotated = annotate(self.target, self.sidecar)
        with self.stage("validate"):
            validation = validate(self.target, self.sidecar)
        return Exported(self.target, self.sidecar, annotated, validation, program, archive=self.archive)


@contextmanager
def _staged(target: Path, sidecar: Path, wanted: bool) -> Iterator[tuple[Path, Path]]:
    """Where to write what is not finished when the command is done: in a folder of its own, from which it moves when
    all went well, so that a failure leaves older files as they were."""
    if not wanted or not target.parent.is_dir() or not sidecar.parent.is_dir():
        yield target, sidecar
        return
    with tempfile.TemporaryDirectory(prefix=".whence-", dir=target.parent) as made, \
            tempfile.TemporaryDirectory(prefix=".whence-", dir=sidecar.parent) as recorded:
        yield Path(made) / target.name, Path(recorded) / sidecar.name
        for folder, final in ((made, target.parent), (recorded, sidecar.parent)):
            for file in Path(folder).iterdir():  # weights may stand in files of their own
                os.replace(file, final / file.name)


def export_by(backend: str, job: Job) -> Exported:
    if isinstance(job.model, torch.export.ExportedProgram):
        return _given_program(backend, job)
    if isinstance(job.model, torch.jit.ScriptModule):
        return _scripted(backend, job)
    with calls.tensors_only(job.model, job.args, job.kwargs) as call, warnings.catch_warnings():
        job.call = call
        axes = job.axes_of(call)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # told with their source lines
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        if backend == "native":
            return _native(job, call, axes)
        if backend == "native-export":
            return _native_export(job, call, axes)
        with record(job.sidecar) as recording:
            _torch_export(job, call.tensors, axes, dynamo=backend == "torch-dynamo")
        if not recording.complete:
            said = "; ".join(map(str, recording.diagnostics)) or "the record is incomplete"
            raise error("E0106", "recording_state", said, "backend='native' reads the trace itself",
                        file=str(job.sidecar))
    return job.finish()


def _native(job: Job, call: calls.Call, axes: Axes) -> Exported:
    if not job.autograd_inlining:
        raise error("E0303", "unsupported_feature", "a trace cannot keep a torch.autograd.Function",
                    "backend='native-export', or autograd_inlining=True")
    try:
        with job.stage("trace"), autograd.inlined():
            archive = traced(job.model, call.tensors, axes)
    except WhenceError:
        raise
    except Exception as failure:  # the model raises of every kind, and so does PyTorch
        return _instead_of_trace(job, call, axes, failure)
    taught = of_libraries(archive)
    if taught or (renamed := traced_otherwise(archive) & {name.split(".")[0] for name in job.options.translations}):
        log.info("%s: %s, so torch.export reads the model", ", ".join(taught or renamed),
                 "only this process knows how to run it" if taught else "a trace has another name for it")
        job.options = replace(job.options, symbolics=_symbolics(job) & set(taught))
        return replace(_native_export(job, call, axes), backend="native-export")
    try:
        return _traced(job, archive, call.tensors, named_by_pytorch(axes))
    except WhenceError as failure:
        if not _concerns_operators(failure):
            raise
        return _instead_of_trace(job, call, axes, failure)


def _concerns_operators(failure: WhenceError) -> bool:
    return failure.code in ("E0301", "E0302", "E0303")


def _instead_of_trace(job: Job, call: calls.Call, axes: Axes, failure: Exception) -> Exported:
    """What torch.export makes of a model that cannot be traced, or whose trace cannot be converted.

    Raises ``failure`` where that fails too: it speaks of what the user asked for.
    """
    log.info("no trace, so torch.export reads the model: %s", failure)
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", WhenceWarning)
            done = replace(_native_export(job, call, axes), backend="native-export")
    except Exception:  # of every kind
        raise failure from None
    for each in told:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return done


def _symbolics(job: Job) -> frozenset[str]:
    """Operators that a user's symbolic functions convert, and no translation does."""
    return symbolics.registered(job.options.opset) - set(job.options.translations)


def named_by_pytorch(axes: Axes) -> Axes:
    """Axes without a name are called as torch.onnx.export calls them: a trace has no names of its own for sizes."""
    return {name: {axis: what if what.name else replace(what, name=f"{name}_dynamic_axes_{number}")
                   for number, (axis, what) in enumerate(each.items(), 1)} for name, each in axes.items()}


def _traced(job: Job, archive: torch.jit.ScriptModule, inputs: Mapping[str, Any], axes: Axes) -> Exported:
    job.options = replace(job.options, symbolics=_symbolics(job))
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, given = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        archive.save(str(saved))
        job.archive = str(archive.graph)
        calls.save_inputs(inputs, given)
        words = ["--inputs", given, *_default_dtype()]
        _with_automatic_axes(axes, lambda chosen: job.command(saved, *words, axes=chosen, folder=Path(folder)))
    return job.finish()


def _default_dtype() -> list[str]:
    """For the command, a process of its own."""
    dtype = torch.get_default_dtype()
    return [] if dtype is torch.float32 else ["--default-dtype", str(dtype).removeprefix("torch.")]


def _with_automatic_axes(axes: Axes, export: Callable[[Axes], None]) -> None:
    """Exports with those automatic axes that the model does not fix, of one size all or none; torch.export finds out
    by itself."""
    sizes: dict[Any, list] = {}  # by name; an axis without a name is a size of its own
    for name, axis, what in _automatic(axes):
        sizes.setdefault(what.name or (name, axis), []).append((name, axis))

    try:
        return export(axes)
    except WhenceError as failure:
        if failure.code != "E0304" or not sizes:
            raise
        first = failure

    def works(fixed: Collection) -> bool:
        try:
            export(_without(axes, [axis for size in fixed for axis in sizes[size]]))
        except WhenceError as failure:
            if failure.code != "E0304":
                raise
            return False
        return True

    fixed = next(([one] for one in sizes if works([one])), None)
    if fixed is None:
        fixed = list(sizes)
        for one in sizes:
            if works([size for size in fixed if size != one]):
                fixed.remove(one)
        export(_without(axes, [axis for size in fixed for axis in sizes[size]]))
    _tell_of_fixed(axes, [axis for size in fixed for axis in sizes[size]], first)


def _automatic(axes: Axes) -> Iterator[tuple[str, int, Axis]]:
    for name, each in axes.items():
        yield from ((name, axis, what) for axis, what in each.items() if what.automatic)


def _without(axes: Axes, fixed: Collection[tuple[str, int]]) -> Axes:
    return {name: {axis: what for axis, what in each.items() if (name, axis) not in fixed}
            for name, each in axes.items()}


def _tell_of_fixed(axes: Axes, fixed: Collection[tuple[str, int]], why: Any = None) -> None:
    """Of an axis that somebody asked for, by a warning; of one under Dim.AUTO nobody expects anything."""
    wished = [f"axis {axis} of '{name}'" for name, axis in fixed if axes[name][axis].wished]
    for name, axis in fixed:
        log.info("axis %d of '%s' is fixed by the model: %s", axis, name, why)
    if wished:
        told = Diagnostic("E0304", "baked_size", "warning", f"the model fixes {', '.join(wished)}: the file has the "
                          "size of the example" + (f". {why.diagnostics[0].message}" if why else ""),
                          "compute it from the input's shape in the model, or leave the axis out of dynamic_axes")
        warnings.warn(str(told), WhenceWarning, stacklevel=6)


def _native_export(job: Job, call: calls.Call, axes: Axes) -> Exported:
    def run() -> None:
        job.model(*call.tensors.values())

    functions = autograd.inlined() if job.autograd_inlining else autograd.kept(run)
    shapes = shapes_for_torch_export(call.tensors, axes)
    with job.stage("torch.export"), functions, torch.no_grad():
        program = _captured(job.model, tuple(call.tensors.values()), shapes)
    name_in_program = dict(zip(call.tensors, program.graph_signature.user_inputs))
    left = dict(zip(call.tensors, _left_open(program, shapes)))
    fixed = [(name, axis) for name, axis, _ in _automatic(axes) if axis not in left[name]]
    _tell_of_fixed(axes, fixed)
    return _program(job, program, name_in_program, _without(axes, fixed))


def _captured(model: torch.nn.Module, tensors: tuple, shapes: Any) -> Any:
    """torch.export.export, for which 0 and 1 are sizes like others; bounds that the model has are told and taken."""
    small = [dim for tensor, axes in zip(tensors, shapes) for axis, dim in (axes or {}).items()
             if tensor.shape[axis] < 2]
    if not small:
        return _with_bounds(model, tensors, shapes)
    with _small_sizes_are_sizes():
        program = _with_bounds(model, tensors, shapes)
    try:
        _check_small(model, program, tensors, _left_open(program, shapes))
    except WhenceError:
        if any(dim is not torch.export.Dim.AUTO for dim in small):
            raise
        return _with_bounds(model, tensors, shapes)  # fixes them
    return program


def _left_open(program: Any, shapes: tuple) -> tuple:
    """The shapes without the axes that torch.export fixed, as it may those of Dim.AUTO."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    return tuple({axis: dim for axis, dim in (axes or {}).items() if free_symbols(values[name].shape[axis])}
                 for name, axes in zip(program.graph_signature.user_inputs, shapes))


def _with_bounds(model: torch.nn.Module, tensors: tuple, shapes: Any) -> Any:
    try:
        return torch.export.export(model, tensors, dynamic_shapes=shapes)
    except Exception as failure:  # PyTorch raises of every kind, and the model too
        bounded = _bounded(failure, shapes) if isinstance(failure, torch._dynamo.exc.UserError) else None
        if bounded is None:
            return _from_source(model, tensors, shapes, failure)
        warnings.warn(f"torch.export finds bounds of the dynamic sizes, which the file has: {bounded}", WhenceWarning,
                      stacklevel=7)
        return torch.export.export(model, tensors, dynamic_shapes=bounded)


def _from_source(model: torch.nn.Module, tensors: tuple, shapes: Any, failure: Exception) -> Any:
    """What torch.export makes of the model's bytecode, where the model does not run on tensors without data.

    torch.onnx.export tries the two in the same order. Raises ``failure`` where both fail: it names the model's line.
    """
    try:
        program = torch.export.export(model, tensors, dynamic_shapes=shapes, strict=True)
    except Exception:
        raise failure from None
    log.info("torch.export(strict=False) fails, strict=True does not: %s", failure)
    return program


def _check_small(model: torch.nn.Module, program: Any, tensors: tuple, shapes: tuple) -> None:
    """Raises WhenceError E0304 where the program is another than the model, at the example's sizes or larger ones."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    said = [each for each in map(values.get, program.graph_signature.user_outputs) if isinstance(each, torch.Tensor)]
    for given in tensors, _grown(tensors, shapes):
        try:
            wanted, found = (computed(model, run, given) for run in (model, program.module(check_guards=False)))
            same = alike(found, wanted)
        except Exception:  # one of the two does not run at these sizes
            same = False
        if not same or any(a.dim() != b.dim() for a, b in zip(said, wanted)):
            raise error("E0304", "baked_size", "a dynamic size is 0 or 1 in the example, and the model does something "
                        "else there than at other sizes", "give an example whose dynamic sizes are 2 or more")


def _grown(tensors: tuple, shapes: tuple) -> tuple:
    """The tensors with sizes of 3 in the place of dynamic sizes of 0 and 1."""
    larger = []
    for tensor, axes in zip(tensors, shapes):
        for axis in axes or ():
            if tensor.shape[axis] < 2:
                tensor = stretched(tensor, axis, 3)
        larger.append(tensor)
    return tuple(larger)


def _small_sizes_are_sizes() -> Any:
    """By itself torch.export fixes a dynamic size that is 0 or 1 in the example."""
    settings = torch.fx.experimental._config
    return settings.patch(backed_size_oblivious=True) if hasattr(settings, "backed_size_oblivious") else nullcontext()


def _bounded(failure: Any, shapes: Any) -> Any:
    """The shapes with the bounds that PyTorch suggests; None where it suggests nothing, or to fix a size."""
    try:
        refined = torch.export.dynamic_shapes.refine_dynamic_shapes_from_suggested_fixes(failure.msg, shapes)
    except Exception:  # PyTorch raises of every kind where there is nothing that it can read
        return None
    fixed = [dim for each in refined for dim in (each or {}).values() if dim is None or isinstance(dim, int)]
    return None if fixed else refined


def _program(job: Job, program: Any, name_in_program: Mapping[str, str], axes: Axes) -> Exported:
    job.archive = str(program)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        axes = {name_in_program[name]: each for name, each in axes.items()}
        try:
            _saved(job, program, axes, Path(folder))
        except WhenceError as failure:
            if not _concerns_operators(failure):
                raise
            _decomposed(job, program, axes, Path(folder), failure)
    return job.finish(program)


def _saved(job: Job, program: Any, axes: Axes, folder: Path) -> None:
    with job.stage("torch.export.save"):
        saved = exported.save(program, folder / "model.pt2")
    job.command(saved, axes=axes, folder=folder)


def _decomposed(job: Job, program: Any, axes: Axes, folder: Path, failure: WhenceError) -> None:
    """An operator that cannot be converted as a whole may be in the parts that PyTorch knows it by."""
    try:
        with job.stage("run_decompositions"):
            parts = program.run_decompositions()
        _saved(job, parts, axes, folder)
    except Exception:  # of every kind: what the model holds is what the user can change
        raise failure from None
    job.archive = str(parts)


def _given_program(backend: str, job: Job) -> Exported:
    """A torch.export.ExportedProgram: it has its arguments and dynamic sizes already."""
    if backend not in ("native-export", "torch-dynamo"):
        raise error("E0303", "unsupported_feature", f"backend='{backend}' exports modules, not exported programs",
                    "backend='native-export', or 'torch-dynamo'")
    if backend == "native-export":
        return _program(job, job.model, {}, {})
    with record(job.sidecar), torch.no_grad():
        torch.onnx.export(job.model, (), str(job.target), **job.options.for_torch({}, {}, True) | job.for_torch)
    return job.finish(job.model)


def _torch_export(job: Job, tensors: Mapping, axes: Axes, dynamo: bool = False) -> None:
    options = job.options.for_torch(tensors, axes, dynamo)
    options |= job.for_torch if dynamo else {"autograd_inlining": job.autograd_inlining}
    with job.stage("torch.onnx.export"), torch.no_grad():
        torch.onnx.export(job.model, tuple(tensors.values()), str(job.target), **options)


def _scripted(backend: str, job: Job) -> Exported:
    if backend in ("torch-dynamo", "native-export"):
        raise error("E0303", "unsupported_feature", "torch.export takes no scripted module",
                    "backend='native' or 'torch-torchscript'")
    job.call = call = calls.opened(calls.signature_of(job.model), job.args, job.kwargs)
    given = call.arguments
    axes = named_by_pytorch(job.axes_of(call))
    if backend == "native":
        return _traced(job, job.model, given, axes)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        saved, inputs = Path(folder) / "model.pt", Path(folder) / "inputs.pt"
        job.model.save(str(saved))
        calls.save_inputs(given, inputs)
        run_json("record", saved, "-o", job.sidecar, "--inputs", inputs, *_default_dtype())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        _torch_export(job, given, axes)
    return job.finish()
