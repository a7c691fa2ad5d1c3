"""Exports the samples with which PyTorch tests its operators (OpInfo), and runs them in ONNX Runtime.

    python tests/bench/operator_samples.py [--float 5] [--integers 2] [--results FILE] [linalg. nn.functional.pad ...]

Selects float32 and int64 samples, evenly spread, of every operator whose name starts with one of the words (default:
all of `op_db`). Each sample is traced with its tensors as inputs, exported by the command, and run on the traced values
and on others. The reference is the archive in PyTorch. Random and undefined results (`empty`) are compared only in
dtype and shape.

Each finished operator is a line of FILE; operators with a line are not run again. Exits with 1 if a result is wrong or
the command has a defect. Needs `pip install expecttest`, which PyTorch's samples import.
"""

import argparse
import collections
import functools
import itertools
import json
import os
import random
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import Iterator, TextIO

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is loaded; processes run in parallel
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

import command
from ops.case import fixed, same
from ops.comparing import flat, open_session, run_reference
from processes import Results, run_each
from results import assert_same_results

MAX_SAMPLES = 200  # a few operators have thousands
TOLERANCE = (1e-4, 1e-5)  # absolute: times the largest number, because samples up to 9 are summed and multiplied
# Prefixes of operators with conditions on their values, such as ascending bounds or a nonsingular matrix: their other
# values are multiples of the traced values.
STRUCTURED = ("bucketize", "searchsorted", "linalg.", "cholesky", "triangular_solve", "logdet")
# Operators for which PyTorch's kernel decides which of several equal elements to return; only elements are compared.
ARBITRARY_INDICES = {"kthvalue", "topk"}
SECONDS = 120  # for one operator
RIGHT, REFUSED, NOT_RUN, WRONG, DEFECT = "right", "refused", "does not run", "WRONG", "DEFECT"
UNSUITABLE, FAILED = "left out", "THIS SCRIPT FAILED"
FAULTS = (DEFECT, WRONG, FAILED)  # an operator with several faults is listed under the first of these


class Unsuitable(Exception):
    """PyTorch cannot trace the sample, or cannot save it."""


