"""``whence sensitivity``: the command line of ``whence.sensitivity``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ..command.arguments import Parser, show_progress
from ..files.atomic_files import require_apart, write_text
from ..numerics import file_inputs, without_weights
from . import quantisers


def _jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes; 1 to 256")
    return int(text)


def parser() -> Parser:
    options = Parser(
        prog="whence sensitivity", description="Quantises each module of an annotated ONNX file alone, and says what that "
        "costs at the outputs, and what it saves.", epilog="Outcomes are kept in the user's cache: a measurement that was "
        "broken off goes on where it was. Exit code 1: the budget cannot be met.", allow_abbrev=False)
    options.add_argument("file", help="an annotated ONNX file")
    options.add_argument("--quantize", choices=quantisers.NAMES, default="int8-dynamic",
                         help="ONNX Runtime's quantiser (int8-dynamic)")
    options.add_argument("--inputs", action="extend", nargs="+", required=True, metavar="FILE",
                         help="one set of inputs, .npz or .pt; repeatable. qdq is calibrated on all of them")
    file_inputs.add_options(options)
    options.add_argument("--modules", action="append", default=[], metavar="GLOB",
                         help="each module that it means, with all modules below; by default each that has nodes to "
                         "quantise; repeatable")
    options.add_argument("--not", action="append", default=[], metavar="GLOB", dest="exclude",
                         help="modules that stay as they are; repeatable")
    options.add_argument("--leave-out", action="store_true", help="quantise all but one module, instead of one alone")
    options.add_argument("--budget", metavar="KIND=X", help="error=0.01, size=40M, size=50%% or time=80%%: which modules to "
                         "leave out so that the file keeps to it")
    options.add_argument("--exclude-list", metavar="FILE", help="also write the choice's nodes, in the form of `whence "
                         "select --format ort-quant`")
    options.add_argument("--no-time", action="store_true", help="do not profile the file and the quantised one")
    options.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="processes that measure at a time (1)")
    options.add_argument("--fresh", action="store_true", help="measure again what is in the cache")
    options.add_argument("--html", metavar="FILE", help="also write a page: error against bytes saved, by module")
    options.add_argument("--json", action="store_true", help="as schema/sensitivity.schema.json describes it")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parser()
    given = options.parse_args(arguments)
    if given.exclude_list and not given.budget:
        options.error("--exclude-list is of a choice, which --budget makes")
    from ..values.archives import inputs_from
    from .api import sensitivity

    require_apart({"--html": given.html, "--exclude-list": given.exclude_list},
                  [given.file, *without_weights.weights_beside(given.file), *given.inputs, *given.extra_inputs])
    inputs = [inputs_from(Path(each)) for each in given.inputs]
    report = sensitivity(given.file, inputs, quantize=given.quantize, modules=given.modules, exclude=given.exclude,
                         leave_out=given.leave_out, budget=given.budget, time=not given.no_time, jobs=given.jobs,
                         fresh=given.fresh, progress=show_progress if sys.stderr.isatty() else None,
                         input_names=given.input_name, extra_inputs=given.extra_inputs)
    if given.html:
        report.to_html(given.html)
    if given.exclude_list:
        write_text(Path(given.exclude_list), json.dumps({"nodes_to_exclude": list(report.choice.nodes_to_exclude)}, indent=2)
                   + "\n")
    print(json.dumps(report.to_json(), indent=2) if given.json else report)
    return 0 if report.choice is None or report.choice.met else 1
