"""Records programs that torch.export creates during a recording, from the program itself.

torch.export offers no hook to a LibTorch plugin: it runs the model on fake tensors, in Python. Its program contains
more than a trace, so the program is stored. During the block, the functions that return a program are replaced with
functions that call them and store the result. ``torch.onnx.export(dynamo=True)`` calls the same functions.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..command.process import run_json
from ..errors import Diagnostic, WhenceError, error


@dataclasses.dataclass(eq=False)
class Captured:
    """A program that PyTorch created during a recording."""

    program: torch.export.ExportedProgram
    as_made: torch.export.ExportedProgram | None  # copied before exporters rewrite it; None if it cannot be copied
    call: str   # the function of PyTorch that was called: "torch.onnx.export"
    model: str  # the class of the model; "" if the caller passed a program

    def __str__(self) -> str:
        return f"the program that {self.call} made of {self.model}" if self.model else \
            f"the program passed to {self.call}"

    @property
    def remedy(self) -> str:
        """What the caller can do if the program cannot be saved."""
        if self.call == "torch.onnx.export" and self.model:
            return "call it with dynamo=False, which makes a trace"
        return "also call torch.jit.trace(model, args) inside the block: the trace is recorded"


@contextmanager
def captured() -> Iterator[list[Captured]]:
    """Yields a list that collects the programs created, or passed to torch.onnx.export, inside the block."""
    programs: list[Captured] = []
    outer: list[str] = []  # running calls of torch.onnx.export, which call torch.export

    def keep(program: Any, call: str, model: Any = None) -> None:
        if isinstance(program, torch.export.ExportedProgram) and all(program is not each.program for each in programs):
            programs.append(Captured(program, _copied(program), outer[0] if outer else call,
                                     "" if model is None else type(model).__qualname__))

    def keeping_result(function: Callable[..., Any], call: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            program = function(*args, **kwargs)
            keep(program, call, args[0] if args else kwargs.get("mod"))
            return program
        return wrapper

    def keeping_argument(function: Callable[..., Any], call: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            keep(model, call)
            outer.append(call)
            try:
                return function(model, *args, **kwargs)
            finally:
                outer.pop()
        return wrapper

    replaced = [(torch.export, "export", keeping_result), (torch.export, "draft_export", keeping_result),
                (torch.onnx, "export", keeping_argument)]
    originals = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, wrap in replaced:
        setattr(module, name, wrap(getattr(module, name), f"{module.__name__}.{name}"))
    try:
        yield programs
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def _copied(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram | None:
    """Returns a copy with a separate graph and shared tensors: exporters rewrite the graph of their program, and
    PyTorch may be unable to save the result."""
    try:
        snapshot = copy.copy(program)
        snapshot._graph_module = _graph_copied(program.graph_module)
        snapshot._graph_signature = copy.deepcopy(program.graph_signature)
        return snapshot
    except Exception:  # PyTorch raises exceptions of any class; the program itself remains
        return None


def _graph_copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    copied = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    copied.meta = dict(module.meta)
    for name, child in copied.named_children():  # the branches of conditions
        if isinstance(child, torch.fx.GraphModule):
            setattr(copied, name, _graph_copied(child))
    return copied


def save(program: torch.export.ExportedProgram, archive: Path,
         remedy: str = "export with dynamo=False, or register the classes it names with torch.export") -> Path:
    """Runs torch.export.save. Raises WhenceError E0303 if it fails."""
    try:
        program = _savable(program)
        refuse_constants_without_data(program)
        try:
            torch.export.save(program, archive)
        except NotImplementedError:  # a container that archives cannot name, such as torch.return_types.topk
            torch.export.save(with_plain_containers(program), archive)
    except WhenceError:
        raise
    except Exception as failure:  # PyTorch raises many classes here, from ValueError to its own
        raise error("E0303", "unsupported_feature", f"PyTorch cannot save the exported program: {failure}",
                    remedy) from failure
    return archive


def refuse_constants_without_data(program: torch.export.ExportedProgram) -> None:
    """Raises WhenceError E0303 if operations read a constant without data: with strict=True, torch.export leaves one
    for each use of a tensor's ``.data``. The archive would lack its bytes, and decomposing the program may crash.
    Constants that torch.vmap leaves disappear when ``save`` decomposes the program."""
    if _is_unsavable(program):
        return
    inputs = {node.name: node for node in program.graph.nodes if node.op == "placeholder" and node.users}
    for spec in program.graph_signature.input_specs:
        if spec.arg.name in inputs and isinstance(program.constants.get(spec.target), torch._subclasses.FakeTensor):
            line = next((words for user in inputs[spec.arg.name].users if (words := _source_line(user))), "")
            raise error("E0303", "unsupported_feature", "torch.export does not record what the model does through .data"
                        + (f": {line}" if line else ""), "write to the tensor itself: self.state.add_(x)")


def _source_line(node: torch.fx.Node) -> str:
    """Returns the innermost source line of a node: 'File "model.py", line 7, in forward'."""
    frames = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()
              if line.strip().startswith("File ")]
    return frames[-1] if frames else ""


def reloaded(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """Returns the program after a round trip through its archive, in which no two tensors share memory."""
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        return torch.export.load(save(program, Path(folder) / "model.pt2")).module(check_guards=False)


def _savable(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Returns a program that can be saved. Decomposes a program that calls torch.vmap, or operators of a library that
    write to arguments, because an archive does not state which arguments they write to."""
    return _without_fake_constants(program.run_decompositions({})) if _is_unsavable(program) else program


