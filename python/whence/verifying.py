"""Runs an exported file in ONNX Runtime and the model in PyTorch on the same inputs, and compares."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import error


@dataclass(frozen=True)
class OutputDifference:
    """One output of the file against the model's."""

    name: str
    shapes_equal: bool
    largest: float  # of the absolute differences; NaN where only one of the two is NaN
    within: bool    # |got - wanted| <= atol + rtol * |wanted| everywhere


@dataclass(frozen=True)
class Verification:
    outputs: tuple[OutputDifference, ...]
    first_module: str | None = None  # where values differ first, in the order of execution; None: nowhere, or not known
    modules_compared: int = 0        # calls of modules whose result stands in the file

    @property
    def ok(self) -> bool:
        return all(output.shapes_equal and output.within for output in self.outputs)

    def __str__(self) -> str:
        lines = [f"{each.name}: " + ("equal" if each.shapes_equal and each.within else "DIFFERS") +
                 (f", largest difference {each.largest:.3g}" if each.shapes_equal else ", other shape")
                 for each in self.outputs]
        if not self.ok:
            lines.append(f"first module that differs: {self.first_module!r}" if self.first_module is not None
                         else "no module's own result differs")
        return "\n".join(lines)


def verify(path: str | os.PathLike, model, args: Sequence[Any] | Any = (), *, kwargs: Mapping[str, Any] | None = None,
           rtol: float = 1e-3, atol: float = 1e-4) -> Verification:
    """Compares ``path`` in ONNX Runtime with ``model`` called with ``args`` and ``kwargs``, output by output.

    The file takes the call's tensors in the order of forward's signature, as ``whence.export`` writes it. Where outputs
    differ and the file is annotated, results of single modules are compared too, and the first that differs is named.
    Raises WhenceError: E0104 when inputs or outputs do not fit, E0307 without onnxruntime or onnx.
    """
    import torch

    try:
        import onnx
        import onnxruntime
    except ImportError as missing:
        raise error("E0307", "needs_libtorch", f"verifying needs {missing.name}",
                    f"pip install {missing.name}") from None
    from . import calls

    results: list[tuple[str, int, Any]] = []
    with calls.tensors_only(model, args, kwargs) as tensors, torch.no_grad():
        with _results_of_modules(model, results):
            wanted = _flat(model(**{name: tensor.clone() for name, tensor in tensors.items()}))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    if len(names) > len(tensors):
        raise error("E0104", "input_mismatch",
                    f"the file takes {len(names)} inputs, the call has {len(tensors)} tensors",
                    f"its inputs are: {', '.join(names)}", file=str(path))
    same_names = set(names) <= set(tensors)
    by_name = {name: tensors[name] for name in names} if same_names else dict(zip(names, tensors.values()))
    feed = {name: tensor.detach().numpy() for name, tensor in by_name.items()}
    got = session.run(None, feed)
    if len(got) != len(wanted):
        raise error("E0104", "input_mismatch",
                    f"the file has {len(got)} outputs, the model returns {len(wanted)} tensors",
                    "export again with the same arguments", file=str(path))
    compared = tuple(_difference(each.name, value, tensor, rtol, atol)
                     for each, value, tensor in zip(session.get_outputs(), got, wanted))
    verification = Verification(compared)
    if verification.ok:
        return verification
    return _bisected(onnx, onnxruntime, Path(path), feed, results, compared, rtol, atol)


def _flat(output) -> list:
    import torch

    if isinstance(output, torch.Tensor):
        return [output]
    items = output.values() if isinstance(output, Mapping) else output if isinstance(output, (tuple, list)) else ()
    return [tensor for item in items for tensor in _flat(item)]


def _results_of_modules(model, results: list):
    """A context in which the result of every module without children is noted, with its path and call number."""
    import contextlib

    import torch

    # A module that holds others may return what one of them made, under that one's name.
    paths = {module: path for path, module in model.named_modules() if not any(module.children())}
    count: dict = {}

    def note(module, _, output):
        call = count[module] = count.get(module, -1) + 1
        if isinstance(output, torch.Tensor):
            results.append((paths[module], call, output.detach().clone()))

    @contextlib.contextmanager
    def noted():
        handles = [module.register_forward_hook(note) for module in paths]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
    return noted()


def _difference(name: str, got, wanted, rtol: float, atol: float) -> OutputDifference:
    import torch

    tensor = torch.from_numpy(got) if hasattr(got, "shape") else torch.as_tensor(got)
    if tensor.shape != wanted.shape:
        return OutputDifference(name, False, float("nan"), False)
    a, b = tensor.double(), wanted.double()
    largest = float((a - b).abs().nan_to_num(nan=0.0 if torch.equal(a.isnan(), b.isnan()) else float("nan")).max()) \
        if a.numel() else 0.0
    return OutputDifference(name, True, largest, torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True))


def _bisected(onnx, onnxruntime, path: Path, feed: dict, results: list, compared: tuple, rtol: float,
              atol: float) -> Verification:
    """The last value that the nodes of a call made is its result, where the shape is the same."""
    file = onnx.load(path)
    last: dict[tuple[str, int], str] = {}
    for node in file.graph.node:
        origin = {entry.key: entry.value for entry in node.metadata_props}
        if "pkg.whence.module" in origin and origin.get("pkg.whence.call", "").isdigit() and node.output:
            last[origin["pkg.whence.module"], int(origin["pkg.whence.call"])] = node.output[0]
    wanted = [(module, call, last[module, call], tensor) for module, call, tensor in results if (module, call) in last]
    known = {each.name for each in file.graph.output}
    file.graph.output.extend(onnx.ValueInfoProto(name=name) for name in
                             dict.fromkeys(value for _, _, value, _ in wanted) if name not in known)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = dict(zip((each.name for each in session.get_outputs()), session.run(None, feed)))
    first, count = None, 0
    for module, _, name, tensor in wanted:
        difference = _difference(name, values[name], tensor, rtol, atol)
        if not difference.shapes_equal:
            continue  # its last node is not its result
        count += 1
        if not difference.within and first is None:
            first = module
    return Verification(compared, first, count)
