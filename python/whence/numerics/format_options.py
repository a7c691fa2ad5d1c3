"""The options ``--format`` and ``--output``, repeatable and paired in order, to write a report in several formats. A
format without an output is written to standard output."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

from . import model_structure


def declare(options: argparse.ArgumentParser, formats: Sequence[str], more: str = "") -> None:
    options.add_argument("--format", choices=formats, action="append",
                         help=f"text by default{more}; repeatable, each with an --output")
    options.add_argument("--output", "-o", action="append", default=[], metavar="FILE", help="the file to write, one for each "
                         "--format in order; by default standard output")
    options.add_argument("--json", action="store_true", help="the same as --format json")


def formats_of(options: argparse.ArgumentParser, args: argparse.Namespace) -> list[tuple[str, str | None]]:
    """Returns each format with its file; None is standard output. Exits with a usage error if their numbers do not
    match."""
    formats = args.format or ["json" if args.json else "text"]
    if args.json and formats != ["json"]:
        options.error(f"--json contradicts --format {' '.join(formats)}")
    if not len(args.output) <= len(formats) <= len(args.output) + 1:
        options.error(f"{len(formats)} formats and {len(args.output)} outputs: pass an --output for each --format, "
                      "or for all but one")
    return list(zip_longest(formats, args.output))


def write(model: str | os.PathLike[str], formats: Sequence[tuple[str, str | None]], text: Callable[[str], str]) -> None:
    for format_name, target in formats:
        if target is None:
            print(text(format_name))
        else:
            model_structure.write_report(Path(model), "--output", target, text(format_name) + "\n")
