"""Measures `whence attest` and `whence refit` on files of many exporters and tools, whose checkpoint is at hand.

    attest_corpus.py [--planted [--change KIND]] [--refit] [--further] [--docs] [--jobs 2] [-v] [MODEL...]

--further: models on which nothing is tuned. Without an option: attests each file; everything should be accounted for. With --planted: attests files with a change, which
should be found: one kind of change in each file, or the given ones in all. With --refit: puts other weights into each file, which should then equal the file that the same exporter and
tools make of the other model. --docs writes the table into the page of the command. -v prints each alarm, miss or
difference. The exit code is 1 if there is a false alarm, a miss, or a silent error.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from types import ModuleType

os.environ.setdefault("OMP_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "real_bugs"), str(TESTS.parent / "python")]

import attested_files
import command
import corpus_files
import corpus_tools
import documented_tables
import environments
import graph_changes
import planted_changes
import refitted_files
from accuracy import corpus, models
from corpus_models import FURTHER, MODELS, TUNED

FOLDER = command.ROOT / "build" / "attest"
FURTHER_PACKAGES = ("onnxconverter-common==1.16.0",)
LARGEST_FIRST = ("resnet50", "bert_tiny")


def sources() -> list[Path]:
    """Returns the source files that determine the files of the corpus."""
    own = ("corpus_files", "corpus_models", "corpus_tools", "small_models")
    return [*(Path(__file__).with_name(f"{name}.py") for name in own), TESTS / "onnx_tools.py", *corpus.code()]


def prepare() -> None:
    """Prepares a process: the packages that the environment lacks, and no warnings of tools."""
    logging.disable(logging.WARNING)
    python = environments.python_of(FURTHER_PACKAGES)
    sys.path.append(str(next(python.parents[1].glob("lib/python*/site-packages"))))


def written(model: str, seed: int = 0) -> list[corpus_files.File]:
    return corpus_files.write(corpus_files.files_of(model, FOLDER, seed), models.digest_of(command.BINARY), seed)


def attest(model: str) -> list[attested_files.Attested]:
    return [attested_files.attest(file) for file in written(model)]


def plant(model: str, kinds: list[str] | None = None) -> list[planted_changes.Planted]:
    return [each for file in written(model) if file.path.exists() for each in planted_changes.plant(file, kinds=kinds)]


def refit(model: str) -> list[refitted_files.Refitted]:
    pairs = zip(written(model), written(model, 1), strict=True)
    return [refitted_files.refit(old, new) for old, new in pairs if old.path.exists() and new.path.exists()]


def over_models(function: Callable[[str], list], names: list[str], jobs: int, report: Callable[[list], None]) -> list:
    """Runs a function for each model, reports the results of each, and returns all in the order of the models."""
    ordered = sorted(names, key=lambda name: name not in LARGEST_FIRST)
    begin = time.monotonic()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), prepare) as pool:
        running = {pool.submit(function, name): name for name in ordered}
        results = {}
        for done in as_completed(running):
            results[running[done]] = done.result()
            report(done.result())
            print(f"{running[done]}: done after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return [each for name in names for each in results[name]]


# By option: the function for a model, the module that reports, the page and the marker of its table.
RUNS = {
    "attest": (attest, attested_files, "attest.md", "honest files"),
    "planted": (plant, planted_changes, "attest.md", "planted changes"),
    "refit": (refit, refitted_files, "refit.md", "refitted files"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="the default is all")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--change", metavar="KIND", action="append", choices=list(graph_changes.CHANGES),
                        help="with --planted: this kind in each file (repeatable)")
    parser.add_argument("--refit", action="store_true")
    parser.add_argument("--further", action="store_true")
    parser.add_argument("--docs", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    unknown = [each for each in options.models if each not in MODELS]
    if unknown:
        parser.error(f"unknown models: {', '.join(unknown)}; choose from {', '.join(MODELS)}")
    corpus.refresh(FOLDER, sources())
    prepare()
    failed = False
    chosen = [name for name in ("planted", "refit") if getattr(options, name)] or ["attest"]
    for name in chosen:
        function, reporter, page, marker = RUNS[name]
        begin = time.monotonic()

        def report(results: list, reporter: ModuleType = reporter) -> None:
            for line in reporter.details(results) if options.verbose else ():
                print(line, flush=True)

        if name == "planted":
            function = partial(plant, kinds=options.change)
        results = over_models(function, options.models or list(FURTHER if options.further else TUNED), options.jobs, report)
        print(reporter.table(results, str))
        print(f"{time.monotonic() - begin:.0f} seconds")
        failed |= reporter.has_failed(results)
        if options.docs:
            marker = f"{marker} of further models" if options.further else marker
            documented_tables.write(command.ROOT / "docs" / page, marker, reporter.table(results, corpus_tools.group))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
