"""Runs every fuzz target for some seconds and prints a table. Exits with 1 if a target found something.

    run_fuzzers.py --seconds 60 [--runs 500000] [--targets npz,zip] [--jobs 1]

Corpora grow in build/fuzz/corpus. Findings are written to build/fuzz/found, one file per input; README.md explains what
to do with them.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
PROGRAM = BUILD / "bin" / "whence_fuzz"
HERE = Path(__file__).resolve().parent

# Limits for one input: seconds, total memory and a single allocation in MiB. Inputs have up to 32 KiB, which may be a
# deflated archive that expands a thousand times. Switched off, because they cost too much time:
# - Leak detection scans all memory, which takes longer than the input. `make test-sanitized` does it at the end of each
#   target's stored inputs.
# - Allocation stacks take a sixth of the time. Run a finding without this script to see them.
# - Detection of use after return makes every exception walk through retained frames, which takes up to half of the time
#   of targets that throw. `make test-sanitized` does it.
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-detect_leaks=0"]
SANITIZER = {"ASAN_OPTIONS": "malloc_context_size=1:detect_stack_use_after_return=0"}


def targets() -> dict[str, int]:
    """Maps each target to the maximum size of its inputs in bytes, as the program lists them without a target."""
    listed = subprocess.run([PROGRAM], capture_output=True, text=True).stderr
    return {name: int(size) for name, size in re.findall(r"^  (\w+) +up to (\d+) bytes$", listed, re.M)}


def folders(target: str) -> tuple[Path, list[Path]]:
    """Returns the growing corpus and the folders with the initial inputs."""
    corpus = BUILD / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    initial = [HERE / "seeds" / target, HERE / "findings" / target, BUILD / "seeds" / target]
    return corpus, [folder for folder in initial if folder.is_dir()]


def fuzz(target: str, longest: int, seconds: int, runs: int) -> dict:
    corpus, initial = folders(target)
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    before = set(found.iterdir())
    log = BUILD / f"{target}.log"
    with open(log, "w") as file:
        subprocess.run([PROGRAM, f"--target={target}", f"-max_total_time={seconds}", f"-runs={runs}", f"-max_len={longest}",
                        *LIMITS, "-print_final_stats=1", f"-artifact_prefix={found}/{target}-", corpus, *initial],
                       stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **SANITIZER})
    executions = re.search(r"number_of_executed_units: (\d+)", log.read_text(errors="replace"))
    return {"target": target, "executions": int(executions[1]) if executions else 0, "coverage": coverage(target),
            "findings": sorted(each for each in set(found.iterdir()) - before if each.name.startswith(f"{target}-")), "log": log}


def coverage(target: str) -> bytes:
    """Returns a byte for each edge: bit 0 reached by an input of the corpus, bit 1 first edge of a function."""
    corpus, initial = folders(target)
    file = BUILD / f"{target}.coverage"
    file.unlink(missing_ok=True)
    subprocess.run([PROGRAM, f"--target={target}", f"--coverage={file}", "-runs=0", *LIMITS, corpus, *initial],
                   capture_output=True)
    return file.read_bytes() if file.exists() else b""


def reached(edges: bytes) -> str:
    return f"{sum(edge & 1 for edge in edges):,} / {sum(edge == 3 for edge in edges):,}"


def print_table(rows: list[dict]) -> None:
    print(f"{'target':22}{'executions':>12}{'edges / functions':>20}{'findings':>10}")
    for row in rows:
        print(f"{row['target']:22}{row['executions']:>12,}{reached(row['coverage']):>20}{len(row['findings']):>10}")
    together = bytes(max(edge) for edge in zip(*(row["coverage"] for row in rows if row["coverage"])))
    print(f"{'all':22}{sum(row['executions'] for row in rows):>12,}{reached(together):>20}"
          f"{sum(len(row['findings']) for row in rows):>10}")
    print(f"of {len(together):,} edges and {sum(edge >> 1 for edge in together):,} functions in the program")
    for row in rows:
        for finding in row["findings"]:
            print(f"found: {finding.relative_to(ROOT)} (see {row['log'].relative_to(ROOT)})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--runs", type=int, default=-1, help="maximum number of executions of each target (no limit)")
    parser.add_argument("--targets", default="", help="names, separated by commas; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time (1)")
    options = parser.parse_args()
    longest_inputs = targets()
    chosen = options.targets.split(",") if options.targets else sorted(longest_inputs)
    for name in chosen:
        if name not in longest_inputs:
            parser.error(f"unknown target {name}; choose from {', '.join(sorted(longest_inputs))}")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda name: fuzz(name, longest_inputs[name], options.seconds, options.runs), chosen))
    print_table(rows)
    failed = [row for row in rows if row["findings"] or not row["executions"]]
    for row in failed:
        if not row["findings"]:
            print(f"{row['target']} did not run: {row['log']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
