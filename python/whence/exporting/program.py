"""The result of an export: the model, in a file or in memory, that can be run, saved and compared."""

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
from ..files.atomic_files import draft_folder, folder_of, place, require_model_name, write_whole
from ..files.onnx_graphs import save_with_weights_beside
from ..numerics import ort_session
from ..numerics.verification import Verification, verify
from ..state.export_settings import select_model_mode_for_export
from . import program_edits


@dataclass(frozen=True)
class Exported:
    """The files and reports that a backend made."""

    path: Path
    sidecar: Path
    annotated: AnnotateReport
    validation: ValidationReport
    exported_program: Any = None  # torch.export.ExportedProgram, where the backend went through one
    backend: str = ""             # the backend that made it, if that is not the requested one
    archive: str = ""             # readable text: the program's code, or a trace's graph


@dataclass(frozen=True)
class Source:
    """The call that was exported."""

    model: Any
    args: Any
    kwargs: Mapping[str, Any] | None
    call: calls.Call | None  # None of an exported program, of which tensors in order are known
    training: str
    input_names: tuple[str, ...] = ()


class Folder:
    """A folder that goes with the object."""

    def __init__(self) -> None:
        self.name: str = tempfile.mkdtemp(prefix="whence-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class ONNXProgram:
    """An exported, annotated and validated model.

    path       the file; of an export without ``f`` one that goes when the object goes
    sidecar    its record
    annotated, validation  the reports of both
    backend    the one that did it; ``fell_back`` the ones that were tried before, and why each failed
    exported_program  torch.export's, where the backend has one. Its inputs are the call's tensors
    seconds    by stage
    verification  of ``verify=True``; ``functions`` of ``export_modules_as_functions``
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
        """A program is taken wherever a path is: by whence, by onnx, by ONNX Runtime."""
        return str(self.path)

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs ONNX Runtime on the arguments of the model's own forward, or of ``exported_program``: the outputs, in
        order.

        Raises WhenceError E0104 for arguments that are nested in another way, or whose fixed values are others than
        those that were exported.
        """
        with library_warnings.hidden():
            if self._session is None:
                self.initialize_inference_session()
            return ort_session.run(self._session, self._feed(self._session, args, kwargs))

    def initialize_inference_session(self, initializer: Any = ort_session.session) -> None:
        """``initializer`` makes an onnxruntime.InferenceSession of the path."""
        self._session = initializer(str(self.path))

    def release(self) -> None:
        """Gives up the session of ONNX Runtime and its memory; the next call makes a new one."""
        self._session = None

    def compute_values(self, value_names: Sequence[str], args: Any = (),
                       kwargs: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """Values inside the graph, by name: tensors in the order of ``value_names``, of the dtypes that the graph has.

        ``args`` and ``kwargs`` are those of a call of the model: a tuple or list of arguments, or the one argument.
        ONNX Runtime computes without its optimisations, which would leave out values.
        Raises WhenceError E0105 for a name that the graph does not have, E0104 for arguments as a call does.
        """
        model = self.model_proto
        known = {name for node in model.graph.node for name in node.output} | {each.name for each in model.graph.input}
        for name in value_names:
            if name not in known:
                raise error("E0105", "unknown_node", f"the graph has no value '{name}'",
                            "names are those of node outputs: whence show")
        asked = type(model.graph.output[0])
        del model.graph.output[:]
        model.graph.output.extend(asked(name=name) for name in value_names)
        session = ort_session.session(model.SerializeToString(), optimised=False)
        positional = args if isinstance(args, (tuple, list)) else (args,)
        return ort_session.run(session, self._feed(session, positional, kwargs or {}))

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model like a call, by onnx's reference implementation in place of ONNX Runtime."""
        ort_session.needs("onnx", "call_reference")
        evaluator = ort_session.needs("onnx.reference", "call_reference").ReferenceEvaluator(self.model_proto)
        feed = self._feed(ort_session.session(self.path), args, kwargs)
        with library_warnings.hidden():
            results = evaluator.run(None, {name: each.detach().cpu().numpy() for name, each in feed.items()})
        return tuple(torch.as_tensor(each) for each in results)

    def _feed(self, session: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        args, kwargs = trees.with_tensors((tuple(args), dict(kwargs)))
        known = self._source.call
        if known is None:
            tensors = {str(number): leaf for number, leaf in enumerate(trees.tensors_in((args, kwargs)))}
            return ort_session.inputs_of(session, tensors, str(self.path), self._source.model)
        try:
            tensors = _tensors_of_call(known, args, kwargs)
        except WhenceError:  # the arguments of exported_program, perhaps: tensors in order, however forward nests them
            if self.exported_program is None or kwargs or len(args) != len(known.tensors) or not all(
                    isinstance(each, torch.Tensor) for each in args):
                raise
            tensors = dict(zip(known.tensors, args))
        tensors = ort_session.renamed(tensors, self._source.input_names)
        return ort_session.inputs_of(session, tensors, str(self.path), self._source.model)

    def verify(self, args: Any = None, kwargs: Mapping[str, Any] | None = None, *, rtol: float = 1e-3,
               atol: float = 1e-4) -> Verification:
        """ONNX Runtime against the model, on the arguments of the export unless others are given.

        An output agrees where its shape is the model's and |got - wanted| <= atol + rtol * |wanted| for each element.
        Raises WhenceError E0104 for arguments that the file does not take, E0207 where ONNX Runtime cannot run it.
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
        """The model as one file; weights that stand beside it are in it."""
        return self.model_proto.SerializeToString() if self._data_files() else self.path.read_bytes()

    @property
    def model_proto(self) -> Any:
        """A new onnx.ModelProto. What is changed in it stays there."""
        return ort_session.needs("onnx", "model_proto").load(str(self.path))

    @property
    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """{"input_ids": {0: "batch", 1: "sequence"}}: the sizes of inputs that the file leaves open, by name."""
        graph = ort_session.needs("onnx", "dynamic_axes").load(str(self.path), load_external_data=False).graph
        axes = {each.name: {axis: dim.dim_param for axis, dim in enumerate(each.type.tensor_type.shape.dim)
                            if dim.dim_param} for each in graph.input}
        return {name: each for name, each in axes.items() if each}

    @property
    def model(self) -> Any:
        """A new onnx_ir.Model, as torch.onnx.ONNXProgram has it. What is changed in it stays there."""
        return ort_session.needs("onnx_ir", "model").load(str(self.path))

    def save(self, destination: str | os.PathLike[str] | BinaryIO, *, include_initializers: bool = True,
             keep_initializers_as_inputs: bool = False, external_data: bool | None = None,
             overwrite: bool = False) -> None:
        """Writes the model to another place, or as one file to a binary stream.

        include_initializers=False leaves all weights out; with keep_initializers_as_inputs they are inputs then,
        without it they have to be added by hand. external_data: the weights beside the model, in ``destination`` with
        ``.data`` at its end; None leaves it as the export had it. What stands there and holds something else is only
        replaced with ``overwrite`` (E0401).
        """
        if hasattr(destination, "write"):
            if external_data:
                raise error("E0101", "usage", "a stream holds one file", "leave external_data out, or give a path")
            with tempfile.TemporaryDirectory(prefix="whence-") as folder:
                self.save(Path(folder) / "model.onnx", include_initializers=include_initializers,
                          keep_initializers_as_inputs=keep_initializers_as_inputs, external_data=False)
                destination.write((Path(folder) / "model.onnx").read_bytes())
            return
        if not isinstance(destination, (str, os.PathLike)) or Path(destination).is_dir():
            raise error("E0101", "usage", f"{destination!r} is neither a file's path nor a binary stream",
                        "give 'model.onnx', or a BytesIO")
        target = Path(destination)
        require_model_name(target)
        data_files = self._data_files()
        if any(target.exists() and target.samefile(self.path.with_name(name)) for name in data_files):
            raise error("E0101", "usage", f"{target} holds the weights of this program", "give another name",
                        file=str(target))
        outside = bool(data_files)
        wanted = outside if external_data is None else external_data
        if include_initializers and not keep_initializers_as_inputs and not outside and not wanted:
            write_whole(target, lambda path: shutil.copyfile(self.path, path))
            return
        onnx = ort_session.needs("onnx", "saving with other options")
        model = self.model_proto
        if keep_initializers_as_inputs:
            known = {each.name for each in model.graph.input}
            model.graph.input.extend(
                onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
                for each in model.graph.initializer if each.name not in known)
        if not include_initializers:
            del model.graph.initializer[:]
        if not wanted or not include_initializers:
            write_whole(target, lambda path: path.write_bytes(model.SerializeToString()))
            return
        with draft_folder(folder_of(target)) as folder:
            save_with_weights_beside(model, folder / target.name)
            place(folder, target, overwrite)

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Other weights of the same shapes, by name. A file that ``f`` named stays as it is: save again."""
        self._change(lambda model: program_edits.replace_weights(model, state_dict))

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """{"s77": "batch"}: other names for sizes. A file that ``f`` named stays as it is: save again."""
        self._change(lambda model: program_edits.rename_sizes(model, rename_mapping))

    def optimize(self) -> None:
        """Raises WhenceError E0303: the export optimises, where provenance is known."""
        raise error("E0303", "unsupported_feature", "a program is optimised when it is exported",
                    "whence.export(..., optimize=True)")

    def _change(self, change: Callable[[Any], None]) -> None:
        model = self.model_proto
        change(model)
        outside = bool(self._data_files())
        folder = Folder()
        path = Path(folder.name) / "model.onnx"
        if outside:
            save_with_weights_beside(model, path)
        else:
            ort_session.needs("onnx", "changing a model").save_model(model, str(path))
        self.release()
        self.path, self._folder = path, folder

    def _data_files(self) -> set[str]:
        """Files beside the model that hold its weights."""
        def beside() -> Iterator[Path]:
            return (each for each in self.path.parent.iterdir() if each.name.startswith(self.path.name + "."))

        if not self.path.exists() or not any(beside()):
            return set()
        graph = ort_session.needs("onnx", "weights beside a model").load(str(self.path), load_external_data=False).graph
        named = {entry.value for each in graph.initializer for entry in each.external_data if entry.key == "location"}
        return {each.name for each in beside() if each.name in named}


def _tensors_of_call(known: calls.Call, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Raises WhenceError E0104 for another call than the one that was exported."""
    args, kwargs = sliding_windows.as_exported(known, (args, kwargs))
    call = calls.opened(known.signature, args, kwargs)
    if list(call.tensors) != list(known.tensors):
        raise error("E0104", "input_mismatch", "the call's tensors are " + (", ".join(call.tensors) or "none"),
                    f"exported were: {', '.join(known.tensors)}")
    for name in dict.fromkeys([*known.constants, *call.constants]):
        was, value = (each.constants.get(name, each.default_of(name)) for each in (known, call))
        if not fixed_values.same(was, value):
            raise error("E0104", "input_mismatch", f"'{name}' is fixed in the file at {fixed_values.shown(was)}, and "
                        + ("another one" if fixed_values.shown(value) == fixed_values.shown(was)
                           else fixed_values.shown(value)) + " is given",
                        "export again with this value, or make it a tensor")
    return call.tensors
