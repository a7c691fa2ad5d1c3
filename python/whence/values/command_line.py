"""``whence record ARCHIVE --values FILE``: the command line of ``record_values``."""

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
        prog="whence record", description="Records what each call of each module of an archive was given and returned, "
        "beside the sidecar. Without --values the sidecar alone is recorded, and there are more options.",
        allow_abbrev=False)
    options.add_argument("archive", help="a TorchScript (.pt) or torch.export (.pt2) archive")
    options.add_argument("--values", required=True, metavar="FILE", help="what is written: model.values.safetensors")
    options.add_argument("--inputs", action="extend", nargs="+", default=[], metavar="FILE",
                         help="inputs of one run, .npz or .pt; repeatable. Of a .pt2 its own example by default")
    options.add_argument("--full", action="append", default=[], metavar="GLOB",
                         help="modules whose tensors are kept whole; repeatable")
    options.add_argument("--operations", action="store_true", help="also what each operation returned, by the innermost "
                         "module call: `whence accuracy` then names the operation at which a difference begins")
    options.add_argument("--output", "-o", metavar="FILE", help="the sidecar, too")
    options.add_argument("--json", action="store_true", help="what was written, as JSON")
    return options


def main(arguments: Sequence[str]) -> int:
    given = parser().parse_args(arguments)
    require_apart({"--values": given.values, "--output": given.output}, [given.archive, *given.inputs])
    if given.output is not None:
        require_writable(given.output, "model.whence.json")
    sets = [archives.inputs_from(Path(each)) for each in given.inputs]
    from .value_file import require_place
    from .value_recorder import record_values

    require_place(given.values)
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        sidecar = Path(folder) / Path(given.output or "model.whence.json").name
        model = archives.opened(given.archive, given.inputs[0] if sets else None, sidecar)
        first, *more = sets or [()]
        values = record_values(model, first, given.values, full=given.full, more=more, operations=given.operations)
        if given.output is not None:  # when nothing can be refused any more
            write_text(Path(given.output), sidecar.read_text(encoding="utf-8"))
    _print_summary(given.values, values, given.operations, given.json)
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
