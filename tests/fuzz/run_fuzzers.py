"""Runs every fuzz target for some seconds and prints a table; exits with 1 if a target found something.

    run_fuzzers.py --seconds 60 [--runs 500000] [--targets npz,zip] [--jobs 1]

Corpora grow in build/fuzz/corpus. Findings are written to build/fuzz/found, one file per input; README.md states what
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

# Limits for one input: seconds, total memory and a single allocation in MiB. Inputs have up to 32 KiB, which a deflated
# archive expands a thousand times.
# The search for leaks is off, because it walks through all memory and takes longer than the input: `make
# test-sanitized` searches at the end of each target's stored inputs. The stacks of allocations are not recorded, which
# would take a sixth of the time: a finding run by itself shows them. Use after return is not detected, because every
# exception then walks through the kept frames, up to half of the time of throwing targets: `make test-sanitized` does.
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-malloc_limit_mb=256", "-detect_leaks=0"]
SANITIZER = {"ASAN_OPTIONS": "malloc_context_size=1:detect_stack_use_after_return=0"}


def targets() -> dict[str, int]:
    """Returns the longest input in bytes of each target; the program lists them when it has no target."""
    listed = subprocess.run([PROGRAM], capture_output=True, text=True).stderr
    return {name: int(size) for name, size in re.findall(r"^  (\w+) +up to (\d+) bytes$", listed, re.M)}


def folders(target: str) -> tuple[Path, list[Path]]:
    """Returns the growing corpus and the folders of its first inputs."""
    corpus = BUILD / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    kept = [HERE / "seeds" / target, HERE / "findings" / target, BUILD / "seeds" / target]
    return corpus, [folder for folder in kept if folder.is_dir()]


def fuzz(target: str, longest: int, seconds: int, runs: int) -> dict:
    corpus, kept = folders(target)
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    before = set(found.iterdir())
    log = BUILD / f"{target}.log"
    with open(log, "w") as file:
        subprocess.run([PROGRAM, f"--target={target}", f"-max_total_time={seconds}", f"-runs={runs}", f"-max_len={longest}",
                        *LIMITS, "-print_final_stats=1", f"-artifact_prefix={found}/{target}-", corpus, *kept],
                       stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **SANITIZER})
    executions = re.search(r"number_of_executed_units: (\d+)", log.read_text(errors="replace"))
    return {"target": target, "executions": int(executions[1]) if executions else 0, "coverage": coverage(target),
            "findings": sorted(each for each in set(found.iterdir()) - before if each.name.startswith(f"{target}-")), "log": log}


def coverage(target: str) -> bytes:
    """Returns a byte for each edge: bit 0 reached by an input of the corpus, bit 1 first edge of a function."""
    corpus, kept = folders(target)
    file = BUILD / f"{target}.coverage"
    file.unlink(missing_ok=True)
    subprocess.run([PROGRAM, f"--target={target}", f"--coverage={file}", "-runs=0", *LIMITS, corpus, *kept],
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
    print(f"of {len(together):,} edges and {sum(edge >> 1 for edge in together):,} functions that the targets are "
          "linked with")
    for row in rows:
        for finding in row["findings"]:
            print(f"found: {finding.relative_to(ROOT)} ({row['log'].relative_to(ROOT)} says what)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--runs", type=int, default=-1, help="the most executions of each target (no limit)")
    parser.add_argument("--targets", default="", help="names, separated by commas; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time (1)")
    options = parser.parse_args()
    known = targets()
    chosen = options.targets.split(",") if options.targets else sorted(known)
    for name in chosen:
        if name not in known:
            parser.error(f"there is no target {name}; there are {', '.join(sorted(known))}")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda name: fuzz(name, known[name], options.seconds, options.runs), chosen))
    print_table(rows)
    failed = [row for row in rows if row["findings"] or not row["executions"]]
    for row in failed:
        if not row["findings"]:
            print(f"{row['target']} did not run: {row['log']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
