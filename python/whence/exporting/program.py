"""The result of an export: a model in a file or in memory that can be run, saved and verified."""

from __future__ import annotations

import html
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from ..annotation.reports import AnnotateReport, ValidationReport
from ..arguments import calls, fixed_values, trees
from ..axes import sliding_windows
from ..base import library_warnings
from ..editing.model_functions import FunctionsReport
from ..errors import WhenceError, WhenceWarning, error
from ..files.atomic_files import draft_folder, folder_of, place, require_model_name, write_atomically
from ..files.onnx_graphs import save_with_external_weights
from ..numerics import ort_session
from ..numerics.verification import Verification, verify
from ..state.export_settings import select_model_mode_for_export
from . import program_edits


@dataclass(frozen=True)
class Exported:
    """The files and reports of one export."""

    path: Path
    sidecar: Path
    annotated: AnnotateReport
    validation: ValidationReport
    exported_program: Any = None  # the torch.export.ExportedProgram, if the backend creates one
    backend: str = ""             # the backend that was used, if it is not the requested one
    archive: str = ""             # readable text: the program's code, or a trace's graph


@dataclass(frozen=True)
class Source:
    """The call that was exported."""

    model: Any
    args: Any
    kwargs: Mapping[str, Any] | None
    call: calls.Call | None  # None for an exported program, which takes tensors in order
    training: str
    input_names: tuple[str, ...] = ()


