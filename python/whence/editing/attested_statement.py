"""Runs ``whence attest``, adds to its statement how the file's numbers compare with recorded ones, and writes it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

from ..command import process
from ..errors import error, from_command, require_path
from ..files.atomic_files import require_apart, require_writable, write_text
from ..numerics import model_structure

if TYPE_CHECKING:
    from ..numerics.attested_numbers import AttestedNumbers
    from ..numerics.file_inputs import ExtraInputs, InputNames


@dataclass(frozen=True)
class Attested:
    """What was written."""

    statement: dict[str, Any]
    numbers: AttestedNumbers
    result: CompletedProcess[str]  # of the command, with its text or JSON


def attest(model: str | os.PathLike[str], weights: str | os.PathLike[str], sidecar: str | os.PathLike[str] | None,
           values: str | os.PathLike[str], *, output: str | os.PathLike[str] | None, bom: str | os.PathLike[str] | None,
           tolerance: float | None, input_names: InputNames | None, extra_inputs: ExtraInputs | None,
           form: tuple[str, ...] = (), isolated: bool = False) -> Attested:
    """Attests a file and its numbers. Writes the statement and the bill of materials only when both are complete.

    ``form``: options for the command's output. Raises WhenceError like ``whence.attest``."""
    from ..numerics.attested_numbers import measure  # needs PyTorch

    require_path(values, "the file of values")
    if sidecar is None:
        raise error("E0101", "usage", "no sidecar: comparing numbers needs its operations",
                    "pass the sidecar of the model whose values were recorded with --sidecar (sidecar)")
    input_files = [Path(each) for each in _files(extra_inputs)]
    require_apart({"--output": output, "--bom": bom},
                  [model, *model_structure.external_weights(model), weights, sidecar, values, *input_files])
    for target, example in ((output, "statement.json"), (bom, "bom.json")):
        if target is not None:
            require_writable(target, example)
    with tempfile.TemporaryDirectory(prefix="whence-") as name:
        drafts = {"-o": Path(name) / "statement.json", **({"--bom": Path(name) / "bom.json"} if bom is not None else {})}
        result = process.run(
            [str(process.binary()), "attest", str(model), "--weights", str(weights), "--sidecar", str(sidecar), *form,
             *(str(word) for option in drafts.items() for word in option)], process.environment())
        if result.returncode not in (0, 1):
            raise from_command(result.stdout, result.stderr, result.returncode)
        result.stdout = "".join(line for line in result.stdout.splitlines(keepends=True)
                                if line.rstrip("\n") not in {f"{draft}: written" for draft in drafts.values()})
        statement = json.loads(drafts["-o"].read_text(encoding="utf-8"))
        materials = drafts["--bom"].read_text(encoding="utf-8") if bom is not None else ""
    predicate = statement["predicate"]
    weight_dtypes = {row["dtype"] for row in predicate["tensors"] if row["verdict"] not in ("constant", "calibrated")}
    numbers = measure(model, values, sidecar, weight_dtypes, tolerance=tolerance, input_names=input_names,
                      extra_inputs=extra_inputs, isolated=isolated)
    predicate["sources"] += [_digest(Path(each)) for each in (values, *input_files)]
    predicate["numbers"] = numbers.to_json()
    if bom is not None:
        write_text(Path(bom), materials)
    if output is not None:
        write_text(Path(output), json.dumps(statement, ensure_ascii=False, separators=(",", ":")) + "\n")
    return Attested(statement, numbers, result)


def _files(extra_inputs: ExtraInputs | None) -> Collection[str | os.PathLike[str]]:
    """Returns the files of inputs that were not recorded; none for tensors."""
    if extra_inputs is None or isinstance(extra_inputs, Mapping):
        return ()
    return [extra_inputs] if isinstance(extra_inputs, (str, os.PathLike)) else extra_inputs


def _digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return {"name": path.name, "digest": {"sha256": digest.hexdigest()}}
