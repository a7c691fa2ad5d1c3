"""Exports a program to an ONNX file: by the command from a trace, a script or a torch.export archive, or by the C++ API
from a live C++ module."""

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

MAX_SECONDS = 60  # an export usually takes one second


@dataclass(frozen=True)
class Archive:
    path: Path
    forward: Callable  # runs the archive in PyTorch
    has_guards: bool = False  # refuses sizes outside its guards


@dataclass(frozen=True)
class Export:
    code: int
    stderr: str

    @property
    def reason(self) -> str:
        """The first error's code and message, without names and numbers."""
        errors = [line for line in self.stderr.splitlines() if re.match(r"E\d{4} ", line)]
        first = errors[0] if errors else self.stderr.strip()[-200:]
        first = re.sub(r"; try: .*", "", first)
        first = re.sub(r" at (the root module|module)?.*", "", first)
        code, _, rest = first.partition(" ")
        return f"{code} " + re.sub(r"'[^']*'|\d+", "#", rest)[:160]

    @property
    def warned(self) -> bool:
        """True if the file is correct only under a condition. E0308 (unwritten inputs) applies to every file."""
        return any("E0308" not in line for line in self.stderr.splitlines() if "warning: E" in line)


def trace(program: Program, folder: Path) -> Archive:
    traced = torch.jit.trace(as_module(program.source()), tuple(make_inputs(program, 0)), check_trace=False)
    return save_archive(traced, folder)


def script(program: Program, folder: Path) -> Archive:
    return save_archive(torch.jit.script(as_module(program.source())), folder)


def save_archive(module: torch.jit.ScriptModule, folder: Path) -> Archive:
    path = folder / "program.pt"
    module.save(str(path))
    return Archive(path, module)


def exported(program: Program, folder: Path) -> Archive:
    auto = torch.export.Dim.AUTO
    shapes = {each.name: {axis: auto for axis in each.dynamic_axes()} for each in program.inputs}
    exported_program = torch.export.export(as_module(program.source()), tuple(make_inputs(program, 0)),
                                           dynamic_shapes=shapes)
    path = folder / "program.pt2"
    torch.export.save(exported_program, path)
    return Archive(path, exported_program.module(), has_guards=True)


ROUTES: dict[str, Callable[[Program, Path], Archive]] = {"trace": trace, "script": script, "export": exported,
                                                         "native": script}


def make_archive(route: str, program: Program, folder: Path) -> Archive | None:
    """Returns the archive, or None if PyTorch refuses the program."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            return ROUTES[route](program, folder)
        except Exception:
            return None


def export(program: Program, route: str, archive: Archive, model: Path) -> Export:
    """Exports with all named axes dynamic. A torch.export archive contains its dynamic axes."""
    model.unlink(missing_ok=True)
    if route == "native":
        return Export(*live_modules.send(" ".join([str(archive.path), str(model), *live_inputs(program)])))
    words = ["export", str(archive.path), "-o", str(model)]
    if route != "export":
        inputs_file = archive.path.with_suffix(".npz")
        np.savez(inputs_file, **{each.name: tensor.numpy() for each, tensor in
                                 zip(program.inputs, make_inputs(program, 0), strict=True)})
        words += ["--inputs", str(inputs_file)]
        for each in program.inputs:
            words += ["--dynamic", f"{each.name}:{axes_of(each)}"] if each.dynamic_axes() else []
    try:
        result = command.run_quickly(words, dict(os.environ), MAX_SECONDS)
    except subprocess.TimeoutExpired:
        return Export(-signal.SIGALRM, f"timed out after {MAX_SECONDS} s")
    return Export(result.returncode, result.stderr)


def axes_of(program_input: Input) -> str:
    return ",".join(f"{axis}={name}" for axis, name in program_input.dynamic_axes().items())


def live_inputs(program: Program) -> list[str]:
    """Returns the inputs in the form that interpreter.cpp reads."""
    return [f"{each.name}={','.join(map(str, tensor.shape))}:{','.join(map(str, tensor.flatten().tolist()))}"
            + (f":{axes_of(each)}" if each.dynamic_axes() else "")
            for each, tensor in zip(program.inputs, make_inputs(program, 0), strict=True)]
