"""``whence annotate --values``: pairs the file's values with recorded operations and annotates nodes accordingly."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..command import process
from ..command.arguments import Parser
from ..command.binary import binary
from ..errors import error, require_path
from ..files.atomic_files import require_apart
from . import file_inputs, value_pairs
from .file_inputs import Overrides


def pairs_for(folder: Path, model: str | os.PathLike[str], values: Any, sidecar: str | os.PathLike[str] | None,
              outputs: str | os.PathLike[str] | None = None, overrides: Overrides = Overrides()) -> list[str]:
    """Writes the value pairs to ``folder`` and returns the command's options for them. Raises WhenceError like
    ``whence.accuracy``, and E0101 without a sidecar."""
    require_path(model, "the model")
    default_sidecar = Path(model).with_suffix(".whence.json")
    sidecar_path = sidecar if sidecar is not None else default_sidecar if default_sidecar.exists() else None
    if sidecar_path is None:
        raise error("E0101", "usage", "no sidecar: annotating by values needs its operations",
                    "pass the sidecar of the model whose values were recorded")
    pairs_file = folder / "value_pairs.json"
    value_pairs.write(pairs_file, model, values, sidecar_path, outputs, overrides)
    return ["--value-pairs", str(pairs_file)]


def parser() -> Parser:
    options = Parser(
        prog="whence annotate", description="Runs an ONNX file on recorded inputs and annotates it: a value that "
        "equals the result of a recorded operation comes from that operation, whatever its name. Without --values, the "
        "file is not run.", epilog="All other options are those of `whence annotate`.", allow_abbrev=False)
    options.add_argument("model", help="an ONNX file from any exporter or optimiser")
    options.add_argument("--values", required=True, metavar="FILE", help="recorded values, model.values.safetensors")
    options.add_argument("--sidecar", "-s", metavar="FILE",
                         help="the sidecar of the same model; by default model.whence.json next to the file")
    options.add_argument("--output", "-o", required=True, metavar="FILE", help="the annotated file")
    options.add_argument("--outputs", metavar="DUMP", help="values from another runtime, instead of running the file: "
                         ".npz, a folder of .npy files or Polygraphy's JSON, by the file's names")
    file_inputs.add_options(options)
    for flag in ("--allow-different-weights", "--no-names", "--carry", "--overwrite", "--copy-data", "--json"):
        options.add_argument(flag, action="append_const", const=[flag], dest="others", help="as without --values")
    for option in ("--keys", "--functions", "--min"):
        options.add_argument(option, action="append", metavar="X", type=lambda text, option=option: [option, text],
                             dest="others", help="as without --values")
    for option in ("--weights", "--from"):
        options.add_argument(option, help=argparse.SUPPRESS)
    return options


def main(arguments: Sequence[str]) -> int:
    args = parser().parse_args(arguments)
    for option in ("weights", "from"):
        if getattr(args, option) is not None:
            raise error("E0101", "usage", f"--{option} and --values exclude each other",
                        "pass the sidecar of the recorded model with --sidecar")
    overrides = file_inputs.overrides_of(args.input_name, args.extra_inputs)
    require_apart({"--output": args.output},
                  [each for each in (args.values, args.sidecar, args.outputs, *args.extra_inputs) if each])
    command_options = [word for each in args.others or () for word in each]
    command_options += ["--sidecar", args.sidecar] if args.sidecar else []
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        pairs = pairs_for(Path(folder), args.model, args.values, args.sidecar, args.outputs, overrides)
        result = process.run([str(binary()), "annotate", args.model, "-o", args.output, *command_options, *pairs],
                             process.environment())
    print(result.stdout, end="")
    print(result.stderr, end="", file=sys.stderr)
    return result.returncode
