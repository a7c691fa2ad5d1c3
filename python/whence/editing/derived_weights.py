"""``attest``, ``refit`` and ``weights``: run these commands and return their output as objects."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.report_printing import Bar, Printed, Table, counted
from ..command.process import run_json
from ..files.checkpoint_files import Checkpoint, checkpoint_file
from ..files.model_files import Model, takes_models
from . import attested_statement

if TYPE_CHECKING:
    from ..numerics.attested_numbers import AttestedNumbers
    from ..numerics.file_inputs import ExtraInputs, InputNames

_UNACCOUNTED = "unaccounted"


@dataclass(frozen=True)
class AttestedTensor:
    """One tensor of a file: an initializer, or the value of a Constant node."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    bytes: int
    verdict: str               # exact, bounded, constant, calibrated or unaccounted
    origin: str | None         # the expression over parameters as text
    modules: tuple[str, ...]   # of the nodes that read it


@dataclass(frozen=True, repr=False)
class Attestation(Printed):
    """Where each tensor and node of a file comes from; ``raw`` is the statement in in-toto's form."""

    accounted: bool                     # nothing is unaccounted, and no value differs
    tensors: tuple[AttestedTensor, ...]
    bytes: dict[str, int]               # by verdict
    nodes: dict[str, int]               # by verdict: operation, movement, size or unaccounted
    raw: dict[str, Any]
    numbers: AttestedNumbers | None = None  # with ``values``

    @property
    def unaccounted(self) -> tuple[str, ...]:
        """Names of the unaccounted tensors, then of the unaccounted nodes."""
        rows = [*self.raw["predicate"]["tensors"], *self.raw["predicate"]["nodes"]]
        return tuple(row["name"] for row in rows if row["verdict"] == _UNACCOUNTED)

    def _headline(self) -> str:
        missing = sum(each.verdict == _UNACCOUNTED for each in self.tensors)
        parts = [counted(number, what) for number, what in ((missing, "tensor"), (self.nodes[_UNACCOUNTED], "node")) if number]
        return f"{counted(len(self.tensors), 'tensor')}, {counted(sum(self.nodes.values()), 'node')}: " + (
            " and ".join(parts) + " unaccounted" if parts else "all accounted for") + (
            f"; {self.numbers.lines()[0]}" if self.numbers is not None else "")

    def _table(self) -> Table:
        total = sum(self.bytes.values()) or 1
        return Table(("verdict", "tensors", "bytes", ""), [
            (verdict, sum(each.verdict == verdict for each in self.tensors), count, Bar.of(count / total))
            for verdict, count in self.bytes.items()])


@dataclass(frozen=True, repr=False)
class RefitReport(Printed):
    """What ``refit`` put into a file."""

    path: Path | None           # None for a check without output
    replaced: int               # tensors from the new weights
    constants: int              # tensors of the program, which stay
    calibrated: int             # ranges of activations, which stay
    bounded: tuple[str, ...]    # tensors that may differ from a new export in the last bits
    unused: tuple[str, ...]     # parameters that the file does not hold
    adapted: int                # parameters that the adapter changes
    products: int               # products of the adapter that became nodes

    def _headline(self) -> str:
        return f"{self.path.name if self.path else 'checked'}: {counted(self.replaced, 'tensor')} from the new weights"

    def _table(self) -> Table:
        counts = {"from the new weights": self.replaced, "constants": self.constants, "calibrated": self.calibrated,
                  "bounded": len(self.bounded), "unused parameters": len(self.unused), "adapted parameters": self.adapted,
                  "added products": self.products}
        return Table(("", "number"), list(counts.items()))


@dataclass(frozen=True, repr=False)
class RecoveredWeights(Printed):
    """Names of parameters by how they were recovered from a file."""

    path: Path | None               # of the safetensors file; None without output
    stored: tuple[str, ...]         # with the file's numbers, in its dtype
    dequantised: tuple[str, ...]    # float32, from integers and their scales
    left_out: tuple[str, ...]       # not in the file, because all elements were one number
    equivalent: tuple[str, ...]     # of folded norms and their products: other numbers with the same effect
    elsewhere: tuple[str, ...]      # of parts of the checkpoint's model that were not recorded
    several_forms: tuple[str, ...]  # also in the file with less precise numbers, for other readers
    missing: dict[str, str]         # with the reason

    def _headline(self) -> str:
        found = len(self.stored) + len(self.dequantised) + len(self.left_out) + len(self.equivalent)
        return f"{counted(found, 'parameter')}, {len(self.missing)} missing"

    def _table(self) -> Table:
        counts = {"stored": self.stored, "dequantised": self.dequantised, "left out": self.left_out,
                  "equivalent": self.equivalent, "elsewhere": self.elsewhere, "missing": self.missing}
        return Table(("", "parameters"), [(name, len(names)) for name, names in counts.items()])


