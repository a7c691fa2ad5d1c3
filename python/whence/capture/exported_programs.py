"""Records programs that torch.export makes while a recording runs, from the program itself.

torch.export shows nothing to a plugin of LibTorch: it runs the model on fake tensors, in Python. What it returns says
more than a trace would, so that is what is kept: the functions that return a program are replaced for the time of the
block by ones that call them and remember the result. ``torch.onnx.export(dynamo=True)`` calls the same functions.
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
    """A program that was made while a recording ran."""

    program: torch.export.ExportedProgram
    as_made: torch.export.ExportedProgram | None  # before anyone rewrote its graph; None where it cannot be copied
    call: str   # the function of PyTorch that was called: "torch.onnx.export"
    model: str  # the class of the model; "" where the program was given

    def __str__(self) -> str:
        return f"the program that {self.call} made of {self.model}" if self.model else f"the program given to {self.call}"

    @property
    def remedy(self) -> str:
        """The way that is left to the caller where the program cannot be saved."""
        if self.call == "torch.onnx.export" and self.model:
            return "the same call with dynamo=False, which makes a trace"
        return "torch.jit.trace(model, args) inside the block, too: the trace is recorded"


@contextmanager
def captured() -> Iterator[list[Captured]]:
    """Yields the list of the programs that were made, or given to torch.onnx.export, inside the block so far."""
    programs: list[Captured] = []
    outer: list[str] = []  # calls of torch.onnx.export that are under way, which call torch.export

    def keep(program: Any, call: str, model: Any = None) -> None:
        if isinstance(program, torch.export.ExportedProgram) and all(program is not known.program for known in programs):
            programs.append(Captured(program, _copied(program), outer[0] if outer else call,
                                     "" if model is None else type(model).__qualname__))

    def returning(function: Callable[..., Any], call: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def remember(*args: Any, **kwargs: Any) -> Any:
            program = function(*args, **kwargs)
            keep(program, call, args[0] if args else kwargs.get("mod"))
            return program
        return remember

    def given(function: Callable[..., Any], call: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def remember(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            keep(model, call)
            outer.append(call)
            try:
                return function(model, *args, **kwargs)
            finally:
                outer.pop()
        return remember

    replaced = [(torch.export, "export", returning), (torch.export, "draft_export", returning),
                (torch.onnx, "export", given)]
    originals = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, wrap in replaced:
        setattr(module, name, wrap(getattr(module, name), f"{module.__name__}.{name}"))
    try:
        yield programs
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def _copied(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram | None:
    """The program with a graph of its own: exporters rewrite that of the one that they are given, to what PyTorch may not
    save any more. Tensors are shared."""
    try:
        kept = copy.copy(program)
        kept._graph_module = _graph_copied(program.graph_module)
        kept._graph_signature = copy.deepcopy(program.graph_signature)
        return kept
    except Exception:  # PyTorch raises of every kind; the program itself is still there
        return None


def _graph_copied(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    made.meta = dict(module.meta)
    for name, child in made.named_children():  # the branches of conditions
        if isinstance(child, torch.fx.GraphModule):
            setattr(made, name, _graph_copied(child))
    return made


def save(program: torch.export.ExportedProgram, archive: Path,
         remedy: str = "export with dynamo=False, or register what it names with torch.export") -> Path:
    """torch.export.save, whose failures become WhenceError E0303."""
    try:
        program = _without_what_archives_lack(program)
        refuse_constants_without_data(program)
        try:
            torch.export.save(program, archive)
        except NotImplementedError:  # a container without a name for archives, such as torch.return_types.topk
            torch.export.save(with_plain_containers(program), archive)
    except WhenceError:
        raise
    except Exception as failure:  # PyTorch raises many kinds here, from ValueError to its own
        raise error("E0303", "unsupported_feature", f"PyTorch cannot save the exported program: {failure}",
                    remedy) from failure
    return archive


def refuse_constants_without_data(program: torch.export.ExportedProgram) -> None:
    """Raises WhenceError E0303 where operations read a constant that has no data: with strict=True torch.export leaves
    one for each ``.data`` of a tensor. An archive would hold no bytes of it, and to decompose it may crash. Those that
    torch.vmap leaves are gone when it is made of plain operators, as ``save`` does."""
    if _holds_what_archives_lack(program):
        return
    read = {node.name: node for node in program.graph.nodes if node.op == "placeholder" and node.users}
    for spec in program.graph_signature.input_specs:
        if spec.arg.name in read and isinstance(program.constants.get(spec.target), torch._subclasses.FakeTensor):
            line = next((words for user in read[spec.arg.name].users if (words := _source_line(user))), "")
            raise error("E0303", "unsupported_feature", "torch.export does not see what the model does through .data"
                        + (f": {line}" if line else ""), "write to the tensor itself: self.state.add_(x)")


def _source_line(node: torch.fx.Node) -> str:
    """The innermost place where it was called: 'File "model.py", line 7, in forward'."""
    frames = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()
              if line.strip().startswith("File ")]
    return frames[-1] if frames else ""


def reloaded(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """The program as it comes out of its archive, in which no two tensors share memory."""
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        return torch.export.load(save(program, Path(folder) / "model.pt2")).module(check_guards=False)


def _without_what_archives_lack(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program made functional where it has torch.vmap, which is calls that switch it on and off, or a library's
    operators that write to their arguments, of which an archive does not say to which. Both become plain operators.
    """
    return _without_fake_constants(program.run_decompositions({})) if _holds_what_archives_lack(program) else program


