"""``whence record ARCHIVE --values FILE``: command-line interface of ``record_values``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..command.arguments import Parser
from ..files.atomic_files import require_apart, require_writable, write_text
from . import archives

if TYPE_CHECKING:
    from .value_file import Values


def parser() -> Parser:
    options = Parser(
        prog="whence record", description="Records the sidecar of an archive, and the arguments and results of each "
        "module call. Without --values, only the sidecar is recorded, and more options are available.",
        allow_abbrev=False)
    options.add_argument("archive", help="a TorchScript (.pt) or torch.export (.pt2) archive")
    options.add_argument("--values", required=True, metavar="FILE",
                         help="file to write, such as model.values.safetensors")
    options.add_argument("--inputs", action="extend", nargs="+", default=[], metavar="FILE",
                         help="inputs of one run, .npz or .pt; repeatable. A .pt2 defaults to its example inputs")
    options.add_argument("--full", action="append", default=[], metavar="GLOB",
                         help="record all elements of these modules' tensors; repeatable")
    options.add_argument("--operations", action="store_true", help="also record the results of each operation, so that "
                         "`whence accuracy` names the operation at which a difference begins")
    options.add_argument("--output", "-o", metavar="FILE", help="file to write the sidecar to")
    options.add_argument("--json", action="store_true", help="print a summary of the written file as JSON")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    require_apart({"--values": options.values, "--output": options.output}, [options.archive, *options.inputs])
    if options.output is not None:
        require_writable(options.output, "model.whence.json")
    sets = [archives.inputs_from(Path(each)) for each in options.inputs]
    from .value_file import require_place
    from .value_recorder import record_values

    require_place(options.values)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        sidecar = Path(folder) / Path(options.output or "model.whence.json").name
        model = archives.open_archive(options.archive, options.inputs[0] if sets else None, sidecar)
        first, *more = sets or [()]
        values = record_values(model, first, options.values, full=options.full, more=more,
                               operations=options.operations)
        if options.output is not None:  # last: nothing else can fail now
            write_text(Path(options.output), sidecar.read_text(encoding="utf-8"))
    _print_summary(options.values, values, options.operations, options.json)
    return 0


def _print_summary(path: str, values: Values, with_operations: bool, as_json: bool) -> None:
    size = Path(path).stat().st_size
    calls = [len(run.calls) for run in values.runs]
    operations = [sum(len(call.operations or ()) for call in run.calls) for run in values.runs]
    if as_json:
        print(json.dumps({"file": path, "size": size, "runs": len(calls), "calls": calls}
                         | ({"operations": operations} if with_operations else {})))
    else:
        print(f"{path}: {len(calls)} run{'s' if len(calls) > 1 else ''}, {calls[0]} module calls, "
              + (f"{operations[0]} operations, " if with_operations else "") + f"{size / 1e6:.1f} MB")