@takes_models("model")
def attest(model: Model, weights: Checkpoint, *, sidecar: str | os.PathLike[str] | None = None,
           values: str | os.PathLike[str] | None = None, output: str | os.PathLike[str] | None = None,
           bom: str | os.PathLike[str] | None = None, tolerance: float | None = None, input_names: InputNames | None = None,
           extra_inputs: ExtraInputs | None = None) -> Attestation:
    """Proves where each tensor of an ONNX file comes from: computes it again from a checkpoint.

    weights  the checkpoint: safetensors, an index of shards, a file of ``torch.save``, a folder with one of them; or a
             model, a torch.export.ExportedProgram or a state dict, whose digest is then that of a temporary file.
    sidecar  the sidecar of the model, for nodes and constants, which are unaccounted without it.
    values   the file of ``record_values``: runs the file on its inputs, and compares its values as ``accuracy`` does, with
             ``tolerance``, ``input_names`` and ``extra_inputs``. Needs the sidecar.
    output   the statement to write, in in-toto's form; ``bom``: the bill of materials, in CycloneDX's form.

    Raises WhenceError for unreadable files, and with ``values`` like ``accuracy``; nothing is written then.
    """
    numbers = None
    with checkpoint_file(weights, "weights") as path:
        if values is None:
            options = _given(("--sidecar", sidecar), ("-o", output), ("--bom", bom))
            raw = run_json("attest", model, "--weights", path, *options, accepted=(0, 1))
        else:
            attested = attested_statement.attest(model, path, sidecar, values, output=output, bom=bom, tolerance=tolerance,
                                                 input_names=input_names, extra_inputs=extra_inputs)
            raw, numbers = attested.statement, attested.numbers
    predicate = raw["predicate"]
    totals = predicate["totals"]
    tensors = tuple(AttestedTensor(row["name"], row["dtype"], tuple(row["dims"]), row["bytes"], row["verdict"],
                                   row.get("from"), tuple(row["modules"])) for row in predicate["tensors"])
    is_complete = not predicate["differences"] and not any(each.get("has_effect") for each in predicate["absent"])
    accounted = is_complete and not totals["tensors"][_UNACCOUNTED] and not totals["nodes"][_UNACCOUNTED] and (
        numbers is None or numbers.first_difference is None)
    return Attestation(accounted, tensors, totals["bytes"], totals["nodes"], raw, numbers)


@takes_models("model")
def refit(model: Model, weights: Checkpoint | None = None, *, base: Checkpoint | None = None,
          statement: str | os.PathLike[str] | None = None, lora: str | os.PathLike[str] | None = None,
          sidecar: str | os.PathLike[str] | None = None, output: str | os.PathLike[str] | None = None,
          lora_as_inputs: bool = False, keep_scales: bool = False, overwrite: bool = False) -> RefitReport:
    """Puts new weights into an exported, optimised, quantised file, by the steps that gave each tensor its bytes.

    weights    the new checkpoint, as for ``attest``.
    base       the checkpoint that the file was made from; or ``statement``, the output of ``attest``.
    lora       an adapter of PEFT, its file or folder; it is added to ``weights``, or else to ``base``.
    sidecar    the sidecar of the model, whose constants no checkpoint holds.
    output     the file to write; without it, everything is checked and nothing is written.
    lora_as_inputs  add the adapter as nodes whose factors are optional inputs, instead of merging it.
    keep_scales  keep the scales and zero points of weights; numbers beyond their range are cut off.
    overwrite  replace existing weight files at the paths that the output needs.

    Raises WhenceError: E0211, listing each tensor or parameter that does not allow it; nothing is written then.
    """
    options = _given(("--statement", statement), ("--lora", lora), ("--sidecar", sidecar), ("-o", output))
    flags = (("--lora-as-inputs", lora_as_inputs), ("--keep-scales", keep_scales), ("--overwrite", overwrite))
    options += [flag for flag, is_set in flags if is_set]
    with checkpoint_file(weights, "weights") as new, checkpoint_file(base, "base") as old:
        raw = run_json("refit", model, *_given(("--weights", new), ("--base", old)), *options)
    return RefitReport(Path(output) if output else None, raw["replaced"], raw["constants"], raw["calibrated"],
                       tuple(raw["bounded"]), tuple(raw["unused"]), raw["adapted"], raw["products"])


@takes_models("model")
def weights(model: Model, base: Checkpoint | None = None, *, statement: str | os.PathLike[str] | None = None,
            sidecar: str | os.PathLike[str] | None = None, split_norms: bool = False,
            output: str | os.PathLike[str] | None = None, overwrite: bool = False) -> RecoveredWeights:
    """Recovers the parameters of a model from an exported, optimised, quantised file.

    base         the checkpoint that the file was made from, for names and forms; or ``statement``, the output of
                 ``attest``.
    sidecar      the sidecar of the model.
    split_norms  for a norm that was folded into a product: the product gets the file's numbers, and the norm numbers
                 that change nothing.
    output       the safetensors file to write; without it, only the report.
    overwrite    replace an existing file.

    ``missing`` of the result names what cannot be recovered. Raises WhenceError: E0401 for an existing file.
    """
    options = _given(("--statement", statement), ("--sidecar", sidecar), ("-o", output))
    options += [flag for flag, is_set in (("--split-norms", split_norms), ("--overwrite", overwrite)) if is_set]
    with checkpoint_file(base, "base") as path:
        raw = run_json("weights", model, *_given(("--base", path)), *options, accepted=(0, 1))
    return RecoveredWeights(Path(output) if output else None, tuple(raw["stored"]), tuple(raw["dequantised"]),
                            tuple(raw["left_out"]), tuple(raw["equivalent"]), tuple(raw["elsewhere"]),
                            tuple(raw["several_forms"]),
                            raw["missing"])


def _given(*options: tuple[str, Any]) -> list[Any]:
    return [word for option, value in options if value is not None for word in (option, value)]
