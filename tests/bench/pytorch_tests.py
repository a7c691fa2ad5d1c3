"""Runs the ONNX tests of PyTorch 2.6 with whence instead of PyTorch's exporter.

    python tests/bench/pytorch_tests.py pytorch-v2.6.0/test/onnx [--results FILE] [test_rnn test_einsum ...]

The folder is from PyTorch's source. Runs every test at opset 18 whose name contains one of the words (default: all);
only export and comparison are replaced. The model is traced or scripted as the test requires, saved, exported by the
command with the test's names and dynamic axes, and run in ONNX Runtime, first on the test's inputs with its tolerances,
then on other values of the same shapes, for which the archive is the reference.

Each finished test is a line of FILE; tests with a line are not run again. Exits with 1 if a result is wrong or the
command has a defect. Needs `pip install parameterized torchvision`.
"""

import argparse
import collections
import contextlib
import copy
import importlib
import inspect
import json
import os
import re
import sys
import traceback
import types
import unittest
import warnings
from pathlib import Path
from typing import Iterator, Sequence, TextIO

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when PyTorch is loaded; processes run in parallel
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.onnx._internal.torchscript_exporter.verification
from torch.onnx._internal import torchscript_exporter
from torch.utils import _pytree as pytree

import command
from ops.comparing import open_session
from processes import Results, run_each
from results import greatest

OPSET = 18
# Test files, and the classes in them that use this opset or no opset.
CLASSES = {"test_pytorch_onnx_onnxruntime": r"TestONNXRuntime_opset_version_18_\w*initializers_as_inputs_False",
           "test_op_consistency": r"TestOnnxModelOutputConsistency_opset18CPU",
           "test_models_onnxruntime": r"Test\w+",
           "test_models_quantized_onnxruntime": r"Test\w+",
           "test_autograd_funs": r"Test\w+"}
SECONDS = 150  # for one test
PASSED, REFUSED, NOT_RUN, WRONG, DEFECT = "passed", "refused", "does not run", "WRONG", "DEFECT"
OTHER_VALUES = "WRONG with other values"
LIKE_PYTORCH = "as PyTorch's exporter"  # ONNX Runtime differs from PyTorch in the same way on both exporters' files
PYTORCH, SKIPPED, NO_EXPORT = "fails in PyTorch", "skipped", "exports nothing"
FAULTS = (DEFECT, WRONG, OTHER_VALUES, NOT_RUN, REFUSED, LIKE_PYTORCH)  # the first of a test's faults counts


pytorch_export = torch.onnx.export


class Failed(torch.onnx.errors.SymbolicValueError):
    """Raised in a test instead of an error of PyTorch's exporter, which some tests expect."""

    def __init__(self, outcome: str, why: str):
        RuntimeError.__init__(self, f"{outcome}: {why}")
        self.outcome, self.why = outcome, why


def first_line(error) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def leaves_of(value) -> list:
    """Returns the leaves of nested tuples, lists and dicts, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for element in value for leaf in leaves_of(element)] if isinstance(value, (tuple, list)) else [value]


def flat(value, as_input: bool = False) -> list:
    """Flattens tensors and numbers at any depth into the form that a file's inputs or outputs have. Keeps None."""
    return [each for leaf in leaves_of(value) for each in file_values(leaf, as_input)]


def file_values(value, as_input: bool) -> list:
    if isinstance(value, torch.Tensor) and value.is_quantized:
        return list(torchscript_exporter.utils.unpack_quantized_tensor(value, cast_onnx_accepted=as_input))
    if isinstance(value, torch.Tensor) and value.is_complex():
        return [torch.view_as_real(value.resolve_conj())]
    if value is None or isinstance(value, (torch.Tensor, str)):
        return [value]
    return [torch.as_tensor(value)]


