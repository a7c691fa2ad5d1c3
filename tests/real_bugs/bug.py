"""One bug of another tool: the model that shows it, the versions that have it and those that do not, and the truth."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent

KINDS = ("wrong", "shape", "dtype", "nan", "does not run")


@dataclass(frozen=True)
class Bug:
    """A bug of an exporter, an optimiser or a quantiser that a released version has.

    name       the tool and its issue or pull request: "onnxscript-2991"
    title      one sentence: what is wrong in the file
    link       the issue, the pull request or the release note that names the operation or the pass
    wrong      pins of the environment that writes the wrong file: ("torch==2.9.1", "onnxscript==0.5.4"). Without a pin
               for torch, it is the torch of the main environment.
    right      pins of the environment that writes the right file
    model, inputs   a module class or a function, each called after torch.manual_seed, so that every environment gets the
               same weights and inputs
    write      writes the wrong file: an exporter, and a tool if the tool has the bug
    write_right     writes the right file; None: `write`, in the environment `right`
    module     qualified name of the module that is wrong in the file
    operation  the ATen operation that is wrong: "aten::fft_rfft", followed by other names of its parts, if an exporter
               splits it; "" if a tool changed several
    merged     the modules that the tool merged with `module`, such as a norm: no value in the file tells them apart
    step       the pass or rule with the bug, for tools that have passes
    kind       how the results differ, one of KINDS
    tolerance  the relative difference of the right file from PyTorch that its precision explains. The wrong file differs
               by more than ten times as much.
    """

    name: str
    title: str
    link: str
    wrong: tuple[str, ...]
    right: tuple[str, ...]
    model: Callable
    inputs: Callable[[], tuple]
    write: Callable
    module: str
    operation: str
    write_right: Callable | None = None
    step: str = ""
    kind: str = "wrong"
    tolerance: float = 1e-4
    merged: tuple[str, ...] = ()

    def pins(self, side: str) -> tuple[str, ...]:
        return self.wrong if side == "wrong" else self.right

    def writer(self, side: str) -> Callable:
        return self.write_right if side == "right" and self.write_right else self.write

    def build(self) -> Any:
        """Returns the model in eval mode, with the same weights on every call."""
        import torch

        torch.manual_seed(0)
        return self.model().eval()

    def example(self) -> tuple:
        """Returns the inputs, the same on every call."""
        import torch

        torch.manual_seed(1)
        return self.inputs()

    def fingerprint(self) -> str:
        """Changes if the bug's functions or pins do, but not if a function that they call does."""
        functions = [text_of(each) for each in (self.model, self.inputs, self.write, self.write_right) if each]
        return hashlib.sha256(repr((functions, self.wrong, self.right)).encode()).hexdigest()[:16]


def text_of(function: Callable) -> str:
    """Returns the source of a class, and the instructions of a function: a lambda's source is that of its lines."""
    if isinstance(function, type):
        return inspect.getsource(function)
    code = function.__code__
    return repr((code.co_code, code.co_names, [each for each in code.co_consts if not inspect.iscode(each)]))


def all_bugs() -> list[Bug]:
    """Returns the bugs of all files in bugs/. Reading them imports PyTorch only."""
    bugs = [bug for file in sorted((FOLDER / "bugs").glob("[a-z]*.py"))
            for bug in importlib.import_module(f"bugs.{file.stem}").BUGS]
    names = [bug.name for bug in bugs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"bugs with the same name: {', '.join(repeated)}")
    for bug in bugs:
        if bug.kind not in KINDS:
            raise ValueError(f"{bug.name}: unknown kind '{bug.kind}'; choose from {', '.join(KINDS)}")
    return bugs


def selected_bugs(names: list[str]) -> list[Bug]:
    """Returns the bugs with these names, or all bugs if there are none."""
    bugs = {bug.name: bug for bug in all_bugs()}
    unknown = [name for name in names if name not in bugs]
    if unknown:
        raise SystemExit(f"unknown bugs: {', '.join(unknown)}; known: {', '.join(bugs)}")
    return [bugs[name] for name in names] if names else list(bugs.values())
