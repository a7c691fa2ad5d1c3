"""Judges a program: exports it, and compares the file with PyTorch at every size at which PyTorch runs it.

| word | means |
|---|---|
| right | the file computes PyTorch's results at every size |
| refused | exit 4, with a code and a reason |
| fixed | right, but the file fixes an axis to the example's size |
| warned | wrong or failing at some size, but the file warns or states a condition that the size violates |
| wrong, does not run, crash, error | failures: the same without a condition or warning |
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnxruntime
import torch

import command
from constraints import constraints_of
from export_routes import Archive, export, make_archive
from program_text import Program
from results import assert_same_results
from running import bounded_memory, compile_forward, eager, make_inputs, results_of

FAILURES = ("wrong", "does not run", "crash", "error")
WORDS = ("right", "refused", "fixed", "warned", *FAILURES)
TOLERANCE = (1e-4, 1e-4)
SIZE_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Verdict:
    word: str
    reason: str = ""  # of a refusal or failure; the same for the same cause
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.word in FAILURES


def open_session(model: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


@bounded_memory()
def judge(program: Program, route: str, folder: Path) -> Verdict | None:
    """Returns None if PyTorch refuses the program or runs it at fewer than three sizes."""
    expected = eager(program)
    if expected[0] is None or sum(each is not None for each in expected) < 3:
        return None
    archive = make_archive(route, program, folder)
    if archive is None:
        return None
    model = folder / "program.onnx"
    result = export(program, route, archive, model)
    if result.code < 0 or result.code == command.BUG:
        return Verdict("crash", result.reason, result.stderr)
    if result.code != 0 and not archive_gives_the_results(program, archive, expected):
        return None
    if result.code == 4:
        return Verdict("refused", result.reason, result.stderr)
    if result.code != 0:
        return Verdict("error", result.reason, result.stderr)
    return compare(program, archive, model, expected, result)


def archive_gives_the_results(program: Program, archive: Archive, expected) -> bool:
    """Returns false if PyTorch's archive of the program fails or gives other results at any size."""
    for number, results in enumerate(expected):
        if results is not None:
            archive_results = results_of(archive.forward, make_inputs(program, number))
            if archive_results is None or not same(archive_results, results):
                return False
    return True


def compare(program: Program, archive: Archive, model: Path, expected, result) -> Verdict | None:
    try:
        session = open_session(model)
    except Exception as error:
        return Verdict("does not run", "not loaded", f"{error}"[:600])
    conditions = conditions_of(model)
    fixed, compared, outside = False, 0, None
    for number, results in enumerate(expected):
        if results is None:
            continue
        inputs = make_inputs(program, number)
        feed = {each.name: tensor for each, tensor in zip(program.inputs, inputs, strict=True)}
        verdict = ("fixed", "") if not accepts(session, feed) else compare_at(session, feed, results)
        if verdict and verdict[0] == "wrong" and rounding_decides(program, inputs, results):
            continue
        if verdict is None:
            compared += 1
            continue
        if verdict[0] != "fixed" and not conditions.hold(feed):
            outside = describe(("warned", verdict[1]), program, number, result, "which the file excludes")
            continue
        # PyTorch's archive of the program may fail or give other results. Checked last because it takes longer.
        archive_results = results_of(archive.forward, inputs)
        if archive_results is None and archive.has_guards:
            # A torch.export archive does not cover sizes 0 and 1, which torch.export specialises.
            if verdict[0] != "fixed" and min(sizes_in(program, number)) >= 2:
                return describe(verdict, program, number, result, "refused by the archive's guards")
            compared += 1  # both refuse this size
            continue
        if archive_results is None or not same(archive_results, results):
            if number == 0:
                return None
            continue
        if verdict[0] != "fixed":
            return describe(verdict, program, number, result)
        fixed = True
    if outside:
        return outside
    if fixed:
        return Verdict("fixed", "" if result.warned else "no warning", result.stderr)
    return Verdict("right", "warned" if result.warned else "", result.stderr) if compared > 1 else None


def accepts(session, feed: dict[str, torch.Tensor]) -> bool:
    """Returns false if the file fixes an axis to another size."""
    return all(not isinstance(size, int) or size == feed[each.name].shape[axis]
               for each in session.get_inputs() for axis, size in enumerate(each.shape))


PERTURBATIONS = 40  # of the inputs' last bits: first all elements by the same factor, then each by its own


