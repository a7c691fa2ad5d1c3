"""Scores a whence command on the corpus: checks each node's module and whether its confidence is justified.

    score.py [--whence PATH] [--folder build/accuracy] [--models a,b] [--sources dynamo-18,...] [--files renamed,...]
             [--with sidecar|values|weights|scripted|nothing|before|right-before] [-v]

The input of the command is the bare file and the data of `--with`, never the truth:

    sidecar       the recording of the traced archive
        values        additionally the recorded results of its modules and operations on the inputs of the corpus
        weights       no recording, only the model's weights as libraries publish them: safetensors, each tensor once
        scripted      the recording of the scripted archive, if there is one
        nothing       only the file
        before        `--from` the tool's input file, annotated with the sidecar by the same command
        right-before  `--from` the tool's input file, annotated with its truth: measures only the loss by carrying

The answer is read from the annotated file: `pkg.whence.modules`, or else `pkg.whence.module`. The classes of answers
for nodes with known truth:

        exact   the modules are the node's true modules, and `module` is their lowest common ancestor
        set     `module` is right, but `modules` lacks a module of a fused node or names a wrong one
    high    an ancestor of the right module
    wrong   anything else
    none    no module

`call` is the percentage of exact nodes of a single call that have the right call number.

-v lists every node that is not exact: file, node, truth, answer, confidence, rule.
"""

import argparse
import collections
import concurrent.futures
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "tests"), str(root / "python")]

import onnx
import torch
import whence as whence_package
from safetensors.torch import save_file
from whence.numerics import value_pairs

import command
from accuracy import corpus, report
from accuracy.graphs import all_nodes, metadata
from accuracy.models import NAMES
from accuracy.transformations import BY_NAME, Transformation
from accuracy.truth import Truth, common_ancestor, is_ancestor, modules

FULFILLING = {"ancestor": ("exact", "set", "high")}  # answers that fulfil a confidence's promise; default: exact
RECORDINGS = {"scripted": "scripted"}
FROM = {"before", "right-before"}


@dataclass
class Answer:
    module: str | None
    modules: frozenset
    call: str
    confidence: str
    rule: str


@dataclass
class Score:
    """Counts for one file, or the sum of several. `nodes` lists the nodes that are not exact."""

    classes: collections.Counter = field(default_factory=collections.Counter)
    confidence: dict = field(default_factory=lambda: collections.defaultdict(collections.Counter))
    calls: collections.Counter = field(default_factory=collections.Counter)  # exact nodes, by whether the call is right
    unknown: int = 0
    failures: list = field(default_factory=list)
    nodes: list = field(default_factory=list)  # (key, operator, truth, answer, class)

    def add(self, other: "Score") -> None:
        self.classes += other.classes
        self.calls += other.calls
        self.unknown += other.unknown
        self.failures += other.failures
        self.nodes += other.nodes
        for name, counts in other.confidence.items():
            self.confidence[name] += counts

    def total(self) -> int:
        return self.classes.total()

    def fulfilled(self, confidence: str) -> float:
        """Returns the percentage of nodes that fulfil the promise of this confidence."""
        counts = self.confidence[confidence]
        right = sum(counts[kind] for kind in FULFILLING.get(confidence, ("exact",)))
        return 100 * right / counts.total() if counts else 100.0

    def share(self, name: str) -> float:
        return 100 * self.classes[name] / self.total() if self.total() else float("nan")

    def calls_right(self) -> float:
        return 100 * self.calls[True] / self.calls.total() if self.calls else float("nan")


def answer_of(node: onnx.NodeProto) -> Answer:
    keys = metadata(node)
    module = keys.get("pkg.whence.module")
    named = json.loads(keys["pkg.whence.modules"]) if "pkg.whence.modules" in keys else [module]
    return Answer(module, frozenset(named), keys.get("pkg.whence.call", ""),
                  keys.get("pkg.whence.confidence", "none"), keys.get("pkg.whence.rule", ""))


def classify(expected: frozenset, answer: Answer) -> str:
    if answer.module is None or answer.confidence == "unattributed":
        return "none"
    right = common_ancestor(expected)
    if answer.module == right:
        return "exact" if answer.modules == expected else "set"
    return "high" if is_ancestor(answer.module, right) else "wrong"


def score_file(truth: Truth, annotated: Path) -> Score:
    score, model = Score(unknown=len(truth.unknown)), onnx.load(annotated, load_external_data=False)
    found = dict(all_nodes(model))
    for key, calls in truth.nodes.items():
        answer, expected = answer_of(found[key]), modules(calls)
        kind = classify(expected, answer)
        score.classes[kind] += 1
        score.confidence[answer.confidence][kind] += 1
        if kind == "exact" and len(calls) == 1 and min(calls)[1] >= 0:
            score.calls[answer.call == str(min(calls)[1])] += 1
        if kind != "exact":
            score.nodes.append((key, found[key].op_type, sorted(expected), answer, kind))
    return score