def _holds_what_archives_lack(program: torch.export.ExportedProgram) -> bool:
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, torch.fx.GraphModule) else ():
            schema = getattr(node.target, "_schema", None)
            writes = schema is not None and schema.is_mutable and not schema.name.startswith(("aten::", "prim"))
            if writes or str(getattr(node.target, "__module__", "")).startswith("torch._functorch."):
                return True
    return False


def _without_fake_constants(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A constant without data, which torch.export(strict=True) leaves behind where vmap moves dimensions, and nothing
    reads, is zeros: an archive would hold no bytes of it."""
    unread = {node.name for node in program.graph.nodes if node.op == "placeholder" and not node.users}
    names = {spec.target for spec in program.graph_signature.input_specs if spec.arg.name in unread}
    saved = copy.copy(program)
    saved._constants = {name: torch.zeros(held.shape, dtype=held.dtype) if name in names and isinstance(
        held, torch._subclasses.FakeTensor) else held for name, held in program.constants.items()}
    return saved


def with_plain_containers(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The same program, taking and giving tuples in the place of containers that an archive has no name for.

    ONNX knows inputs and outputs one by one, so nothing is lost: the order of what the containers hold stays.
    """
    def plain(spec: pytree.TreeSpec) -> pytree.TreeSpec:
        if spec.is_leaf():
            return spec
        children = [plain(child) for child in spec.children()]
        try:  # the children become leaves, so that only this container can fail
            pytree.treespec_dumps(pytree.TreeSpec(spec.type, spec.context, [pytree.LeafSpec()] * len(children)))
            return pytree.TreeSpec(spec.type, spec.context, children)
        except NotImplementedError:
            return pytree.TreeSpec(tuple, None, children)

    saved = copy.copy(program)
    saved._module_call_graph = [
        entry if entry.signature is None else dataclasses.replace(entry, signature=dataclasses.replace(
            entry.signature, in_spec=plain(entry.signature.in_spec), out_spec=plain(entry.signature.out_spec)))
        for entry in program.module_call_graph]
    return saved


def write(made: Captured, sidecar: Path) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Writes the sidecar of a program; returns the row for Recording.files and the diagnostics to report.

    Raises WhenceError: E0303 for a program that PyTorch cannot save, E0401.
    """
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        report = run_json("record", _saved(made, Path(folder) / "model.pt2"), "-o", sidecar)
    return ({"file": str(sidecar), "operations": report["operations"], "modules": report["modules"],
             "complete": True}, [Diagnostic.from_json(entry) for entry in report["diagnostics"]])


def _saved(made: Captured, archive: Path) -> Path:
    try:
        return save(made.program, archive, made.remedy)
    except WhenceError:
        if made.as_made is None:
            raise
        return save(made.as_made, archive, made.remedy)


def unrecorded(made: Captured, failure: WhenceError, place: Path) -> list[Diagnostic]:
    """The warnings for a program that cannot be recorded."""
    what = f"{made} is not recorded, and {place.name} not written"
    return [dataclasses.replace(each, severity="warning", message=f"{what}: {each.message}",
                                where={name: where for name, where in each.where.items() if name != "file"})
            for each in failure.diagnostics]