def name_of(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


class Sample:
    """One call of an operator, with its tensors separated from its other arguments."""

    def __init__(self, op: OpInfo, sample: SampleInput):
        self.op, self.structured = op.op, op.name.startswith(STRUCTURED)
        leaves, self.structure = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[place].detach() for place in self.places]
        self.names = [f"input{number}" for number in range(len(self.places))]
        if any(tensor.layout != torch.strided or tensor.is_nested for tensor in self.tensors):
            raise Unsuitable("an input is not dense")

    def call(self, *tensors: torch.Tensor):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        first, rest, named = pytree.tree_unflatten(leaves, self.structure)
        results = [leaf for leaf in pytree.tree_leaves(self.op(first, *rest, **named)) if isinstance(leaf, torch.Tensor)]
        if not results:
            raise Unsuitable("no result is a tensor")
        return results[0] if len(results) == 1 else tuple(results)

    def archive(self, path: Path) -> torch.jit.ScriptModule:
        """Writes the trace and returns it loaded from the file."""
        arguments = ", ".join(self.names)
        scope = {"call": self.call}
        exec(f"def forward(self, {arguments}): return call({arguments})", scope)  # noqa: S102, the inputs get these names
        module = type("Operator", (torch.nn.Module,), {"forward": scope["forward"]})().eval()
        try:
            torch.jit.trace(module, tuple(self.copies()), check_trace=False).save(str(path))
            return torch.jit.load(path)
        except Unsuitable:
            raise
        except Exception as error:
            raise Unsuitable(f"PyTorch cannot trace it: {first_line(error)}") from error

    def copies(self) -> list[torch.Tensor]:
        return [tensor.clone() for tensor in self.tensors]

    def values_at(self, x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> list[torch.Tensor]:
        """Returns the results of f(x, k, dim=-1) with the elements at the indices instead of the indices."""
        (_, (_, *rest), named) = pytree.tree_unflatten(self.leaves, self.structure)
        axis = rest[0] if rest else named.get("dim", -1)
        places = indices if indices.dim() == x.dim() else indices.unsqueeze(axis)
        return [values, x.gather(axis, places), torch.empty_like(indices).zero_()]

    def feeds(self) -> Iterator[tuple[str, list[torch.Tensor]]]:
        yield "the traced values", self.tensors
        if self.structured:
            yield "multiples", [tensor * 1.25 if tensor.is_floating_point() else tensor for tensor in self.tensors]
        else:
            yield "other values", [fixed(tensor).second for tensor in self.tensors]


def first_line(error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def samples(op: OpInfo, dtype: torch.dtype, count: int) -> list[SampleInput]:
    """Returns `count` samples, evenly spread over the operator's samples; the same ones in each run."""
    if not count or dtype not in op.supported_dtypes("cpu"):
        return []
    torch.manual_seed(0)
    random.seed(0)
    candidates = list(itertools.islice(op.sample_inputs("cpu", dtype), MAX_SAMPLES))
    count = min(count, len(candidates))
    return [candidates[index * len(candidates) // count] for index in range(count)]


def expected_results(archive, tensors: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    return run_reference(archive, tensors)


def is_random(op: OpInfo, archive, tensors: list[torch.Tensor]) -> bool:
    if op.has_nondeterministic_output:
        return True
    first, *others = (expected_results(archive, tensors, seed) for seed in range(8))  # short booleans repeat by chance
    return not all(same(one, another) for other in others for one, another in zip(first, other, strict=True))


def compare(sample: Sample, op: OpInfo, archive, path: Path) -> tuple[str, str]:
    """Runs the exported file. Returns the outcome and its reason."""
    try:
        session = open_session(path)
    except Exception as error:  # noqa: BLE001, ONNX Runtime raises many types
        return NOT_RUN, first_line(error)
    input_names = {value.name for value in session.get_inputs()}
    has_random_results = is_random(op, archive, sample.tensors)
    for what, tensors in sample.feeds():
        try:
            expected = expected_results(archive, tensors, seed=0)
        except Exception as error:
            if tensors is sample.tensors:
                raise Unsuitable(f"PyTorch cannot run its archive: {first_line(error)}") from error
            continue  # invalid values for the operator
        if any(each.dtype == torch.bfloat16 for each in expected):
            raise Unsuitable("NumPy has no bfloat16, the dtype of ONNX Runtime's result")
        feed = {name: flat(tensor)[0].contiguous().numpy()
                for name, tensor in zip(sample.names, tensors, strict=True) if name in input_names}
        try:
            actual = [torch.from_numpy(each) for each in session.run(None, feed)]
        except Exception as error:  # noqa: BLE001
            return NOT_RUN, f"with {what}: {first_line(error)}"
        if op.name in ARBITRARY_INDICES:
            actual, expected = (sample.values_at(tensors[0], *results) for results in (actual, expected))
        if has_random_results:
            actual, expected = ([torch.zeros_like(each) for each in results] for results in (actual, expected))
        try:
            assert_same_results(actual, expected, TOLERANCE, scaled=True)
        except AssertionError as error:
            return WRONG, f"with {what}: {' '.join(str(error).split())[:400]}"
    return RIGHT, ""


def judge(op: OpInfo, sample_input: SampleInput, folder: Path) -> tuple[str, str]:
    """Returns the outcome of one sample and its reason."""
    sample = Sample(op, sample_input)
    archive = sample.archive(folder / "operator.pt")
    torch.save(tuple(sample.copies()), folder / "inputs.pt")
    arguments = ["export", folder / "operator.pt", "-o", folder / "operator.onnx"]
    arguments += ["--inputs", folder / "inputs.pt"] if sample.tensors else []
    result = command.run_quickly(list(map(str, arguments)), dict(os.environ))
    if result.returncode == 0:
        return compare(sample, op, archive, folder / "operator.onnx")
    codes = re.findall(r"E0\d{3}", result.stderr)
    if result.returncode < 0 or result.returncode == command.BUG or "E0901" in codes or not codes:
        return DEFECT, f"exit {result.returncode}: {result.stderr[-1500:]}"
    line = next(line for line in result.stderr.splitlines() if codes[0] in line)
    return REFUSED, line[:400]


def judge_all(op: OpInfo, lines: TextIO, folder: Path, counts: dict[torch.dtype, int]) -> None:
    """Writes a line before and after each sample, so that the last line shows where a process died."""
    for dtype, count in counts.items():
        for number, sample in enumerate(samples(op, dtype, count)):
            place = f"{str(dtype).removeprefix('torch.')} {number}: {sample.summary()}"[:300]
            print(json.dumps({"sample": place}), file=lines, flush=True)
            try:
                outcome, why = judge(op, sample, folder)
            except Unsuitable as error:
                outcome, why = UNSUITABLE, str(error)
            except Exception:  # noqa: BLE001, the other samples must still run
                outcome, why = FAILED, traceback.format_exc()[-600:]
            print(json.dumps({"sample": place, "outcome": outcome, "why": why}), file=lines, flush=True)


def row_of(op: OpInfo, lines: list[dict], why: str) -> dict:
    """Returns the row of an operator's samples. If the process ended early, the last sample has no outcome."""
    finished = [line for line in lines if "outcome" in line]
    if why:
        last = lines[-1]["sample"] if lines and "outcome" not in lines[-1] else "no sample"
        finished.append({"sample": last, "outcome": NOT_RUN, "why": why})
    return {"operator": name_of(op), "verdict": verdict(finished), "samples": finished}


def verdict(rows: list[dict]) -> str:
    """Returns an operator's worst fault, or whether the samples that PyTorch can trace are right: `whole`, `part`."""
    outcomes = [row["outcome"] for row in rows if row["outcome"] != UNSUITABLE]
    for fault in FAULTS:
        if fault in outcomes:
            return fault
    if not outcomes:
        return UNSUITABLE
    if RIGHT in outcomes:
        return "whole" if set(outcomes) == {RIGHT} else "part"
    return NOT_RUN if NOT_RUN in outcomes else REFUSED


def show(row: dict) -> None:
    print(f"{row['verdict']:12} {row['operator']}")
    seen = set()
    for sample in row["samples"]:
        if sample["outcome"] != RIGHT and (sample["outcome"], sample["why"]) not in seen:
            seen.add((sample["outcome"], sample["why"]))
            print(f"             {sample['outcome']}: {sample['sample'][:160]}\n                 {sample['why']}")
    sys.stdout.flush()


def pending_operators(options: argparse.Namespace, done: set[str]) -> list[OpInfo]:
    return [op for op in sorted(op_db, key=name_of) if name_of(op) not in done
            and (not options.names or name_of(op).startswith(tuple(options.names)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--float", type=int, default=5, help="float32 samples of an operator")
    parser.add_argument("--integers", type=int, default=2, help="int64 samples of an operator")
    parser.add_argument("--results", type=Path, help="JSON Lines, one line per operator; read first, then appended to")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", help="prefixes of operator names")
    options = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    command.server()  # before the first fork, so that all processes share it

    results = Results(options.results)
    judge_samples = functools.partial(judge_all, counts={torch.float32: options.float, torch.int64: options.integers})
    waiting = pending_operators(options, {row["operator"] for row in results.rows})
    for op, lines, why in run_each(waiting, judge_samples, SECONDS, options.jobs):
        row = row_of(op, lines, why)
        results.add(row)
        show(row)

    totals = collections.Counter(row["verdict"] for row in results.rows)
    sample_totals = collections.Counter(sample["outcome"] for row in results.rows for sample in row["samples"])
    for title, counts in (("operators", totals), ("samples", sample_totals)):
        print(f"{sum(counts.values())} {title}: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return 1 if any(totals[fault] for fault in FAULTS) else 0


if __name__ == "__main__":
    sys.exit(main())
