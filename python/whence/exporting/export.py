"""``whence.export``: records, exports, annotates and validates in one call, with any backend."""

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
from ..files.atomic_files import require_sidecar_path
from ..state.export_settings import Training, exporting, log, onnx_export_flag
from .artifacts import Artifacts, require_report_path
from .backends import Job, export_by
from .options import Options, log_decisions, options_of
from .program import Folder, ONNXProgram, Source
from .request import (Backend, ExportRequest, check_apart, check_file, check_function_modules, refuse_unknown,
                      refuse_unsupported_options)


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
    """Exports ``model`` called with ``args`` and ``kwargs``; every node of the file states its origin.

    model    a module, scripted or not, a scripted function, or a torch.export.ExportedProgram or
             torch.onnx.ExportableModule, which already contain their arguments.
    args, kwargs  the arguments of forward: tensors, nested in tuples, lists, dicts, dataclasses, transformers' caches
             and any objects that hold them in attributes. Tensors become inputs: x["key"][0] is x_key_0, a tensor of a
             cache is past_key_values.0.key. All other arguments are fixed in the file. Caches that forward returns
             become outputs such as present.0.key. The arguments and the model are restored (python/README.md).
    f        the path, or a binary stream such as a BytesIO; None exports in memory, see ONNXProgram.
    backend  "native": whence exports a trace of the model. It uses torch.export instead if the model cannot be traced,
             if the trace cannot be converted or contains sizes of the example, and for operators registered in Python;
             ``program.backend`` names the result. "native-export": whence exports a torch.export program.
             "torch-torchscript": torch.onnx.export(dynamo=False), recorded during its trace. "torch-dynamo":
             torch.onnx.export(dynamo=True); records the program that torch.export creates for it. A list is
             a chain: if one backend fails, the next one is tried, with a WhenceWarning. dynamo=True means
             "native-export", dynamo=False means "native".
    dynamic_shapes  nested like the arguments: {"x": {0: "batch"}}; names, torch.export.Dim, Dim.DYNAMIC or Dim.AUTO.
             These axes are required: if the model fixes one, the export is refused (E0304). Warns about branches that
             no run at another size takes. "auto" lets whence propose the axes of batch, sequence and past; this is
             the default for a call that takes a cache. Proposals are reported, and program.dynamic_axes has the result.
             dynamic_axes={} fixes every size.
    dynamic_axes    {"x": {0: "batch"}}; {"x": [0]} gives PyTorch's names, x_dynamic_axes_1 and so on. These axes are
             optional: if the model fixes one, the file fixes it, with a WhenceWarning.
    training the mode in which the model is exported; the original mode is restored, also after an error. A traced or
             frozen module keeps its mode.
    input_names, output_names  names in order; the remaining inputs have forward's names.
    keep_bfloat16  keeps bfloat16 also for operators that ONNX Runtime cannot compute in bfloat16 on the CPU. By default
             they compute in float32 between casts, with a WhenceWarning. Weights stay bfloat16 in either case.
    external_data  True stores the weights next to the file. {"threshold": 1024, "alignment": 4096, "per_tensor": True}
             sets the smallest size in bytes, the alignment in bytes, and one file for each tensor (native backends).
    sidecar  the path of the record; by default ``model.whence.json`` next to the file, where it replaces only
             another record.
    overwrite  allows replacing weight files next to ``f`` whose contents differ, even those of an earlier export, and
             any file at the default path of the record. Without it, these files stay and E0401 is raised.
    verify   compares ONNX Runtime with the model; warns about a difference and locates it in ``program.verification``.
    report   the path of a Markdown report; True writes it to ``artifacts_dir`` under torch.onnx's name for it. It is
             also written on failure, unless the failure concerns the file at that path. A file named like weights
             of ``f`` is replaced only if it is a report, or with ``overwrite``.
    dump_exported_program  keeps the exported archive in ``artifacts_dir``.
    profile, verbose  log the time of each stage, or each stage, to standard error through the logger "whence".
    custom_translation_table  {torch.ops.mylib.op.default: function}: your own converters, which take precedence over
             whence's. A Python function is called for each call of the operator, with its arguments: symbolic tensors,
             which have ``shape`` and ``dtype``, and Python values. It calls onnxscript's operators. A list [f, g]
             uses the first function whose annotations allow the dtypes. onnxscript functions and FunctionProtos stay
             functions in the file (native backends): they take the operator's tensors in the order of its schema, and
             their attributes have the names of its arguments. "mylib::op" means all overloads. If an operator
             writes to arguments, the function returns their new contents after the operator's own results; an ONNX
             function takes these arguments first. ``register_custom_op`` registers a converter for all exports.
    custom_opsets  {"mylib": 2}: operators mylib::op without a converter become nodes of the ONNX domain mylib.
    operators  of opset 23 and later, such as Attention: "fused" uses all that the opset has, "plain" none; by default,
             those that ONNX Runtime 1.32 supports.
    operator_export_type  ONNX, or ONNX_ATEN_FALLBACK: operators without a converter become nodes of the domain
             whence.NAMESPACE.
    export_modules_as_functions  True, or module classes: each module becomes an ONNX function, and equal modules share
             one (``whence.functions``); ``program.functions`` lists them.
    autograd_inlining  False keeps each torch.autograd.Function as whence_autograd::Name ("native-export").

    Raises WhenceError with the command's codes: E0301 for operators without a converter, E0104 for arguments that do
    not fit, E0101 for invalid options, E0303 for features that the backend lacks, E0106 if the sidecar is incomplete
    (``f`` then has the export without annotation). PyTorch's exceptions become E0207 if the model does not run on the
    arguments, E0304 or E0303; exceptions of the model's own code propagate unchanged.
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
            program = _export_by_chain(chain, job, folder)
            _warn_of_outputs(program, request, options)
            if job.call and proposed_axes.is_requested(request.dynamic_shapes, request.dynamic_axes, job.call):
                proposed_axes.report(job.call, job.options.input_names, program.dynamic_axes)
            if function_modules:
                with job.stage("functions"):
                    program.functions = _extract_functions(program.path, request.model, function_modules)
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
    """Returns the complete request, its options and its backends. Raises WhenceError for unsupported options."""
    check_function_modules(request.export_modules_as_functions)
    chain = request.chain()
    check_file(request.f)
    request = request.completed()
    refuse_unsupported_options(chain, request)
    options = options_of(request, chain)
    log_decisions(request, options)
    # Copies the inputs now, also for the program: the caller may change a cache after the export.
    args, kwargs = trees.copied((request.args, request.kwargs))
    return replace(request, args=args, kwargs=kwargs), options, chain


def _job(request: ExportRequest, options: Options, folder: Folder | None) -> Job:
    """Returns the export with the paths of its files, in ``folder`` for a program in memory. Raises WhenceError E0101
    or E0401 if the files would replace others."""
    target = Path(request.f) if folder is None else Path(folder.name) / "model.onnx"
    record_file = Path(request.sidecar) if request.sidecar else target.with_suffix(".whence.json")
    if not request.sidecar:
        require_sidecar_path(record_file, "choose another one: sidecar='...'", request.overwrite)
    report_file = None if isinstance(request.report, bool) or request.report is None else Path(request.report)
    one_file = options.external_data is not None and not options.external_data.get("per_tensor")
    check_apart(f=target, sidecar=record_file, report=report_file,
                external_data=target.with_name(target.name + ".data") if one_file else None)
    if report_file is not None:
        require_report_path(report_file, target, request.overwrite)
    artifacts = Artifacts.from_request(request.artifacts_dir, request.report, request.dump_exported_program)
    return Job(request, target, record_file, options, artifacts, lambda call: _axes(request, options, call))


def _axes(request: ExportRequest, options: Options, call: Call) -> Axes:
    if len(options.input_names) > len(call.tensors):
        raise error("E0104", "input_mismatch", f"input_names has {len(options.input_names)} names, but the call has "
                    f"{len(call.tensors)} tensors", f"its tensors are: {', '.join(call.tensors)}")
    if proposed_axes.is_requested(request.dynamic_shapes, request.dynamic_axes, call):
        return proposed_axes.propose(call)
    if request.dynamic_shapes is not None and request.dynamic_axes:
        raise error("E0101", "usage", "dynamic_shapes and dynamic_axes exclude each other", "pass only one of them")
    if request.dynamic_shapes is not None:
        return from_dynamic_shapes(request.dynamic_shapes, call)
    return from_dynamic_axes(request.dynamic_axes, call.tensors, options.input_names, options.output_names)


def _export_by_chain(chain: Sequence[str], job: Job, folder: Folder | None) -> ONNXProgram:
    request = job.request
    fell_back: list[tuple[str, str]] = []
    for backend in chain:
        try:
            with onnx_export_flag():
                exported = export_by(backend, job)
            source = Source(request.model, request.args, request.kwargs, job.call, request.training,
                            tuple(job.options.input_names))
            program = ONNXProgram(exported, source, backend, fell_back, folder)
            job.warn_of_writes(program.verify)
            if job.call and job.observed is None:
                torch_failures.warn_of_own_failure(request.model, request.args, request.kwargs)
            return program
        except Exception as raised:  # PyTorch's exporters raise exceptions of any class
            failure = torch_failures.as_whence_error(raised, request.model, request.args, request.kwargs)
            if backend == chain[-1] or isinstance(failure, WhenceError) and failure.code in ("E0101", "E0104"):
                if failure is raised:
                    raise
                raise failure from raised
            fell_back.append((backend, str(failure)))
            log.info("the backend %s failed: %s", backend, failure)
            warnings.warn(f"the backend {backend} failed, so the next is tried: {failure}", WhenceWarning, stacklevel=3)
    raise AssertionError("the last backend returns or raises")


def _extract_functions(path: Path, model: Any, chosen: dict[str, Any]) -> FunctionsReport | None:
    """Turns modules of the file into functions, except classes without nodes in the file, such as Dropout.

    Warns about a class that has weights but no nodes: it was fused into nodes of another module.
    """
    if "types" in chosen:
        modules = list(getattr(model, "modules", list)())
        classes_without_nodes = set(chosen["types"]) & {type(module).__name__ for module in modules} - _classes_in(path)
        with_weights = {type(module).__name__ for module in modules if any(True for _ in module.parameters(False))}
        for name in sorted(classes_without_nodes):
            log.info("export_modules_as_functions: the file has no node of a %s", name)
            if name in with_weights:
                warnings.warn(f"export_modules_as_functions: no function for {name}, because no node belongs only to "
                              "such a module: it was fused with another module, like Conv with BatchNorm; "
                              "optimize=False keeps the two apart", WhenceWarning, stacklevel=3)
        chosen = {"types": [name for name in chosen["types"] if name not in classes_without_nodes]}
        if not chosen["types"]:
            return None
    return functions(path, **chosen)


def _classes_in(path: Path) -> set[str]:
    """Returns the class names of the modules that nodes of the file belong to."""
    from ..base.optional_packages import import_optional

    graph = import_optional("onnx", "export_modules_as_functions").load(str(path), load_external_data=False).graph
    entries = (entry.value for node in graph.node for entry in node.metadata_props
               if entry.key == "pkg.torch.onnx.class_hierarchy")
    return {name.rpartition(".")[2] for value in entries for name in ast.literal_eval(value)}


def _verify(program: ONNXProgram, job: Job) -> None:
    """Verifies the program. Warns if ONNX Runtime fails or its results differ, and keeps the file in either case."""
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


def _warn_of_outputs(program: ONNXProgram, request: ExportRequest, options: Options) -> None:
    """Warns about entries of dynamic_axes that name outputs, whose sizes cannot be chosen."""
    if not any(name in options.output_names or caches.is_output(name) for name in request.dynamic_axes or ()):
        return
    from ..base.optional_packages import import_optional

    outputs = import_optional("onnx", "dynamic_axes of outputs").load(str(program.path),
                                                                       load_external_data=False).graph.output
    dims = {each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in outputs}
    for warning in check_outputs(request.dynamic_axes, dims, options.output_names):
        warnings.warn(warning, WhenceWarning, stacklevel=3)
