"""The models of a registry, and the paths of their results."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import error


@dataclass(frozen=True)
class Model:
    """One model, and its files in the output folder."""

    file: str
    output: str
    report: str


def models_of(registry: Path, out: Path) -> list[Model]:
    """Returns the models below a folder, or listed in a text file with one path per line, relative to its folder;
    except models in ``out``. Raises WhenceError: E0101 for a registry without models, or whose files would be
    replaced, E0102 for a missing registry, E0203 for a list that is not text."""
    root, files = _files(registry)
    root = root.absolute()
    if out.resolve() == root.resolve():
        raise error("E0101", "usage", f"{out} is the folder of the models", "name another folder with --output",
                    file=str(out))
    output_folder = out.absolute()
    outputs = {}
    for path in map(_normal, files):
        if output_folder not in path.parents:
            outputs[str(path)] = out / path.relative_to(root)
    if not outputs:
        raise error("E0101", "usage", f"{registry} has no models", "pass a folder with .onnx files at any depth, or a "
                    "text file with one path per line", file=str(registry))
    return [Model(file, str(output), f"{output}.html") for file, output in outputs.items()]


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


def _files(registry: Path) -> tuple[Path, Iterable[Path]]:
    """Returns the folder to which names of results are relative, and the models."""
    if registry.is_dir():
        return registry, sorted(path for path in registry.rglob("*.onnx") if path.is_file())
    try:
        lines = [line.strip() for line in registry.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError:
        raise error("E0203", "wrong_kind", f"{registry} is not a text file",
                    "pass a folder, or a list with one path per line", file=str(registry)) from None
    except OSError as failure:
        raise error("E0102", "missing_file", f"{registry} cannot be read: {failure.strerror}",
                    "pass a folder with models, or a list with one path per line", file=str(registry)) from None
    files = [registry.parent / line for line in lines if line and not line.startswith("#")]
    return Path(os.path.commonpath([_normal(path).parent for path in files] or ["/"])), files
