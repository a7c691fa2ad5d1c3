"""Makes a straight line of a file for one run: the bodies of If, Loop and Scan that ran, as often as they ran, and the
nodes of local functions become nodes of the main graph, so that all their values are observable.

Loops are unrolled with the numbers of iterations of the run. Nodes keep their origins; a module that a loop calls has
another call in each iteration, as when PyTorch recorded it."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from ..base.optional_packages import import_optional
from ..command.process import run_json
from ..errors import WhenceError
from ..values.value_file import Run
from . import annotated_file, model_structure
from .annotated_file import File, Node
from .recorded_program import RecordedProgram
from .runtimes import Runtime

_MAX_NODES = 50_000
_MAX_ROUNDING = 1e-5  # maximum relative difference between the outputs of the file and of its straight line
_UNSQUEEZE_INPUT = 13  # the opset from which the axes of Unsqueeze are an input
_BODIES = {"If", "Loop", "Scan"}
_ITERATIONS = "whence.iterations"  # values that are added to count iterations

Path_ = tuple[tuple[int, int], ...]  # of a node: the expansions that made it, outermost first, and its iteration in each


@dataclass
class _Expansion:
    """A node whose bodies replaced it."""

    owner: Node
    is_loop: bool
    skipped: list[Any]  # nodes of bodies that did not run: the other branch of an If
    first_calls: dict[str, int] = field(default_factory=dict)  # of the modules that the body calls, as the file counts


def has_bodies(file: File) -> bool:
    functions = {(each.domain, each.name) for each in file.model.functions}
    return any(node.op_type in _BODIES or (node.domain, node.op_type) in functions for node in file.nodes)


def of_run(file: File, program: RecordedProgram | None, run: Run, start: Callable[[File], Runtime],
           feed: Mapping[str, torch.Tensor]) -> tuple[File, RecordedProgram | None]:
    """Returns the straight line of the file for the recorded run with this feed, and the program with an operation for
    each iteration. Returns the file itself if it does not run, or if its straight line computes something else: its
    random numbers differ."""
    if not has_bodies(file):
        return file, program
    try:
        line = _Line(file, start, feed)
        line.expand()
        straight = line.file()
        if not _same_outputs(file, straight, start, feed):
            return file, program
        return line.with_calls(straight, program, run)
    except WhenceError:  # the file does not run, or a function cannot be inlined; the caller runs it and reports this
        return file, program


def _same_outputs(file: File, straight: File, start: Callable[[File], Runtime], feed: Mapping[str, torch.Tensor]) -> bool:
    expected = dict(start(file).take(feed, file.outputs))
    found = dict(start(straight).take(feed, file.outputs))
    return expected.keys() == found.keys() and all(_is_same(tensor, found[name]) for name, tensor in expected.items())


def _is_same(expected: torch.Tensor, found: torch.Tensor) -> bool:
    if expected.shape != found.shape or not expected.is_floating_point():
        return torch.equal(expected, found)
    expected, found = torch.nan_to_num(expected.double()), torch.nan_to_num(found.double())
    return bool((expected - found).norm() <= _MAX_ROUNDING * expected.norm())


class _Line:
    def __init__(self, file: File, start: Callable[[File], Runtime], feed: Mapping[str, torch.Tensor]):
        self._onnx = import_optional("onnx", "reading a model")
        self._original, self._start, self._feed = file, start, feed
        self._model = _without_functions(file, self._onnx)
        self._nodes: list[tuple[Any, Path_]] = [(node, ()) for node in self._model.graph.node]
        self._expansions: list[_Expansion] = []
        self._kept: set[int] = set()  # ids of nodes that stay as they are
        self._names = {name for node in self._model.graph.node for name in (*node.input, *node.output)}
        self._names |= {each.name for each in (*self._model.graph.initializer, *self._model.graph.input)}
        self._opset = next((each.version for each in self._model.opset_import if each.domain in ("", "ai.onnx")), 1)

    def expand(self) -> None:
        """Replaces nodes that have bodies, outermost first, until none is left."""
        while pending := [node for node, _ in self._nodes if node.op_type in _BODIES and id(node) not in self._kept]:
            found = self._values_for(pending)
            nodes: list[tuple[Any, Path_]] = []
            for node, path in self._nodes:
                if any(node is each for each in pending):
                    made = list(self._bodies_of(node, path, found))
                    if not made or len(nodes) + len(made) > _MAX_NODES:
                        self._kept.add(id(node))
                        made = [(node, path)]
                    nodes += made
                else:
                    nodes.append((node, path))
            self._nodes = nodes

    def file(self) -> File:
        del self._model.graph.node[:]
        self._model.graph.node.extend(node for node, _ in self._nodes)
        return annotated_file.of_model(self._original.path, self._model)

    # Values that decide which bodies run, and how often

    def _values_for(self, pending: list[Any]) -> dict[str, torch.Tensor]:
        """Runs the file up to now. Returns the conditions of Ifs, the first scanned inputs of Scans, and for each loop its
        iterations, by the name of its first result and _ITERATIONS."""
        model = self._onnx.ModelProto()
        model.CopyFrom(self._model)
        del model.graph.node[:]
        wanted: list[str] = []
        for node, _ in self._nodes:
            probe = copy.deepcopy(node)
            if any(node is each for each in pending):
                if node.op_type == "Loop":
                    wanted.append(self._count_iterations(probe))
                else:
                    wanted.append(node.input[0] if node.op_type == "If" else node.input[-_attribute(node, "num_scan_inputs")])
            model.graph.node.append(probe)
        part = annotated_file.of_model(self._original.path, model)
        return {**self._feed, **dict(self._start(part).take(self._feed, list(dict.fromkeys(wanted))))}

    def _count_iterations(self, loop: Any) -> str:
        """Lets a loop also return the numbers of its iterations. Returns the value's name."""
        body = _body(loop, "body")
        name = loop.output[0] + _ITERATIONS
        body.node.add(op_type="Identity", input=[body.input[0].name], output=[name + ".inner"])
        body.output.append(self._onnx.helper.make_tensor_value_info(name + ".inner", self._onnx.TensorProto.INT64, None))
        loop.output.extend([""] * (len(body.output) - 2 - len(loop.output)))
        loop.output.append(name)
        return name

    # Bodies

    def _bodies_of(self, node: Any, path: Path_, found: Mapping[str, torch.Tensor]) -> Iterator[tuple[Any, Path_]]:
        if node.op_type == "If":
            yield from self._branch(node, path, found)
        elif node.op_type == "Loop":
            yield from self._iterations(node, path, found.get(node.output[0] + _ITERATIONS))
        else:
            yield from self._scan(node, path, found.get(node.input[-_attribute(node, "num_scan_inputs")]))

    def _branch(self, node: Any, path: Path_, found: Mapping[str, torch.Tensor]) -> Iterator[tuple[Any, Path_]]:
        if node.input[0] not in found:
            return
        ran, skipped = ("then_branch", "else_branch") if bool(found[node.input[0]]) else ("else_branch", "then_branch")
        expansion = self._expansion(node, list(_all_nodes(_body(node, skipped))))
        body = _body(node, ran)
        yield from self._copied(body, {}, list(node.output), node, (*path, (expansion, 0)))

    def _iterations(self, node: Any, path: Path_, iterations: torch.Tensor | None) -> Iterator[tuple[Any, Path_]]:
        body = _body(node, "body")
        if iterations is None or not iterations.numel():
            return
        count = iterations.numel()
        if count * len(body.node) > _MAX_NODES:
            return
        expansion = self._expansion(node, [])
        carried_count = len(node.input) - 2
        carried, collected = list(node.input[2:]), [[] for _ in body.output[1 + carried_count:]]
        condition = (node.input[1] if len(node.input) > 1 else "") or self._constant(f"{node.output[0]}.condition", torch.tensor(True))
        for number in range(count):
            inputs = [self._constant(f"{node.output[0]}.iteration_{number}", torch.tensor(number)), condition, *carried]
            results = [self._fresh(each.name, (*path, (expansion, number))) for each in body.output]
            if number == count - 1:
                results[1:] = [*_or(node.output[:carried_count], results[1:1 + carried_count]), *results[1 + carried_count:]]
            yield from self._copied(body, dict(zip((each.name for each in body.input), inputs, strict=False)), results,
                                    node, (*path, (expansion, number)))
            condition, carried = results[0], results[1:1 + carried_count]
            for each, name in zip(collected, results[1 + carried_count:], strict=True):
                each.append(name)
        for name, parts in zip(node.output[carried_count:], collected, strict=False):
            if name:
                yield from self._stacked(name, parts, 0, node, path)

    def _scan(self, node: Any, path: Path_, scanned: torch.Tensor | None) -> Iterator[tuple[Any, Path_]]:
        body = _body(node, "body")
        scans = _attribute(node, "num_scan_inputs")
        states = len(node.input) - scans
        stacks = len(node.output) - states
        axes = _attribute(node, "scan_input_axes") or [0] * scans
        backwards = _attribute(node, "scan_input_directions") or [0] * scans
        out_axes = _attribute(node, "scan_output_axes") or [0] * stacks
        out_backwards = _attribute(node, "scan_output_directions") or [0] * stacks
        if scanned is None or not scanned.shape[axes[0]]:
            return
        count = scanned.shape[axes[0]]
        if count * len(body.node) > _MAX_NODES:
            return
        expansion = self._expansion(node, [])
        carried, collected = list(node.input[:states]), [[] for _ in range(stacks)]
        for number in range(count):
            inputs = list(carried)
            for name, axis, reverse in zip(node.input[states:], axes, backwards, strict=True):
                at = self._constant(f"{node.output[0]}.index_{number}", torch.tensor(count - 1 - number if reverse else number))
                inputs.append(self._fresh(name, (*path, (expansion, number))))
                gather = self._onnx.helper.make_node("Gather", [name, at], [inputs[-1]], axis=axis)
                gather.metadata_props.extend(node.metadata_props)
                yield gather, path
            results = [self._fresh(each.name, (*path, (expansion, number))) for each in body.output]
            if number == count - 1:
                results = [*_or(node.output[:states], results[:states]), *results[states:]]
            yield from self._copied(body, dict(zip((each.name for each in body.input), inputs, strict=True)), results,
                                    node, (*path, (expansion, number)))
            carried = results[:states]
            for each, name in zip(collected, results[states:], strict=True):
                each.append(name)
        for name, parts, axis, reverse in zip(node.output[states:], collected, out_axes, out_backwards, strict=True):
            if name:
                yield from self._stacked(name, parts[::-1] if reverse else parts, axis, node, path)

    def _copied(self, body: Any, inputs: dict[str, str], results: list[str], owner: Any,
                path: Path_) -> Iterator[tuple[Any, Path_]]:
        """Yields the body's nodes with the names of the main graph. ``results``: the names of its outputs there."""
        names = dict(inputs)
        for tensor in body.initializer:
            names[tensor.name] = self._hoisted(tensor, owner)
        computed = {name for node in body.node for name in node.output if name}
        copied: list[tuple[str, str]] = []  # outputs that are inputs or outer values, or occur twice
        for output, outer in zip(body.output, results, strict=False):
            if output.name in computed and output.name not in names:
                names[output.name] = outer
            else:
                copied.append((output.name, outer))
        for name in computed - names.keys():
            names[name] = self._fresh(name, path)
        for node in body.node:
            made = copy.deepcopy(node)
            made.name = node.name + self._suffix(path) if node.name else ""
            _rename(made, names)
            yield made, path
        for name, outer in copied:
            if outer:
                identity = self._onnx.helper.make_node("Identity", [names.get(name, name)], [outer])
                identity.metadata_props.extend(owner.metadata_props)
                yield identity, path[:-1]

    def _stacked(self, name: str, parts: list[str], axis: int, owner: Any, path: Path_) -> Iterator[tuple[Any, Path_]]:
        """Yields nodes that stack the parts along a new axis."""
        made = []
        for number, part in enumerate(parts):
            longer = self._fresh(f"{name}.part_{number}", path)
            axes = [self._constant(f"{name}.axis", torch.tensor([axis]))] if self._opset >= _UNSQUEEZE_INPUT else []
            made.append(self._onnx.helper.make_node("Unsqueeze", [part, *axes], [longer],
                                                    **({} if axes else {"axes": [axis]})))
        made.append(self._onnx.helper.make_node("Concat", [each.output[0] for each in made], [name], axis=axis))
        for each in made:
            each.metadata_props.extend(owner.metadata_props)
            yield each, path

    def _expansion(self, node: Any, skipped: list[Any]) -> int:
        self._expansions.append(_Expansion(annotated_file.node_of(0, node), node.op_type != "If", skipped))
        return len(self._expansions) - 1

    def _fresh(self, name: str, path: Path_) -> str:
        """Returns a new name for a value: "cell/Tanh_output_0[2]" in the third iteration."""
        new = name + self._suffix(path)
        while new in self._names:
            new += "'"
        self._names.add(new)
        return new

    def _suffix(self, path: Path_) -> str:
        return "".join(f"[{iteration}]" for expansion, iteration in path if self._expansions[expansion].is_loop)

    def _constant(self, name: str, tensor: torch.Tensor) -> str:
        if name not in self._names:
            self._names.add(name)
            self._model.graph.initializer.append(self._onnx.numpy_helper.from_array(tensor.numpy(), name))
        return name

    def _hoisted(self, tensor: Any, owner: Any) -> str:
        """Adds a body's initializer to the main graph, once for all iterations."""
        name = f"{owner.output[0]}.{tensor.name}"
        if name not in self._names:
            self._names.add(name)
            self._model.graph.initializer.add().CopyFrom(tensor)
            self._model.graph.initializer[-1].name = name
        return name

    # Calls and operations

    def with_calls(self, file: File, program: RecordedProgram | None, run: Run) -> tuple[File, RecordedProgram | None]:
        """Returns the file with the calls and operations of each iteration, and the program with these operations."""
        paths = [path for _, path in self._nodes]
        calls = _CallNumbers(file, paths, self._expansions, program, run)
        numbers: dict[tuple[int, Path_], int] = {}
        if program is not None:
            program, numbers = _with_operations(calls, program)
        # PyTorch's newer exporter does not state the modules inside of bodies. Such a node belongs to that of the If or Loop.
        unknown = {node.at for node, path in zip(file.nodes, paths, strict=True) if path and not _is_known(node)}
        owners = [self._expansions[path[-1][0]].owner if node.at in unknown else node
                  for node, path in zip(file.nodes, paths, strict=True)]
        nodes = [replace(node, modules=owner.modules, primary=owner.primary, confidence=owner.confidence,
                         call=owner.call if owner is not node else calls.recorded(_module_of(node), node.call, path),
                         operations=tuple(numbers.get((each, path), each) for each in node.operations))
                 for node, owner, path in zip(file.nodes, owners, paths, strict=True)]
        return replace(annotated_file.with_nodes(file, nodes), unknown=unknown), program


