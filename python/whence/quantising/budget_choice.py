"""Chooses the modules to leave unquantised to keep error, size or time within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..errors import error
from .module_groups import Group
from .report import Choice, ModuleSensitivity
from .trial import Outcome

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Budget:
    kind: str        # "error", "size" or "time"
    limit: float     # relative difference, bytes or share of the file's size, or share of its time
    is_share: bool
    text: str


def parsed(text: str) -> Budget:
    """Parses error=0.01, size=40M, size=50% or time=80%. Raises WhenceError E0101."""
    kind, _, amount = text.partition("=")
    is_share = amount.endswith("%")
    number, unit = amount.removesuffix("%"), ""
    if kind == "size" and number[-1:].upper() in ("K", "M", "G"):
        number, unit = number[:-1], number[-1].upper()
    try:
        limit = float(number) * _SIZES[unit] / (100 if is_share else 1)
    except ValueError:
        limit = math.nan
    fits = {"error": not is_share, "size": not (is_share and unit), "time": is_share}
    if not fits.get(kind, False) or not 0 <= limit < math.inf or "_" in text:
        raise error("E0101", "usage", f"invalid budget '{text}'", "use error=0.01, size=40M, size=50% or time=80%")
    return Budget(kind, limit, is_share, text)


def choose(budget: Budget, groups: Sequence[Group], rows: Sequence[ModuleSensitivity], size: int,
           measure: Callable[[Sequence[str]], Outcome],
           nodes_to_exclude: Callable[[Collection[str]], tuple[str, ...]]) -> Choice:
    """Chooses the groups to quantise. Adds groups in order of error per saving, those without savings last: as many as
    an error budget allows, or as few as a size or time budget requires. Each candidate set is measured, because errors
    and bytes do not add up.

    ``rows`` are the results of quantising one group at a time, ``size`` is the size of the unquantised file.
    ``nodes_to_exclude`` returns the nodes to exclude so that a quantiser changes only the passed nodes."""
    gain = (lambda row: row.time_saved or 0.0) if budget.kind == "time" else (lambda row: row.saved)
    candidates = [(group, row) for group, row in zip(groups, rows) if row.status == "measured"]
    candidates.sort(key=lambda pair: (gain(pair[1]) <= 0, pair[1].error / max(gain(pair[1]), 1e-12)))
    outcomes: dict[int, Outcome] = {0: Outcome(0.0, size)}

    def outcome(count: int) -> Outcome:
        if count not in outcomes:
            outcomes[count] = measure([name for group, _ in candidates[:count] for name in group.nodes])
        return outcomes[count]

    def is_within(count: int) -> bool:
        result = outcome(count)
        if result.failed:
            return False
        if budget.kind == "error":
            return result.error <= budget.limit
        if budget.kind == "size":
            return result.size <= (budget.limit * size if budget.is_share else budget.limit)
        return 1 - sum(row.time_saved or 0.0 for _, row in candidates[:count]) <= budget.limit

    count = _largest_count(len(candidates), is_within) if budget.kind == "error" \
        else _smallest_count(len(candidates), is_within)
    if budget.kind == "time" and not is_within(count):  # slower modules come last
        count = max(range(len(candidates) + 1),
                    key=lambda end: sum(row.time_saved or 0.0 for _, row in candidates[:end]))
    result = outcome(count)
    # Modules that the quantiser does not change are not listed as excluded.
    chosen = {row.module for row in rows if row.status == "unchanged"} \
        | {group.module for group, _ in candidates[:count]}
    times = [row.time_saved for _, row in candidates[:count]]
    return Choice(budget.text, is_within(count), count, tuple(row.module for row in rows if row.module not in chosen),
                  nodes_to_exclude([name for group in groups if group.module in chosen for name in group.nodes]),
                  result.error, result.size, None if any(time is None for time in times) else sum(times))


def _largest_count(end: int, is_within: Callable[[int], bool]) -> int:
    """Returns the largest count within the budget, by bisection; 0 is always within. Assumes that counts above one that
    exceeds the budget exceed it, too."""
    low, high = 0, end
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_within(middle) else (low, middle - 1)
    return low


def _smallest_count(end: int, is_within: Callable[[int], bool]) -> int:
    """Returns the smallest count within the budget, by bisection; ``end`` if there is none."""
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_within(middle) else (middle + 1, high)
    return low
