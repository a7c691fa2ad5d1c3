"""``whence carry --check``: command-line interface of ``whence.carry`` with ``check``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from ..command.arguments import Parser
from ..files.atomic_files import require_apart
from .carry import carry

_TOOLS, _NEXT = "--", "--then"


def parser() -> Parser:
    options = Parser(
        prog="whence carry", description="Runs tools on an annotated file, annotates their output with the origins of its "
        "nodes, compares the file of each tool with recorded values, and names the tool that broke the numbers. If the "
        "tool is onnxoptimizer, onnxscript, onnxsim, onnxslim, ONNX Runtime's optimiser or onnx's version converter, also "
        "names its pass or rule. Exit code 1: a file differs.", epilog="All other options are those of `whence carry`.",
        usage="%(prog)s MODEL -o OUT --check VALUES [OPTIONS] -- TOOL {in} {out} [--then TOOL {in} {out}]...",
        allow_abbrev=False)
    options.add_argument("model", help="an annotated file; it is not changed")
    options.add_argument("--check", required=True, metavar="FILE", help="recorded values, model.values.safetensors")
    options.add_argument("--sidecar", "-s", metavar="FILE", help="states which operation computed each module's result")
    options.add_argument("--output", "-o", required=True, metavar="FILE", help="the last tool's file, with origins")
    options.add_argument("--timeout", type=float, metavar="SECONDS", help="stop a tool that takes longer; no limit by default")
    options.add_argument("--overwrite", action="store_true", help="as without --check")
    options.add_argument("--json", action="store_true", help="print JSON")
    return options


def main(arguments: Sequence[str]) -> int:
    end = arguments.index(_TOOLS) if _TOOLS in arguments else len(arguments)
    options = parser()
    args = options.parse_args(arguments[:end])
    tools = _tools(arguments[end + 1:], options)
    require_apart({"--output": args.output}, [each for each in (args.check, args.sidecar) if each])
    report = carry(args.model, tools, args.output, timeout=args.timeout, overwrite=args.overwrite, check=args.check,
                   sidecar=args.sidecar)
    if args.json:
        counts = {word: getattr(report, word) for word in ("nodes", "exact", "matched", "inferred", "ancestor", "unattributed")}
        print(json.dumps({"file": args.output, **counts, "check": report.check.to_json(),
                          "diagnostics": [asdict(each) for each in report.diagnostics]}, indent=2))
    else:
        print("\n".join([*(f"{each.severity}: {each}" for each in report.diagnostics), *report.check.lines()]))
    return 0 if report.check.clean else 1


def _tools(words: Sequence[str], options: argparse.ArgumentParser) -> list[list[str]]:
    """Splits the words at each --then."""
    tools: list[list[str]] = [[]]
    for word in words:
        if word == _NEXT:
            tools.append([])
        else:
            tools[-1].append(word)
    if not all(tools):
        options.error("no tool was specified, for example: -- onnxslim {in} {out}")
    return tools