class _CallNumbers:
    """The recorded numbers of calls. The file numbers the calls of a module without regard to iterations and to branches
    that do not run, so the calls in the straight line are counted, in the order in which they run."""

    def __init__(self, file: File, paths: list[Path_], expansions: list[_Expansion], program: RecordedProgram | None, run: Run):
        self.copies: dict[int, list[Path_]] = {}  # by operation: the paths of its nodes
        for node, path in zip(file.nodes, paths, strict=True):
            for operation in node.operations:
                if path not in self.copies.setdefault(operation, []):
                    self.copies[operation].append(path)
        self._expansions = expansions
        affected: set[str] = set()
        for number, expansion in enumerate(expansions):
            inside = [node for node, path in zip(file.nodes, paths, strict=True) if number in dict(path)]
            expansion.first_calls = _first_calls(inside, _module_of(expansion.owner), program)
            affected |= expansion.first_calls.keys()
            affected |= _first_calls([annotated_file.node_of(0, each) for each in expansion.skipped], _module_of(expansion.owner),
                                     program).keys()
        found: dict[str, set[tuple[int, ...]]] = {module: set() for module in affected}
        for node, path in zip(file.nodes, paths, strict=True):
            if _module_of(node) in affected:
                found[_module_of(node)].add(self._order(_module_of(node), node.call, path))
        for (module, call), results in (program.results if program is not None else {}).items():
            if module in affected:
                found[module] |= {self._order(module, call, path) for each in results
                                  for path in self.copies.get(each.operation, ())}
        counts: dict[str, int] = {}
        for each in run.calls:
            counts[each.module] = counts.get(each.module, 0) + 1
        self._ranks = {module: {order: rank for rank, order in enumerate(sorted(orders))}
                       if len(orders) == counts.get(module) else {} for module, orders in found.items()}

    def recorded(self, module: str, call: int, path: Path_) -> int:
        """Returns the recorded number of a call; -1 if it is unknown."""
        ranks = self._ranks.get(module)
        return call if ranks is None else ranks.get(self._order(module, call, path), -1)

    def _order(self, module: str, call: int, path: Path_) -> tuple[int, ...]:
        """Returns a key that identifies a call and orders the calls of the module."""
        key: list[int] = []
        for number, iteration in path:
            first = self._expansions[number].first_calls.get(module)
            if first is not None:
                key += (first, iteration)
        return (*key, call)


