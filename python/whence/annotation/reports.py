"""``annotate``, ``validate`` and ``compare``: run these commands and return their output as objects."""

from __future__ import annotations

import html
import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.report_printing import Bar, Printed, Table, counted, module_labels
from ..command.process import run_json
from ..errors import Diagnostic, error, require_list
from ..files.model_files import Model, takes_models

if TYPE_CHECKING:
    from .carry_check import CarryCheck
    from ..numerics.file_inputs import ExtraInputs, InputNames
    from ..numerics.validate_command import Proof
    from ..values.value_file import Values

CONFIDENCES = ("exact", "matched", "inferred", "ancestor", "unattributed")


@dataclass(frozen=True, repr=False)
class AnnotateReport(Printed):
    """Numbers of nodes by confidence."""

    path: Path | None  # None for a model in memory that was edited in place
    nodes: int
    exact: int
    matched: int
    inferred: int
    ancestor: int
    unattributed: int
    changed: bool
    diagnostics: tuple[Diagnostic, ...]
    shortfalls: tuple[str, ...] = ()  # messages about minima that were not reached
    check: CarryCheck | None = None  # of ``carry(check=...)``

    @classmethod
    def from_json(cls, path: Path, report: dict[str, Any]) -> AnnotateReport:
        return cls(path, report["nodes"], *(report[name] for name in CONFIDENCES), report["changed"],
                   tuple(map(Diagnostic.from_json, report["diagnostics"])), tuple(report.get("shortfalls", ())))

    def _headline(self) -> str:
        counts = {word: getattr(self, word) for word in CONFIDENCES}
        return f"{self.path.name if self.path else 'in memory'}: {counted(self.nodes, 'node')}: " + (", ".join(
            f"{count:,} {word}" for word, count in counts.items() if count) or "none")

    def _details(self) -> list[str]:
        return [*(f"{each.severity}: {each}" for each in self.diagnostics), *(self.check.lines() if self.check else ())]

    def _table(self) -> Table:
        counts = {word: getattr(self, word) for word in CONFIDENCES}
        return Table(("confidence", "nodes", ""), [(word, count, Bar.of(count / max(self.nodes, 1)))
                                                   for word, count in counts.items()])


@takes_models("model", "source", written="output", in_place_unless=("functions", "values"))
def annotate(model: Model, sidecar: str | os.PathLike[str] | None = None, *,
             output: str | os.PathLike[str] | None = None, source: Model | None = None,
             weights: str | os.PathLike[str] | None = None, keys: Collection[str] = (), names: bool = True,
             carry: bool = False, functions: str | None = None,
             minima: Collection[str] = (), allow_different_weights: bool = False, overwrite: bool = False, copy_data: bool = False,
             values: Values | str | os.PathLike[str] | None = None,
             outputs: str | os.PathLike[str] | None = None, input_names: InputNames | None = None,
             extra_inputs: ExtraInputs | None = None) -> AnnotateReport:
    """Writes the origin of every node into an ONNX file, atomically, or into a model in memory; in place by default.

    model    a path, an ONNXProgram, or a model in memory: an onnx.ModelProto, an onnx_ir.Model or the result of
             ``torch.onnx.export``. Its large weights are not copied.
    output   the file to write, instead of changing ``model``. A model in memory needs one for ``functions`` and
             ``values``.
    sidecar  the sidecar of the model. Alternatively ``source``: the annotated file from which a tool made ``model``.
             By default, the sidecar next to the file is used, or else the names in the file.
    weights  alternatively, the published weights of the model: safetensors, an index of shards, a file from
             ``torch.save``, or a folder that contains one. Nodes are identified by the parameters that they read.
    keys     write only these metadata keys, each in full or by its last part: ["module", "source", "namespace"].
    names    name nodes after their modules.
    carry    also write each node's name into its doc_string, which survives ONNX Runtime and onnxsim.
    functions  modules to turn into ONNX functions, one for each unique block: "auto", "types=BertLayer",
             "modules=encoder.layer.*" or "depth=2".
    minima   minimum shares, as for ``validate``: ["covered=95"]; the report lists unmet minima as ``shortfalls``.
    allow_different_weights  match by structure even if the weights differ from the sidecar's.
    overwrite  replace existing weight files at the paths that the output needs.
    copy_data  copy the weights if ``output`` is in the model's folder; by default it refers to the model's files.
    values   values of the sidecar's model from ``record_values``, or their file: ``model`` runs in ONNX Runtime, and a
             value that equals the result of a recorded operation is attributed to that operation, whatever its name.
    outputs  values from another runtime, instead of running the file, as for ``accuracy``.
    input_names, extra_inputs  inputs of the run, as for ``accuracy``.

    Raises WhenceError: E0101 for an unknown key or choice of modules, E0206 if the files do not belong together, E02xx
    for broken files, E0401 if a file cannot be written; with ``values`` also the errors of ``accuracy``."""
    target = Path(output or model)
    options = (["--sidecar", sidecar] if sidecar else []) + (["--from", source] if source else [])
    options += ["--weights", weights] if weights else []
    options += ["--keys", ",".join(keys)] if keys else []
    options += ["--functions", functions] if functions else []
    require_list(minima)
    options += [word for each in minima for word in ("--min", each)]
    flags = {"--no-names": not names, "--carry": carry, "--allow-different-weights": allow_different_weights,
             "--overwrite": overwrite, "--copy-data": copy_data}
    options += [flag for flag, is_set in flags.items() if is_set]
    if values is None and (outputs is not None or input_names or extra_inputs):
        raise error("E0101", "usage", "outputs, input_names and extra_inputs need recorded values", "pass values too")
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        if values is not None:
            from ..numerics import file_inputs
            from ..numerics.annotate_command import pairs_for

            overrides = file_inputs.overrides_of(input_names, extra_inputs)
            options += pairs_for(Path(folder), model, values, sidecar, outputs, overrides)
        report = run_json("annotate", model, "-o", target, *options, accepted=(0, 1) if minima else (0,))
    return AnnotateReport.from_json(target, report)