def _is_unsavable(program: torch.export.ExportedProgram) -> bool:
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            schema = getattr(node.target, "_schema", None)
            writes = schema is not None and schema.is_mutable and not schema.name.startswith(("aten::", "prim"))
            if writes or str(getattr(node.target, "__module__", "")).startswith("torch._functorch."):
                return True
    return False


def _without_fake_constants(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Replaces unread constants without data with zeros, because an archive needs bytes.
    torch.export(strict=True) leaves unread constants where vmap moves dimensions."""
    unread = {node.name for node in program.graph.nodes if node.op == "placeholder" and not node.users}
    names = {spec.target for spec in program.graph_signature.input_specs if spec.arg.name in unread}
    saved = copy.copy(program)
    saved._constants = {name: torch.zeros(value.shape, dtype=value.dtype) if name in names and isinstance(
        value, torch._subclasses.FakeTensor) else value for name, value in program.constants.items()}
    return saved


def with_plain_containers(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Returns the program with tuples in place of containers that an archive cannot name.

    Nothing is lost: inputs and outputs of an ONNX model are flat, and the order of the leaves does not change.
    """
    def savable(spec: pytree.TreeSpec) -> pytree.TreeSpec:
        if spec.is_leaf():
            return spec
        children = [savable(child) for child in spec.children()]
        try:  # the children become leaves, so that only this container can fail
            pytree.treespec_dumps(pytree.TreeSpec(spec.type, spec.context, [pytree.LeafSpec()] * len(children)))
            return pytree.TreeSpec(spec.type, spec.context, children)
        except NotImplementedError:
            return pytree.TreeSpec(tuple, None, children)

    saved = copy.copy(program)
    saved._module_call_graph = [
        entry if entry.signature is None else dataclasses.replace(entry, signature=dataclasses.replace(
            entry.signature, in_spec=savable(entry.signature.in_spec), out_spec=savable(entry.signature.out_spec)))
        for entry in program.module_call_graph]
    return saved


def write(captured_program: Captured, sidecar: Path) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Writes the sidecar of a program; returns the row for Recording.files and the diagnostics to report, which name the
    model instead of the temporary archive.

    Raises WhenceError: E0303 for a program that PyTorch cannot save, E0401.
    """
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        report = run_json("record", _saved(captured_program, Path(folder) / "model.pt2"), "-o", sidecar)
    diagnostics = [Diagnostic.from_json(entry) for entry in report["diagnostics"]]
    name = captured_program.model or str(captured_program)
    return ({"file": str(sidecar), "operations": report["operations"], "modules": report["modules"],
             "complete": True}, [_without_file(each, f"{name}: {each.message}") for each in diagnostics])


def _without_file(diagnostic: Diagnostic, message: str) -> Diagnostic:
    return dataclasses.replace(diagnostic, message=message,
                               where={name: where for name, where in diagnostic.where.items() if name != "file"})


def _saved(captured_program: Captured, archive: Path) -> Path:
    try:
        return save(captured_program.program, archive, captured_program.remedy)
    except WhenceError:
        if captured_program.as_made is None:
            raise
        return save(captured_program.as_made, archive, captured_program.remedy)


def unrecorded(captured_program: Captured, failure: WhenceError, sidecar: Path) -> list[Diagnostic]:
    """Returns the warnings for a program that cannot be recorded."""
    what = f"{captured_program} is not recorded, and {sidecar.name} is not written"
    return [dataclasses.replace(_without_file(each, f"{what}: {each.message}"), severity="warning")
            for each in failure.diagnostics]
