"""Parses the shards of the tests marked matrix in --matrix and $MATRIX."""

import pytest


def shard(text: str) -> tuple[int, int]:
    """Parses "3/16" to (3, 16); shards are counted from 1."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--matrix {text}: write the shard and the number of shards, as in --matrix 3/16")
    return int(number), int(count)