class Folder:
    """A temporary folder that is deleted with the object."""

    def __init__(self) -> None:
        self.name: str = tempfile.mkdtemp(prefix="whence-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class ONNXProgram:
    """An exported, annotated and validated model.

    path       the file; for an export without ``f``, a temporary file that is deleted with the object
    sidecar    the record of the model
    annotated, validation  the reports of annotate and validate
    backend    the backend that created it; ``fell_back`` lists the backends that failed before it, with the reasons
    exported_program  torch.export's program, if the backend has one; its inputs are the call's tensors
    seconds    duration of each stage
    verification  result of ``verify=True``; ``functions`` is the result of ``export_modules_as_functions``
    """

    def __init__(self, exported: Exported, source: Source, backend: str, fell_back: Sequence[tuple[str, str]] = (),
                 folder: Folder | None = None) -> None:
        self.path: Path = exported.path.absolute()
        self.sidecar: Path = exported.sidecar.absolute()
        self.annotated: AnnotateReport = exported.annotated
        self.validation: ValidationReport = exported.validation
        self.exported_program: Any = exported.exported_program
        self.backend: str = exported.backend or backend
        self.fell_back: tuple[tuple[str, str], ...] = tuple(fell_back)
        self.seconds: dict[str, float] = {}
        self.verification: Verification | None = None
        self.functions: FunctionsReport | None = None
        self._source, self._folder = source, folder
        self._session: Any = None

    def __repr__(self) -> str:
        place = "in memory" if self._folder else str(self.path)
        return f"<whence.ONNXProgram {place}, by {self.backend}, {self.validation.coverage.percent:g} % attributed>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>{self.validation._repr_html_()}"

    def __fspath__(self) -> str:
        """Makes a program usable as a path: by whence, by onnx and by ONNX Runtime."""
        return str(self.path)

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs ONNX Runtime on arguments of the model's own forward, or of ``exported_program``, and returns the
        outputs in order.

        Raises WhenceError E0104 if the arguments are nested differently, or if their fixed values differ from the
        export's.
        """
        with library_warnings.hidden():
            if self._session is None:
                self.initialize_inference_session()
            return ort_session.run(self._session, self._feed(self._session, args, kwargs))

    def initialize_inference_session(self, initializer: Any = ort_session.session) -> None:
        """Starts the session. ``initializer`` creates an onnxruntime.InferenceSession from the path."""
        self._session = initializer(str(self.path))

    def release(self) -> None:
        """Closes the ONNX Runtime session and frees its memory; the next call starts a new one."""
        self._session = None

    def compute_values(self, value_names: Sequence[str], args: Any = (),
                       kwargs: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """Returns values inside the graph by name, in the order of ``value_names``, with the dtypes of the graph.

        ``args`` and ``kwargs`` are the arguments of a call of the model; a single argument need not be in a tuple.
        ONNX Runtime runs without optimisations, which would remove values.
        Raises WhenceError E0105 for a name that the graph does not have, E0104 like a call.
        """
        model = self.model_proto
        available = {name for node in model.graph.node for name in node.output} | {
            each.name for each in model.graph.input}
        for name in value_names:
            if name not in available:
                raise error("E0105", "unknown_node", f"the graph has no value '{name}'",
                            "use the name of a node's output: whence show lists nodes")
        value_info = type(model.graph.output[0])
        del model.graph.output[:]
        model.graph.output.extend(value_info(name=name) for name in value_names)
        session = ort_session.session(model.SerializeToString(), optimised=False)
        positional = args if isinstance(args, (tuple, list)) else (args,)
        return ort_session.run(session, self._feed(session, positional, kwargs or {}))

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model like a call, with onnx's reference implementation instead of ONNX Runtime."""
        ort_session.import_optional("onnx", "call_reference")
        evaluator = ort_session.import_optional("onnx.reference", "call_reference").ReferenceEvaluator(self.model_proto)
        feed = self._feed(ort_session.session(self.path), args, kwargs)
        with library_warnings.hidden():
            results = evaluator.run(None, {name: each.detach().cpu().numpy() for name, each in feed.items()})
        return tuple(torch.as_tensor(each) for each in results)

    def _feed(self, session: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        args, kwargs = trees.with_tensors((tuple(args), dict(kwargs)))
        exported = self._source.call
        if exported is None:
            tensors = {str(number): leaf for number, leaf in enumerate(trees.tensors_in((args, kwargs)))}
            return ort_session.inputs_of(session, tensors, str(self.path), self._source.model)
        try:
            tensors = _tensors_of_call(exported, args, kwargs)
        except WhenceError:  # the arguments may be those of exported_program, a flat list of tensors
            if self.exported_program is None or kwargs or len(args) != len(exported.tensors) or not all(
                    isinstance(each, torch.Tensor) for each in args):
                raise
            tensors = dict(zip(exported.tensors, args))
        tensors = ort_session.renamed(tensors, self._source.input_names)
        return ort_session.inputs_of(session, tensors, str(self.path), self._source.model)

    def verify(self, args: Any = None, kwargs: Mapping[str, Any] | None = None, *, rtol: float = 1e-3,
               atol: float = 1e-4) -> Verification:
        """Compares ONNX Runtime with the model, on the arguments of the export by default.

        An output agrees if shapes are equal and |actual - expected| <= atol + rtol * |expected| for each element.
        Raises WhenceError E0104 for arguments that do not fit the file, E0207 if ONNX Runtime cannot run it.
        """
        if args is None and kwargs is None:
            args, kwargs = self._source.args, self._source.kwargs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WhenceWarning)  # the export has already warned about the mode
            with select_model_mode_for_export(self._source.model, self._source.training):
                return verify(self.path, self._source.model, () if args is None else args, kwargs=kwargs, rtol=rtol,
                              atol=atol, input_names=self._source.input_names)

    # ---- the model

    @property
    def model_bytes(self) -> bytes:
        """The model as the bytes of one file that includes its weights."""
        return self.model_proto.SerializeToString() if self._data_files() else self.path.read_bytes()

    @property
    def model_proto(self) -> Any:
        """A new onnx.ModelProto. Changes to it do not affect the program."""
        return ort_session.import_optional("onnx", "model_proto").load(str(self.path))

    @property
    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """{"input_ids": {0: "batch", 1: "sequence"}}: the names of the inputs' dynamic sizes."""
        graph = ort_session.import_optional("onnx", "dynamic_axes").load(str(self.path), load_external_data=False).graph
        axes = {each.name: {axis: dim.dim_param for axis, dim in enumerate(each.type.tensor_type.shape.dim)
                            if dim.dim_param} for each in graph.input}
        return {name: each for name, each in axes.items() if each}

    @property
    def model(self) -> Any:
        """A new onnx_ir.Model, as in torch.onnx.ONNXProgram. Changes to it do not affect the program."""
        return ort_session.import_optional("onnx_ir", "model").load(str(self.path))

    def save(self, destination: str | os.PathLike[str] | BinaryIO, *, include_initializers: bool = True,
             keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
             overwrite: bool = False) -> None:
        """Writes the model to another path, or as one file to a binary stream.

        include_initializers=False leaves out all weights. With keep_initializers_as_inputs they become inputs;
        without it, they must be added by hand. external_data stores the weights in ``destination`` plus ``.data``; None
        keeps the export's setting. Existing files with other contents are replaced only with
        ``overwrite`` (E0401).
        """
        if hasattr(destination, "write"):
            if external_data:
                raise error("E0101", "usage", "a stream can contain only one file",
                            "leave external_data out, or pass a path")
            with tempfile.TemporaryDirectory(prefix="whence-") as folder:
                self.save(Path(folder) / "model.onnx", include_initializers=include_initializers,
                          keep_initializers_as_inputs=keep_initializers_as_inputs, external_data=False)
                destination.write((Path(folder) / "model.onnx").read_bytes())
            return
        if not isinstance(destination, (str, os.PathLike)) or Path(destination).is_dir():
            raise error("E0101", "usage", f"{destination!r} is neither a file's path nor a binary stream",
                        "pass 'model.onnx', or a BytesIO")
        target = Path(destination)
        require_model_name(target)
        data_files = self._data_files()
        if any(target.exists() and target.samefile(self.path.with_name(name)) for name in data_files):
            raise error("E0101", "usage", f"{target} contains the weights of this program", "choose another name",
                        file=str(target))
        has_data_files = bool(data_files)
        external = has_data_files if external_data is None else external_data
        if include_initializers and not keep_initializers_as_inputs and not has_data_files and not external:
            write_atomically(target, lambda path: shutil.copyfile(self.path, path))
            return
        onnx = ort_session.import_optional("onnx", "saving with other options")
        model = self.model_proto
        if keep_initializers_as_inputs:
            input_names = {each.name for each in model.graph.input}
            model.graph.input.extend(
                onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
                for each in model.graph.initializer if each.name not in input_names)
        if not include_initializers:
            del model.graph.initializer[:]
        if not external or not include_initializers:
            write_atomically(target, lambda path: path.write_bytes(model.SerializeToString()))
            return
        with draft_folder(folder_of(target)) as folder:
            save_with_external_weights(model, folder / target.name)
            place(folder, target, overwrite)

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Replaces weights by name with others of the same shapes. Does not change the file ``f``: save again."""
        self._change(lambda model: program_edits.replace_weights(model, state_dict))

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Renames sizes: {"s77": "batch"}. Does not change the file ``f``: save again."""
        self._change(lambda model: program_edits.rename_sizes(model, rename_mapping))

    def optimize(self) -> None:
        """Raises WhenceError E0303: only the export optimises, because it tracks origins."""
        raise error("E0303", "unsupported_feature", "a program is optimised only during its export",
                    "use whence.export(..., optimize=True)")

    def _change(self, change: Callable[[Any], None]) -> None:
        model = self.model_proto
        change(model)
        has_data_files = bool(self._data_files())
        folder = Folder()
        path = Path(folder.name) / "model.onnx"
        if has_data_files:
            save_with_external_weights(model, path)
        else:
            ort_session.import_optional("onnx", "changing a model").save_model(model, str(path))
        self.release()
        self.path, self._folder = path, folder

    def _data_files(self) -> set[str]:
        """Returns the names of the files next to the model that contain its weights."""
        def candidates() -> Iterator[Path]:
            return (each for each in self.path.parent.iterdir() if each.name.startswith(self.path.name + "."))

        if not self.path.exists() or not any(candidates()):
            return set()
        graph = ort_session.import_optional("onnx", "weights next to a model").load(str(self.path),
                                                                                    load_external_data=False).graph
        locations = {entry.value for each in graph.initializer for entry in each.external_data
                     if entry.key == "location"}
        return {each.name for each in candidates() if each.name in locations}


def _tensors_of_call(exported: calls.Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Returns the call's tensors. Raises WhenceError E0104 if the call differs from the exported one."""
    args, kwargs = sliding_windows.as_exported(exported, (args, kwargs))
    call = calls.opened(exported.signature, args, kwargs)
    if list(call.tensors) != list(exported.tensors):
        raise error("E0104", "input_mismatch", "the call's tensors are " + (", ".join(call.tensors) or "none"),
                    f"the exported call had: {', '.join(exported.tensors)}")
    for name in dict.fromkeys([*exported.constants, *call.constants]):
        exported_value, value = (each.constants.get(name, each.default_of(name)) for each in (exported, call))
        if not fixed_values.is_equal(exported_value, value):
            raise error("E0104", "input_mismatch",
                        f"'{name}' is fixed in the file at {fixed_values.one_line(exported_value)}, but the call has "
                        + ("another one" if fixed_values.one_line(value) == fixed_values.one_line(exported_value)
                           else fixed_values.one_line(value)),
                        "export again with this value, or make it a tensor")
    return call.tensors
