"""Runtimes that run a file and return its values, and one that reads values stored by another runtime."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import WhenceError, error
from . import isolated_run, ort_session, model_structure
from .annotated_file import File, Node

# Runs the file on a feed and yields the values with these names. Skips names that the file does not have.
Taker = Callable[[Mapping[str, torch.Tensor], list[str]], Iterator[tuple[str, torch.Tensor]]]


@dataclass(frozen=True)
class Runtime:
    settings: str    # a description for the report
    take: Taker
    rounds: bool     # True: can run the file in rounds. False: reads stored values
    provider: str = ""  # ONNX Runtime's execution provider; "" for other runtimes


def onnxruntime(file: File, provider: str = "CPUExecutionProvider", optimized: bool = False, isolated: bool = False) -> Runtime:
    """Returns ONNX Runtime; with ``isolated``, in a process of its own for each run, whose crash is an error E0207."""
    runtime = ort_session.import_optional("onnxruntime", "running a file")
    if provider not in runtime.get_available_providers():
        raise error("E0101", "usage", f"this ONNX Runtime has no provider '{provider}'",
                    "choose from " + ", ".join(runtime.get_available_providers()))

    def take(feed: Mapping[str, torch.Tensor], names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
        options = ort_session.session_options(optimized)
        if file.content is not None:
            yield from ((name, file.supplied[name]) for name in names if name in file.supplied)
            names = [name for name in names if name not in file.supplied
                     and (name in file.producer or name in file.elements)]
            if not names:  # ONNX Runtime cannot load a graph without outputs
                return
            feed = {**feed, **file.supplied}
        added = [name for name in names if name not in file.outputs]
        with _with_outputs(file, added) as loadable:
            if isinstance(loadable, bytes):
                options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                                 os.path.dirname(os.path.abspath(file.path)))
            if isolated:
                yield from isolated_run.run(file, loadable, optimized, provider, feed, names)
                return
            session = _load(lambda: runtime.InferenceSession(loadable, options, providers=[provider]), file,
                               loadable if isinstance(loadable, str) else "")
            arrays = {name: ort_session.ort_value(tensor) for name, tensor in feed.items()}
            available = {each.name for each in session.get_outputs() if each.type.startswith("tensor(")}
            requested = [name for name in names if name in available]
            results = _run(lambda: session.run_with_ort_values(requested, arrays), file)
        for name, value in zip(requested, results):
            yield name, ort_session.tensor_of(value)

    level = "as the runtime optimises it" if optimized else "session optimisation off"
    return Runtime(f"ONNX Runtime {runtime.__version__}, {provider}, {level}", take, True, provider)


def openvino(file: File) -> Runtime:
    library = ort_session.import_optional("openvino", "running a file in OpenVINO")

    def take(feed: Mapping[str, torch.Tensor], names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
        added = [name for name in names if name not in file.outputs]
        with tempfile.TemporaryDirectory(prefix="whence-") as folder:
            embedded = model_structure.is_embedded(file.model)
            path = model_structure.with_outputs(file.path, added, Path(folder)) if embedded else None
            if path is None:
                raise error("E0303", "unsupported_feature", "OpenVINO runs a copy of the file, which cannot have "
                            "external weights", "use onnxruntime, or store the weights in the file", file=file.path)
            compiled = _load(lambda: library.Core().compile_model(
                str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}), file, str(path))
            results = _run(lambda: compiled(_arrays(feed, "OpenVINO")), file)
        for port, array in results.items():
            for name in port.get_names() & set(names):
                yield name, torch.from_numpy(array)

    return Runtime(f"OpenVINO {library.__version__.split('-')[0]}, CPU, f32", take, True)


def reference(file: File) -> Runtime:
    onnx = ort_session.import_optional("onnx", "onnx's reference evaluator")

    def take(feed: Mapping[str, torch.Tensor], names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
        from onnx.reference import ReferenceEvaluator

        model = onnx.load(file.path)
        outputs = set(file.outputs)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
        evaluator = _load(lambda: ReferenceEvaluator(model), file)
        arrays = _arrays(feed, "onnx's evaluator")
        results = _run(lambda: evaluator.run(names, arrays), file)
        for name, array in zip(names, results):
            if array is not None and not isinstance(array, list):
                yield name, torch.as_tensor(array)

    return Runtime(f"onnx {onnx.__version__}'s reference evaluator", take, True)


def _arrays(feed: Mapping[str, torch.Tensor], runtime: str) -> dict[str, Any]:
    """Converts the feed to numpy arrays. Raises WhenceError E0303 for bfloat16, which numpy does not have."""
    for name, tensor in feed.items():
        if tensor.dtype is torch.bfloat16:
            raise error("E0303", "unsupported_feature", f"{runtime} needs numpy arrays, but the input '{name}' "
                        "is bfloat16", "use onnxruntime with a provider that supports bfloat16")
    return {name: tensor.numpy() for name, tensor in feed.items()}


def stored_values(place: str | os.PathLike[str], file: File) -> Runtime:
    """Reads values stored by another runtime under the file's names: .npz, a folder of .npy files, or Polygraphy's
    JSON."""
    arrays = _dump(Path(place))
    original_names = {_file_name(name): name for name in arrays}
    if original_names.keys().isdisjoint(map(_file_name, file.producer)):
        names = ", ".join(list(arrays)[:3]) or "none"
        raise error("E0104", "input_mismatch", f"{place} has no value of {file.path}; its values are: {names}",
                    "store values under their names in the file", file=str(place))

    def take(feed: Mapping[str, torch.Tensor], names: list[str]) -> Iterator[tuple[str, torch.Tensor]]:
        for name in names:
            key = name if name in arrays else original_names.get(_file_name(name))
            if key is not None:
                yield name, arrays[key]

    return Runtime(f"values from {Path(place).name}", take, False)


def _file_name(name: str) -> str:
    """Returns the name without characters that are not allowed in file names."""
    return name.replace("/", "_").replace(":", "_").strip("_")


def _dump(place: Path) -> Mapping[str, torch.Tensor]:
    import numpy

    if not place.exists():
        raise error("E0102", "missing_file", f"{place} does not exist", "check the path", file=str(place))
    try:
        if place.is_dir():
            return {each.stem: torch.as_tensor(numpy.load(each, allow_pickle=False))
                    for each in sorted(place.glob("*.npy"))}
        if place.suffix == ".json":
            return _polygraphy(json.loads(place.read_text(encoding="utf-8")))
        with numpy.load(place, allow_pickle=False) as archive:
            return {name: torch.as_tensor(archive[name]) for name in archive.files}
    except Exception as failure:  # numpy, zip, JSON and base64 raise different exceptions
        raise error("E0203", "wrong_kind", f"{place} is not .npz, a folder of .npy files or Polygraphy's JSON: "
                    f"{failure}", "store values under their names in the file: numpy.savez(path, **values)",
                    file=str(place)) from None


def _polygraphy(results: Any) -> Mapping[str, torch.Tensor]:
    """Reads the first iteration of the first runner in Polygraphy's RunResults. Arrays are .npy files in base64."""
    import base64
    import io

    import numpy

    runs = results["lst"] if isinstance(results, dict) else results
    _, iterations = runs[0]
    iteration = iterations[0]
    return {name: torch.as_tensor(numpy.load(io.BytesIO(base64.b64decode(_array_text(array))), allow_pickle=False))
            for name, array in iteration["outputs"].items()}


