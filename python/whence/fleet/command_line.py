"""``whence fleet``: the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..command.arguments import Parser, show_progress
from ..files.atomic_files import write_text
from . import journal
from .engines import ENGINES
from .one_model import ModelOptions, Row
from .registry import models_of
from .summary import Totals, to_html, totals_of

JOURNAL, PAGE = "fleet.jsonl", "index.html"
_PAGE_INTERVAL = 30.0  # seconds, so that the page of a long run is up to date


def _jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 4096")
    return int(text)


def parser() -> Parser:
    options = Parser(
        prog="whence fleet", description="Annotates, validates and reports a whole registry of models, and writes one page "
        "on all of them. Run it again to continue: finished models that did not change are skipped.",
        epilog="Exit code 1: a model failed, or validate found an error in one. All other models are processed anyway.",
        allow_abbrev=False)
    options.add_argument("registry", type=Path, metavar="FOLDER|LIST", help="a folder, with .onnx files at any depth, or a text "
                         "file with one path per line, relative to its own folder")
    options.add_argument("--output", "-o", type=Path, metavar="FOLDER", help="the folder for annotated files, reports, "
                         f"the journal {JOURNAL} and the page {PAGE} (NAME.fleet in this folder)")
    options.add_argument("--engine", choices=ENGINES, default="process", help="processes of this machine (process), or Ray: the "
                         "cluster in $RAY_ADDRESS, which needs the same paths, else this machine")
    options.add_argument("--jobs", type=_jobs, metavar="N", help="number of models at a time (the number of cores)")
    options.add_argument("--min", action="append", default=[], metavar="WORD=PERCENT[@GLOB]", help="minimum share that "
                         "validate requires of each model; repeatable")
    options.add_argument("--no-reports", action="store_true", help="write no report for each model")
    options.add_argument("--json", action="store_true", help="the totals as JSON")
    return options


def main(arguments: Sequence[str]) -> int:
    args = parser().parse_args(arguments)
    out = args.output or Path(f"{args.registry.resolve().stem}.fleet")
    models = models_of(args.registry, out)
    model_options = ModelOptions(tuple(args.min), not args.no_reports)
    files = [model.file for model in models]
    with journal.open_locked(out / JOURNAL) as run_journal:
        pending = [model for model in models if not run_journal.has_done(model, model_options)]
        progress = _Progress(len(models), len(models) - len(pending))
        last_page = time.monotonic()
        rows = ENGINES[args.engine](((model, run_journal.wrote(model)) for model in pending), model_options,
                                    args.jobs) if pending else ()
        for row in rows:
            run_journal.add(row)
            progress.add(row)
            if time.monotonic() - last_page > _PAGE_INTERVAL:
                _write_page(args.registry, out, files, run_journal.rows)
                last_page = time.monotonic()
        totals = totals_of(files, run_journal.rows)
        _write_page(args.registry, out, files, run_journal.rows)
    print(json.dumps({**totals.to_json(), "new": len(pending), "page": str(out / PAGE),
                      "journal": str(out / JOURNAL)}, indent=2)
          if args.json else _summary(totals, len(pending), out))
    return 1 if totals.failed or totals.with_findings else 0


def _summary(totals: Totals, new: int, out: Path) -> str:
    return (f"{totals.models} models: {totals.models - new} were done before, {totals.done} are done, {totals.failed} failed, "
            f"{totals.with_findings} with findings; {totals.covered} of {totals.nodes} nodes covered ({totals.percent:.1f} %)\n"
            f"{out / PAGE}")


def _write_page(registry: Path, out: Path, files: list[str], rows: dict[str, Row]) -> None:
    write_text(out / PAGE, "".join(to_html(registry.resolve().name, files, rows, out)))


class _Progress:
    """Prints failures when they occur, and a progress bar on a terminal."""

    def __init__(self, count: int, done: int):
        self._count, self._done, self._bar = count, done, sys.stderr.isatty()
        self._show("")

    def add(self, row: Row) -> None:
        self._done += 1
        if not row["ok"]:
            first = row["errors"][0]
            if self._bar:
                print("\x1b[2K", end="\r", file=sys.stderr)
            remedy = f"; try: {first['remedy']}" if first["remedy"] else ""
            print(f"failed: {row['file']}: {first['code']} {first['message']}{remedy}", file=sys.stderr)
        self._show(os.path.basename(row["file"]))

    def _show(self, what: str) -> None:
        if self._bar and self._count:
            show_progress(self._done, self._count, what)
