"""Writes right files with many tools and counts those in which whence names a module: `python run.py [--docs] [MODEL...]`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import right_files  # first, because it sets the search path
import documented_tables
from right_files import File, FOLDER, ROOT
from right_models import MODELS
from right_tools import EXPORTERS, TOOLS

WANTED = 200  # right files, at least


def written(models: list[str]) -> list[File]:
    exported = [right_files.export(model, exporter, FOLDER) for model in models for exporter in EXPORTERS]
    sources = [each for each in exported if not each.refused]
    changed = []
    for name, tool in TOOLS.items():
        print(f"{name}: {len(sources)} files", flush=True)
        changed += right_files.change_elsewhere(sources, name) if tool.pins else [right_files.change(each, name) for each in sources]
    return exported + changed


def measured(files: list[File]) -> list[File]:
    return [_measured(each) for each in files]


def _measured(file: File) -> File:
    if not file.refused:
        file = right_files.judge(file)
    if file.is_right:
        file = right_files.ask(file)
    if file.alarm:
        print(f"alarm: {file.name}, outputs off by {file.error:.2g}, allowed {file.allowed:.2g}: {file.alarm}", flush=True)
    elif not file.is_right:
        print(f"left out: {file.name}, " + (file.refused or f"outputs off by {file.error:.2g}, allowed {file.allowed:.2g}"),
              flush=True)
    return file


def table(files: list[File]) -> str:
    """Returns the counts by tool."""
    right = [each for each in files if each.is_right]
    alarms = sum(bool(each.alarm) for each in right)
    lines = [f"whence names a module in {alarms} of {len(right)} right files.", "",
             "| written by | right files | alarms | wrong files | refused |", "|---|--:|--:|--:|--:|"]
    for name in [*EXPORTERS, *TOOLS]:
        group = [each for each in files if (each.tool or each.exporter) == name]
        lines.append(f"| {name} | {sum(each.is_right for each in group)} | {sum(bool(each.alarm) for each in group)} | "
                     f"{sum(not each.refused and not each.is_right for each in group)} | {sum(bool(each.refused) for each in group)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models; the default is all")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/accuracy.md")
    options = parser.parse_args()
    unknown = [each for each in options.models if each not in MODELS]
    if unknown:
        raise SystemExit(f"unknown models: {', '.join(unknown)}; known: {', '.join(MODELS)}")
    logging.disable(logging.CRITICAL)
    files = measured(written(options.models or list(MODELS)))
    text = table(files)
    print(text)
    if options.docs:
        documented_tables.write(ROOT / "docs" / "accuracy.md", "right files", text)
    right = sum(each.is_right for each in files)
    return 1 if any(each.alarm for each in files) or (not options.models and right < WANTED) else 0


if __name__ == "__main__":
    sys.exit(main())