def _with_operations(calls: _CallNumbers, old: RecordedProgram) -> tuple[RecordedProgram, dict[tuple[int, Path_], int]]:
    """Returns the program with an operation for each copy of an operation's nodes, and the numbers of these operations."""
    new = replace(old, results={}, targets=list(old.targets), calls=list(old.calls), ranks=list(old.ranks),
                  read=list(old.read), stacks=list(old.stacks))
    numbers: dict[tuple[int, Path_], int] = {}
    for operation, (module, call) in enumerate(old.calls):
        for at, path in enumerate(calls.copies.get(operation, [()])):
            recorded = (module, calls.recorded(module, call, path))
            if at == 0:
                new.calls[operation] = recorded
                continue
            numbers[operation, path] = len(new.targets)
            new.calls.append(recorded)
            for rows, old_rows in ((new.targets, old.targets), (new.ranks, old.ranks), (new.read, old.read),
                                   (new.stacks, old.stacks)):
                rows.append(old_rows[operation])
    for (module, call), results in old.results.items():
        for result in results:
            for at, path in enumerate(calls.copies.get(result.operation, [()])):
                key = (module, calls.recorded(module, call, path))
                # A module around a loop returns the result of one iteration.
                if at == 0 or key != (module, call):
                    new.results.setdefault(key, []).append(replace(
                        result, operation=numbers.get((result.operation, path), result.operation)))
    return new, numbers