@dataclass(frozen=True)
class Coverage:
    """Numbers of nodes by confidence; ``covered`` is the sum of exact, matched and inferred."""

    nodes: int
    exact: int
    matched: int
    inferred: int
    ancestor: int
    unattributed: int
    covered: int

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.nodes if self.nodes else 100.0


@dataclass(frozen=True, repr=False)
class ValidationReport(Printed):
    """The report of `whence validate --json`; ``raw`` is the complete report (schema/validate.schema.json)."""

    path: Path
    clean: bool
    coverage: Coverage
    findings: list[dict[str, Any]]
    raw: dict[str, Any]
    proof: Proof | None = None  # None without values

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Writes one self-contained page: the coverage, and a table of modules. Returns its path."""
        head = "".join(f"<th>{name}</th>" for name in ("module", "nodes", *CONFIDENCES))
        rows = "".join(
            f"<tr><td>{html.escape(row['path']) or '(root)'}</td><td>{row['nodes']}</td>"
            + "".join(f"<td>{row[name]}</td>" for name in CONFIDENCES) + "</tr>" for row in self.raw["modules"])
        text = (f"<!doctype html><meta charset=utf-8><title>{html.escape(self.path.name)}</title>"
                "<style>body{font:14px sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:right}"
                "td:first-child,th:first-child{text-align:left;font-family:monospace}</style>"
                f"<h1>{html.escape(self.path.name)}</h1><p>{self.coverage.covered} of {self.coverage.nodes} nodes "
                f"({self.coverage.percent:.1f} %) have a module; {len(self.findings)} findings.</p>"
                f"<table><tr>{head}</tr>{rows}</table>\n")
        from ..numerics import model_structure

        return model_structure.write_report(self.path, "the page", path, text)

    def _headline(self) -> str:
        verdict = "clean" if self.clean else counted(len(self.findings), "finding") if self.findings else "not clean"
        return (f"{self.path.name}: {self.coverage.covered:,} of {self.coverage.nodes:,} nodes "
                f"({self.coverage.percent:.1f} %) have a module, {verdict}")

    def _details(self) -> list[str]:
        shown = [f"  {each['code']} {each['message']}" for each in self.findings[:_FINDINGS_SHOWN]]
        more = len(self.findings) - len(shown)
        return shown + ([f"  and {counted(more, 'finding')} more"] if more else []) + (
            [str(self.proof)] if self.proof else [])

    def _table(self) -> Table:
        rows = [row for row in self.raw["modules"] if row["nodes"]]
        return Table(("module", "nodes", *CONFIDENCES, ""), [
            (label, row["nodes"], *(row[word] or "" for word in CONFIDENCES), Bar.of_confidences(row))
            for label, row in zip(module_labels([row["path"] for row in rows]), rows)])


_FINDINGS_SHOWN = 20


@takes_models("model", "baseline", "conformance")
def validate(model: Model, sidecar: str | os.PathLike[str] | None = None, *, min_covered: float | None = None,
             minima: Collection[str] = (), required: Collection[str] = (), baseline: Model | None = None,
             allowed: Collection[str] = (), tolerances: Collection[str] = (),
             config: str | os.PathLike[str] | None = None, conformance: Model | None = None,
             attested: str | os.PathLike[str] | None = None, full: bool = False,
             values: Any = None, input_names: InputNames | None = None,
             extra_inputs: ExtraInputs | None = None) -> ValidationReport:
    """Counts the nodes with origins in an annotated file and checks it. ``clean`` is false if a check fails.

    min_covered  minimum percentage of nodes that must have a module.
    minima       minimum percentages of nodes with a confidence, in the file, some modules or an operator type:
                 ["exact=95", "covered=99@encoder.*", "covered=90@op:MatMul"].
    required     globs of modules that must have nodes, all of them covered.
    baseline     an earlier file, or its `whence validate --json` output: coverage must not drop below it.
    allowed      codes or names of checks to ignore: ["V101"].
    tolerances   numbers of findings to ignore: ["3"] for each check, ["0.5%"] of the nodes, ["V503=2"] for one check.
    config       a JSON file with these settings: {"min": [...], "require": [...], "allow": [...], "baseline": F}.
    attested     a statement of ``attest``: it must be about this file and leave nothing unaccounted (V504).
    conformance  the file from which a tool made ``model``: also checks that the tool kept origins as required by
                 docs/metadata-spec.md (V6xx).
    full         also run onnx's checker and shape inference, which loads the weights.
    values       values from ``record_values``, or their file: runs the file, counts the modules whose results equal the
                 recorded ones (``proved``), and finds values that belong to different modules than the file states.
    input_names, extra_inputs  inputs of that run, as for ``accuracy``.

    Raises WhenceError for unreadable files, E0101 for an invalid share, check or setting.
    """
    options = (["--sidecar", sidecar] if sidecar else []) + (["--full"] if full else [])
    options += ["--min-covered", min_covered] if min_covered is not None else []
    options += (["--baseline", baseline] if baseline else []) + (["--config", config] if config else [])
    options += (["--conformance", conformance] if conformance else []) + (["--attested", attested] if attested else [])
    for option, items in (("--min", minima), ("--require", required), ("--allow", allowed),
                          ("--tolerance", tolerances)):
        require_list(items)
        for each in items:
            options += [option, each]
    raw = run_json("validate", model, *options, accepted=(0, 1))
    proof = None
    if values is not None:
        from ..numerics.validate_command import prove

        proof = prove(model, values, sidecar, input_names, extra_inputs)
    clean = raw["clean"] and (proof is None or not proof.contradictions)
    return ValidationReport(Path(model), clean, Coverage(**raw["coverage"]), raw["findings"], raw, proof)


@dataclass(frozen=True, repr=False)
class Comparison(Printed):
    """Compares a baseline export with an enhanced one of the same model: numbers of nodes by kind of name and by
    confidence from `whence validate`, and bytes of the file without external data."""

    baseline: dict[str, int]
    enhanced: dict[str, int]
    diff: dict[str, Any]  # `whence diff --json`, schema/diff.schema.json

    def _headline(self) -> str:
        return f"{counted(self.baseline['nodes'], 'node')} became {self.enhanced['nodes']:,}: " + _changes(self.diff["changes"])

    def _table(self) -> Table:
        rows = [(name.replace("_", " "), count, self.enhanced[name]) for name, count in self.baseline.items()]
        return Table(("", "baseline", "enhanced"), rows + [(name, "", count) for name, count in self.diff["changes"].items()])


def _changes(counts: dict[str, int]) -> str:
    """Formats counts of changes: "2 added, 1 removed"."""
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "no change"


@takes_models("baseline", "enhanced")
def compare(baseline: Model, enhanced: Model,
            sidecar: str | os.PathLike[str] | None = None) -> Comparison:
    """Compares two exports of one model: kinds of node names, confidence, size, and changes of the nodes.

    ``sidecar`` applies to both files. "bytes" is the size of the ONNX file without external weights.
    Raises WhenceError for unreadable files.
    """
    options = ["--sidecar", sidecar] if sidecar else []
    raw = run_json("validate", enhanced, "--baseline", baseline, *options, accepted=(0, 1))
    return Comparison(_counts(raw["baseline"], baseline), _counts(raw, enhanced),
                      run_json("diff", baseline, enhanced, *options))


_KINDS_OF_NAMES = ("full_hierarchies", "names_alone", "class_scopes", "simple_names")


def _counts(report: dict[str, Any], path: str | os.PathLike[str]) -> dict[str, int]:
    return {"nodes": report["coverage"]["nodes"], **{kind: report["naming"][kind] for kind in _KINDS_OF_NAMES},
            **{word: report["coverage"][word] for word in CONFIDENCES}, "bytes": Path(path).stat().st_size}
