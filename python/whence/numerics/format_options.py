"""The options ``--format`` and ``--output``, repeatable and paired in order: one run writes reports in several formats.
One format without an output goes to standard output."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

from . import without_weights


def declare(options: argparse.ArgumentParser, formats: Sequence[str], more: str = "") -> None:
    options.add_argument("--format", choices=formats, action="append",
                         help=f"text by default{more}; several, each with its --output")
    options.add_argument("--output", "-o", action="append", default=[], metavar="FILE", help="the file to write, one for each "
                         "--format in order; standard output by default")
    options.add_argument("--json", action="store_true", help="the same as --format json")


def forms_of(options: argparse.ArgumentParser, given: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Returns each format with its file, None for standard output. Exits with a usage error if their numbers do not
    fit."""
    forms = given.format or ["json" if given.json else "text"]
    if given.json and forms != ["json"]:
        options.error(f"--json and --format {' '.join(forms)}")
    if not len(given.output) <= len(forms) <= len(given.output) + 1:
        options.error(f"{len(forms)} formats and {len(given.output)} outputs: give an --output for each --format, or for each "
                      "but one")
    return list(zip_longest(forms, given.output))


def write(model: str | os.PathLike[str], forms: Sequence[tuple[str, str | None]], text: Callable[[str], str]) -> None:
    for form, target in forms:
        if target is None:
            print(text(form))
        else:
            without_weights.write_about(Path(model), "--output", target, text(form) + "\n")
