"""``whence accuracy``: command-line interface of ``whence.accuracy``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ..command.arguments import Parser
from ..files.atomic_files import require_apart
from . import file_inputs, format_options, model_structure

if TYPE_CHECKING:
    from .report import AccuracyReport

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _bytes(text: str) -> int:
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not (number.isascii() and number.isdecimal()) or unit not in _SIZES or int(number) == 0:
        raise argparse.ArgumentTypeError(f"invalid size {text!r}; pass bytes, or 512M, 4G")
    return int(number) * _SIZES[unit]


def _tolerance(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid tolerance {text!r}; pass a number, such as 1e-3")
    return number


def parser() -> Parser:
    options = Parser(
        prog="whence accuracy", description="Runs an annotated ONNX file on recorded inputs and finds the first "
        "module whose values differ from PyTorch's.", epilog="Exit code 1: a module is above "
        "--max-error or does not run. Values are recorded by `whence record --values` or whence.record_values.", allow_abbrev=False)
    options.add_argument("file", nargs="+", help="an annotated ONNX file; with --chain, several, in order")
    options.add_argument("--chain", action="store_true", help="each file was made by a tool from the one before it: names "
                         "the first that differs; files without origins get them from the one before")
    options.add_argument("--values", required=True, metavar="FILE", help="recorded values, model.values.safetensors")
    options.add_argument("--sidecar", "-s", metavar="FILE", help="states which operation computed each module's result")
    file_inputs.add_options(options)
    options.add_argument("--runtime", choices=["onnxruntime", "openvino", "reference"],
                         help="the runtime (onnxruntime); reference is onnx's evaluator")
    options.add_argument("--provider", metavar="NAME",
                         help="ONNX Runtime's execution provider (CPUExecutionProvider)")
    options.add_argument("--outputs", metavar="PLACE", help="values from another runtime, instead of running the file: "
                         ".npz, a folder of .npy files or Polygraphy's JSON, by the file's names")
    options.add_argument("--model", metavar="ARCHIVE", help="the model's .pt or .pt2: each module that differs is "
                         "run alone on the file's values, to separate its own error from inherited errors")
    options.add_argument("--like", metavar="FILE", help="values recorded with the model in the file's precision: a value "
                         "differs only where the file is worse than that")
    options.add_argument("--tolerance", type=_tolerance, metavar="X", help="the relative difference above which a "
                         "value differs; by default a limit for rounding errors in this file")
    options.add_argument("--memory", type=_bytes, default=2 << 30, metavar="SIZE",
                         help="memory for values, such as 512M or 4G (2G); more values take several rounds")
    options.add_argument("--optimized", "--optimised", action="store_true", help="let ONNX Runtime optimise the file before it runs")
    options.add_argument("--max-error", action="append", default=[], metavar="X[@GLOB]",
                         help="the largest relative difference that modules may have; repeatable")
    options.add_argument("--all", action="store_true", help="also find later differences: puts PyTorch's results in the "
                         "place of wrong values and runs the file again; values must be recorded completely")
    options.add_argument("--repro", metavar="DIR", help="also write the nodes at which the first difference begins to a "
                         "new folder: an ONNX file, its inputs, PyTorch's result, a script that fails without whence, and "
                         "a text for an issue")
    options.add_argument("--html", metavar="FILE", help="also write a page with a plot of the error and the tree")
    options.add_argument("--model-explorer", metavar="FILE",
                         help="also write node data for Model Explorer that colour nodes by their modules' error")
    format_options.declare(options, ["text", "json", "sarif"], "; json as in schema/accuracy.schema.json, sarif for "
                           "code scanning")
    options.add_argument("--source-root", metavar="DIR", help="the folder to which source paths in sarif are relative; "
                         "by default the working folder")
    return options


@contextmanager
def _one_thread() -> Iterator[None]:
    """Lets PyTorch use one thread. Comparing a tensor takes a millisecond; on a busy machine, waiting for more threads takes
    many times as long."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def main(arguments: Sequence[str], isolated: bool = False) -> int:
    """Runs the command; with ``isolated``, ONNX Runtime in processes of its own."""
    options = parser()
    args = options.parse_args(arguments)
    with nullcontext() if args.model else _one_thread():  # the model runs in PyTorch
        return _run(options, args, isolated)


def _run(options: Parser, args: argparse.Namespace, isolated: bool) -> int:
    for option, value in vars(args).items():
        if value == "":
            options.error(f"--{option.replace('_', '-')} is empty")
    outputs = format_options.formats_of(options, args)
    if args.chain and (args.all or args.html or args.model_explorer or args.repro or args.outputs or "sarif" in (args.format or ())):
        options.error("--chain writes text or json, and runs every file")
    if not args.chain and len(args.file) > 1:
        options.error("pass one file, or --chain")
    weights = [weights for file in args.file for weights in model_structure.external_weights(file)]
    sources = [*args.file, *weights, args.values, args.sidecar, args.outputs,
               args.model, args.like, *args.extra_inputs]
    require_apart({"--html": args.html, "--model-explorer": args.model_explorer,
                   **{f"--output {each}": each for each in args.output}}, sources)
    from .api import accuracy
    from .chain import accuracy_chain

    if args.chain:
        chain = accuracy_chain(args.file, args.values, sidecar=args.sidecar, runtime=args.runtime, provider=args.provider,
                               model=args.model, like=args.like, tolerance=args.tolerance, memory=args.memory, optimized=args.optimized,
                               max_error=args.max_error, input_names=args.input_name, extra_inputs=args.extra_inputs, isolated=isolated)
        format_options.write(Path(args.file[-1]), outputs, lambda format_name: (
            str(chain) if format_name == "text" else json.dumps(chain.to_json(), indent=2)))
        return 1 if any(each.findings for each in chain.files) else 0
    report = accuracy(args.file[0], args.values, sidecar=args.sidecar, runtime=args.runtime, provider=args.provider,
                      outputs=args.outputs, model=args.model, like=args.like, tolerance=args.tolerance, memory=args.memory,
                      optimized=args.optimized, max_error=args.max_error, input_names=args.input_name,
                      extra_inputs=args.extra_inputs, all_faults=args.all, repro=args.repro, isolated=isolated)
    if args.html:
        report.to_html(args.html)
    if args.model_explorer:
        report.to_model_explorer(args.model_explorer)
    format_options.write(report.path, outputs, lambda format_name: _formatted(report, format_name, args.source_root))
    return 1 if report.findings else 0


def _formatted(report: AccuracyReport, format_name: str, source_root: str | None) -> str:
    if format_name != "text":
        return json.dumps(report.to_json() if format_name == "json" else report.to_sarif(source_root), indent=2)
    return "\n".join([str(report), *(f"finding: {each['message']}" for each in report.findings)])