def _without_functions(file: File, onnx: Any) -> Any:
    """Returns the model without calls of local functions. Its weights in other files are not read."""
    if not file.model.functions:
        return file.load()
    small = file.load()
    weights = {}  # of other files, which the command would copy
    for tensor in small.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            weights[tensor.name] = copy.deepcopy(tensor)
            tensor.data_location = tensor.DEFAULT
            del tensor.external_data[:]
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        flat = Path(folder) / "flat.onnx"
        onnx.save(small, flat.with_name("model.onnx"))
        run_json("inline", flat.with_name("model.onnx"), "-o", flat, "--all")
        model = onnx.load(flat, load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(weights[tensor.name])
    return model


def _or(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns the names, and the others where they are empty or missing."""
    return [name or other for name, other in zip_longest(names, others, fillvalue="")]


def _body(node: Any, name: str) -> Any:
    return next(each.g for each in node.attribute if each.name == name)


def _attribute(node: Any, name: str) -> Any:
    found = next((each for each in node.attribute if each.name == name), None)
    return None if found is None else list(found.ints) or found.i


def _all_nodes(body: Any) -> Iterator[Any]:
    for node in body.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_nodes(attribute.g)


def _rename(node: Any, names: Mapping[str, str]) -> None:
    """Renames values that the node, or a body of it, reads or computes."""
    for values in (node.input, node.output):
        for at, name in enumerate(values):
            values[at] = names.get(name, name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            body = attribute.g
            own = {each.name for each in (*body.input, *body.initializer)} | {name for each in body.node for name in each.output}
            inner = {name: new for name, new in names.items() if name not in own}
            for each in body.node:
                _rename(each, inner)
            for each in body.output:
                each.name = inner.get(each.name, each.name)


def _common(modules: tuple[str, ...]) -> str:
    """Returns the module around all of these."""
    if not modules:
        return ""
    parts = [each.split(".") for each in modules]
    shared = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)


def _is_known(node: Node) -> bool:
    return node.confidence not in ("ancestor", "unattributed")


def _module_of(node: Node) -> str:
    """Returns the module to which the node's call number belongs."""
    return node.primary or _common(node.modules)


def _first_calls(nodes: list[Node], enclosing: str, program: RecordedProgram | None) -> dict[str, int]:
    """Returns the first call, as the file counts, of each module that the nodes call: not of the modules around them."""
    calls: dict[str, int] = {}
    for node in nodes:
        module = _module_of(node)
        calls[module] = min(node.call, calls.get(module, node.call))
    if program is not None:
        operations = {operation for node in nodes for operation in node.operations}
        for (module, call), results in program.results.items():
            if any(result.operation in operations for result in results):
                calls[module] = min(call, calls.get(module, call))
    return {module: call for module, call in calls.items()
            if module and enclosing != module and not enclosing.startswith(module + ".")}
