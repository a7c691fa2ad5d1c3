"""The ways from a program to an ONNX file: a trace, a script and an archive of torch.export by the command, and a live
C++ module by the C++ API."""

import os
import re
import signal
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import torch

import command
import live_modules
from program_text import Input, Program
from running import as_module, make_inputs

LONGEST = 60  # seconds for an export, which takes one


@dataclass(frozen=True)
class Archive:
    path: Path
    forward: Callable  # what PyTorch runs of the archive
    has_guards: bool = False  # refuses sizes that it was not made for


@dataclass(frozen=True)
class Export:
    code: int
    says: str  # standard error

    @property
    def reason(self) -> str:
        """The code of the first error, and what is special to it without names, lines and numbers."""
        errors = [line for line in self.says.splitlines() if re.match(r"E\d{4} ", line)]
        first = errors[0] if errors else self.says.strip()[-200:]
        first = re.sub(r"; try: .*", "", first)
        first = re.sub(r" at (the root module|module)?.*", "", first)
        code, _, rest = first.partition(" ")
        return f"{code} " + re.sub(r"'[^']*'|\d+", "#", rest)[:160]

    @property
    def warned(self) -> bool:
        """True if the file is right under a condition; that it leaves inputs unwritten (E0308) is true of every file."""
        return any("E0308" not in line for line in self.says.splitlines() if "warning: E" in line)


def trace(program: Program, folder: Path) -> Archive:
    made = torch.jit.trace(as_module(program.source()), tuple(make_inputs(program, 0)), check_trace=False)
    return saved(made, folder)


def script(program: Program, folder: Path) -> Archive:
    return saved(torch.jit.script(as_module(program.source())), folder)


def saved(made: torch.jit.ScriptModule, folder: Path) -> Archive:
    path = folder / "program.pt"
    made.save(str(path))
    return Archive(path, made)


def exported(program: Program, folder: Path) -> Archive:
    auto = torch.export.Dim.AUTO
    shapes = {each.name: {axis: auto for axis in each.dynamic_axes()} for each in program.inputs}
    made = torch.export.export(as_module(program.source()), tuple(make_inputs(program, 0)), dynamic_shapes=shapes)
    path = folder / "program.pt2"
    torch.export.save(made, path)
    return Archive(path, made.module(), has_guards=True)


ROUTES: dict[str, Callable[[Program, Path], Archive]] = {"trace": trace, "script": script, "export": exported,
                                                         "native": script}


def make_archive(route: str, program: Program, folder: Path) -> Archive | None:
    """None where PyTorch refuses the program."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            return ROUTES[route](program, folder)
        except Exception:
            return None


def export(program: Program, route: str, archive: Archive, model: Path) -> Export:
    """All axes that have names are promised; those of an archive of torch.export are as it says itself."""
    model.unlink(missing_ok=True)
    if route == "native":
        return Export(*live_modules.ask(" ".join([str(archive.path), str(model), *live_inputs(program)])))
    words = ["export", str(archive.path), "-o", str(model)]
    if route != "export":
        given = archive.path.with_suffix(".npz")
        np.savez(given, **{each.name: tensor.numpy() for each, tensor in
                           zip(program.inputs, make_inputs(program, 0), strict=True)})
        words += ["--inputs", str(given)]
        for each in program.inputs:
            words += ["--dynamic", f"{each.name}:{axes_of(each)}"] if each.dynamic_axes() else []
    try:
        found = command.run_quickly(words, dict(os.environ), LONGEST)
    except subprocess.TimeoutExpired:
        return Export(-signal.SIGALRM, f"no end after {LONGEST} s")
    return Export(found.returncode, found.stderr)


def axes_of(given: Input) -> str:
    return ",".join(f"{axis}={name}" for axis, name in given.dynamic_axes().items())


def live_inputs(program: Program) -> list[str]:
    """As interpreter.cpp reads them."""
    return [f"{each.name}={','.join(map(str, tensor.shape))}:{','.join(map(str, tensor.flatten().tolist()))}"
            + (f":{axes_of(each)}" if each.dynamic_axes() else "")
            for each, tensor in zip(program.inputs, make_inputs(program, 0), strict=True)]
