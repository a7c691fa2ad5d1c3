"""Tests random programs, and all programs that failed once: by every route, the file gives PyTorch's results at every
size, or the export is refused.

run_random.py runs any number of programs and shrinks the failures.
"""

import pytest

from export_routes import ROUTES
from found_programs import FOUND
from known_failures import FAILING_FOUND, FAILING_SEEDS
from program_generator import generate
from run_random import BLOCK, QUICK_COUNTS, matrix_seeds, shrink_finding
from verdicts import Tally, judge

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns about the programs' code

def blocks(route: str, seeds: range) -> list:
    return [pytest.param(route, seeds[at:at + BLOCK], id=f"{route} {seeds[at]}") for at in range(0, len(seeds), BLOCK)]


def assert_all_right(route: str, seeds: range, folder) -> None:
    """Skips known failures, which have their own test."""
    tally = Tally()
    for seed in (chosen := [seed for seed in seeds if seed not in FAILING_SEEDS.get(route, {})]):
        program = generate(seed, route)
        if program is None:
            continue
        verdict = judge(program, route, folder)
        tally.add(program, verdict)
        if verdict and verdict.failed:
            small, last = shrink_finding(program, verdict, route, folder)
            pytest.fail(f"{route} seed {seed}: {verdict.word}, {verdict.reason}\n{small}{last.detail}")
    # Most programs must run in PyTorch, and some must be right.
    assert tally.judged >= len(chosen) * 0.6 and tally.words["right"] > 0, tally.words


@pytest.mark.parametrize("route, seeds", [block for route in ROUTES for block in blocks(route, range(QUICK_COUNTS[route]))])
def test_random_programs_are_right(route, seeds, tmp_path):
    assert_all_right(route, seeds, tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize("route, seeds", [block for route in ROUTES for block in blocks(route, matrix_seeds(route))])
def test_many_random_programs_are_right(route, seeds, tmp_path):
    assert_all_right(route, seeds, tmp_path)


def assert_right(program, route: str, folder) -> None:
    verdict = judge(program, route, folder)
    assert verdict is not None, "PyTorch runs it at too few sizes"
    assert not verdict.failed, f"{verdict.word}, {verdict.reason}\n{verdict.detail}"


def test_known_failures_still_fail(tmp_path):
    """If this fails, run list_known_failures.py."""
    for route, seeds in FAILING_SEEDS.items():
        for seed in seeds:
            verdict = judge(generate(seed, route), route, tmp_path)
            assert verdict is not None and verdict.failed, f"{route} {seed} no longer fails"


def found_programs() -> list:
    return [pytest.param(each, route, id=f"{route}: {each.name}",
                         marks=[pytest.mark.xfail(strict=True, reason=FAILING_FOUND[route][each.name])]
                         if each.name in FAILING_FOUND.get(route, {}) else [])
            for each in FOUND for route in each.routes]


@pytest.mark.parametrize("found, route", found_programs())
def test_programs_that_failed_once_are_right(found, route, tmp_path):
    assert_right(found.program(), route, tmp_path)


@pytest.mark.parametrize("route", ROUTES)
def test_a_seed_always_gives_the_same_program(route):
    first, again = generate(3, route), generate(3, route)
    assert first is not None and first == again
