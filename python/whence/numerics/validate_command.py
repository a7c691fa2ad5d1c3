"""``whence validate --values``: adds the number of annotations that recorded values prove to the command's report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..command import process
from ..command.arguments import Parser
from ..errors import error
from . import file_inputs, format_options
from .file_inputs import ExtraInputs, InputNames
from .value_proofs import Contradiction


@dataclass(frozen=True)
class Proof:
    """The number of annotations that recorded values prove, and contradictions."""

    settings: str                 # the runtime and how it ran
    proved: int                   # calls with results within `limit` of the recorded results, and of no other module's
    limit: float                  # relative difference; larger in quantised files
    observable: int
    calls: int                    # recorded calls with results
    contradictions: tuple[Contradiction, ...]

    def __str__(self) -> str:
        lines = [f"values: {self.proved} of {self.calls} module calls proved within {self.limit:.1g}, {self.observable} observable"]
        return "\n".join(lines + [f"  {each}" for each in self.contradictions])


def prove(model: str | os.PathLike[str], values: Any, sidecar: str | os.PathLike[str] | None = None,
          input_names: InputNames | None = None, extra_inputs: ExtraInputs | None = None) -> Proof:
    """Runs the file and counts the annotations that values prove. Raises WhenceError like ``whence.accuracy``."""
    from .api import accuracy

    report = accuracy(model, values, sidecar=sidecar, input_names=input_names, extra_inputs=extra_inputs)
    return Proof(report.settings, sum(each.proved for each in report.modules), report.tolerance, report.observable, len(report.modules),
                 report.contradictions)


def parser() -> Parser:
    options = Parser(
        prog="whence validate", description="Validates an annotated file, runs it on recorded inputs, and counts the "
        "modules whose results equal the recorded ones. Without --values, the file is not run.",
        epilog="Exit code 1: a check found a fault, or a value belongs to a module other than the annotated one. All "
        "other options are those of `whence validate`.", allow_abbrev=False)
    options.add_argument("file", help="an annotated ONNX file")
    options.add_argument("--values", required=True, metavar="FILE", help="recorded values, model.values.safetensors")
    options.add_argument("--sidecar", "-s", metavar="FILE", help="states which operation computed each module's result")
    format_options.declare(options, ["text", "json"])
    file_inputs.add_options(options)
    for flag in ("--all", "--full"):
        options.add_argument(flag, action="append_const", const=flag, dest="others", help="as without --values")
    for option in ("--min-covered", "--min", "--require", "--baseline", "--attested", "--conformance", "--config", "--allow", "--tolerance",
                   "--depth", "--source-root"):
        names = ("--depth", "-d") if option == "--depth" else (option,)
        options.add_argument(*names, action="append", metavar="X", type=lambda text, option=option: (option, text),
                             dest="others", help="as without --values")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parser()
    args = options.parse_args(arguments)
    outputs = format_options.formats_of(options, args)
    command_options = [word for each in args.others or () for word in (each if isinstance(each, tuple) else (each,))]
    command_options += ["--sidecar", args.sidecar] if args.sidecar else []
    results = {}
    for format_name, _ in outputs:
        results[format_name] = process.run(
            [str(process.binary()), "validate", args.file, *command_options, "--format", format_name],
            process.environment())
        result = results[format_name]
        if result.returncode not in (0, 1):
            print(result.stdout, end="")
            print(result.stderr, end="", file=sys.stderr)
            return result.returncode
    print(result.stderr, end="", file=sys.stderr)
    proof = prove(args.file, args.values, args.sidecar, args.input_name, args.extra_inputs)
    format_options.write(args.file, outputs,
                         lambda format_name: _with_proof(results[format_name].stdout, format_name, proof))
    return 1 if proof.contradictions else result.returncode


def _with_proof(output: str, format_name: str, proof: Proof) -> str:
    if format_name != "json":
        return f"{output}\n{proof}"
    try:
        report = json.loads(output)
    except ValueError:
        raise error("E0901", "internal", "`whence validate --json` did not print JSON", "please report this") from None
    report["clean"] = report["clean"] and not proof.contradictions
    return json.dumps({**report, "proof": asdict(proof)}, indent=2)