class Call:
    """A model and the arguments of a call, by position."""

    def __init__(self, model, arguments, keywords: dict | None):
        self.model = model
        self.arguments = arguments if isinstance(arguments, (tuple, list)) else (arguments,)
        self.keywords = keywords or {}
        self.scripted = isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))

    def positions(self) -> tuple:
        """Returns all arguments by position, with defaults for omitted ones."""
        if not self.keywords or self.scripted:
            return (*self.arguments, *self.keywords.values())
        bound = inspect.signature(self.model.forward).bind(*self.arguments, **self.keywords)
        bound.apply_defaults()
        return bound.args

    def fresh(self):
        """Returns a copy if possible, because some models change when they run."""
        with contextlib.suppress(Exception):
            return copy.deepcopy(self.model)
        return self.model

    def run(self):
        return self.fresh()(*copy.deepcopy(tuple(self.arguments)), **copy.deepcopy(self.keywords))

    def archive(self, path: Path) -> tuple | dict:
        """Writes the archive; returns the example inputs of its forward, as a dict if the test passes only keywords."""
        arguments = copy.deepcopy(self.positions())
        if self.scripted:
            self.model.save(str(path))
            return arguments if self.arguments else copy.deepcopy(self.keywords)
        leaves, structure = pytree.tree_flatten(arguments)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            arguments, model = self.with_constants(leaves, structure)
        elif isinstance(self.model, torch.nn.Module):
            model = self.fresh()
        else:
            model = type("Function", (torch.nn.Module,), {"forward": lambda _, *tensors: self.model(*tensors)})()
        with torch.no_grad():
            results = self.run()
            if not all(isinstance(each, torch.Tensor) for each in (results if isinstance(results, tuple) else (results,))):
                model = self.with_tensors_only(model)
            torch.jit.trace(model, copy.deepcopy(arguments), check_trace=False, strict=False).save(str(path))
        return arguments

    def with_constants(self, leaves: list, structure) -> tuple[tuple, torch.nn.Module]:
        """Returns a module whose inputs are all tensors, because a trace accepts nothing else."""
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def forward(_, *tensors):
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            return model(*pytree.tree_unflatten(filled, structure))

        wrapper = type("Function", (torch.nn.Module,), {"forward": forward})()
        model = self.fresh()
        wrapper.model = model if isinstance(model, torch.nn.Module) else None
        return tuple(leaves[place] for place in places), wrapper


    @staticmethod
    def with_tensors_only(model: torch.nn.Module) -> torch.nn.Module:
        """Returns a module with only tensors as results: a trace cannot return None, numbers or nested containers."""
        def forward(_, *tensors):
            results = [torch.as_tensor(leaf) for leaf in leaves_of(model(*tensors)) if leaf is not None]
            return results[0] if len(results) == 1 else tuple(results)

        wrapper = type("Function", (torch.nn.Module,), {"forward": forward})()
        wrapper.model = model
        return wrapper


def with_plain_dicts(value):
    """Replaces ordered dicts with plain ones, because LibTorch cannot read them."""
    if isinstance(value, dict):
        return {key: with_plain_dicts(each) for key, each in value.items()}
    return type(value)(map(with_plain_dicts, value)) if type(value) in (list, tuple) else value


def dynamic_options(axes: dict | None, inputs: Sequence[str]) -> Iterator[str]:
    """Yields options for the dynamic axes of inputs; the dynamic axes of outputs follow from them."""
    for name, names in (axes or {}).items():
        if name in inputs and names:
            names = names if isinstance(names, dict) else {axis: f"{name}_{axis}" for axis in names}
            symbols = {axis: re.sub(r"\W", "_", str(text)) for axis, text in names.items()}
            sizes = ",".join(f"{axis}={'size_' if text[0].isdigit() else ''}{text}" for axis, text in symbols.items())
            yield from ("--dynamic", f"{name}:{sizes}")


def export(folder: Path, inputs: tuple | dict, axes: dict | None, names: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
    torch.save(with_plain_dicts(inputs), folder / "inputs.pt")
    arguments = ["export", str(folder / "model.pt"), "-o", str(folder / "model.onnx"), "--opset", str(OPSET)]
    arguments += ["--inputs", str(folder / "inputs.pt")] if inputs else []
    arguments += ["--input-names", ",".join(names)] if names else []
    arguments += ["--output-names", ",".join(outputs)] if outputs else []
    arguments += dynamic_options(axes, names or ())
    arguments += ["--default-dtype", "float64"] if torch.get_default_dtype() == torch.float64 else []
    result = command.run_quickly(arguments, dict(os.environ))
    codes = re.findall(r"E0\d{3}", result.stderr)
    if result.returncode < 0 or result.returncode == command.BUG or "E0901" in codes:
        raise Failed(DEFECT, f"exit {result.returncode}: {result.stderr[-1500:]}")
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if re.search(r"E0\d{3}", line)]
        raise Failed(REFUSED, " | ".join(lines)[:900] or result.stderr[-600:])


