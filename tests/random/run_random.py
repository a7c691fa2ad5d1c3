"""Random programs by a route or all of them, and a table of what came of them.

    python tests/random/run_random.py --count 700 --route script --seed 0

$WHENCE names another command; a `command_server` beside it, if it was built with it, makes this ten times as fast. Exit
code 1 where a program failed without a word.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import torch

from export_routes import ROUTES
from program_generator import generate
from program_shrinker import shrink
from program_text import Program
from verdicts import FAILURES, WORDS, Tally, Verdict, judge

MEMORY = Path("/dev/shm")


def run(route: str, seeds, folder: Path, found: list[tuple[int, Program, Verdict]], keep_refused: int = 0) -> Tally:
    tally = Tally()
    refused: Counter = Counter()
    for seed in seeds:
        program = generate(seed, route)
        if program is None:
            continue
        verdict = judge(program, route, folder)
        tally.add(program, verdict)
        if verdict and verdict.word == "refused":
            refused[verdict.reason] += 1
        if verdict and (verdict.failed or verdict.word == "refused" and refused[verdict.reason] <= keep_refused):
            found.append((seed, program, verdict))
    return tally


def shrunk(program: Program, verdict: Verdict, route: str, folder: Path) -> Program:
    def fails_alike(candidate: Program) -> bool:
        try:
            other = judge(candidate, route, folder)
        except Exception:  # such as a name that is gone
            return False
        return other is not None and (other.word, other.reason) == (verdict.word, verdict.reason)

    return shrink(program, fails_alike)


def print_table(tallies: dict[str, Tally]) -> None:
    columns = ("judged", *WORDS, "PyTorch refuses")
    print(f"{'route':8}" + "".join(f"{each:>17}" for each in columns))
    for route, tally in tallies.items():
        numbers = [tally.judged, *(tally.words[word] for word in columns[1:])]
        shares = [f"{number} ({100 * number / max(1, tally.judged):.1f} %)" if 0 < place <= len(WORDS) and number else
                  str(number) for place, number in enumerate(numbers)]
        print(f"{route:8}" + "".join(f"{each:>17}" for each in shares))


def print_kinds(route: str, tally: Tally) -> None:
    print(f"\n{route}: kinds of statements (programs, right, refused, fixed or said, failed)")
    for kind, counts in sorted(tally.kinds.items()):
        failed = sum(counts[word] for word in FAILURES)
        judged = sum(counts[word] for word in WORDS)
        print(f"  {kind:32}{judged:6}{counts['right']:6}{counts['refused']:6}{counts['fixed'] + counts['said']:6}{failed:6}")


def print_reasons(route: str, tally: Tally) -> None:
    print(f"\n{route}: reasons")
    for (word, reason), count in tally.reasons.most_common():
        print(f"  {count:5} {word}: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="programs of each route")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--route", choices=[*ROUTES, "all"], default="all")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--most", type=int, default=3, metavar="N", help="show and shrink N failures of each reason")
    parser.add_argument("--kinds", action="store_true", help="print the quota of each kind of statement")
    parser.add_argument("--show", action="store_true", help="print every program and its verdict")
    parser.add_argument("--refused", type=int, default=0, metavar="N", help="shrink N refused programs of each reason, too")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of PyTorch about what programs do
    tallies: dict[str, Tally] = {}
    found: dict[str, list] = {}
    with tempfile.TemporaryDirectory(prefix="whence-random-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for route in ROUTES if asked.route == "all" else [asked.route]:
            begin = time.monotonic()
            found[route] = []
            seeds = range(asked.seed, asked.seed + asked.count)
            if asked.show:
                for seed in seeds:
                    program = generate(seed, route)
                    if program:
                        verdict = judge(program, route, Path(folder))
                        print(f"seed {seed}: {verdict and (verdict.word, verdict.reason)}\n{program}"
                              f"{verdict.detail if verdict else ''}\n")
            tallies[route] = run(route, seeds, Path(folder), found[route], asked.refused)
            seconds = time.monotonic() - begin
            print(f"{route}: {asked.count} programs in {seconds:.0f} s, {asked.count / seconds:.0f} a second", flush=True)
        print_table(tallies)
        for route, tally in tallies.items():
            print_reasons(route, tally)
            if asked.kinds:
                print_kinds(route, tally)
        for route, failures in found.items():
            seen: Counter = Counter()
            for seed, program, verdict in failures:
                seen[verdict.word, verdict.reason] += 1
                if seen[verdict.word, verdict.reason] > asked.most:
                    print(f"--- {route} seed {seed}: {verdict.word}, {verdict.reason}")
                    continue
                small = program if asked.no_shrink else shrunk(program, verdict, route, Path(folder))
                last = judge(small, route, Path(folder)) or verdict
                print(f"\n--- {route} seed {seed}: {verdict.word}, {verdict.reason}\n{small}{last.detail.strip()[:700]}", flush=True)
    return any(verdict.failed for failures in found.values() for _, _, verdict in failures)


if __name__ == "__main__":
    sys.exit(main())