def rounding_decides(program: Program, inputs: list[torch.Tensor], expected) -> bool:
    """Returns true if PyTorch's results change considerably when the inputs change in their last bits, for example if
    the sum of values with mean 0 is a factor."""
    forward = compile_forward(program.source())
    relative, absolute = TOLERANCE
    generator = torch.Generator().manual_seed(0)
    for trial in range(PERTURBATIONS):
        def perturbed(each: torch.Tensor) -> torch.Tensor:
            steps = torch.randint(-4, 5, each.shape, generator=generator) if trial else torch.tensor(4)
            return each * (1 + steps * 2**-24) if each.is_floating_point() else each

        perturbed_results = results_of(lambda *tensors: forward(None, *tensors), [perturbed(each) for each in inputs])
        if perturbed_results is not None and not same(perturbed_results, expected, (relative / 10, absolute / 10)):
            return True
    return False


@dataclass(frozen=True)
class SizeConditions:
    """The sizes that a file accepts: the axes of its inputs, and its conditions."""

    axes: dict[str, list[str | int]]  # by input: "n", "2*n + 1"
    conditions: list[str]  # "n != 1", "Min(n, 3) <= 2 or m == 1"

    def hold(self, feed: dict[str, torch.Tensor]) -> bool:
        pairs = [(text, size) for name, axes in self.axes.items()
                 for text, size in zip(axes, feed[name].shape, strict=True) if isinstance(text, str)]
        sizes = {text: size for text, size in pairs if text.isidentifier()}
        names = {**sizes, "Min": min, "Max": max, "Mod": lambda a, b: a % b}
        named = [(text, size) for text, size in pairs if set(SIZE_NAME.findall(text)) <= names.keys()]
        try:
            return all(eval(text, names) == size for text, size in named) and \
                all(eval(text, names) for text in self.conditions)
        except ZeroDivisionError:  # "4 % n == 0" with n = 0
            return False


def conditions_of(model: Path) -> SizeConditions:
    file = onnx.load(str(model), load_external_data=False)
    axes = {each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim]
            for each in file.graph.input}
    return SizeConditions(axes, constraints_of(model))


def same(actual, expected, tolerance: tuple[float, float] = TOLERANCE) -> bool:
    try:
        assert_same_results(actual, expected, tolerance, scaled=True)
    except AssertionError:
        return False
    return True


def compare_at(session, feed: dict[str, torch.Tensor], expected) -> tuple[str, str] | None:
    """Returns the verdict's word and the difference, or None if the results agree."""
    names = {each.name for each in session.get_inputs()}
    try:
        found = session.run(None, {name: tensor.numpy() for name, tensor in feed.items() if name in names})
    except Exception as error:
        return "does not run", f"{error}"[:600]
    try:
        assert_same_results(found, expected, TOLERANCE, scaled=True)
    except AssertionError as error:
        return "wrong", f"{error}"[:300]
    return None


def sizes_in(program: Program, number: int) -> set[int]:
    return {program.sizes[number][axis] for each in program.inputs for axis in each.dynamic_axes().values()}


def describe(verdict: tuple[str, str], program: Program, number: int, result, addition: str = "") -> Verdict:
    word, detail = verdict
    sizes = sizes_in(program, number)
    where = "at the example's size" if number == 0 else "at size 0" if 0 in sizes else \
        "at size 1" if 1 in sizes else "at another size"
    if node := re.search(r"running (\w+) node", detail):
        where += f", {node[1]}"
    detail = f"at {program.sizes[number]}: {detail}\n{result.stderr}"
    return Verdict("warned" if result.warned else word, " ".join(filter(None, [where, addition])), detail)


@dataclass
class Tally:
    """Counts verdicts: of all programs, and of the programs with each kind of statement."""

    words: Counter = field(default_factory=Counter)
    kinds: dict[str, Counter] = field(default_factory=dict)
    reasons: Counter = field(default_factory=Counter)

    def add(self, program: Program, verdict: Verdict | None) -> None:
        word = verdict.word if verdict else "not counted"
        self.words[word] += 1
        for kind in program.kinds():
            self.kinds.setdefault(kind, Counter())[word] += 1
        if verdict and verdict.reason:
            self.reasons[word, verdict.reason] += 1

    def update(self, other: "Tally") -> None:
        self.words.update(other.words)
        self.reasons.update(other.reasons)
        for kind, counts in other.kinds.items():
            self.kinds.setdefault(kind, Counter()).update(counts)

    @property
    def judged(self) -> int:
        return sum(self.words[word] for word in WORDS)