def feed(session, inputs: tuple | dict, used: Sequence[int] | None) -> dict:
    """Returns the file's inputs by position. Depending on their number, these are all values of the call, or only the
    tensors (whence fixes numbers), or the subset that the test expects to remain."""
    numbers = [leaf for leaf in flat(inputs, as_input=True) if leaf is not None and not isinstance(leaf, str)]
    tensors = flat([leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)], as_input=True)
    candidates = [numbers, tensors] + [[each[place] for place in used] for each in (numbers, tensors) if used and len(each) > max(used)]
    names = [value.name for value in session.get_inputs()]
    matching = [each for each in (*candidates, tensors[:len(names)]) if len(each) == len(names)]
    if not matching:
        raise Failed(NOT_RUN, f"the file has the inputs {names}, the test {len(numbers)} values")
    return {name: value.detach().contiguous().numpy() for name, value in zip(names, matching[0], strict=True)}


def run_file(session, feeds: dict) -> list:
    try:
        return flat([torch.from_numpy(each) if hasattr(each, "dtype") else each for each in flat_arrays(session.run(None, feeds))])
    except Exception as error:
        raise Failed(NOT_RUN, first_line(error)) from error


def flat_arrays(results: list) -> list:
    return [leaf for each in results for leaf in (flat_arrays(each) if isinstance(each, list) else [each])]


def compare(actual: list, expected, settings: dict, suite, outcome: str) -> None:
    expected = flat(expected)
    if settings.get("ignore_none", True) or len(actual) != len(expected):
        expected = [each for each in expected if each is not None]
        actual = [each for each in actual if each is not None]
    if len(actual) != len(expected):
        raise Failed(outcome, f"{len(actual)} results, not {len(expected)}")
    for place, (actual_result, expected_result) in enumerate(zip(actual, expected, strict=True)):
        if actual_result is None and expected_result is None:
            continue
        expected_result = expected_result.detach()
        if not getattr(suite, "check_shape", True):
            actual_result, expected_result = torch.broadcast_tensors(actual_result, expected_result)
        rtol = settings.get("rtol") or 1e-3
        atol = settings.get("atol") or 0
        if expected_result.is_floating_point():
            atol = max(atol, 1e-6 * greatest(expected_result))  # differences of large numbers are less exact
        try:
            torch.testing.assert_close(actual_result, expected_result, rtol=rtol, atol=atol, equal_nan=True,
                                       check_dtype=getattr(suite, "check_dtype", True))
        except AssertionError as error:
            allowed = settings.get("acceptable_error_percentage") or 0
            if actual_result.shape == expected_result.shape and (~torch.isclose(actual_result, expected_result, rtol, atol)).double().mean() <= allowed:
                continue
            raise Failed(outcome, f"result {place}: {' '.join(str(error).split())[:400]}") from error


def other_values(value):
    """Reverses the rows, so that indices and boxes stay valid. Does not change ascending values."""
    if not isinstance(value, torch.Tensor) or value.is_quantized or not value.dim():
        return value
    changed = value.detach().flip(0)
    if value.dim() == 1:
        return value if torch.equal(value, value.sort().values) else changed
    return changed.roll(1, dims=0) if torch.equal(changed, value) else changed


