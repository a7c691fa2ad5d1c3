"""Loads every operator case by family, and checks that the inputs of a row differ from each other and between runs."""

import importlib
from dataclasses import replace
from pathlib import Path

import torch

from ops.case import Case, same


def cases_of(family: str) -> list[Case]:
    """Returns the rows of a table; their modules have the same weights in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [replace(case, family=family) for case in importlib.import_module(f"ops.cases.{family}").CASES]


FAMILIES = {table.stem: cases_of(table.stem) for table in sorted((Path(__file__).parent / "cases").glob("*.py"))}
CASES = [case for cases in FAMILIES.values() for case in cases]


def faults(case: Case) -> list[str]:
    """Returns reasons why a wrong converter could pass: exchanged operands, or values fixed at export."""
    first, second = case.tensors(), case.tensors(draw=1)
    reasons = [f"inputs {i} and {j} are equal, so exchanging them would pass"
               for i, one in enumerate(first) for j, other in enumerate(first[:i]) if same(one, other)]
    if not case.one_value:
        reasons += [f"input {i} has the same numbers in both runs"
                    for i, (one, other) in enumerate(zip(first, second, strict=True))
                    if one.numel() and same(one, other)]
    return reasons
