"""``whence sensitivity``: command-line interface of ``whence.sensitivity``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..command.arguments import Parser, show_progress
from ..files.atomic_files import require_apart, write_text
from ..numerics import file_inputs, model_structure
from . import quantisers


def _jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes from 1 to 256")
    return int(text)


def parser() -> Parser:
    options = Parser(
        prog="whence sensitivity", description="Quantises one module of an annotated ONNX file at a time, and "
        "measures the error at the outputs and the savings.", epilog="Outcomes are cached in the user's cache, so "
        "an interrupted measurement can continue. Exit code 1: the budget cannot be met.",
        allow_abbrev=False)
    options.add_argument("file", help="an annotated ONNX file")
    options.add_argument("--quantize", choices=quantisers.NAMES, default="int8-dynamic",
                         help="ONNX Runtime's quantiser (int8-dynamic)")
    options.add_argument("--inputs", action="extend", nargs="+", required=True, metavar="FILE",
                         help="one set of inputs, .npz or .pt; repeatable. qdq is calibrated on all sets")
    file_inputs.add_options(options)
    options.add_argument("--modules", action="append", default=[], metavar="GLOB",
                         help="modules to quantise, each with all its submodules; by default each module with nodes "
                         "to quantise; repeatable")
    options.add_argument("--not", action="append", default=[], metavar="GLOB", dest="exclude",
                         help="modules to leave unquantised; repeatable")
    options.add_argument("--leave-out", action="store_true",
                         help="quantise all modules except one, instead of only that one")
    options.add_argument("--budget", metavar="KIND=X", help="error=0.01, size=40M, size=50%% or time=80%%: choose the "
                         "modules to leave unquantised to stay within it")
    options.add_argument("--exclude-list", metavar="FILE", help="also write the nodes to exclude, in the format of "
                         "`whence select --format ort-quant`")
    options.add_argument("--no-time", action="store_true", help="do not profile the original and the quantised file")
    options.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="number of processes (1)")
    options.add_argument("--fresh", action="store_true", help="measure again instead of reading the cache")
    options.add_argument("--html", metavar="FILE", help="also write a page with error and bytes saved by module")
    options.add_argument("--json", action="store_true", help="print JSON, as in schema/sensitivity.schema.json")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parser()
    args = options.parse_args(arguments)
    if args.exclude_list and not args.budget:
        options.error("--exclude-list needs --budget")
    from ..values.archives import inputs_from
    from .api import sensitivity

    require_apart({"--html": args.html, "--exclude-list": args.exclude_list},
                  [args.file, *model_structure.external_weights(args.file), *args.inputs, *args.extra_inputs])
    inputs = [inputs_from(Path(each)) for each in args.inputs]
    report = sensitivity(args.file, inputs, quantize=args.quantize, modules=args.modules, exclude=args.exclude,
                         leave_out=args.leave_out, budget=args.budget, time=not args.no_time, jobs=args.jobs,
                         fresh=args.fresh, progress=show_progress if sys.stderr.isatty() else None,
                         input_names=args.input_name, extra_inputs=args.extra_inputs)
    if args.html:
        report.to_html(args.html)
    if args.exclude_list:
        write_text(Path(args.exclude_list),
                   json.dumps({"nodes_to_exclude": list(report.choice.nodes_to_exclude)}, indent=2) + "\n")
    print(json.dumps(report.to_json(), indent=2) if args.json else report)
    return 0 if report.choice is None or report.choice.met else 1