class Exporter:
    """Replaces export and comparison in PyTorch's tests. Stores the outcome of each model."""

    current: "Exporter"  # of the running test

    def __init__(self, folder: Path):
        self.folder, self.outcomes = folder, []

    def verify(self, suite, model, input_args, input_kwargs=None, **settings) -> None:
        if getattr(suite, "opset_version", OPSET) not in (OPSET, 14):
            return  # tests of complete models run at every opset; one of these runs is enough
        try:
            self.verify_one(suite, model, input_args, input_kwargs, settings)
        except Failed as error:
            self.outcomes.append((error.outcome, error.why))
            raise
        self.outcomes.append((PASSED, ""))

    def verify_one(self, suite, model, input_args, input_kwargs, settings: dict) -> None:
        mode = settings.get("training") or torch.onnx.TrainingMode.EVAL
        with contextlib.ExitStack() as stack:
            if isinstance(model, torch.nn.Module):
                stack.enter_context(torchscript_exporter.utils.select_model_mode_for_export(model, mode))
            call = Call(model, input_args, input_kwargs)
            try:
                inputs = call.archive(self.folder / "model.pt")
                archive = torch.jit.load(self.folder / "model.pt")
                with torch.no_grad():
                    call.run()
            except Exception as error:
                raise Failed(PYTORCH, first_line(error)) from error
            export(self.folder, inputs, settings.get("dynamic_axes"), settings.get("input_names"), settings.get("output_names"))
            try:
                session = open_session(self.folder / "model.onnx")
            except Exception as error:
                raise Failed(NOT_RUN, first_line(error)) from error
            used = settings.get("remained_onnx_input_idx")
            others = [Call(model, each, {}) for each in settings.get("additional_test_inputs") or ()]
            for each in [call, *others]:
                actual = run_file(session, feed(session, each.positions(), used))
                with torch.no_grad():
                    expected = each.run()
                try:
                    compare(actual, expected, settings, suite, WRONG)
                except Failed as error:
                    if each is call and not call.scripted and self.pytorch_gives_the_same(call, inputs, actual, settings, suite):
                        raise Failed(LIKE_PYTORCH, error.why) from error
                    raise
            self.verify_other_values(suite, call, archive, inputs, session, settings)

    def pytorch_gives_the_same(self, call: Call, inputs: tuple, actual: list, settings: dict, suite) -> bool:
        """Returns true if the file of PyTorch's exporter gives the same results. Needed for fake quantization, which
        rounds sums to integers: the kernel determines the order of summation."""
        path = self.folder / "pytorch.onnx"
        with contextlib.suppress(Exception):
            pytorch_export(call.fresh(), copy.deepcopy(inputs), path, dynamo=False, opset_version=OPSET)
            session = open_session(path)
            compare(actual, run_file(session, feed(session, inputs, None)), settings, suite, WRONG)
            return True
        return False

    def export(self, model, args=(), f=None, *, kwargs=None, training=torch.onnx.TrainingMode.EVAL, input_names=None,
               output_names=None, dynamic_axes=None, **_) -> None:
        """Replaces torch.onnx.export: `f` is a path or a binary stream."""
        with contextlib.ExitStack() as stack:
            if isinstance(model, torch.nn.Module):
                stack.enter_context(torchscript_exporter.utils.select_model_mode_for_export(model, training))
            inputs = Call(model, args, kwargs).archive(self.folder / "model.pt")
        try:
            export(self.folder, inputs, dynamic_axes, input_names, output_names)
        except Failed as error:
            self.outcomes.append((error.outcome, error.why))
            raise
        self.outcomes.append((PASSED, ""))
        content = (self.folder / "model.onnx").read_bytes()
        f.write(content) if hasattr(f, "write") else Path(f).write_bytes(content)

    def verify_other_values(self, suite, call: Call, archive, inputs: tuple, session, settings: dict) -> None:
        if isinstance(inputs, dict):
            return
        changed = pytree.tree_map(other_values, inputs)
        try:
            torch.manual_seed(0)
            with torch.no_grad():
                expected = archive(*copy.deepcopy(changed))
        except Exception:  # noqa: BLE001, invalid values for the model
            return
        feeds = feed(session, changed, settings.get("remained_onnx_input_idx"))
        compare(run_file(session, feeds), expected, settings, suite, OTHER_VALUES)


