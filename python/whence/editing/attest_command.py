"""``whence attest --values``: also compares the file's numbers with recorded ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ..command.arguments import Parser
from ..numerics import file_inputs, crash_guard
from . import attested_statement


def parser() -> Parser:
    options = Parser(
        prog="whence attest", description="Proves where each tensor of an ONNX file comes from, runs the file on recorded "
        "inputs, and compares its values with PyTorch's. Without --values, the file is not run.",
        epilog="Exit code 1: a tensor or node is unaccounted, or a value differs.", allow_abbrev=False)
    options.add_argument("model", help="an ONNX file from any exporter, optimiser or quantiser")
    options.add_argument("--weights", "-w", required=True, metavar="FILE",
                         help="the checkpoint: safetensors, shards, torch.save, or a folder")
    options.add_argument("--sidecar", "-s", required=True, metavar="FILE", help="the sidecar of the model")
    options.add_argument("--values", required=True, metavar="FILE", help="recorded values, model.values.safetensors")
    options.add_argument("--output", "-o", metavar="FILE", help="the statement to write, in in-toto's form")
    options.add_argument("--bom", metavar="FILE", help="the bill of materials to write, in CycloneDX's form")
    options.add_argument("--tolerance", type=float, metavar="X", help="the relative difference above which a value "
                         "differs; by default a limit for rounding errors in this file")
    file_inputs.add_options(options)
    options.add_argument("--json", action="store_true", help="print the statement")
    return options


def main(arguments: Sequence[str]) -> int:
    return crash_guard.run(arguments, _run)


def _run(arguments: Sequence[str], isolated: bool = False) -> int:
    options = parser()
    args = options.parse_args(arguments)
    for option, value in vars(args).items():
        if value == "":
            options.error(f"--{option.replace('_', '-')} is empty")
    attested = attested_statement.attest(
        args.model, args.weights, args.sidecar, args.values, output=args.output, bom=args.bom, tolerance=args.tolerance,
        input_names=args.input_name, extra_inputs=args.extra_inputs, form=("--json",) if args.json else (), isolated=isolated)
    if args.json:
        # With the command's diagnostics, which the statement does not contain.
        print(json.dumps({**json.loads(attested.result.stdout), **attested.statement}, indent=2))
    else:
        print(attested.result.stderr, end="", file=sys.stderr)
        print(attested.result.stdout, end="")
        print("\n".join(f"  {line}" for line in attested.numbers.lines()))
        for target in (args.output, args.bom):
            if target:
                print(f"{target}: written")
    return 1 if attested.numbers.first_difference is not None else attested.result.returncode