def _array_text(entry: Any) -> str:
    """Returns the base64 text of an array, or of the array in an iteration result's "values"."""
    return _array_text(entry["values"]) if "values" in entry else entry["array"]


@contextmanager
def _with_outputs(file: File, names: Iterable[str]) -> Iterator[str | bytes]:
    """Yields the file with added outputs, for ONNX Runtime: bytes if it has external weights, which are not copied, or
    else the path of a copy."""
    if file.content is not None or not model_structure.is_embedded(file.model):
        yield _with_small_weights(file) + model_structure.more_outputs(names)
        return
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        yield str(model_structure.with_outputs(file.path, names, Path(folder)))


def _with_small_weights(file: File) -> bytes:
    """Embeds small weights in the file: ONNX Runtime needs sizes and axes before it reads external files."""
    onnx = ort_session.import_optional("onnx", "reading a model")
    from onnx.external_data_helper import uses_external_data

    model = file.load()
    folder = os.path.dirname(os.path.abspath(file.path))
    for tensor in model.graph.initializer:
        if uses_external_data(tensor) and math.prod(tensor.dims) <= 1024:
            _load(lambda tensor=tensor: model_structure.embed(tensor, folder), file)
    return model.SerializeToString()


def _load(start: Callable[[], Any], file: File, copy_path: str = "") -> Any:
    """Runs ``start``. Error messages name the user's file instead of ``copy_path``, the copy that the runtime reads."""
    try:
        return start()
    except Exception as failure:  # exceptions of runtimes have no common base class
        raise _runtime_error(failure, file, "cannot load", copy_path) from failure


def _run(run: Callable[[], Any], file: File) -> Any:
    try:
        return run()
    except Exception as failure:
        raise _runtime_error(failure, file, "cannot run", "") from failure


def node_named_in(message: str, file: File) -> Node | None:
    return next((each for each in sorted(file.nodes, key=lambda each: -len(each.name)) if each.name and
                 re.search(rf"(['\"(]|Name:){re.escape(each.name)}(['\")]|\s|$)", message)), None)


def _runtime_error(failure: Exception, file: File, action: str, copy_path: str) -> WhenceError:
    """Returns an error with the runtime's message, and the module of the node named in it."""
    message = str(failure).replace(copy_path, file.path) if copy_path else str(failure)
    node = node_named_in(message, file)
    location = {"module": node.primary, "source": node.source} if node is not None and node.modules else {}
    return error("E0207", "run_failed", f"the runtime {action} the file: {message}",
                 "check the file with whence.validate(path, full=True)", file=file.path, **location)
