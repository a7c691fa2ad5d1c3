"""Runs random programs by one route or all, and prints a table of verdicts.

    python tests/random/run_random.py --count 700 --route script --seed 0

$WHENCE selects another command; a `command_server` next to it makes this ten times as fast. Failing programs are shrunk
before they are printed. Exits with 1 if a program failed without a warning, or if a kind of statement is below its
quota.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import torch

from export_routes import ROUTES
from program_generator import generate
from program_shrinker import shrink
from program_text import Program
from statement_kinds import KINDS
from verdicts import FAILURES, WORDS, Tally, Verdict, judge

MEMORY = Path("/dev/shm")
SHARES = {"trace": 0.3, "script": 0.5, "export": 0.1, "native": 0.1}  # of all programs; the last two are slow
QUICK_COUNTS = {"trace": 50, "script": 75, "export": 7, "native": 5}  # programs of `make test`, about ten seconds
MATRIX = 2000  # number of programs in `make test-full`
BLOCK = 25  # seeds per task of a process
MAX_SECONDS = 60  # for a candidate of the shrinker, which may loop forever
QUOTA = 1 / 250  # minimum share of each kind of statement among a route's judged programs
MIN_FOR_QUOTAS = 1000


def matrix_seeds(route: str) -> range:
    return range(QUICK_COUNTS[route], QUICK_COUNTS[route] + round(MATRIX * SHARES[route]))


@dataclass(frozen=True)
class Finding:
    route: str
    seed: int
    program: Program
    verdict: Verdict

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.route, self.verdict.word, self.verdict.reason


folder: Path  # of this process


def begin_process(parent: str) -> None:
    global folder
    folder = Path(tempfile.mkdtemp(dir=parent))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # PyTorch warns about the programs' code


def run_block(task: tuple[str, range, bool]) -> tuple[str, Tally, list[Finding]]:
    """Judges the programs of some seeds. Returns the failures and, on request, the refusals."""
    route, seeds, with_refused = task
    tally, found = Tally(), []
    for seed in seeds:
        program = generate(seed, route)
        if program is None:
            continue
        verdict = judge(program, route, folder)
        tally.add(program, verdict)
        if verdict and (verdict.failed or with_refused and verdict.word == "refused"):
            found.append(Finding(route, seed, program, verdict))
    return route, tally, found


def shrink_finding(program: Program, verdict: Verdict, route: str, folder: Path) -> tuple[Program, Verdict]:
    """Returns a smallest program with the same verdict, and the verdict on it."""
    def has_same_verdict(candidate: Program) -> bool:
        signal.alarm(MAX_SECONDS)
        try:
            other = judge(candidate, route, folder)
        except Exception:  # for example a removed name
            return False
        finally:
            signal.alarm(0)
        return other is not None and (other.word, other.reason) == (verdict.word, verdict.reason)

    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    small = shrink(program, has_same_verdict)
    return small, judge(small, route, folder) or verdict


def make_small(found: Finding) -> Finding:
    return Finding(found.route, found.seed, *shrink_finding(found.program, found.verdict, found.route, folder))


def print_table(tallies: dict[str, Tally]) -> None:
    columns = ("judged", *WORDS, "not counted")
    print(f"\n{'route':8}" + "".join(f"{each:>15}" for each in columns))
    for route, tally in tallies.items():
        numbers = [tally.judged, *(tally.words[word] for word in columns[1:])]
        shares = [f"{number} ({100 * number / max(1, tally.judged):.1f} %)" if 0 < place <= len(WORDS) and number else
                  str(number) for place, number in enumerate(numbers)]
        print(f"{route:8}" + "".join(f"{each:>15}" for each in shares))


def print_reasons(route: str, tally: Tally) -> None:
    print(f"\n{route}: reasons")
    for (word, reason), count in tally.reasons.most_common():
        print(f"  {count:5} {word}: {reason}")


def below_quota(route: str, tally: Tally) -> list[str]:
    """Returns the kinds of statements that occur in too few judged programs of the route."""
    minimum = QUOTA * tally.judged
    names = [each.name for each in KINDS.values() if route in each.routes]
    return [name for name in names if sum(tally.kinds.get(name, Counter())[word] for word in WORDS) < minimum]


def print_kinds(route: str, tally: Tally) -> None:
    print(f"\n{route}: programs by kind of statement; the quota of each is {QUOTA * tally.judged:.0f}")
    print(f"  {'':30}{'judged':>8}{'right':>8}{'refused':>8}{'warned':>8}{'failed':>8}")
    few = below_quota(route, tally)
    for kind in sorted({*tally.kinds, *few}):
        counts = tally.kinds.get(kind, Counter())
        numbers = [sum(counts[word] for word in WORDS), counts["right"], counts["refused"],
                   counts["fixed"] + counts["warned"], sum(counts[word] for word in FAILURES)]
        print(f"  {kind:30}" + "".join(f"{number:8}" for number in numbers) + ("  below its quota" if kind in few else ""))


def print_found(found: Finding) -> None:
    print(f"\n--- {found.route} seed {found.seed}: {found.verdict.word}, {found.verdict.reason}\n{found.program}"
          f"{found.verdict.detail.strip()[:700]}", flush=True)


def choose(found: list[Finding], limit: int) -> tuple[list[Finding], list[Finding]]:
    """Splits the findings into at most `limit` of each kind to show, and the others."""
    seen: Counter = Counter()
    shown, others = [], []
    for each in sorted(found, key=lambda each: (each.kind, each.program.length())):
        seen[each.kind] += 1
        (shown if seen[each.kind] <= limit else others).append(each)
    return shown, others


def blocks(options) -> list[tuple[str, range, bool]]:
    counts = {route: round(options.count * share) for route, share in SHARES.items()} if options.route == "all" else \
        {options.route: options.count}
    found = [(route, range(begin, min(begin + BLOCK, options.seed + count)), options.refused > 0)
             for route, count in counts.items() for begin in range(options.seed, options.seed + count, BLOCK)]
    return sorted(found, key=lambda block: SHARES[block[0]])  # the slowest route first


def main() -> int:
    os.environ.setdefault("WHENCE_STRICT_SIZES", "1")  # a derived size that contradicts a run is a defect
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="number of programs, over all routes")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--route", choices=[*ROUTES, "all"], default="all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--kinds", action="store_true", help="print the quota of each kind of statement")
    parser.add_argument("--most", type=int, default=3, metavar="N", help="show N failures of each reason")
    parser.add_argument("--refused", type=int, default=0, metavar="N", help="also show N refused programs of each reason")
    parser.add_argument("--no-shrink", action="store_true", help="show programs without shrinking")
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="whence-random-", dir=MEMORY if MEMORY.is_dir() else None) as parent:
        if options.jobs > 1:
            with multiprocessing.get_context("spawn").Pool(options.jobs, begin_process, (parent,)) as pool:
                return report(options, pool.imap_unordered, begin)
        begin_process(parent)
        return report(options, map, begin)


def report(options, each_of, begin: float) -> int:
    tallies: dict[str, Tally] = {route: Tally() for route in ROUTES if options.route in (route, "all")}
    found: list[Finding] = []
    for route, tally, more in each_of(run_block, blocks(options)):
        tallies[route].update(tally)
        found += more
    failures = [each for each in found if each.verdict.failed]
    seconds = time.monotonic() - begin
    print(f"{options.count} programs in {seconds:.0f} s, {options.count / seconds:.1f} a second")
    print_table(tallies)
    for route, tally in tallies.items():
        print_reasons(route, tally)
        if options.kinds:
            print_kinds(route, tally)
    few = {route: below_quota(route, tally) for route, tally in tallies.items() if tally.judged >= MIN_FOR_QUOTAS}
    for route, kinds in few.items():
        if kinds:
            print(f"{route}: below their quota: {', '.join(kinds)}")
    shown, others = choose(failures, options.most)
    shown += choose([each for each in found if not each.verdict.failed], options.refused)[0]
    for each in shown if options.no_shrink else each_of(make_small, shown):
        print_found(each)
    for each in others:
        print(f"--- {each.route} seed {each.seed}: {each.verdict.word}, {each.verdict.reason}")
    return bool(failures) or any(few.values())


if __name__ == "__main__":
    sys.exit(main())
