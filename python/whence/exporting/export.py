"""Record, export, annotate and validate in one call, whichever exporter does the work."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ..arguments import caches, trees
from ..arguments.calls import Call, as_module
from ..axes import proposed_axes
from ..axes.dynamic_axes import Axes, check_outputs, from_dynamic_axes, from_dynamic_shapes
from ..capture import torch_failures
from ..editing.model_functions import FunctionsReport, functions
from ..errors import WhenceError, WhenceWarning, error
from ..files.atomic_files import require_sidecar_place
from ..state.export_settings import Training, exporting, log, onnx_export_flag
from .artifacts import Artifacts, require_report_place
from .backends import Job, export_by
from .options import Options, log_decisions, options_of
from .program import Folder, ONNXProgram, Source
from .request import (Backend, ExportRequest, check_apart, check_file, check_function_modules, refuse_unknown,
                      refuse_what_backends_lack)


def export(model: Any, args: Any = (), f: str | os.PathLike[str] | BinaryIO | None = None,
           backend: Backend | Sequence[Backend] = "native", *, kwargs: Mapping[str, Any] | None = None,
           verbose: bool | None = None, input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None, opset_version: int | None = None, dynamo: bool | None = None,
           external_data: bool | Mapping[str, Any] = False, dynamic_shapes: Any = None,
           dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
           custom_translation_table: Mapping[Any, Any] | None = None, custom_opsets: Mapping[str, int] | None = None,
           report: bool | str | os.PathLike[str] | None = None, optimize: bool = True, do_constant_folding: bool = True,
           verify: bool = False, profile: bool = False, dump_exported_program: bool = False,
           artifacts_dir: str | os.PathLike[str] = ".", export_params: bool = True,
           keep_initializers_as_inputs: bool | None = False, keep_bfloat16: bool = False,
           training: Training | Any = "eval", operator_export_type: Any = "ONNX", autograd_inlining: bool = True,
           export_modules_as_functions: bool | Collection[type] = False,
           operators: Literal["fused", "plain"] | None = None, sidecar: str | os.PathLike[str] | None = None,
           overwrite: bool = False, **unknown: Any) -> ONNXProgram:
    """Exports ``model`` called with ``args`` and ``kwargs``, with the origin of every node in the file.

    model    a module, scripted or not, a scripted function, or a torch.export.ExportedProgram or
             torch.onnx.ExportableModule, which have their arguments already.
    args, kwargs  as forward takes them: tensors, nested in tuples, lists, dicts, dataclasses, transformers' caches and
             any object that holds them in attributes. Tensors are the file's inputs, x["key"][0] is x_key_0, a cache's
             are past_key_values.0.key; everything else is fixed in it. Caches that forward returns are outputs
             present.0.key. What is given, and the model, are afterwards as before (python/README.md).
    f        the file, or what can be written to: a BytesIO, a file opened as binary; None: in memory, see ONNXProgram.
    backend  "native": a trace of the model, exported by whence; what torch.export makes of it where it cannot be
             traced, where its trace cannot be converted or holds sizes of the example, and for operators that Python
             registered: ``program.backend`` says which. "native-export": that alone. "torch-torchscript":
             torch.onnx.export(dynamo=False), recorded while it traces. "torch-dynamo": torch.onnx.export(dynamo=True);
             its record is that of the program that torch.export made for it. Several are a chain: where one fails, the
             next is tried, with a WhenceWarning. dynamo=True is "native-export", dynamo=False is "native".
    dynamic_shapes  nested as the arguments are: {"x": {0: "batch"}}, names, torch.export.Dim, Dim.DYNAMIC or Dim.AUTO.
             A promise: what the model fixes is refused, E0304; a branch that no run at another size took is warned of.
             "auto": whence proposes the axes of batch, sequence and past, which it does by itself for a call that takes
             a cache, where neither option is given; what it proposed is reported, program.dynamic_axes says what the
             file has. dynamic_axes={} fixes every size.
    dynamic_axes    {"x": {0: "batch"}}; {"x": [0]} names them as PyTorch does, x_dynamic_axes_1 and so on. A wish: what
             the model fixes is fixed in the file, with a WhenceWarning.
    training the mode in which the model is exported; its own comes back, also after an error. A traced or frozen
             module keeps the mode that it has.
    input_names, output_names  in order; inputs that are left have forward's names.
    keep_bfloat16  operators compute in bfloat16 where ONNX Runtime has no kernel for it on the CPU, too. By default they
             compute in float32 between casts, with a WhenceWarning; weights are bfloat16 in either case.
    external_data  the weights beside the file. {"threshold": 1024, "alignment": 4096, "per_tensor": True}: of what size
             in bytes on, at which multiples, a file for each (native backends).
    sidecar  where the record goes; beside the file as ``model.whence.json`` by default, in the place of an older
             record alone.
    overwrite  replace files of weights that stand where those of ``f`` go and hold something else: an earlier export of
             a model with other weights, too; and what stands where the record goes by default. Without it they are
             left, and E0401 is raised.
    verify   runs ONNX Runtime against the model; a difference is warned of, ``program.verification`` says where.
    report   True: a Markdown report in ``artifacts_dir``, called as torch.onnx calls it; or its path. Also on failure,
             unless the failure is about what stands at that path. A file called as weights of ``f`` may be is replaced
             only if it is a report, or with ``overwrite``.
    dump_exported_program  keeps the archive that was exported in ``artifacts_dir``.
    profile, verbose  the time of each stage, and each stage, to standard error by the logger "whence".
    custom_translation_table  {torch.ops.mylib.op.default: function}: your own converters, also in the place of
             whence's. A Python function is called for each call of the operator, with its arguments: symbolic tensors,
             which have ``shape`` and ``dtype``, and Python's values; it calls onnxscript's operators. Of several,
             [f, g], the first is taken whose annotations allow the dtypes. onnxscript functions and FunctionProtos
             stay functions, in the file (native backends): they take the operator's tensors in the order of its
             schema, attributes have the names of its arguments. "mylib::op" names all overloads. What an operator
             writes to its arguments is returned after its own results, and for ONNX functions what it writes to comes
             first.
             ``register_custom_op`` does so for all exports.
    custom_opsets  {"mylib": 2}: operators mylib::op without a converter become nodes of the ONNX domain mylib.
    operators  of those that came with opset 23 and later, such as Attention: "fused" writes all that the opset has,
             "plain" none; by default those that ONNX Runtime 1.32 runs.
    operator_export_type  ONNX, or ONNX_ATEN_FALLBACK: what has no converter becomes a node of the domain
             whence.NAMESPACE.
    export_modules_as_functions  True, or classes of modules: each becomes an ONNX function, equal ones the same
             (``whence.functions``); ``program.functions`` says which.
    autograd_inlining  False keeps each torch.autograd.Function as whence_autograd::Name ("native-export").

    Raises WhenceError with the command's codes: E0301 for operators without a converter, E0104 for arguments that do
    not fit, E0101 for options that do not, E0303 for what the backend cannot do, E0106 when the sidecar is incomplete
    (``f`` then holds the export without annotation); of what PyTorch raises E0207 where the model does not run on the
    arguments, E0304 and E0303, from PyTorch's exception. What the model's own code raises passes through.
    """
    model, args, kwargs = as_module(model, args, kwargs)
    request = ExportRequest(model=model, args=args, f=f, backend=backend, kwargs=kwargs, verbose=verbose,
                            input_names=input_names, output_names=output_names, opset_version=opset_version,
                            dynamo=dynamo, external_data=external_data, dynamic_shapes=dynamic_shapes,
                            dynamic_axes=dynamic_axes, custom_translation_table=custom_translation_table,
                            custom_opsets=custom_opsets, report=report, optimize=optimize,
                            do_constant_folding=do_constant_folding, verify=verify, profile=profile,
                            dump_exported_program=dump_exported_program, artifacts_dir=artifacts_dir,
                            export_params=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs,
                            keep_bfloat16=keep_bfloat16, training=training, operator_export_type=operator_export_type,
                            autograd_inlining=autograd_inlining,
                            export_modules_as_functions=export_modules_as_functions, operators=operators,
                            sidecar=sidecar, overwrite=overwrite)
    refuse_unknown(unknown, [each.name for each in fields(ExportRequest)])
    request, options, chain = _checked(request)
    function_modules = check_function_modules(request.export_modules_as_functions)
    folder = None if isinstance(f, (str, os.PathLike)) else Folder()
    job = _job(request, options, folder)
    failure, program = None, None
    with exporting(request.model, request.training, shown=bool(request.verbose or request.profile)):
        try:
            program = _by_one_of(chain, job, folder)
            _tell_of_outputs(program, request, options)
            if job.call and proposed_axes.is_requested(request.dynamic_shapes, request.dynamic_axes, job.call):
                proposed_axes.report(job.call, job.options.input_names, program.dynamic_axes)
            if function_modules:
                with job.stage("functions"):
                    program.functions = _cut(program.path, request.model, function_modules)
            if request.verify:
                _verify(program, job)
        except BaseException as raised:
            failure = raised
            raise
        finally:
            if any(each.startswith("native") for each in chain):
                job.artifacts.finish(failure, program and program.verification, job.archive,
                                     in_memory=folder and job.target)
        program.seconds = dict(job.seconds)
        for name, seconds in job.seconds.items() if request.profile else ():
            log.info("%8.3f s  %s", seconds, name)
    if hasattr(f, "write"):
        f.write(program.model_bytes)
    return program


def _checked(request: ExportRequest) -> tuple[ExportRequest, Options, tuple[str, ...]]:
    """The complete request, its options and its backends. Raises WhenceError for what none of the backends does."""
    check_function_modules(request.export_modules_as_functions)
    chain = request.chain()
    check_file(request.f)
    request = request.completed()
    refuse_what_backends_lack(chain, request)
    options = options_of(request, chain)
    log_decisions(request, options)
    # The inputs are copied now, for the program too: what the caller does with a cache later belongs to another call.
    args, kwargs = trees.copied((request.args, request.kwargs))
    return replace(request, args=args, kwargs=kwargs), options, chain


def _job(request: ExportRequest, options: Options, folder: Folder | None) -> Job:
    """The export with the places of its files, in ``folder`` for a program in memory. Raises WhenceError E0101, E0401 for
    files that would replace others."""
    target = Path(request.f) if folder is None else Path(folder.name) / "model.onnx"
    record_file = Path(request.sidecar) if request.sidecar else target.with_suffix(".whence.json")
    if not request.sidecar:
        require_sidecar_place(record_file, "name another one: sidecar='...'", request.overwrite)
    report_file = None if isinstance(request.report, bool) or request.report is None else Path(request.report)
    one_file = options.external_data is not None and not options.external_data.get("per_tensor")
    check_apart(f=target, sidecar=record_file, report=report_file,
                external_data=target.with_name(target.name + ".data") if one_file else None)
    if report_file is not None:
        require_report_place(report_file, target, request.overwrite)
    artifacts = Artifacts.asked(request.artifacts_dir, request.report, request.dump_exported_program)
    return Job(request, target, record_file, options, artifacts, lambda call: _axes(request, options, call))


def _axes(request: ExportRequest, options: Options, call: Call) -> Axes:
    if len(options.input_names) > len(call.tensors):
        raise error("E0104", "input_mismatch", f"input_names holds {len(options.input_names)} names, the call has "
                    f"{len(call.tensors)} tensors", f"its tensors are: {', '.join(call.tensors)}")
    if proposed_axes.is_requested(request.dynamic_shapes, request.dynamic_axes, call):
        return proposed_axes.proposed(call)
    if request.dynamic_shapes is not None and request.dynamic_axes:
        raise error("E0101", "usage", "dynamic_shapes and dynamic_axes say the same", "give one of them")
    if request.dynamic_shapes is not None:
        return from_dynamic_shapes(request.dynamic_shapes, call)
    return from_dynamic_axes(request.dynamic_axes, call.tensors, options.input_names, options.output_names)


def _by_one_of(chain: Sequence[str], job: Job, folder: Folder | None) -> ONNXProgram:
    request = job.request
    fell_back: list[tuple[str, str]] = []
    for each in chain:
        try:
            with onnx_export_flag():
                done = export_by(each, job)
            source = Source(request.model, request.args, request.kwargs, job.call, request.training,
                            tuple(job.options.input_names))
            program = ONNXProgram(done, source, each, fell_back, folder)
            job.warn_of_writes(program.verify)
            if job.call and job.observed is None:
                torch_failures.warn_of_own_failure(request.model, request.args, request.kwargs)
            return program
        except Exception as raised:  # PyTorch's exporters raise of every kind
            failure = torch_failures.translated(raised, request.model, request.args, request.kwargs)
            if each == chain[-1] or isinstance(failure, WhenceError) and failure.code in ("E0101", "E0104"):
                if failure is raised:
                    raise
                raise failure from raised
            fell_back.append((each, str(failure)))
            log.info("the backend %s failed: %s", each, failure)
            warnings.warn(f"the backend {each} failed, the next is tried: {failure}", WhenceWarning, stacklevel=3)
    raise AssertionError("the last backend returns or raises")


def _cut(path: Path, model: Any, chosen: dict[str, Any]) -> FunctionsReport | None:
    """Functions of the file, without those classes of the model that left no node in it, as Dropout does.

    Warns of those that compute something all the same: it stands in nodes that do the work of another module, too.
    """
    if "types" in chosen:
        modules = list(getattr(model, "modules", list)())
        absent = set(chosen["types"]) & {type(module).__name__ for module in modules} - _classes_in(path)
        with_weights = {type(module).__name__ for module in modules if any(True for _ in module.parameters(False))}
        for name in sorted(absent):
            log.info("export_modules_as_functions: no node of the file is of a %s", name)
            if name in with_weights:
                warnings.warn(f"export_modules_as_functions: no function for {name}, as no node is of such a module "
                              "alone: its work was fused with another module's, as Conv with BatchNorm; "
                              "optimize=False keeps the two apart", WhenceWarning, stacklevel=3)
        chosen = {"types": [name for name in chosen["types"] if name not in absent]}
        if not chosen["types"]:
            return None
    return functions(path, **chosen)


def _classes_in(path: Path) -> set[str]:
    """The classes of the modules that nodes of the file belong to, by the last part of their names."""
    from ..base.optional_packages import needs

    graph = needs("onnx", "export_modules_as_functions").load(str(path), load_external_data=False).graph
    entries = (entry.value for node in graph.node for entry in node.metadata_props
               if entry.key == "pkg.torch.onnx.class_hierarchy")
    return {name.rpartition(".")[2] for value in entries for name in ast.literal_eval(value)}


def _verify(program: ONNXProgram, job: Job) -> None:
    """A file that this runtime cannot run, or that differs, is there all the same: both are warned of."""
    try:
        with job.stage("verify"):
            program.verification = program.verify()
    except WhenceError as failure:
        if failure.code != "E0207":
            raise
        warnings.warn(f"the file is not verified: {failure}", WhenceWarning, stacklevel=3)
        return
    if not program.verification.ok:
        warnings.warn(f"ONNX Runtime and PyTorch differ: {program.verification}", WhenceWarning, stacklevel=3)


def _tell_of_outputs(program: ONNXProgram, request: ExportRequest, options: Options) -> None:
    """dynamic_axes may name outputs, whose sizes cannot be chosen."""
    if not any(name in options.output_names or caches.is_output(name) for name in request.dynamic_axes or ()):
        return
    from ..base.optional_packages import needs

    outputs = needs("onnx", "dynamic_axes of outputs").load(str(program.path), load_external_data=False).graph.output
    dims = {each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in outputs}
    for warning in check_outputs(request.dynamic_axes, dims, options.output_names):
        warnings.warn(warning, WhenceWarning, stacklevel=3)
