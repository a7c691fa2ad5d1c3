"""Shards of the tests that are marked matrix, as --matrix and $MATRIX name them."""

import pytest


def shard(text: str) -> tuple[int, int]:
    """"3/16" as (3, 16); shards are counted from 1."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--matrix {text}: give a shard and how many there are, as in --matrix 3/16")
    return int(number), int(count)