def module_names() -> dict[str, types.ModuleType]:
    """Returns modules under their names in PyTorch 2.6, for the imports of the tests."""
    diagnostics = types.ModuleType("torch.onnx._internal.diagnostics")
    diagnostics.engine = types.SimpleNamespace(clear=lambda: None)
    torch.onnx._internal.diagnostics = diagnostics
    found = {diagnostics.__name__: diagnostics}
    for name in ("_globals", "registration", "jit_utils", "_type_utils"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(f"torch.onnx._internal.torchscript_exporter.{name}")
            found[f"torch.onnx.{name}"] = found[f"torch.onnx._internal.{name}"] = module
            setattr(torch.onnx, name, module)
            setattr(torch.onnx._internal, name, module)
    return found


def load(folder: Path) -> list[unittest.TestCase]:
    sys.path.insert(0, str(folder))
    sys.modules.update(module_names())
    common = importlib.import_module("onnx_test_common")
    common.run_model_test = lambda *arguments, **named: Exporter.current.verify(*arguments, **named)
    torch.onnx.export = lambda *arguments, **named: Exporter.current.export(*arguments, **named)
    torch.onnx.OnnxExporterError = torch.onnx.errors.OnnxExporterError
    torch.onnx.verification = sys.modules["torch.onnx.verification"] = torchscript_exporter.verification
    tests = []
    for name, pattern in CLASSES.items():
        try:
            module = importlib.import_module(name)
        except Exception as error:  # noqa: BLE001, tests for another PyTorch
            print(f"skipped {name}: {first_line(error)}")
            continue
        for title, kind in vars(module).items():
            if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and re.fullmatch(pattern, title):
                kind.opset_version = OPSET
                tests += [kind(test) for test in unittest.defaultTestLoader.getTestCaseNames(kind)]
    return tests


def judge(test: unittest.TestCase, folder: Path) -> tuple[str, str]:
    """Returns the outcome of a test and its reason."""
    exporter = Exporter.current = Exporter(folder)
    result = unittest.TestResult()
    test.run(result)
    failures = [text for _, text in result.failures + result.errors if not re.search(r"\b(XFailed|Skipped)\b", text)]
    outcomes = dict(exporter.outcomes)
    if not failures and not any(fault in outcomes for fault in (DEFECT, WRONG)):
        if result.skipped:
            return SKIPPED, result.skipped[0][1]
        if not result.expectedFailures:
            return (PASSED, "") if outcomes else (NO_EXPORT, "")
    for fault in (*FAULTS, PYTORCH):
        if fault in outcomes:
            return fault, outcomes[fault]
    if outcomes:
        return PASSED, ""  # the test expects PyTorch's exporter to fail
    text = failures[0].partition("To execute this test")[0] if failures else "an expected failure"
    return NO_EXPORT, first_line(text.strip().splitlines()[-1])


def name_of(test: unittest.TestCase) -> str:
    kind = re.sub(r"_opset_version_18|_keep_initializers_as_inputs_False|_opset18CPU", "", type(test).__name__)
    return f"{kind}.{test._testMethodName}"


def judge_one(test: unittest.TestCase, lines: TextIO, folder: Path) -> None:
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1), os.dup2(nothing.fileno(), 2)  # tests print
        try:
            outcome, why = judge(test, folder)
        except BaseException:  # noqa: BLE001
            outcome, why = "THIS SCRIPT FAILED", traceback.format_exc()[-900:]
    print(json.dumps({"outcome": outcome, "why": why}), file=lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="test/onnx of PyTorch 2.6")
    parser.add_argument("--results", type=Path, help="JSON Lines, one line per test; read first, then appended to")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("words", nargs="*", help="parts of test names")
    options = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    command.server()  # before the first fork, so that all processes share it
    results = Results(options.results)
    done = {row["test"] for row in results.rows}
    waiting = [test for test in load(options.folder.resolve()) if name_of(test) not in done
               and (not options.words or any(word in name_of(test) for word in options.words))]
    for test, lines, why in run_each(waiting, judge_one, SECONDS, options.jobs):
        row = {"test": name_of(test), **(lines[0] if lines and not why else {"outcome": NOT_RUN, "why": why})}
        results.add(row)
        if row["outcome"] != PASSED:
            print(f"{row['outcome']:24} {row['test']}\n{'':24} {row['why']}", flush=True)

    totals = collections.Counter(row["outcome"] for row in results.rows)
    print(f"{len(results.rows)} tests: " + ", ".join(f"{count} {word}" for word, count in totals.most_common()))
    return 1 if any(totals[fault] for fault in (DEFECT, WRONG, OTHER_VALUES)) else 0


if __name__ == "__main__":
    sys.exit(main())