def annotate(whence: Path, *arguments) -> str:
    """Runs the command; returns its error, or an empty string. Exit code 1 means findings, not a failure."""
    result = subprocess.run([str(whence), "annotate", *map(str, arguments)], capture_output=True, text=True,
                            timeout=600, stdin=subprocess.DEVNULL)
    return "" if result.returncode in (0, 1) else f"exit {result.returncode}: {result.stderr.strip()[:300]}"


def score_row(whence: Path, source_folder: Path, row: Transformation, evidence: str) -> Score | None:
    """Returns the score of one corpus file; None if the corpus lacks it."""
    model = source_folder / f"{row.name}.onnx"
    recording = source_folder.parent / f"{RECORDINGS.get(evidence, 'model')}.whence.json"
    if not model.exists() or not recording.exists() or (evidence in FROM and row.tool is None):
        return None
    if evidence == "values" and row.name.endswith("extracted"):
        return None  # the recorded inputs do not fit an extracted part
    truth = Truth.load(source_folder / f"{row.name}.truth.json")
    with tempfile.TemporaryDirectory() as folder:
        out, before, error = Path(folder) / "out.onnx", Path(folder) / "before.onnx", ""
        options = [] if evidence == "nothing" else ["--sidecar", recording]
        if evidence == "weights":
            options = ["--weights", weights_of(source_folder.parent)]
        if evidence == "values":
            pairs = Path(folder) / "pairs.json"
            try:
                value_pairs.write(pairs, model, values_of(source_folder.parent), recording)
                options += ["--value-pairs", pairs]
            except whence_package.WhenceError as failure:  # ONNX Runtime cannot run the file
                error = str(failure)
        if evidence == "before":
            error = annotate(whence, source_folder / f"{row.base}.onnx", "-o", before, "--sidecar", recording)
        elif evidence == "right-before":
            write_truth(source_folder, row.base, before)
        if evidence in FROM:
            options = ["--from", before]
        error = error or annotate(whence, model, "-o", out, *options)
        if not error:
            return score_file(truth, out)
    score = Score(unknown=len(truth.unknown), failures=[error])
    score.classes["none"] = score.confidence["failed"]["none"] = len(truth.nodes)
    return score


@functools.cache
def values_of(folder: Path) -> Path:
    """Records the results of a model's archive on the inputs of the corpus, once."""
    path = folder / "model.values.safetensors"
    if not path.exists():
        inputs = torch.load(folder / "inputs.pt")
        whence_package.record_values(torch.jit.load(folder / "model.pt"), (), path, kwargs=inputs, operations=True)
    return path


@functools.cache
def weights_of(folder: Path) -> Path:
    """Saves the model's state with one name per tensor, as transformers does."""
    path = folder / "model.safetensors"
    if not path.exists():
        seen: set[int] = set()
        state = {name: tensor for name, tensor in torch.jit.load(folder / "model.pt").state_dict().items()
                 if tensor.data_ptr() not in seen and not seen.add(tensor.data_ptr())}
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, path)
    return path


def write_truth(source_folder: Path, name: str, target: Path) -> None:
    """Annotates a file with its truth, as a perfect matcher would."""
    model, truth = onnx.load(source_folder / f"{name}.onnx"), Truth.load(source_folder / f"{name}.truth.json")
    for key, node in all_nodes(model):
        if key in truth.nodes:
            named = sorted(modules(truth.nodes[key]))
            keys = {"pkg.whence.module": common_ancestor(named), "pkg.whence.confidence": "exact",
                    "pkg.whence.rule": "exported"}
            if len(named) > 1:
                keys["pkg.whence.modules"] = json.dumps(named, separators=(",", ":"))
            for entry, value in keys.items():
                node.metadata_props.add(key=entry, value=value)
    model.ir_version = max(model.ir_version, 10)
    onnx.save(model, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whence", type=Path, default=command.BINARY)
    parser.add_argument("--folder", type=Path, default=corpus.FOLDER)
    parser.add_argument("--models")
    parser.add_argument("--sources")
    parser.add_argument("--files")
    parser.add_argument("--with", dest="evidence", default="sidecar",
                        choices=["sidecar", "values", "weights", "scripted", "nothing", "before", "right-before"])
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    keys = list(itertools.product(corpus.names(options.models, NAMES), corpus.names(options.sources, corpus.SOURCES),
                                  corpus.names(options.files, BY_NAME)))

    def score_one(key: tuple) -> Score | None:
        return score_row(options.whence, options.folder / key[0] / key[1], BY_NAME[key[2]], options.evidence)

    prepare = {"values": values_of, "weights": weights_of}.get(options.evidence)
    for name in corpus.names(options.models, NAMES) if prepare else ():
        prepare(options.folder / name)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        scores = {key: score for key, score in zip(keys, pool.map(score_one, keys), strict=True) if score is not None}
    print(report.text(scores, options.verbose), end="")
    print(report.failed_files(corpus.failures(options.folder, keys)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
